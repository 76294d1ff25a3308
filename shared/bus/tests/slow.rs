//! A subscriber that does not read. It harms nobody but itself, is counted, and does not fill the log.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

use std::io::Write;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use aip_bus::{Bus, Settings};
use aip_names::{Identity, MessageType, Service, Subject, Version, limits, metrics as names, queue_group};
use aip_testkit::{TestNats, wait_for};
use futures_util::StreamExt;
use metrics_exporter_prometheus::PrometheusBuilder;

const BURST: usize = 200_000;
const SOON: Duration = Duration::from_secs(60);

/// What was logged.
#[derive(Clone, Default)]
struct Page(Arc<Mutex<Vec<u8>>>);

impl Write for Page {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

async fn bus(nats: &TestNats, identity: Identity) -> Bus {
    let (seed_file, name) = (nats.seed_file(&identity), identity.to_string());
    let bus = Bus::connect(Settings { url: nats.url(), seed_file, identity, name }).await.unwrap();
    bus.ready(SOON).await.unwrap();
    bus
}

// on one thread, whose metrics and lines these are
#[tokio::test]
async fn a_blocked_subscriber_is_counted_and_told_of_now_and_then() {
    let recorder = PrometheusBuilder::new().build_recorder();
    let page = recorder.handle();
    let _metrics = metrics::set_default_local_recorder(&recorder);
    let log = Page::default();
    let writer = log.clone();
    let filter = tracing_subscriber::EnvFilter::new(aip_telemetry::DEFAULT_FILTER);
    let lines =
        tracing_subscriber::fmt().with_env_filter(filter).with_writer(move || writer.clone()).finish();
    let _lines = tracing::subscriber::set_default(lines);

    let nats = TestNats::start().await;
    let (gateway, worker) =
        (bus(&nats, Identity::Gateway).await, bus(&nats, TestNats::worker("restaurant")).await);
    let (service, kind) =
        (Service::new("sandbox-restaurant").unwrap(), MessageType::new("aip.core.v1.action").unwrap());
    let subject = Subject::message(&TestNats::trust_domain(), &service, Version::V1, &kind).to_string();
    let group = queue_group(&service).to_owned();
    let mut blocked = worker.client().queue_subscribe(subject.clone(), group).await.unwrap();
    worker.client().flush().await.unwrap();

    let begun = Instant::now();
    for number in 0..BURST {
        gateway.client().publish(subject.clone(), number.to_string().into()).await.unwrap();
    }
    gateway.client().flush().await.unwrap();
    let counted = || {
        let page = page.render();
        let line = page.lines().find(|line| line.starts_with(names::BUS_SLOW_CONSUMERS));
        line.and_then(|line| line.rsplit(' ').next()?.parse::<u64>().ok()).unwrap_or(0)
    };
    // more are dropped than are counted: whoever counts has a bounded queue too
    wait_for("the drops to be counted", SOON, || async { counted() > 100 }).await;

    // what was kept is still there, and the connection is none the worse for it
    worker.client().flush().await.unwrap();
    let mut kept = 0;
    while let Ok(Some(_)) = tokio::time::timeout(Duration::from_secs(1), blocked.next()).await {
        kept += 1;
    }
    assert!((limits::BUS_SUBSCRIPTION_MESSAGES_MAX..BURST).contains(&kept), "{kept} of {BURST}");
    assert!(worker.link().borrow().is_up());
    gateway.client().publish(subject, "the next".into()).await.unwrap();
    assert_eq!(blocked.next().await.unwrap().payload, "the next");

    let log = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
    let told = log.lines().filter(|line| line.contains("slow") || line.contains("dropped")).count();
    let intervals = begun.elapsed().as_millis() as usize / limits::LOG_INTERVAL_MS as usize;
    assert!((1..=1 + intervals).contains(&told), "{told} lines for {} drops:\n{log}", counted());
}
