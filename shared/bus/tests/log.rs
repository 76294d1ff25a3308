//! A log of many subjects on a real server: one order a subject, whoever appends, and readers that go on.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

use std::time::Duration;

use aip_bus::{Bus, Ensured, Kept, LogError, Settings, Tail};
use aip_names::{Atom, Identity, Service, StreamSpec, Subject, chunk_stream, chunk_tail};
use aip_testkit::TestNats;

const SOON: Duration = Duration::from_secs(20);

async fn bus(nats: &TestNats, identity: Identity) -> Bus {
    let (seed_file, name) = (nats.seed_file(&identity), identity.to_string());
    let bus = Bus::connect(Settings { url: nats.url(), identity, seed_file, name }).await.unwrap();
    bus.ready(SOON).await.unwrap();
    bus
}

fn spec() -> StreamSpec {
    chunk_stream(&TestNats::trust_domain(), &Service::gateway(), 1)
}

fn subject(action: &str) -> String {
    let atom = Atom::new(action).unwrap();
    Subject::chunks(&TestNats::trust_domain(), &Service::gateway(), atom).to_string()
}

async fn next(tail: &mut Tail) -> Kept {
    tokio::time::timeout(SOON, tail.next()).await.expect("a message").unwrap()
}

#[tokio::test]
async fn of_two_that_append_behind_one_message_one_is_kept_and_each_subject_has_its_own_order() {
    let nats = TestNats::start().await;
    let (bus, spec) = (bus(&nats, Identity::Gateway).await, spec());
    let (one, other) = (subject("act_1"), subject("act_2"));
    assert_eq!(bus.ensure_stream(&spec).await.unwrap(), Ensured::Created);
    assert_eq!(bus.ensure_stream(&spec).await.unwrap(), Ensured::AsDeclared);
    assert_eq!(bus.last_of(&spec.name, &one).await.unwrap(), None);
    let first = bus.append(&spec.name, &one, 0, "a".into()).await.unwrap();
    bus.append(&spec.name, &other, 0, "x".into()).await.unwrap();
    let (left, right) = tokio::join!(
        bus.append(&spec.name, &one, first, "b".into()),
        bus.append(&spec.name, &one, first, "c".into()),
    );
    let (kept, refused) = if left.is_ok() { (left, right) } else { (right, left) };
    assert!(matches!(refused, Err(LogError::NotKept { .. })), "{refused:?}");
    let last = bus.last_of(&spec.name, &one).await.unwrap().unwrap();
    assert_eq!(last.place, kept.unwrap());
    // what stands, from the beginning and from within, and then what comes
    let mut all = bus.tail_of(&spec.name, &one, 0, chunk_tail()).await.unwrap();
    let mut rest = bus.tail_of(&spec.name, &one, first + 1, chunk_tail()).await.unwrap();
    assert_eq!(next(&mut all).await.place, first);
    assert_eq!((next(&mut all).await, next(&mut rest).await), (last.clone(), last.clone()));
    let third = bus.append(&spec.name, &one, last.place, "d".into()).await.unwrap();
    assert_eq!((next(&mut all).await.place, next(&mut rest).await.place), (third, third));
}

#[tokio::test]
async fn bounds_that_drifted_are_put_back() {
    let nats = TestNats::start().await;
    let (bus, spec) = (bus(&nats, Identity::Gateway).await, spec());
    bus.ensure_stream(&spec).await.unwrap();
    let mut config = bus.jetstream().get_stream(&spec.name).await.unwrap().cached_info().config.clone();
    config.max_age = Duration::from_secs(3_600);
    config.max_messages_per_subject = 3;
    config.discard = aip_bus::jetstream::stream::DiscardPolicy::New;
    bus.jetstream().update_stream(config).await.unwrap();
    let Ensured::Repaired(differences) = bus.ensure_stream(&spec).await.unwrap() else {
        panic!("the drift was not seen");
    };
    let fields: Vec<&str> = differences.iter().map(|difference| difference.field.as_str()).collect();
    assert_eq!(fields, ["discard", "max_age", "max_msgs_per_subject"]);
    assert_eq!(bus.ensure_stream(&spec).await.unwrap(), Ensured::AsDeclared);
}

#[tokio::test]
async fn a_log_that_is_not_there_is_told_from_one_that_is_empty() {
    let nats = TestNats::start().await;
    let (bus, spec) = (bus(&nats, Identity::Gateway).await, spec());
    let one = subject("act_1");
    assert!(matches!(bus.last_of(&spec.name, &one).await, Err(LogError::Missing(_))));
    let appended = bus.append(&spec.name, &one, 0, "a".into()).await;
    assert!(matches!(appended, Err(LogError::Missing(_))), "{appended:?}");
    assert!(bus.tail_of(&spec.name, &one, 0, chunk_tail()).await.is_err());
}

#[tokio::test]
async fn a_message_that_is_too_large_or_out_of_its_subjects_bound_is_known_not_to_be_kept() {
    let nats = TestNats::start().await;
    let (bus, spec) = (bus(&nats, Identity::Gateway).await, spec());
    bus.ensure_stream(&spec).await.unwrap();
    let large = vec![b'x'; spec.message_bytes_max + 1];
    let refused = bus.append(&spec.name, &subject("act_1"), 0, large.into()).await;
    assert!(matches!(refused, Err(LogError::NotKept { .. })), "{refused:?}");
    assert_eq!(bus.last_of(&spec.name, &subject("act_1")).await.unwrap(), None);
}
