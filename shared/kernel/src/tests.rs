use std::collections::{HashMap, HashSet};
use std::convert::Infallible;

use crate::*;

#[derive(Default)]
struct State {
    heads: HashMap<EntityKey, Vec<Hash>>,
    claims: HashMap<String, Holder>,
}

impl Heads for State {
    type Error = Infallible;
    fn head(&self, entity: &EntityKey) -> Result<Option<(u64, Hash)>, Infallible> {
        Ok(self.heads.get(entity).and_then(|all| all.last().map(|hash| (all.len() as u64, *hash))))
    }
    fn hash_at(&self, entity: &EntityKey, n: u64) -> Result<Option<Hash>, Infallible> {
        Ok(self.heads.get(entity).and_then(|all| all.get(n as usize - 1).copied()))
    }
    fn holder(&self, claim: &str) -> Result<Option<Holder>, Infallible> {
        Ok(self.claims.get(claim).cloned())
    }
}

fn key(id: &str) -> EntityKey {
    EntityKey::new("thing", id)
}

fn writer() -> WriterId {
    WriterId { replica: ReplicaId("r0".into()), life: "1".into() }
}

fn header(id: &str, n: u64, prev: Hash) -> Header {
    Header {
        v: 1,
        id: format!("rec_{id}_{n}"),
        kind: "thing".into(),
        key: id.into(),
        n,
        prev,
        at: 0,
        writer: writer(),
        cause: None,
        reads: vec![],
        claims: vec![],
    }
}

fn verdict(state: &State, header: &Header, hash: Hash, log_time: Millis) -> Verdict {
    judge(header, &hash, state, log_time).unwrap()
}

#[test]
fn a_record_continues_its_entity_or_is_void() {
    let mut state = State::default();
    let first = Hash::of(b"1");
    assert_eq!(verdict(&state, &header("a", 1, Hash::ZERO), first, 0), Verdict::Effective);
    assert!(matches!(verdict(&state, &header("a", 2, first), Hash::of(b"2"), 0), Verdict::Void(_)));
    state.heads.insert(key("a"), vec![first]);
    assert_eq!(verdict(&state, &header("a", 2, first), Hash::of(b"2"), 0), Verdict::Effective);
    assert_eq!(
        verdict(&state, &header("a", 2, Hash::of(b"other")), Hash::of(b"2"), 0),
        Verdict::Void(VoidReason::Superseded { expected_n: 2 })
    );
}

#[test]
fn a_copy_is_told_from_a_rival_at_the_same_place() {
    let mut state = State::default();
    state.heads.insert(key("a"), vec![Hash::of(b"1")]);
    assert_eq!(verdict(&state, &header("a", 1, Hash::ZERO), Hash::of(b"1"), 0), Verdict::Copy);
    assert!(matches!(verdict(&state, &header("a", 1, Hash::ZERO), Hash::of(b"x"), 0), Verdict::Void(_)));
}

#[test]
fn reads_must_still_hold() {
    let mut state = State::default();
    state.heads.insert(key("b"), vec![Hash::of(b"1")]);
    let mut record = header("a", 1, Hash::ZERO);
    record.reads = vec![Read { kind: "thing".into(), key: "b".into(), n: 1 }];
    assert_eq!(verdict(&state, &record, Hash::of(b"r"), 0), Verdict::Effective);
    state.heads.insert(key("b"), vec![Hash::of(b"1"), Hash::of(b"2")]);
    assert_eq!(
        verdict(&state, &record, Hash::of(b"r"), 0),
        Verdict::Void(VoidReason::StaleRead { entity: key("b") })
    );
}

#[test]
fn claims_are_free_when_expired_or_own() {
    let mut state = State::default();
    state.claims.insert("name".into(), Holder { entity: key("b"), until: Some(100) });
    let mut record = header("a", 1, Hash::ZERO);
    record.claims = vec![Claim { name: "name".into(), until: None }];
    assert!(matches!(
        verdict(&state, &record, Hash::of(b"r"), 99),
        Verdict::Void(VoidReason::Claimed { .. })
    ));
    assert_eq!(verdict(&state, &record, Hash::of(b"r"), 100), Verdict::Effective);
    state.claims.insert("name".into(), Holder { entity: key("a"), until: None });
    assert_eq!(verdict(&state, &record, Hash::of(b"r"), 0), Verdict::Effective);
}

#[test]
fn ids_are_version_seven_and_differ_within_a_decision() {
    let facts = Facts::new(1_760_000_000_000, 0, writer(), 7);
    let ids: HashSet<String> = (0..1000).map(|_| facts.id("act_")).collect();
    assert_eq!(ids.len(), 1000);
    for id in ids {
        let digits = id.strip_prefix("act_").unwrap();
        assert_eq!(digits.len(), 32);
        assert_eq!(&digits[12..13], "7");
        assert!(matches!(&digits[16..17], "8" | "9" | "a" | "b"));
    }
}

#[test]
fn a_record_reads_back_as_it_was_written() {
    let record = Record { header: header("a", 1, Hash::ZERO), events: vec!["happened".to_owned()] };
    let bytes = serde_json::to_vec(&record).unwrap();
    assert_eq!(serde_json::from_slice::<Record<String>>(&bytes).unwrap(), record);
}
