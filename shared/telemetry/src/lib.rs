//! What a process tells about itself: log lines on standard error, metrics as text for `/metrics`.
//!
//! Called once by a program's `main`. It must never decide anything, hold a secret or open a port: the page
//! is served by whoever has an HTTP door.

mod logs;
mod metrics;

pub use logs::{DEFAULT_FILTER, Format};
pub use metrics::Metrics;

/// Why telemetry could not be set up.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TelemetryError {
    #[error("telemetry is set up already")]
    Twice,
    #[error("log filter {filter:?} in AIP_LOG")]
    Filter { filter: String, source: tracing_subscriber::filter::ParseError },
    #[error("metrics buckets")]
    Buckets(#[from] metrics_exporter_prometheus::BuildError),
    #[error("start the metrics thread")]
    Thread(#[from] std::io::Error),
}

/// Sets up logging and metrics for the whole process. `service` and `version` stand in `aip_build_info`.
///
/// The filter comes from `AIP_LOG` (`info`, `aip_bus=debug,info`, …) and is
/// [`DEFAULT_FILTER`] without it.
///
/// # Errors
/// Called twice, or `AIP_LOG` cannot be read.
pub fn init(service: &str, version: &str, format: Format) -> Result<Metrics, TelemetryError> {
    logs::install(format)?;
    Metrics::install(service, version)
}
