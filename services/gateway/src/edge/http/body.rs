//! Reads a request's body within its bounds of size and time.

use std::time::Duration;

use aip_names::limits;
use aip_wire::{Refusal, codes};
use axum::body::{Body, HttpBody};
use axum::http::HeaderMap;
use axum::http::header::EXPECT;
use bytes::Bytes;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use tokio::sync::Semaphore;

/// Bytes that a body may take: what it declares, else the most there may be.
pub(super) fn declared(body: &Body) -> Result<usize, Refusal> {
    let size = body.size_hint();
    // the lower end is the content length, or zero without one
    if size.lower() > limits::ENVELOPE_BYTES_MAX as u64 {
        return Err(too_large());
    }
    let most = size.upper().and_then(|upper| usize::try_from(upper).ok());
    Ok(most.map_or(limits::ENVELOPE_BYTES_MAX, |upper| upper.min(limits::ENVELOPE_BYTES_MAX)))
}

/// The whole body.
pub(super) async fn read(body: &mut Body, within: Duration) -> Result<Bytes, Refusal> {
    let limited = Limited::new(body, limits::ENVELOPE_BYTES_MAX).collect();
    match tokio::time::timeout(within, limited).await {
        Err(_) => Err(Refusal::new(codes::HTTP_BODY_TIMEOUT, "", "the body did not arrive in time")),
        Ok(Err(error)) if error.is::<LengthLimitError>() => Err(too_large()),
        Ok(Err(_)) => {
            Err(Refusal::new(codes::HTTP_BODY_INCOMPLETE, "", "the body broke off or was badly framed"))
        }
        Ok(Ok(collected)) => Ok(collected.to_bytes()),
    }
}

/// Takes what is still on its way of a request that is refused: who is busy sending does not read, and a connection that is
/// closed on it takes the refusal away with it. True when some of it may be left. What is read takes memory all the same,
/// so only a few are let finish at a time: in a flood the others are closed at once.
pub(super) async fn drain(places: &Semaphore, headers: &HeaderMap, body: &mut Body) -> bool {
    let Ok(_place) = places.try_acquire() else { return true };
    // who asks first whether to send has not sent, and need not
    if headers.contains_key(EXPECT) {
        return true;
    }
    let rest = async {
        let mut room = limits::HTTP_DRAIN_BYTES_MAX;
        while let Some(frame) = body.frame().await {
            let bytes = frame.map_or(room, |frame| frame.data_ref().map_or(0, Bytes::len));
            room = room.saturating_sub(bytes);
            if room == 0 {
                return true;
            }
        }
        false
    };
    tokio::time::timeout(Duration::from_millis(limits::HTTP_DRAIN_MS), rest).await.unwrap_or(true)
}

fn too_large() -> Refusal {
    let message = format!("the body is larger than {} bytes", limits::ENVELOPE_BYTES_MAX);
    Refusal::new(codes::HTTP_PAYLOAD, "", message)
}
