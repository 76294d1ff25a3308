//! Every metric, with what it means. What is not in [`ALL`] has no description and no buckets in `/metrics`, so a
//! test of `aip-telemetry` refuses names that are written in place.

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
    BUILD_INFO = "aip_build_info", Gauge, Count, "always 1; its labels tell which program in which version this is";
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
    LEDGER_READY = "aip_ledger_ready", Gauge, Count, "1 while this replica's position check has passed and it serves, else 0";
    LEDGER_POSITION = "aip_ledger_position", Gauge, Count, "sequence of the last ledger message this replica applied";
    LEDGER_RECORDS = "aip_ledger_records_total", Counter, Count, "records applied, by verdict";
    LEDGER_VOID = "aip_ledger_void_total", Counter, Count, "own records that came back void and were decided anew";
    LEDGER_APPEND_SECONDS = "aip_ledger_append_seconds", Histogram, Seconds, "time from an append to its acknowledgement, fsync included";
    LEDGER_DECIDE_SECONDS = "aip_ledger_decide_seconds", Histogram, Seconds, "time from a command to its committed answer";
    LEDGER_STEP_SECONDS = "aip_ledger_step_seconds", Histogram, Seconds, "time of one step of the store thread, its commit included";
    LEDGER_SLOW_STEPS = "aip_ledger_slow_steps_total", Counter, Count, "steps of the store thread that took longer than they should";
    LEDGER_WAITING = "aip_ledger_waiting", Gauge, Count, "commands that wait for a decision or for their record";
    LEDGER_STOPPED = "aip_ledger_stopped_total", Counter, Count, "entities stopped because an invariant broke";
    LEDGER_TAIL_OPENS = "aip_ledger_tail_opens_total", Counter, Count, "times the tail of the ledger was opened";
    EFFECTS_RUNNING = "aip_effects_running", Gauge, Count, "effects being performed now";
    EFFECTS_ADOPTED = "aip_effects_adopted_total", Counter, Count, "pending effects taken up after their writer's time";
    EDGE_REQUESTS = "aip_edge_requests_total", Counter, Count, "requests answered by a door of the gateway, by message type and outcome code";
    EDGE_REQUEST_SECONDS = "aip_edge_request_seconds", Histogram, Seconds, "time from reading a request's head to its answer, by message type";
    EDGE_REQUESTS_RUNNING = "aip_edge_requests_running", Gauge, Count, "requests inside a door of the gateway now";
    EDGE_UNANSWERED = "aip_edge_unanswered_total", Counter, Count, "NATS messages that were handled but named nowhere to reply to";
    EDGE_HTTP_CONNECTIONS = "aip_edge_http_connections", Gauge, Count, "open HTTP connections";
    GATEWAY_ACTIONS = "aip_gateway_actions_total", Counter, Count, "actions judged by admission, by answer";
    GATEWAY_DISPATCHES = "aip_gateway_dispatches_total", Counter, Count, "dispatches to workers that came to an outcome, by outcome";
    GATEWAY_DISPATCH_SECONDS = "aip_gateway_dispatch_seconds", Histogram, Seconds, "time from sending an action to its worker to the outcome";
    WORKER_ACTIONS = "aip_worker_actions_total", Counter, Count, "actions a worker came to an end with, by capability and outcome";
    WORKER_ACTION_SECONDS = "aip_worker_action_seconds", Histogram, Seconds, "time a worker's handler took, by capability";
    WORKER_REPEATS = "aip_worker_repeats_total", Counter, Count, "dispatches answered from what was known of the action, without running it";
    WORKER_REGISTERED = "aip_worker_registered", Gauge, Count, "1 while the gateway has accepted this worker's manifest, else 0";
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
