//! A closed loop of callers, and what it saw.

use std::error::Error;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::future::BoxFuture;

/// One measurement.
#[derive(Debug, Clone)]
pub struct Figure {
    pub name: String,
    pub per_second: f64,
    pub p50_ms: f64,
    pub p99_ms: f64,
    /// Processor time of all processes for each call, in microseconds; zero where it was not taken.
    pub cpu_us: f64,
}

pub type Call = Arc<dyn Fn() -> BoxFuture<'static, Result<(), String>> + Send + Sync>;

/// Runs `call` in `concurrency` loops for `seconds`, after a warm-up of a tenth of that.
pub async fn closed_loop(
    name: impl Into<String>,
    concurrency: usize,
    seconds: u64,
    call: Call,
) -> Result<Figure, Box<dyn Error>> {
    let begin = Instant::now() + Duration::from_millis(seconds * 100);
    let end = begin + Duration::from_secs(seconds);
    let mut loops = tokio::task::JoinSet::new();
    for _ in 0..concurrency {
        let call = Arc::clone(&call);
        loops.spawn(async move {
            let mut taken = Vec::new();
            loop {
                let started = Instant::now();
                if started >= end {
                    return Ok::<_, String>(taken);
                }
                call().await?;
                if started >= begin {
                    taken.push(started.elapsed().as_secs_f64() * 1000.0);
                }
            }
        });
    }
    let mut all = Vec::new();
    while let Some(taken) = loops.join_next().await {
        all.extend(taken??);
    }
    all.sort_by(f64::total_cmp);
    let at = |part: f64| {
        let index = (all.len() as f64 * part) as usize;
        all.get(index.min(all.len().saturating_sub(1))).copied().unwrap_or(f64::NAN)
    };
    let name = format!("{}, c={concurrency}", name.into());
    let per_second = all.len() as f64 / seconds as f64;
    Ok(Figure { name, per_second, p50_ms: at(0.5), p99_ms: at(0.99), cpu_us: 0.0 })
}

pub fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

/// Processor time that a process has used so far, in microseconds.
pub fn cpu_us(pid: i32) -> f64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // The name, in parentheses, may hold blanks; user and system time are the 12th and 13th fields after it.
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    let ticks = |index: usize| fields.get(index).and_then(|text| text.parse::<f64>().ok()).unwrap_or(0.0);
    (ticks(11) + ticks(12)) * 10_000.0
}

/// Memory that a process holds, in MiB.
pub fn rss_mib(pid: i32) -> f64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap_or_default();
    line.split_whitespace().next().and_then(|kib| kib.parse::<f64>().ok()).unwrap_or(f64::NAN) / 1024.0
}
