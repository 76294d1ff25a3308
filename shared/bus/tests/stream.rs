//! A declared stream on a real server: created, found as declared, repaired, or refused; never ignored.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

use std::time::Duration;

use aip_bus::jetstream::stream::{Config, DiscardPolicy, PersistenceMode, Republish, StorageType};
use aip_bus::{Bus, Ensured, Settings, StreamError};
use aip_names::{Identity, Service, StreamSpec, ledger_stream};
use aip_testkit::TestNats;

async fn gateway(nats: &TestNats) -> (Bus, StreamSpec) {
    let identity = Identity::Gateway;
    let seed_file = nats.seed_file(&identity);
    let bus = Bus::connect(Settings { url: nats.url(), identity, seed_file, name: "test".to_owned() })
        .await
        .unwrap();
    bus.ready(Duration::from_secs(10)).await.unwrap();
    (bus, ledger_stream(&TestNats::trust_domain(), &Service::gateway(), 0, 1))
}

#[tokio::test]
async fn a_stream_is_made_once_as_declared_and_survives_a_kill() {
    let mut nats = TestNats::start().await;
    let (bus, spec) = gateway(&nats).await;
    assert_eq!(bus.ensure_stream(&spec).await.unwrap(), Ensured::Created);
    assert_eq!(bus.ensure_stream(&spec).await.unwrap(), Ensured::AsDeclared);
    let config = bus.jetstream().get_stream(&spec.name).await.unwrap().cached_info().config.clone();
    assert_eq!((config.storage, config.discard), (StorageType::File, DiscardPolicy::New));
    assert!(
        config.deny_delete && config.max_age.is_zero() && config.max_messages == -1 && config.max_bytes == -1
    );
    assert!(!matches!(config.persist_mode, Some(PersistenceMode::Async)));

    nats.server.kill().await.unwrap();
    nats.server.restart().await.unwrap();
    let (bus, _) = gateway(&nats).await;
    assert_eq!(bus.ensure_stream(&spec).await.unwrap(), Ensured::AsDeclared);
}

#[tokio::test]
async fn replicas_that_start_together_agree() {
    let nats = TestNats::start().await;
    let (one, spec) = gateway(&nats).await;
    let (two, _) = gateway(&nats).await;
    let (first, second) = tokio::join!(one.ensure_stream(&spec), two.ensure_stream(&spec));
    first.unwrap();
    second.unwrap();
    assert_eq!(one.ensure_stream(&spec).await.unwrap(), Ensured::AsDeclared);
}

#[tokio::test]
async fn limits_that_drifted_are_put_back() {
    let nats = TestNats::start().await;
    let (bus, spec) = gateway(&nats).await;
    bus.ensure_stream(&spec).await.unwrap();
    let mut config = bus.jetstream().get_stream(&spec.name).await.unwrap().cached_info().config.clone();
    config.max_age = Duration::from_secs(3_600);
    config.max_messages = 10;
    config.discard = DiscardPolicy::Old;
    config.description = Some("somebody was here".to_owned());
    bus.jetstream().update_stream(config).await.unwrap();
    let Ensured::Repaired(differences) = bus.ensure_stream(&spec).await.unwrap() else {
        panic!("the drift was not seen");
    };
    let fields: Vec<&str> = differences.iter().map(|difference| difference.field.as_str()).collect();
    assert_eq!(fields, ["description", "discard", "max_age", "max_msgs"]);
    assert_eq!(bus.ensure_stream(&spec).await.unwrap(), Ensured::AsDeclared);
}

#[tokio::test]
async fn what_would_change_the_truth_is_refused_with_every_difference() {
    for (expected, change) in [
        (vec!["storage"], Config { storage: StorageType::Memory, ..Config::default() }),
        (vec!["persist_mode"], Config { persist_mode: Some(PersistenceMode::Async), ..Config::default() }),
        (vec!["deny_purge"], Config { deny_purge: true, ..Config::default() }),
        (
            vec!["republish", "storage"],
            Config {
                storage: StorageType::Memory,
                republish: Some(Republish {
                    source: ">".to_owned(),
                    destination: "leak.>".to_owned(),
                    headers_only: false,
                }),
                ..Config::default()
            },
        ),
    ] {
        let nats = TestNats::start().await;
        let (bus, spec) = gateway(&nats).await;
        let made = Config {
            name: spec.name.clone(),
            subjects: spec.subjects.clone(),
            description: Some(spec.description.clone()),
            discard: DiscardPolicy::New,
            max_message_size: i32::try_from(spec.message_bytes_max).unwrap(),
            deny_delete: true,
            num_replicas: 1,
            ..change
        };
        bus.jetstream().create_stream(made).await.unwrap();
        let refused = bus.ensure_stream(&spec).await.unwrap_err();
        let StreamError::Drift { differences, .. } = &refused else { panic!("{refused}") };
        let fields: Vec<&str> = differences.iter().map(|difference| difference.field.as_str()).collect();
        assert_eq!(fields, expected);
        assert!(refused.to_string().contains(expected[0]), "{refused}");
    }
}
