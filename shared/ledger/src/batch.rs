//! One append message: every record that waited, under the writer's next batch number.
//!
//! The number makes a second copy of the whole message known for what it is, also long after: a message whose
//! number is not above the last one applied for its writer changes nothing.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use aip_kernel::{Hash, Millis, WriterId};

/// The version of this frame.
const FRAME: u32 = 1;

#[derive(Serialize)]
struct FrameOut<'a> {
    v: u32,
    writer: &'a WriterId,
    batch: u64,
    records: &'a [Box<RawValue>],
    #[serde(skip_serializing_if = "Option::is_none")]
    recovered: Option<&'a Recovered>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FrameIn {
    v: u32,
    writer: WriterId,
    batch: u64,
    records: Vec<Box<RawValue>>,
    #[serde(default)]
    recovered: Option<Recovered>,
}

/// Stands in messages that the recovery wrote, and only there: what the log had lost and a store still had.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Recovered {
    /// The log time at which the records were applied before. The message counts as of this time instead of the one
    /// at which the log took it; log time does not go back for it either.
    pub log_time: Millis,
    /// Records of the same lost message that can't stand any more: evidence, never judged.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub orphans: Vec<Box<RawValue>>,
}

/// A record as bytes, with the digest that the entity's next record will name.
#[derive(Debug, Clone)]
pub struct Encoded {
    pub raw: Box<RawValue>,
    pub hash: Hash,
}

/// A message of the log, taken apart.
#[derive(Debug)]
pub struct Batch {
    pub writer: WriterId,
    pub number: u64,
    pub records: Vec<Encoded>,
    pub recovered: Option<Recovered>,
}

#[derive(Debug, thiserror::Error)]
pub enum FrameError {
    #[error("not a ledger message: {0}")]
    Malformed(serde_json::Error),
    #[error("ledger message of version {0}, newer than this program")]
    Version(u32),
}

// === impl Encoded ===

impl Encoded {
    pub fn new<T: Serialize>(record: &T) -> Result<Encoded, serde_json::Error> {
        let raw = serde_json::value::to_raw_value(record)?;
        let hash = Hash::of(raw.get().as_bytes());
        Ok(Encoded { raw, hash })
    }

    pub(crate) fn len(&self) -> usize {
        self.raw.get().len()
    }
}

// === impl Batch ===

impl Batch {
    pub fn encode(
        writer: &WriterId,
        batch: u64,
        records: &[Box<RawValue>],
    ) -> Result<Vec<u8>, serde_json::Error> {
        serde_json::to_vec(&FrameOut { v: FRAME, writer, batch, records, recovered: None })
    }

    /// A message that gives back to the log what it lost.
    pub(crate) fn encode_recovered(
        writer: &WriterId,
        batch: u64,
        records: &[Box<RawValue>],
        recovered: &Recovered,
    ) -> Result<Vec<u8>, serde_json::Error> {
        serde_json::to_vec(&FrameOut { v: FRAME, writer, batch, records, recovered: Some(recovered) })
    }

    pub fn decode(bytes: &[u8]) -> Result<Batch, FrameError> {
        let frame: FrameIn = serde_json::from_slice(bytes).map_err(FrameError::Malformed)?;
        if frame.v != FRAME {
            return Err(FrameError::Version(frame.v));
        }
        let records = frame.records.into_iter().map(|raw| {
            let hash = Hash::of(raw.get().as_bytes());
            Encoded { raw, hash }
        });
        let records = records.collect();
        Ok(Batch { writer: frame.writer, number: frame.batch, records, recovered: frame.recovered })
    }
}
