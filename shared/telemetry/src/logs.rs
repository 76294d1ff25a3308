//! Log lines: text for people, JSON for programs, on standard error, so that standard output stays the
//! program's answer.

use std::io::IsTerminal;
use std::str::FromStr;

use tracing_subscriber::EnvFilter;
use tracing_subscriber::util::SubscriberInitExt;

use crate::TelemetryError;

/// How log lines are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    Text,
    /// One object a line.
    Json,
}

impl FromStr for Format {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "text" => Ok(Self::Text),
            "json" => Ok(Self::Json),
            _ => Err(format!("log format {text:?} must be text or json")),
        }
    }
}

const VARIABLE: &str = "AIP_LOG";
/// The client library tells each message that it drops in a line of its own, at any rate; what goes wrong on a connection
/// is counted and told by `aip-bus`, now and then.
pub const DEFAULT_FILTER: &str = "info,async_nats=warn";

pub(crate) fn install(format: Format) -> Result<(), TelemetryError> {
    let filter = std::env::var(VARIABLE).ok().filter(|filter| !filter.is_empty());
    let filter = filter.unwrap_or_else(|| DEFAULT_FILTER.to_owned());
    let parsed = EnvFilter::builder().parse(&filter);
    let parsed = parsed.map_err(|source| TelemetryError::Filter { filter, source })?;
    let lines = tracing_subscriber::fmt().with_env_filter(parsed).with_writer(std::io::stderr);
    let installed = match format {
        Format::Text => lines.with_ansi(std::io::stderr().is_terminal()).finish().try_init(),
        Format::Json => lines.json().flatten_event(true).finish().try_init(),
    };
    installed.map_err(|_| TelemetryError::Twice)
}
