//! What the machine can do at most: request/reply over one and two hops, a publish that is fsynced, a soft and a hard
//! commit of redb.

use std::error::Error;
use std::sync::Arc;
use std::time::{Duration, Instant};

use aip_bus::Bus;
use aip_names::{Identity, MessageType, Service, Subject, Version, ledger_stream, queue_group};
use bytes::Bytes;
use futures_util::StreamExt;
use redb::{Database, Durability, TableDefinition};

use crate::load::{Call, Figure, closed_loop};
use crate::stage::{SERVICE, Stage};

/// As large as an action with a kilobyte of input.
const PAYLOAD: usize = 1024;
const COMMITS: usize = 300;
const READY_TRIES_MAX: u32 = 100;
const READY_PAUSE: Duration = Duration::from_millis(50);

pub async fn measure(seconds: u64, concurrency: &[usize]) -> Result<Vec<Figure>, Box<dyn Error>> {
    let stage = Stage::start().await?;
    let (gateway, worker) = (stage.bus(Identity::Gateway).await?, stage.bus(Stage::worker()?).await?);
    let client = stage.bus(Stage::client()?).await?;
    let action = MessageType::new("aip.core.v1.action")?;
    let result = MessageType::new("aip.core.v1.action_result")?;
    let td = &stage.trust_domain;
    let one = Subject::message(td, &Service::gateway(), Version::V1, &result).to_string();
    let two = Subject::message(td, &Service::gateway(), Version::V1, &action).to_string();
    let end = Subject::message(td, &Service::new(SERVICE)?, Version::V1, &action).to_string();
    let (here, there) = (Service::gateway(), Service::new(SERVICE)?);
    answer(&gateway, &here, one.clone(), None).await?;
    answer(&gateway, &here, two.clone(), Some(end.clone())).await?;
    answer(&worker, &there, end, None).await?;
    answered(&client, &two).await?;
    let mut figures = Vec::new();
    for c in concurrency {
        figures.push(closed_loop("request/reply, one hop", *c, seconds, ask(&client, one.clone())).await?);
        figures.push(closed_loop("request/reply, two hops", *c, seconds, ask(&client, two.clone())).await?);
    }
    let spec = ledger_stream(td, &Service::gateway(), 0, 1);
    let subject = spec.subjects.first().cloned().unwrap_or_default();
    gateway.ensure_stream(&spec).await?;
    figures.push(closed_loop("publish, fsynced", 1, seconds, publish(&gateway, subject)).await?);
    figures.extend(commits(&stage)?);
    Ok(figures)
}

/// Answers a subject, by itself or by asking further.
async fn answer(
    bus: &Bus,
    service: &Service,
    subject: String,
    further: Option<String>,
) -> Result<(), Box<dyn Error>> {
    let client = bus.client().clone();
    let mut requests = client.queue_subscribe(subject, queue_group(service).to_owned()).await?;
    client.flush().await?;
    tokio::spawn(async move {
        while let Some(request) = requests.next().await {
            let (client, further) = (client.clone(), further.clone());
            let answer = async move {
                let payload = match further {
                    Some(subject) => client.request(subject, request.payload).await.ok()?.payload,
                    None => request.payload,
                };
                client.publish(request.reply?, payload).await.ok()
            };
            tokio::spawn(answer);
        }
    });
    Ok(())
}

/// Waits until the server knows everyone who answers.
async fn answered(bus: &Bus, subject: &str) -> Result<(), Box<dyn Error>> {
    for _ in 0..READY_TRIES_MAX {
        if bus.client().request(subject.to_owned(), Bytes::new()).await.is_ok() {
            return Ok(());
        }
        tokio::time::sleep(READY_PAUSE).await;
    }
    Err(format!("nobody answers {subject}").into())
}

fn ask(bus: &Bus, subject: String) -> Call {
    let client = bus.client().clone();
    Arc::new(move || {
        let (client, subject) = (client.clone(), subject.clone());
        Box::pin(async move {
            let payload = Bytes::from_static(&[b'x'; PAYLOAD]);
            client.request(subject, payload).await.map(drop).map_err(|error| error.to_string())
        })
    })
}

fn publish(bus: &Bus, subject: String) -> Call {
    let js = bus.jetstream();
    Arc::new(move || {
        let (js, subject) = (js.clone(), subject.clone());
        Box::pin(async move {
            let ack = js.publish(subject, Bytes::from_static(&[b'x'; PAYLOAD])).await;
            ack.map_err(|error| error.to_string())?.await.map(drop).map_err(|error| error.to_string())
        })
    })
}

fn commits(stage: &Stage) -> Result<Vec<Figure>, Box<dyn Error>> {
    const TABLE: TableDefinition<u64, &[u8]> = TableDefinition::new("rows");
    let db = Database::create(stage.folder.path().join("raw.redb"))?;
    let mut figures = Vec::new();
    for (name, durability) in
        [("redb commit, soft", Durability::None), ("redb commit, hard", Durability::Immediate)]
    {
        let mut taken = Vec::new();
        let begun = Instant::now();
        for row in 0..COMMITS as u64 {
            let started = Instant::now();
            let mut txn = db.begin_write()?;
            txn.set_durability(durability)?;
            txn.open_table(TABLE)?.insert(row, [b'x'; PAYLOAD].as_slice())?;
            txn.commit()?;
            taken.push(started.elapsed().as_secs_f64() * 1000.0);
        }
        let per_second = COMMITS as f64 / begun.elapsed().as_secs_f64();
        taken.sort_by(f64::total_cmp);
        let at = |index: usize| taken.get(index).copied().unwrap_or(f64::NAN);
        let (p50_ms, p99_ms) = (at(COMMITS / 2), at(COMMITS * 99 / 100));
        figures.push(Figure { name: name.to_owned(), per_second, p50_ms, p99_ms, cpu_us: 0.0 });
    }
    Ok(figures)
}
