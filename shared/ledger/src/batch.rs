//! One append message: every record that waited, under the writer's next batch number.
//!
//! The number makes a second copy of the whole message known for what it is, also long after: a message whose
//! number is not above the last one applied for its writer changes nothing.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use aip_kernel::{Hash, WriterId};

/// The version of this frame.
const FRAME: u32 = 1;

#[derive(Serialize)]
struct FrameOut<'a> {
    v: u32,
    writer: &'a WriterId,
    batch: u64,
    records: &'a [Box<RawValue>],
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FrameIn {
    v: u32,
    writer: WriterId,
    batch: u64,
    records: Vec<Box<RawValue>>,
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

    pub fn len(&self) -> usize {
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
        serde_json::to_vec(&FrameOut { v: FRAME, writer, batch, records })
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
        Ok(Batch { writer: frame.writer, number: frame.batch, records: records.collect() })
    }
}
