//! What one run tells: which faults fired, what the road went through, and the invariant that broke.

use std::collections::BTreeMap;
use std::fmt;

use crate::Violation;

macro_rules! kinds {
    ($(#[$meta:meta])* $name:ident { $($(#[$doc:meta])* $kind:ident,)* }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
        pub enum $name { $($(#[$doc])* $kind,)* }

        impl $name {
            pub const ALL: &'static [$name] = &[$($name::$kind,)*];
        }
    };
}

kinds! {
    /// What the world did to the replicas.
    Fault {
        PublishLost,
        PublishDelayed,
        PublishDuplicated,
        /// A copy that arrived after its message had come back through the tail.
        CopyLate,
        /// Messages of two writers arrived in another order than they were sent in.
        Reordered,
        /// Stored, but the writer hears nothing.
        AckLost,
        /// Stored, but the writer hears that this is not known.
        UnsureStored,
        UnsureNotStored,
        TailStalled,
        TailHole,
        TailRepeated,
        Partition,
        ServerRestart,
        LogClockForward,
        LogClockBack,
        WallClockJump,
        Killed,
        KilledBetweenOutputs,
        PowerLoss,
        Drained,
        Paused,
        /// Paused for longer than anyone waits for an effect's writer.
        PausedLong,
        WritesKept,
        WritesLost,
        WritesTorn,
        DiskReadError,
        DiskWriteError,
        DiskSyncError,
        PerformerNotNow,
        PerformerSlow,
        /// Died after an effect was started and before its outcome was said.
        PerformerDied,
        LogCut,
        LogReplaced,
        LogSwapped,
    }
}

kinds! {
    /// What the road came through; a run without these would show nothing.
    Sight {
        Answered,
        AnsweredUnknown,
        AnsweredNotReady,
        AnsweredFault,
        ReadPassed,
        RecordEffective,
        RecordSuperseded,
        RecordStaleRead,
        RecordClaimed,
        BatchCopy,
        ManyRecordsInOneMessage,
        ClaimTakenAfterExpiry,
        EntityStopped,
        EffectPerformed,
        EffectAdopted,
        /// Started by its writer, which had learned of it late.
        OwnEffectLate,
        OnceStarted,
        OnceAbandoned,
        TimerEndedByOther,
        StoreFellBack,
        ReplicaCaughtUp,
        PositionRefused,
        Recovered,
        Orphaned,
    }
}

/// How often each kind was seen.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Counts {
    pub faults: BTreeMap<Fault, u64>,
    pub sights: BTreeMap<Sight, u64>,
    pub steps: u64,
    pub messages: u64,
    pub simulated_ms: u64,
}

/// The outcome of one seed.
#[derive(Debug)]
pub struct Report {
    pub seed: u64,
    pub counts: Counts,
    pub violation: Option<Violation>,
    /// What happened, one line each; empty unless asked for.
    pub trace: Vec<String>,
}

// === impl Counts ===

impl Counts {
    pub fn fault(&mut self, fault: Fault) {
        *self.faults.entry(fault).or_default() += 1;
    }

    pub fn sight(&mut self, sight: Sight) {
        *self.sights.entry(sight).or_default() += 1;
    }

    pub fn add(&mut self, other: &Counts) {
        for (fault, count) in &other.faults {
            *self.faults.entry(*fault).or_default() += count;
        }
        for (sight, count) in &other.sights {
            *self.sights.entry(*sight).or_default() += count;
        }
        self.steps += other.steps;
        self.messages += other.messages;
        self.simulated_ms += other.simulated_ms;
    }

    /// Kinds that never came.
    pub fn missing(&self) -> Vec<String> {
        let faults = Fault::ALL.iter().filter(|fault| !self.faults.contains_key(fault));
        let sights = Sight::ALL.iter().filter(|sight| !self.sights.contains_key(sight));
        faults.map(|fault| format!("{fault:?}")).chain(sights.map(|sight| format!("{sight:?}"))).collect()
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{} steps, {} messages, {} s simulated",
            self.steps,
            self.messages,
            self.simulated_ms / 1000
        )?;
        for fault in Fault::ALL {
            writeln!(f, "  fault {:<24} {}", format!("{fault:?}"), self.faults.get(fault).unwrap_or(&0))?;
        }
        for sight in Sight::ALL {
            writeln!(f, "  sight {:<24} {}", format!("{sight:?}"), self.sights.get(sight).unwrap_or(&0))?;
        }
        Ok(())
    }
}
