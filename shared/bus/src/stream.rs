//! Makes a stream what the registry says: creates it, or reads it back, compares every setting and repairs
//! what can be repaired without losing or letting in anything. Anything else is refused, with all differences.
//!
//! The comparison is over the JSON that the server speaks, not over the client's types: a setting that a
//! newer server knows and we do not must be seen as well.

use aip_names::{Persist, Retention, StreamSpec, metrics as names};
use async_nats::jetstream::response::Response;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::bus::Bus;

#[cfg(test)]
mod tests;

/// Settings that may be put back on a living stream: they limit what comes, or describe. What would have
/// mixed in foreign messages, moved the data or weakened its fsync is not among them.
const REPAIRABLE: [&str; 14] = [
    "allow_direct",
    "allow_rollup_hdrs",
    "deny_delete",
    "description",
    "discard",
    "discard_new_per_subject",
    "duplicate_window",
    "max_age",
    "max_bytes",
    "max_msg_size",
    "max_msgs",
    "max_msgs_per_subject",
    "no_ack",
    "num_replicas",
];

/// JetStream's number for a stream that does not exist.
pub(crate) const STREAM_NOT_FOUND: u64 = 10_059;
/// The server's default; we rely on no deduplication, and name it so that drift is seen.
const DUPLICATE_WINDOW_NS: u64 = 120_000_000_000;

/// One setting that is not as it should be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    pub field: String,
    pub wanted: Value,
    pub found: Value,
}

/// What was done to have the stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ensured {
    Created,
    AsDeclared,
    /// These settings had drifted and were put back.
    Repaired(Vec<Difference>),
}

/// Why there is no such stream.
#[derive(Debug, thiserror::Error)]
pub enum StreamError {
    #[error("stream {stream} is not as declared and cannot be repaired: {}", sentence(differences))]
    Drift { stream: String, differences: Vec<Difference> },
    #[error("nats-server refuses to {action} stream {stream}: {detail}")]
    Refused { action: &'static str, stream: String, detail: String },
    #[error("no answer from JetStream to {action} stream {stream}: {detail}")]
    Unavailable { action: &'static str, stream: String, detail: String },
}

fn sentence(differences: &[Difference]) -> String {
    let one = |d: &Difference| format!("{} is {}, declared is {}", d.field, d.found, d.wanted);
    differences.iter().map(one).collect::<Vec<_>>().join("; ")
}

impl Bus {
    /// Has the stream exist as declared. Several replicas may do so at once.
    ///
    /// # Errors
    /// It differs in a way that is not repaired, or JetStream refuses or does not answer.
    pub async fn ensure_stream(&self, spec: &StreamSpec) -> Result<Ensured, StreamError> {
        let wanted = config(spec);
        let mut created = false;
        let mut found = self.stream_config(spec).await?;
        if found.is_none() {
            self.ask("create", spec, &wanted).await?;
            created = true;
            found = self.stream_config(spec).await?;
        }
        let Some(found) = found else {
            let (stream, detail) = (spec.name.clone(), "it vanished after it was made".to_owned());
            return Err(StreamError::Refused { action: "keep", stream, detail });
        };
        let differences = compare(&wanted, &found);
        if differences.is_empty() {
            return Ok(if created { Ensured::Created } else { Ensured::AsDeclared });
        }
        let drift = |differences| StreamError::Drift { stream: spec.name.clone(), differences };
        let repairable = |difference: &Difference| REPAIRABLE.contains(&difference.field.as_str());
        if created || !differences.iter().all(repairable) {
            return Err(drift(differences));
        }
        self.ask("update", spec, &repaired(&found, &differences)).await?;
        let after = self.stream_config(spec).await?.unwrap_or_default();
        let left = compare(&wanted, &after);
        if !left.is_empty() {
            return Err(drift(left));
        }
        metrics::counter!(names::BUS_STREAM_REPAIRS).increment(differences.len() as u64);
        tracing::warn!(
            stream = spec.name,
            changes = sentence(&differences),
            "stream had drifted and was repaired"
        );
        Ok(Ensured::Repaired(differences))
    }

    /// The configuration that the server has, if it has the stream.
    async fn stream_config(&self, spec: &StreamSpec) -> Result<Option<Map<String, Value>>, StreamError> {
        match self.ask("info", spec, &Map::new()).await {
            Ok(config) => Ok(Some(config)),
            Err(StreamError::Refused { detail, .. }) if detail.is_empty() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// One question to JetStream about the stream. Not having it is a refusal without detail.
    async fn ask(
        &self,
        action: &'static str,
        spec: &StreamSpec,
        payload: &Map<String, Value>,
    ) -> Result<Map<String, Value>, StreamError> {
        #[derive(Deserialize)]
        struct Info {
            config: Map<String, Value>,
        }
        let stream = spec.name.clone();
        let verb = action.to_ascii_uppercase();
        let answer = self.jetstream().request(format!("STREAM.{verb}.{stream}"), payload).await;
        match answer {
            Ok(Response::Ok(Info { config })) => Ok(config),
            Ok(Response::Err { error }) => {
                let missing = error.error_code().0 == STREAM_NOT_FOUND;
                let detail = if missing { String::new() } else { error.to_string() };
                Err(StreamError::Refused { action, stream, detail })
            }
            Err(error) => Err(StreamError::Unavailable { action, stream, detail: error.to_string() }),
        }
    }
}

/// The declaration in the server's words, with every default written out.
fn config(spec: &StreamSpec) -> Map<String, Value> {
    let mut config = json!({
        "name": spec.name,
        "description": spec.description,
        "subjects": spec.subjects,
        "retention": "limits",
        "storage": "file",
        "discard": "new",
        "num_replicas": spec.replicas,
        "max_age": 0,
        "max_bytes": -1,
        "max_msgs": -1,
        "max_msgs_per_subject": -1,
        "max_consumers": -1,
        "max_msg_size": spec.message_bytes_max,
        "duplicate_window": DUPLICATE_WINDOW_NS,
        "deny_delete": true,
        "deny_purge": false,
        "allow_direct": false,
        "allow_rollup_hdrs": false,
        "persist_mode": match spec.persist {
            Persist::Sync => "default",
            Persist::Async => "async",
        },
    });
    let Some(members) = config.as_object_mut() else { return Map::new() };
    let mut set = |name: &str, value: Value| members.insert(name.to_owned(), value);
    match spec.retention {
        Retention::Everything => {}
        Retention::Work { messages_max, copies_window_ms } => {
            set("retention", json!("workqueue"));
            set("max_msgs", json!(messages_max));
            set("duplicate_window", json!(nanoseconds(copies_window_ms)));
            set("deny_delete", json!(false));
        }
        Retention::Recent { each_max, age_ms_max, bytes_max } => {
            set("discard", json!("old"));
            set("max_msgs_per_subject", json!(each_max));
            set("max_age", json!(nanoseconds(age_ms_max)));
            set("max_bytes", json!(bytes_max));
        }
    }
    std::mem::take(members)
}

fn nanoseconds(ms: u64) -> u64 {
    ms.saturating_mul(1_000_000)
}

/// All settings in which `found` is not `wanted`. One that we do not set has to be absent or empty.
fn compare(wanted: &Map<String, Value>, found: &Map<String, Value>) -> Vec<Difference> {
    let fields: std::collections::BTreeSet<&String> = wanted.keys().chain(found.keys()).collect();
    let difference = |field: &String| {
        let wanted = said(field, wanted.get(field));
        let found = said(field, found.get(field));
        (wanted != found).then(|| Difference { field: field.clone(), wanted, found })
    };
    fields.into_iter().filter_map(difference).collect()
}

/// A setting in one spelling: what the server leaves out and what it fills in is null.
fn said(field: &str, value: Option<&Value>) -> Value {
    match (field, value) {
        (_, None | Some(Value::Null | Value::Bool(false))) => Value::Null,
        (_, Some(Value::String(text))) if text.is_empty() => Value::Null,
        ("persist_mode", Some(Value::String(text))) if text == "default" => Value::Null,
        ("compression", Some(Value::String(text))) if text == "none" => Value::Null,
        // the server notes its own version there
        ("metadata", Some(Value::Object(map))) => {
            let ours: Map<_, _> = map
                .iter()
                .filter(|(name, _)| !name.starts_with("_nats."))
                .map(|(k, v)| (k.clone(), v.clone()))
                .collect();
            if ours.is_empty() { Value::Null } else { Value::Object(ours) }
        }
        (_, Some(Value::Object(map))) if map.is_empty() => Value::Null,
        (_, Some(Value::Array(items))) if items.is_empty() => Value::Null,
        (_, Some(Value::Number(number))) if number.as_i64() == Some(0) => Value::Null,
        (_, Some(value)) => value.clone(),
    }
}

/// The found configuration with the declared values put back.
fn repaired(found: &Map<String, Value>, differences: &[Difference]) -> Map<String, Value> {
    let mut config = found.clone();
    for Difference { field, wanted, .. } in differences {
        match wanted {
            Value::Null => config.remove(field),
            wanted => config.insert(field.clone(), wanted.clone()),
        };
    }
    config
}
