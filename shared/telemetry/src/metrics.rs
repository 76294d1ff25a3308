//! The metrics of this process, in the text form that Prometheus reads. Names, kinds and descriptions are
//! those of `aip_names::metrics`.

use std::thread;
use std::time::Duration;

use aip_names::metrics::{ALL, BUILD_INFO, Kind, Unit};
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle, PrometheusRecorder};

use crate::TelemetryError;

#[cfg(test)]
mod tests;

/// From a NATS hop to the longest wait.
const SECONDS: [f64; 18] = [
    0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0,
    30.0, 60.0,
];
/// From a small record to what NATS carries at most.
const BYTES: [f64; 7] = [256.0, 1_024.0, 4_096.0, 16_384.0, 65_536.0, 262_144.0, 1_048_576.0];
/// Sizes of batches.
const COUNT: [f64; 11] = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0, 1_024.0];

/// Samples wait in memory until they are sorted into buckets, which nobody may ask for.
const UPKEEP_INTERVAL: Duration = Duration::from_secs(5);

/// The page of `/metrics`. Cloning shares it.
#[derive(Clone)]
pub struct Metrics(PrometheusHandle);

impl Metrics {
    pub(crate) fn install(service: &str, version: &str) -> Result<Self, TelemetryError> {
        let recorder = recorder()?;
        let handle = recorder.handle();
        ::metrics::set_global_recorder(recorder).map_err(|_| TelemetryError::Twice)?;
        describe();
        ::metrics::gauge!(BUILD_INFO, "service" => service.to_owned(), "version" => version.to_owned())
            .set(1.0);
        let upkeep = handle.clone();
        thread::Builder::new().name("metrics".to_owned()).spawn(move || {
            loop {
                thread::sleep(UPKEEP_INTERVAL);
                upkeep.run_upkeep();
            }
        })?;
        Ok(Self(handle))
    }

    /// The page as it is now.
    pub fn render(&self) -> String {
        self.0.render()
    }
}

impl std::fmt::Debug for Metrics {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Metrics")
    }
}

fn recorder() -> Result<PrometheusRecorder, TelemetryError> {
    let mut builder = PrometheusBuilder::new();
    for metric in ALL.iter().filter(|metric| metric.kind == Kind::Histogram) {
        let buckets: &[f64] = match metric.unit {
            Unit::Seconds => &SECONDS,
            Unit::Bytes => &BYTES,
            Unit::Count => &COUNT,
        };
        builder = builder.set_buckets_for_metric(Matcher::Full(metric.name.to_owned()), buckets)?;
    }
    Ok(builder.build_recorder())
}

fn describe() {
    for metric in ALL {
        let unit = match metric.unit {
            Unit::Count => ::metrics::Unit::Count,
            Unit::Seconds => ::metrics::Unit::Seconds,
            Unit::Bytes => ::metrics::Unit::Bytes,
        };
        match metric.kind {
            Kind::Counter => ::metrics::describe_counter!(metric.name, unit, metric.help),
            Kind::Gauge => ::metrics::describe_gauge!(metric.name, unit, metric.help),
            Kind::Histogram => ::metrics::describe_histogram!(metric.name, unit, metric.help),
        }
    }
}
