//! Live streams as server-sent events (20.2): one whole envelope a frame, a comment when there is nothing to say, and an
//! end that says why. A client that is lost, too slow or out of time comes back with the id of its last frame.

use std::convert::Infallible;

use aip_names::limits::STREAM_RETRY_MS;
use aip_wire::{MessageType, Refusal, codes};
use axum::body::Body;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderValue};
use axum::http::request::Parts;
use axum::http::{Response, StatusCode};
use bytes::Bytes;
use futures_util::stream;
use tokio::sync::oneshot;

use super::answer::{Answer, PathMembers, question};
use super::table::Route;
use super::{head, query, reply};
use crate::edge::room::Seat;
use crate::edge::{Edge, Front, meter};
use crate::front::{Frame, Live};

/// Says that both ends are there, to clients and to what stands between.
const HEARTBEAT: &str = ": heartbeat\n\n";
const ERROR: &str = "error";

/// One client that is being told. Its seat is given back when it ends.
struct Telling<F> {
    edge: Edge<F>,
    live: Live,
    begun: bool,
    ended: bool,
    _seat: Seat,
}

/// Answers with a stream that goes on.
pub(super) async fn follow<F: Front>(
    edge: &Edge<F>,
    route: &Route,
    asked: MessageType,
    path: Result<PathMembers, Refusal>,
    head: &Parts,
) -> Result<Answer, Refusal> {
    let members = query::read(head.uri.query(), route.parameters)?;
    let body = question(route, asked, path?, members)?;
    let last = head::last_event_id(&head.headers)?;
    let bearer = head::bearer(&head.headers)?;
    let with_bearer = bearer.is_some();
    let seat = edge.room.seat(0, bearer.as_ref())?;
    let begun = edge.work.track_future(edge.front.follow(bearer, body, last)).await;
    let (response, code) = match begun {
        Ok(Some(live)) => (streaming(edge.clone(), live, seat), meter::OK),
        Ok(None) => {
            let mut response = Response::new(Body::empty());
            *response.status_mut() = StatusCode::NO_CONTENT;
            (response, meter::OK)
        }
        Err(outbound) => (reply::envelope(&outbound, with_bearer)?, meter::code(&outbound.envelope)),
    };
    Ok(Answer { response, message_type: Some(asked), code })
}

fn streaming<F: Front>(edge: Edge<F>, live: Live, seat: Seat) -> Response<Body> {
    let telling = Telling { edge, live, begun: false, ended: false, _seat: seat };
    let body = stream::unfold(telling, |mut telling| async move {
        let text = telling.next().await?;
        Some((Ok::<_, Infallible>(Bytes::from(text)), telling))
    });
    let mut response = Response::new(Body::from_stream(body));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(head::EVENTS));
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

// === impl Telling ===

impl<F: Front> Telling<F> {
    /// The next piece of the stream; none when it has ended.
    async fn next(&mut self) -> Option<String> {
        if self.ended {
            return None;
        }
        if !self.begun {
            self.begun = true;
            return Some(format!("retry: {STREAM_RETRY_MS}\n\n"));
        }
        let heartbeat = tokio::time::sleep(self.edge.heartbeat);
        tokio::select! {
            biased;
            frame = cut(&mut self.live.cut) => {
                self.ended = true;
                Some(text(&frame))
            }
            () = self.edge.stop.cancelled() => {
                self.ended = true;
                let envelope = self.edge.front.refuse(b"", Refusal::of(codes::SERVICE_STOPPING)).envelope;
                Some(text(&Frame { id: None, name: ERROR, envelope }))
            }
            frame = self.live.frames.recv() => {
                self.ended = frame.is_none();
                frame.map(|frame| text(&frame))
            }
            () = heartbeat => Some(HEARTBEAT.to_owned()),
        }
    }
}

/// Resolves when the stream is cut short, and never if it is not.
async fn cut(cut: &mut oneshot::Receiver<Frame>) -> Frame {
    if !cut.is_terminated()
        && let Ok(frame) = cut.await
    {
        return frame;
    }
    std::future::pending().await
}

/// Compact JSON has no line break, and neither has an id of ours.
fn text(frame: &Frame) -> String {
    let id = frame.id.as_ref().map(|id| format!("id: {id}\n")).unwrap_or_default();
    format!("{id}event: {}\ndata: {}\n\n", frame.name, frame.envelope)
}
