//! What a seed has in store: each draws its own mix of faults, so that some runs are calm but for one kind.

use aip_ledger::replica::BarrierMode;
use rand::Rng as _;

use crate::Rng;

/// What may befall a replica or the server, now and then.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mischief {
    Kill,
    PowerLoss,
    Drain,
    Pause,
    PauseLong,
    ServerRestart,
    LogClock,
    WallClock,
    Partition,
    DiskError,
}

const MISCHIEF: &[Mischief] = &[
    Mischief::Kill,
    Mischief::PowerLoss,
    Mischief::Drain,
    Mischief::Pause,
    Mischief::PauseLong,
    Mischief::ServerRestart,
    Mischief::LogClock,
    Mischief::WallClock,
    Mischief::Partition,
    Mischief::DiskError,
];

/// How the log is lost.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Disaster {
    /// Its acknowledged tail is gone.
    Cut,
    /// A fresh stream stands in its place.
    Replaced,
    /// An older copy was put in its place, and goes on differently.
    Swapped,
}

/// Chances are per message, effect or output.
#[derive(Clone, Debug)]
pub struct Plan {
    pub nodes: usize,
    pub barrier: BarrierMode,
    pub commands: u32,
    pub burst: u32,
    pub gap_ms: u64,
    pub lost: f64,
    pub delayed: f64,
    pub duplicated: f64,
    pub ack_lost: f64,
    pub stall: f64,
    pub hole: f64,
    pub repeat: f64,
    pub kill_output: f64,
    /// A long pause right after something was sent to the log.
    pub pause_append: f64,
    /// The disk fails in a step that takes messages.
    pub disk_step: f64,
    /// The longest time between two ticks.
    pub tick_ms: u64,
    pub not_now: f64,
    pub slow: f64,
    pub mischief: Vec<Mischief>,
    pub mischief_gap_ms: u64,
    /// The disaster and the number of commands before it.
    pub disaster: Option<(Disaster, u32)>,
    pub skew_ms: i64,
}

// === impl Plan ===

impl Plan {
    pub fn draw(rng: &mut Rng) -> Plan {
        let nodes = [1, 2, 2, 3, 3, 3, 4][rng.random_range(0..7)];
        let barrier = if rng.random() { BarrierMode::Append } else { BarrierMode::LastSequence };
        let commands = rng.random_range(20..60);
        let disaster = rng.random_bool(0.2).then(|| {
            let kind = [Disaster::Cut, Disaster::Replaced, Disaster::Swapped][rng.random_range(0..3)];
            (kind, commands / 2)
        });
        let some = |rng: &mut Rng, most: f64| if rng.random() { rng.random_range(0.0..most) } else { 0.0 };
        let disk_step = if rng.random_bool(0.3) { rng.random_range(0.0..0.2) } else { 0.0 };
        // Rare ticks leave hard commits to the steps that take messages, where a failing disk hurts most.
        let tick_ms = if disk_step > 0.0 { 1_200 } else { [60, 250, 1_200][rng.random_range(0..3)] };
        Plan {
            nodes,
            barrier,
            commands,
            burst: rng.random_range(1..7),
            gap_ms: [100, 300, 800][rng.random_range(0..3)],
            lost: some(rng, 0.2),
            delayed: some(rng, 0.3),
            duplicated: some(rng, 0.3),
            ack_lost: some(rng, 0.2),
            stall: some(rng, 0.03),
            hole: some(rng, 0.05),
            repeat: some(rng, 0.1),
            kill_output: if rng.random_bool(0.3) { rng.random_range(0.0..0.02) } else { 0.0 },
            pause_append: if rng.random_bool(0.3) { rng.random_range(0.0..0.05) } else { 0.0 },
            disk_step,
            tick_ms,
            not_now: some(rng, 0.4),
            slow: some(rng, 0.3),
            mischief: MISCHIEF.iter().copied().filter(|_| rng.random_bool(0.4)).collect(),
            mischief_gap_ms: [1_000, 2_500, 6_000][rng.random_range(0..3)],
            disaster,
            skew_ms: [0, 50, 3_000, 120_000][rng.random_range(0..4)],
        }
    }
}
