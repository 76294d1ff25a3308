//! What stands in the chunk log of one action, and what may follow (11.6). Pure: the log itself judges the order.

use aip_names::limits::{ACTION_CHUNK_BYTES_MAX, ACTION_CHUNKS_MAX};
use aip_wire::{ActionId, Refusal, StreamChunk, StreamChunkKind, codes};
use serde::{Deserialize, Serialize};
use serde_json::json;

/// The end of an action's stream so far. Each message of the log carries it, so the last message tells it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Head {
    /// The number of the last chunk; 0 before the first.
    pub sequence: u64,
    /// Digest of that chunk as its worker sent it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub hash: String,
    /// What its chunks amount to.
    #[serde(default)]
    pub bytes: u64,
    /// The newest attempt that the log knows: no earlier one may add to it.
    pub attempt: u32,
    /// That chunk ends the stream.
    #[serde(default)]
    pub ended: bool,
    /// The action has ended, and nothing follows.
    #[serde(default)]
    pub closed: bool,
}

/// One message of the log: a chunk, or a mark that only moves the head.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    #[serde(flatten)]
    pub head: Head,
    /// The number of the chunk before, by which a reader sees that none is missing.
    pub after: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chunk: Option<StreamChunk>,
}

/// A chunk that asks to be kept.
#[derive(Debug, Clone)]
pub struct Offered {
    pub chunk: StreamChunk,
    pub attempt: u32,
    /// The number of the chunk before it, as its worker says.
    pub after: Option<u64>,
    pub hash: String,
    /// Its size as JSON.
    pub bytes: u64,
}

/// What becomes of it.
#[derive(Debug, Clone, PartialEq)]
pub enum Verdict {
    /// It follows.
    Append(Box<Entry>),
    /// It stands already.
    Repeat,
    /// It has an earlier number: the log knows whether it is a repeat.
    Earlier,
    Refused(Refusal),
}

// === impl Head ===

impl Head {
    pub fn next_sequence(&self) -> u64 {
        self.sequence + 1
    }

    /// Judges a chunk behind this head; none when the log has nothing of the action.
    pub fn judge(head: Option<&Head>, offered: &Offered) -> Verdict {
        let unknown = Head::default();
        let stands = head.unwrap_or(&unknown);
        let Offered { chunk, attempt, after, hash, bytes } = offered;
        if stands.attempt > *attempt {
            return Verdict::Refused(Refusal::of(codes::ACTION_SUPERSEDED));
        }
        if chunk.sequence == 0 {
            return Verdict::Refused(stands.refusal(codes::STREAM_NOT_NEXT));
        }
        if chunk.sequence < stands.sequence {
            return Verdict::Earlier;
        }
        if chunk.sequence == stands.sequence {
            return match *hash == stands.hash {
                true => Verdict::Repeat,
                false => Verdict::Refused(stands.refusal(codes::STREAM_TAKEN)),
            };
        }
        if stands.ended || stands.closed {
            return Verdict::Refused(stands.refusal(codes::STREAM_ENDED));
        }
        let ends = ends(chunk.kind);
        let bytes = stands.bytes + bytes;
        let too_much = bytes > ACTION_CHUNK_BYTES_MAX && !ends;
        if too_much || chunk.sequence > ACTION_CHUNKS_MAX + u64::from(ends) {
            return Verdict::Refused(stands.refusal(codes::LIMIT_ACTION_CHUNKS));
        }
        // a log that knows nothing was lost, or this is the first: what came before would then be gone; one that knows less
        // than the worker has lost the end that it had
        let before = chunk.sequence - 1;
        let after = head.map_or(before, |head| head.sequence.max(after.unwrap_or(0).min(before)));
        let head = Head {
            sequence: chunk.sequence,
            hash: hash.clone(),
            bytes,
            attempt: *attempt,
            ended: ends,
            closed: false,
        };
        Verdict::Append(Box::new(Entry { head, after, chunk: Some(chunk.clone()) }))
    }

    /// A mark behind this head.
    pub fn mark(&self, change: impl FnOnce(&mut Head)) -> Entry {
        let mut head = self.clone();
        change(&mut head);
        Entry { head, after: self.sequence, chunk: None }
    }

    /// The mark that closes the stream of an action that has ended, with an error if its worker has not ended it. `reached`
    /// is what the ledger knows to have been kept.
    pub fn close(&self, id: &ActionId, reached: u64) -> Entry {
        let after = self.sequence.max(reached);
        let mut head = Head { sequence: after, closed: true, ..self.clone() };
        let breaks = self.sequence > 0 && !self.ended;
        let chunk = breaks.then(|| {
            head = Head { sequence: after + 1, hash: String::new(), ended: true, ..head.clone() };
            broken(id, head.sequence, &Refusal::of(codes::STREAM_BROKEN))
        });
        Entry { head, after, chunk }
    }

    pub fn refusal(&self, code: &'static codes::Code) -> Refusal {
        Refusal::of(code).detail("next_sequence", self.next_sequence())
    }
}

/// The chunk that says why none follows.
pub fn broken(id: &ActionId, sequence: u64, why: &Refusal) -> StreamChunk {
    StreamChunk {
        action_id: id.clone(),
        sequence,
        kind: StreamChunkKind::Error,
        data: Some(json!({"code": why.code.name, "message": why.code.meaning})),
        part: None,
    }
}

/// Whether nothing follows a chunk of this kind.
pub fn ends(kind: StreamChunkKind) -> bool {
    matches!(kind, StreamChunkKind::Done | StreamChunkKind::Error)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offered(sequence: u64, text: &str) -> Offered {
        let chunk = StreamChunk {
            action_id: ActionId::opaque("act_1"),
            sequence,
            kind: if text == "done" { StreamChunkKind::Done } else { StreamChunkKind::Data },
            data: Some(json!(text)),
            part: None,
        };
        Offered { chunk, attempt: 2, after: None, hash: text.to_owned(), bytes: 100 }
    }

    fn behind(sequence: u64, after: u64) -> Offered {
        Offered { after: Some(after), ..offered(sequence, "x") }
    }

    fn head(sequence: u64) -> Head {
        Head { sequence, hash: "a".to_owned(), attempt: 2, ..Head::default() }
    }

    fn code(verdict: &Verdict) -> &str {
        match verdict {
            Verdict::Refused(refusal) => refusal.code.name,
            _ => "none",
        }
    }

    fn after(verdict: &Verdict) -> u64 {
        match verdict {
            Verdict::Append(entry) => entry.after,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_number_has_one_content() {
        assert_eq!(Head::judge(Some(&head(3)), &offered(3, "a")), Verdict::Repeat);
        let taken = Head::judge(Some(&head(3)), &offered(3, "b"));
        assert_eq!(code(&taken), codes::STREAM_TAKEN.name);
        let Verdict::Refused(refusal) = taken else { panic!() };
        assert_eq!(refusal.details["next_sequence"], 4);
        assert_eq!(Head::judge(Some(&head(3)), &offered(2, "x")), Verdict::Earlier);
        assert_eq!(code(&Head::judge(Some(&head(3)), &offered(0, "x"))), codes::STREAM_NOT_NEXT.name);
    }

    #[test]
    fn numbers_grow_and_what_is_missing_before_one_shows() {
        assert_eq!(after(&Head::judge(None, &offered(1, "x"))), 0);
        assert_eq!(after(&Head::judge(Some(&head(3)), &offered(7, "x"))), 3);
        // the log was lost
        assert_eq!(after(&Head::judge(None, &offered(51, "x"))), 50);
        // its end was lost: 5 and 6 had been taken
        assert_eq!(after(&Head::judge(Some(&head(4)), &behind(7, 6))), 6);
        // others have said more than the worker knows of, and no worker says what can't be
        assert_eq!(after(&Head::judge(Some(&head(4)), &behind(7, 2))), 4);
        assert_eq!(after(&Head::judge(Some(&head(4)), &behind(7, 90))), 6);
    }

    #[test]
    fn nothing_follows_an_end_and_repeats_are_dropped_there_too() {
        for head in [Head { ended: true, ..head(3) }, Head { closed: true, ..head(3) }] {
            assert_eq!(code(&Head::judge(Some(&head), &offered(4, "x"))), codes::STREAM_ENDED.name);
            assert_eq!(Head::judge(Some(&head), &offered(3, "a")), Verdict::Repeat);
        }
    }

    #[test]
    fn a_superseded_attempt_adds_nothing_not_even_a_repeat() {
        let newer = head(3).mark(|head| head.attempt = 3);
        assert_eq!((newer.after, &newer.chunk), (3, &None));
        for (sequence, text) in [(3, "a"), (4, "x")] {
            let verdict = Head::judge(Some(&newer.head), &offered(sequence, text));
            assert_eq!(code(&verdict), codes::ACTION_SUPERSEDED.name);
        }
    }

    #[test]
    fn there_is_a_last_number_and_one_more_for_the_end() {
        assert!(matches!(Head::judge(None, &offered(ACTION_CHUNKS_MAX, "x")), Verdict::Append(_)));
        assert!(matches!(Head::judge(None, &offered(ACTION_CHUNKS_MAX + 1, "done")), Verdict::Append(_)));
        let over = Head::judge(None, &offered(ACTION_CHUNKS_MAX + 1, "x"));
        assert_eq!(code(&over), codes::LIMIT_ACTION_CHUNKS.name);
    }

    #[test]
    fn one_action_does_not_fill_the_log_and_can_still_end() {
        let full = Head { bytes: ACTION_CHUNK_BYTES_MAX - 100, ..head(3) };
        let Verdict::Append(entry) = Head::judge(Some(&full), &offered(4, "x")) else { panic!() };
        assert_eq!(entry.head.bytes, ACTION_CHUNK_BYTES_MAX);
        assert_eq!(code(&Head::judge(Some(&entry.head), &offered(5, "x"))), codes::LIMIT_ACTION_CHUNKS.name);
        assert!(matches!(Head::judge(Some(&entry.head), &offered(5, "done")), Verdict::Append(_)));
    }

    #[test]
    fn a_stream_that_its_worker_did_not_end_is_closed_with_an_error() {
        let id = ActionId::opaque("act_1");
        let open = head(3).close(&id, 1);
        assert_eq!((open.after, open.head.sequence, open.head.closed, open.head.ended), (3, 4, true, true));
        let chunk = open.chunk.unwrap();
        assert_eq!((chunk.sequence, chunk.kind), (4, StreamChunkKind::Error));
        assert_eq!(chunk.data.unwrap()["code"], codes::STREAM_BROKEN.name);
        // whoever has what the log lost sees nothing missing, whoever has not sees that there was more
        assert_eq!(head(3).close(&id, 7).after, 7);
        // nothing was streamed, or the worker has ended it
        for (head, reached) in [(Head::default(), 0), (Head { ended: true, ..head(3) }, 3)] {
            let closed = head.close(&id, reached);
            assert_eq!((closed.chunk, closed.head.sequence, closed.head.closed), (None, reached, true));
        }
    }

    #[test]
    fn a_message_of_the_log_reads_back() {
        let Verdict::Append(entry) = Head::judge(Some(&head(3)), &offered(4, "done")) else { panic!() };
        let text = serde_json::to_vec(&entry).unwrap();
        assert_eq!(serde_json::from_slice::<Entry>(&text).unwrap(), *entry);
        assert!(entry.head.ended);
    }
}
