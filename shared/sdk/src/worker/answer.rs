//! Turns what a worker has to say into messages: replies that name the request, and never larger than may pass.

use aip_bus::{Answer, HeaderMap, Parcel};
use aip_names::{headers, limits::TRANSPORT_EXTRA_NODES_MAX, limits::WORKER_ANSWER_BYTES_MAX};
use aip_wire::codes::{self, Code};
use aip_wire::read::Bounds;
use aip_wire::{
    ActionResult, CorrelationId, Envelope, ErrorBody, MessageBody, MessageId, Principal, ProtocolError,
    Timestamp, TransportMessage, validate,
};

/// Of an answer's bytes, what is kept for its envelope; the longest ids fit.
const ENVELOPE_ROOM_BYTES: usize = 4_096;

/// The answer to a request that could be read.
pub(super) fn reply(request: &Envelope, from: &Principal, body: MessageBody) -> Option<Answer> {
    answer(Envelope::reply_to(request, body, Timestamp::now()).with_from(from.clone()))
}

/// The answer to a request of which only the headers are known.
pub(super) fn unread(headers: &HeaderMap, from: &Principal, error: ProtocolError) -> Option<Answer> {
    let mut envelope = Envelope::new(ErrorBody { error }, Timestamp::now()).with_from(from.clone());
    let header = |name: &str| headers.get(name).map(|value| value.as_str().to_owned());
    envelope.in_response_to = header(headers::AIP_MESSAGE_ID).map(|id| MessageId::opaque(id).into());
    envelope.correlation_id = header(headers::AIP_CORRELATION_ID).map(CorrelationId::opaque);
    answer(envelope)
}

fn answer(envelope: Envelope) -> Option<Answer> {
    let error = match &envelope.body {
        MessageBody::Error(body) => Some(body.error.code.clone()),
        MessageBody::ActionResult(result) => result.error.as_ref().map(|error| error.code.clone()),
        _ => None,
    };
    match parcel(&envelope) {
        Ok(parcel) => Some(Answer { parcel, error }),
        Err(reason) => {
            // what can be large was checked before it was kept
            tracing::error!(reason, "an answer cannot be framed");
            None
        }
    }
}

fn parcel(envelope: &Envelope) -> Result<Parcel, String> {
    let envelope = serde_json::to_value(envelope).map_err(|error| error.to_string())?;
    Parcel::new(&TransportMessage { envelope, metadata: None }).map_err(|error| error.to_string())
}

/// Whether the gateway could read this result in an answer; else the code that says what is wrong with it.
pub(super) fn passes(result: &ActionResult) -> Result<(), &'static Code> {
    const BOUNDS: Bounds = Bounds {
        bytes_max: WORKER_ANSWER_BYTES_MAX - ENVELOPE_ROOM_BYTES,
        nodes_max: Bounds::WORKER_ANSWER.nodes_max - TRANSPORT_EXTRA_NODES_MAX,
        ..Bounds::WORKER_ANSWER
    };
    let envelope = Envelope::new(result.clone(), Timestamp::now());
    let framed = serde_json::to_value(envelope)
        .and_then(|envelope| serde_json::to_vec(&TransportMessage { envelope, metadata: None }))
        .map_err(|_| codes::WORKER_INVALID)?;
    validate::frame(&framed, &BOUNDS).map(|_| ()).map_err(|refusal| {
        let large = [codes::WORKER_TOO_LARGE, codes::LIMIT_ENVELOPE_BYTES].contains(&refusal.code);
        if large { codes::WORKER_TOO_LARGE } else { codes::WORKER_INVALID }
    })
}
