//! What NATS lets an identity do, generated from the names. Everything not listed is refused by the server.
//!
//! Subject access is transport authorization and never replaces capability authorization (20.4). The rule
//! behind the lists: only a service's own identity writes or reads its ledger, only the gateway speaks to
//! workers and to the other services of the system, and everybody hears only their own inbox.

use crate::identity::{Identity, User};
use crate::own::OwnService;
use crate::streams::{chunk_stream_name, ledger_stream_name, queue_given_up, queue_stream_name};
use crate::subject::Subject;
use crate::token::{MessageType, NameError, Service, TrustDomain, Version};
use crate::{LEDGER_SHARDS, limits, queue_group};

#[cfg(test)]
mod tests;

/// Message types that workers and the gateway exchange.
const ACTION: &str = "aip.core.v1.action";
const MANIFEST: &str = "aip.discovery.v1.manifest_response";
const CANCEL: &str = "aip.core.v1.cancel";
/// What a worker says to the gateway of an attempt.
const HEARTBEAT: &str = "aip.core.v1.heartbeat";
const STREAM_CHUNK: &str = "aip.core.v1.stream_chunk";
const ACTION_RESULT: &str = "aip.core.v1.action_result";

/// What one NATS user may do.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Permissions {
    pub publish_allow: Vec<String>,
    /// `subject` or `subject queue`.
    pub subscribe_allow: Vec<String>,
    /// Whether, and how, it may answer what it was asked.
    pub responses: Option<Responses>,
}

/// The bounds of answering a request whose reply subject is not in the lists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Responses {
    pub messages_max: u32,
    pub expires_ms: u64,
}

/// One reply a request: what we serve is request and reply.
const ONE_REPLY: Responses = Responses { messages_max: 1, expires_ms: limits::NATS_REPLY_WINDOW_MS };

/// The prefix of all inboxes of an identity, without the last dot.
pub fn inbox_prefix(identity: &Identity) -> String {
    format!("_INBOX.{identity}")
}

/// What `user` may do in `td`, beside `everyone`: the gateway keeps the work queues of all workers there are.
///
/// # Errors
/// None in practice: the two message types above are well formed.
pub fn permissions(td: &TrustDomain, user: &User, everyone: &[User]) -> Result<Permissions, NameError> {
    let mut granted = match &user.identity {
        Identity::Gateway => gateway(td, everyone)?,
        Identity::Own(own) => own_service(td, *own)?,
        Identity::Worker(_) => worker(td, &user.serves)?,
        Identity::Client(_) => client(td, user.hears_streams),
        Identity::Admin => admin(),
    };
    granted.subscribe_allow.push(format!("{}.>", inbox_prefix(&user.identity)));
    Ok(granted)
}

fn gateway(td: &TrustDomain, everyone: &[User]) -> Result<Permissions, NameError> {
    let own = Service::gateway();
    let (action, cancel) = (MessageType::new(ACTION)?, MessageType::new(CANCEL)?);
    let mut publish_allow =
        [&action, &cancel].map(|told| format!("aip.v1.{}.*.*.{}", td.token(), told.token())).to_vec();
    publish_allow.extend(ledger(td, &own));
    publish_allow.extend(chunk_log(td, &own));
    publish_allow.push(Subject::all_streams(td, &own, Version::V1));
    let mut subscribe_allow = vec![in_group(&Subject::all_messages(td, &own, Version::V1), &own)];
    for user in everyone {
        if let Identity::Own(other) = user.identity {
            publish_allow.push(Subject::all_messages(td, &other.service(), Version::V1));
            // every replica hears what happened there
            subscribe_allow.push(Subject::all_events(td, &other.service()));
        }
    }
    let mut workers: Vec<&Service> = everyone.iter().flat_map(|user| &user.serves).collect();
    workers.sort();
    workers.dedup();
    for worker in workers {
        publish_allow.extend(queue_kept(td, worker));
        subscribe_allow.push(in_group(&queue_given_up(td, worker), &own));
    }
    subscribe_allow.extend(discovery(&own));
    Ok(Permissions { publish_allow, subscribe_allow, responses: Some(ONE_REPLY) })
}

/// A ledger, a worker's rights for its operator verbs, and the gateway's door, where it proves itself as anybody does.
fn own_service(td: &TrustDomain, own: OwnService) -> Result<Permissions, NameError> {
    let service = own.service();
    let mut granted = worker(td, std::slice::from_ref(&service))?;
    let door = format!("aip.v1.{}.{}.", td.token(), Service::gateway());
    // all of these are among what follows
    granted.publish_allow.retain(|subject| !subject.starts_with(&door));
    granted.publish_allow.push(Subject::all_messages(td, &Service::gateway(), Version::V1));
    granted.publish_allow.extend(ledger(td, &service));
    granted.publish_allow.push(Subject::all_events(td, &service));
    Ok(granted)
}

fn client(td: &TrustDomain, hears_streams: bool) -> Permissions {
    let gateway = Service::gateway();
    let streams = hears_streams.then(|| Subject::all_streams(td, &gateway, Version::V1));
    Permissions {
        publish_allow: vec![Subject::all_messages(td, &gateway, Version::V1)],
        subscribe_allow: streams.into_iter().collect(),
        responses: None,
    }
}

fn worker(td: &TrustDomain, serves: &[Service]) -> Result<Permissions, NameError> {
    let (mut publish_allow, mut subscribe_allow) = (Vec::new(), Vec::new());
    for told in [MANIFEST, HEARTBEAT, STREAM_CHUNK, ACTION_RESULT] {
        let told = MessageType::new(told)?;
        publish_allow.push(Subject::message(td, &Service::gateway(), Version::V1, &told).to_string());
    }
    let cancel = MessageType::new(CANCEL)?;
    for service in serves {
        publish_allow.extend(queue_taken(td, service));
        // without the group: whichever replica runs the action has to hear it
        subscribe_allow.push(format!("aip.v1.{}.{service}.*.{}", td.token(), cancel.token()));
        subscribe_allow.push(in_group(&format!("aip.v1.{}.{service}.*.*", td.token()), service));
        subscribe_allow.extend(discovery(service));
    }
    // services share the questions to everybody
    subscribe_allow.sort();
    subscribe_allow.dedup();
    Ok(Permissions { publish_allow, subscribe_allow, responses: Some(ONE_REPLY) })
}

fn admin() -> Permissions {
    let publish_allow = [
        "$SRV.>",
        "$JS.API.INFO",
        "$JS.API.STREAM.NAMES",
        "$JS.API.STREAM.LIST",
        "$JS.API.STREAM.INFO.*",
        "$JS.API.CONSUMER.NAMES.*",
        "$JS.API.CONSUMER.LIST.*",
        "$JS.API.CONSUMER.INFO.*.*",
    ];
    Permissions { publish_allow: publish_allow.map(str::to_owned).to_vec(), ..Permissions::default() }
}

/// Writing and reading a service's own ledger. Neither deleting the stream, nor purging it, nor deleting a
/// message is among it.
fn ledger(td: &TrustDomain, service: &Service) -> Vec<String> {
    let mut subjects = vec!["$JS.API.INFO".to_owned()];
    for shard in 0..LEDGER_SHARDS {
        let stream = ledger_stream_name(td, service, shard);
        subjects.push(Subject::ledger(td, service, shard).to_string());
        for verb in ["CREATE", "UPDATE", "INFO", "MSG.GET"] {
            subjects.push(format!("$JS.API.STREAM.{verb}.{stream}"));
        }
        subjects.push(format!("$JS.API.CONSUMER.CREATE.{stream}.>"));
        for verb in ["DELETE", "INFO", "MSG.NEXT"] {
            subjects.push(format!("$JS.API.CONSUMER.{verb}.{stream}.*"));
        }
    }
    subjects
}

/// Writing and reading the chunk log, and nothing that takes from it.
fn chunk_log(td: &TrustDomain, service: &Service) -> Vec<String> {
    let stream = chunk_stream_name(td, service);
    let mut subjects = vec![Subject::all_chunks(td, service)];
    subjects.extend(
        ["CREATE", "UPDATE", "INFO", "MSG.GET"].map(|verb| format!("$JS.API.STREAM.{verb}.{stream}")),
    );
    subjects.push(format!("$JS.API.CONSUMER.CREATE.{stream}.>"));
    subjects.extend(["DELETE", "INFO", "MSG.NEXT"].map(|verb| format!("$JS.API.CONSUMER.{verb}.{stream}.*")));
    subjects
}

/// Making and filling a worker's queue, and looking at what it gave up. Taking from it is the worker's.
fn queue_kept(td: &TrustDomain, worker: &Service) -> Vec<String> {
    let stream = queue_stream_name(td, worker);
    let mut subjects: Vec<String> = ["CREATE", "UPDATE", "INFO", "MSG.GET", "MSG.DELETE"]
        .map(|verb| format!("$JS.API.STREAM.{verb}.{stream}"))
        .to_vec();
    subjects.push(format!("$JS.API.CONSUMER.CREATE.{stream}.>"));
    subjects.push(format!("$JS.API.CONSUMER.INFO.{stream}.*"));
    subjects
}

/// Taking from the own queue, and saying what became of a message.
fn queue_taken(td: &TrustDomain, worker: &Service) -> Vec<String> {
    let stream = queue_stream_name(td, worker);
    vec![
        format!("$JS.API.CONSUMER.INFO.{stream}.*"),
        format!("$JS.API.CONSUMER.MSG.NEXT.{stream}.*"),
        format!("$JS.ACK.{stream}.>"),
    ]
}

/// Being found by the services API: `$SRV.PING`, `$SRV.PING.<name>`, `$SRV.PING.<name>.<id>`, and so `INFO` and `STATS`.
fn discovery(service: &Service) -> Vec<String> {
    ["PING", "INFO", "STATS"]
        .into_iter()
        .flat_map(|verb| {
            [format!("$SRV.{verb}"), format!("$SRV.{verb}.{service}"), format!("$SRV.{verb}.{service}.*")]
        })
        .collect()
}

/// Permits a subscription in the service's queue group only: a lone subscriber would be a second copy of all work.
fn in_group(subject: &str, service: &Service) -> String {
    format!("{subject} {}", queue_group(service))
}
