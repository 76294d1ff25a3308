//! What many ended actions cost: the same load again and again on one system, with what an action takes, what the
//! gateway holds in memory, how large its store is, and what it does when nothing is asked of it.

use std::error::Error;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use aip_wire::ActionMode;
use redb::ReadableDatabase;

use crate::actions::over_nats;
use crate::load::{closed_loop, cpu_us, rss_mib};
use crate::system::{ECHO, System};

const CONCURRENCY: usize = 128;
/// One stretch of load between two looks.
const STRETCH_S: u64 = 10;
const IDLE: Duration = Duration::from_secs(15);

/// Goes on until `actions` have ended.
pub async fn run(aip: Option<&Path>, actions: u64) -> Result<(), Box<dyn Error>> {
    let system = System::start(aip).await?;
    let call = over_nats(&system.client, ECHO, ActionMode::Sync);
    println!(
        "{:>10} {:>10} {:>10} {:>12} {:>12} {:>12} {:>12}",
        "actions", "per s", "p50 ms", "cpu µs each", "gateway µs", "gateway MiB", "store MiB"
    );
    let (mut ended, mut told) = (0, 0);
    while ended < actions {
        let before = system.pids().map(cpu_us);
        let figure = closed_loop("soak", CONCURRENCY, STRETCH_S, call.clone()).await?;
        let after = system.pids().map(cpu_us);
        // the warm-up's actions, a tenth of the time, end as well
        let count = figure.per_second * STRETCH_S as f64 * 1.1;
        ended += count as u64;
        let gateway = (after[0] - before[0]) / count;
        let both = gateway + (after[1] - before[1]) / count;
        if ended >= told {
            told = ended + ended / 4;
            println!(
                "{ended:>10} {:>10.0} {:>10.2} {both:>12.0} {gateway:>12.0} {:>12.0} {:>12.0}",
                figure.per_second,
                figure.p50_ms,
                rss_mib(system.gateway.id()),
                size(&system.store())? as f64 / f64::from(1 << 20)
            );
        }
    }
    let (used, begun) = (cpu_us(system.gateway.id()), Instant::now());
    tokio::time::sleep(IDLE).await;
    let idle = (cpu_us(system.gateway.id()) - used) / begun.elapsed().as_micros() as f64;
    println!("idle gateway: {:.2} % of a core, {:.0} MiB", idle * 100.0, rss_mib(system.gateway.id()));
    let store = system.store();
    let _stage = system.stop().await?;
    live(&store)
}

/// What of the store's file is data that it must hold.
fn live(folder: &Path) -> Result<(), Box<dyn Error>> {
    for file in files(folder)?.into_iter().filter(|file| file.extension().is_some_and(|end| end == "redb")) {
        let length = file.metadata()?.len();
        let database = redb::Database::open(&file)?;
        drop(database.begin_read()?);
        let stats = database.begin_write()?.stats()?;
        println!(
            "store: {} MiB of file, {} MiB of live data: {:.2} ×",
            length >> 20,
            stats.stored_bytes() >> 20,
            length as f64 / stats.stored_bytes().max(1) as f64
        );
    }
    Ok(())
}

fn size(folder: &Path) -> Result<u64, Box<dyn Error>> {
    files(folder)?.iter().map(|file| Ok(file.metadata()?.len())).sum()
}

fn files(folder: &Path) -> Result<Vec<PathBuf>, Box<dyn Error>> {
    let files = std::fs::read_dir(folder)?.map(|entry| Ok(entry?.path()));
    files
        .filter(|path: &Result<PathBuf, std::io::Error>| path.as_ref().is_ok_and(|path| path.is_file()))
        .map(|path| Ok(path?))
        .collect()
}
