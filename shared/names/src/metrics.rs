//! Every metric, with what it means. A name that is not in [`ALL`] has no description in `/metrics`, and a
//! test of `aip-telemetry` finds it.

/// How a metric behaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Only grows; its name ends in `_total`.
    Counter,
    /// Goes up and down.
    Gauge,
    /// A distribution.
    Histogram,
}

/// What a metric counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    Count,
    Seconds,
    Bytes,
}

/// One metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Metric {
    pub name: &'static str,
    pub kind: Kind,
    pub unit: Unit,
    pub help: &'static str,
}

macro_rules! metrics {
    ($($constant:ident = $name:literal, $kind:ident, $unit:ident, $help:literal;)*) => {
        $(#[doc = $help] pub const $constant: &str = $name;)*

        /// Every metric.
        pub const ALL: &[Metric] =
            &[$(Metric { name: $name, kind: Kind::$kind, unit: Unit::$unit, help: $help }),*];
    };
}

metrics! {
    BUS_CONNECTED = "aip_bus_connected", Gauge, Count, "1 while the NATS connection stands, else 0";
    BUS_CONNECTS = "aip_bus_connects_total", Counter, Count, "times the NATS connection was made, the first one included";
    BUS_DISCONNECTS = "aip_bus_disconnects_total", Counter, Count, "times the NATS connection was lost";
    BUS_SLOW_CONSUMERS = "aip_bus_slow_consumers_total", Counter, Count, "times a message was dropped because its subscription was not read in time";
    BUS_PERMISSION_VIOLATIONS = "aip_bus_permission_violations_total", Counter, Count, "times NATS refused a publish or a subscription";
    BUS_ERRORS = "aip_bus_errors_total", Counter, Count, "other errors NATS reported on the connection";
    BUS_REQUESTS = "aip_bus_requests_total", Counter, Count, "requests taken by a served subject, by outcome";
    BUS_REQUEST_SECONDS = "aip_bus_request_seconds", Histogram, Seconds, "time from taking a request to its reply";
    BUS_REQUESTS_RUNNING = "aip_bus_requests_running", Gauge, Count, "requests being handled now";
    BUS_STREAM_REPAIRS = "aip_bus_stream_repairs_total", Counter, Count, "stream settings that had drifted and were put back";
    EDGE_REQUESTS = "aip_edge_requests_total", Counter, Count, "requests answered by a door of the gateway, by message type and outcome code";
    EDGE_REQUEST_SECONDS = "aip_edge_request_seconds", Histogram, Seconds, "time from reading a request's head to its answer, by message type";
    EDGE_REQUESTS_RUNNING = "aip_edge_requests_running", Gauge, Count, "requests inside a door of the gateway now";
    EDGE_UNANSWERED = "aip_edge_unanswered_total", Counter, Count, "NATS messages that were handled but named nowhere to reply to";
    EDGE_HTTP_CONNECTIONS = "aip_edge_http_connections", Gauge, Count, "open HTTP connections";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_follow_the_convention_and_are_unique() {
        let mut seen = std::collections::BTreeSet::new();
        for metric in ALL {
            assert!(metric.name.starts_with("aip_"), "{}", metric.name);
            assert!(seen.insert(metric.name), "{} twice", metric.name);
            assert_eq!(metric.kind == Kind::Counter, metric.name.ends_with("_total"), "{}", metric.name);
            assert_eq!(metric.unit == Unit::Seconds, metric.name.ends_with("_seconds"), "{}", metric.name);
            assert_eq!(metric.unit == Unit::Bytes, metric.name.ends_with("_bytes"), "{}", metric.name);
        }
    }
}
