//! Live streams (20.2): what is told of one action, or of all that a reader may see, as it happens. A follower reads
//! the committed log of its own replica and wakes on its commits, so a reader may go on at any replica, from the id of
//! the last frame it got. It never tells more than the reader may see at that moment, and ends when the reader's
//! authority ends.

use std::time::Duration;

use secrecy::SecretString;
use tokio::sync::mpsc::error::SendTimeoutError;
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

use aip_admission::Reader;
use aip_names::limits::{STREAM_FRAMES_MAX, STREAM_STALL_MS};
use aip_service::clock;
use aip_wire::{
    ActionEventsRequest, CorrelationId, ErrorBody, EventStreamRequest, MessageBody, ProtocolError, Refusal,
    codes,
};

use crate::chunks::reading::Reading;
use crate::cursor::{Mark, Question};
use crate::front::{Frame, Live, Outbound};
use crate::gateway::Gateway;
use crate::machine::keys;
use crate::query::events;
use wait::Wake;

mod action;
mod approvals;
mod authority;
mod chunks;
mod feed;
mod wait;

/// Event names of 20.2.
const MESSAGE: &str = "message";
const RESULT: &str = "result";
const ERROR: &str = "error";

/// The mark behind the result, which is the last that is told of an action.
const END: &str = "end";

/// What is followed.
#[derive(Debug, Clone)]
enum Followed {
    Action(ActionEventsRequest),
    Feed(EventStreamRequest),
}

/// Tells one reader, frame by frame.
struct Follower {
    gateway: Gateway,
    bearer: Option<SecretString>,
    reader: Reader,
    followed: Followed,
    question: Question,
    mark: Mark,
    /// Of an action that streams, when chunks are asked for.
    reading: Option<Reading>,
    /// Since when the action has ended and chunks are owed.
    owed: Option<Instant>,
    correlation: Option<CorrelationId>,
    wake: Wake,
    frames: mpsc::Sender<Frame>,
}

/// Why a follower stops.
enum Stop {
    /// All is told.
    Ended,
    /// The reader is gone.
    Left,
    /// The reader takes nothing.
    Slow,
    Refused(Refusal),
}

/// What a round found.
enum Round {
    /// More stands behind it already.
    More,
    /// Nothing more until something happens.
    Dry,
}

// === impl Gateway ===

impl Gateway {
    /// Follows one action or the feed, from the request's cursor or, if there is one, from the id of the last frame that
    /// the reader got. None when there is nothing left to tell.
    ///
    /// # Errors
    /// The refusal as a whole envelope.
    pub(crate) async fn follow(
        &self,
        bearer: Option<SecretString>,
        body: MessageBody,
        last: Option<String>,
    ) -> Result<Option<Live>, Outbound> {
        let begun = match body {
            MessageBody::ApprovalListRequest(request) => {
                self.follow_approvals(bearer, *request).await.map(Some)
            }
            body => self.begin(bearer, body, last).await,
        };
        begun.map_err(|refusal| self.voice().refuse_stranger(b"", refusal))
    }

    async fn begin(
        &self,
        bearer: Option<SecretString>,
        body: MessageBody,
        last: Option<String>,
    ) -> Result<Option<Live>, Refusal> {
        let now = clock::now_ms();
        let wake = |action| Wake {
            action,
            commits: self.ledger().commits(),
            readiness: self.ledger().readiness(),
            directory: self.authenticator().changes(),
        };
        // watched before anything is looked at, so that nothing is missed
        let mut wake = wake(None);
        let caller = self.authenticator().caller(bearer.as_ref(), now).await?;
        let reader = self.reader(&caller, now);
        let mut action = None;
        let (followed, question, mark) = match body {
            MessageBody::ActionEventsRequest(mut request) => {
                request.cursor = last.or(request.cursor);
                let (question, mark) = self.action_question(&reader, &request, now)?;
                wake.action = Some(self.ledger().watch(&keys::action(request.action_id.as_str())));
                let (who, asked) = (reader.clone(), request.clone());
                // no older than the question, and hidden is as absent
                let seen =
                    self.fresh(move |view| events::of_action(view, &who, &asked, Mark::default(), 1)).await?;
                let (state, _) = seen.ok_or_else(|| Refusal::of(codes::ACTION_NOT_FOUND))?;
                action = Some(state);
                (Followed::Action(*request), question, mark)
            }
            MessageBody::EventStreamRequest(mut request) => {
                request.cursor = last.or(request.cursor);
                let (question, mark) = self.feed_question(&reader, &request, now)?;
                self.fresh(|_| Ok(())).await?;
                (Followed::Feed(*request), question, mark)
            }
            _ => return Err(Refusal::of(codes::ENVELOPE_NOT_SERVED)),
        };
        if mark.at == END {
            return Ok(None);
        }
        let (sender, frames) = mpsc::channel(STREAM_FRAMES_MAX);
        let (cutter, cut) = oneshot::channel();
        let gateway = self.clone();
        let streams = matches!(&followed, Followed::Action(request) if request.include_chunks);
        let reading = action.as_ref().filter(|state| streams && state.pinned.streams).map(|state| {
            Reading::new(self.chunks().clone(), state.id.clone(), mark.chunk.unwrap_or_default())
        });
        let correlation = action.and_then(|state| state.correlation_id);
        let follower = Follower {
            gateway,
            bearer,
            reader,
            followed,
            question,
            mark,
            reading,
            owed: None,
            correlation,
            wake,
            frames: sender,
        };
        tokio::spawn(follower.run(cutter));
        Ok(Some(Live { frames, cut }))
    }
}

// === impl Follower ===

impl Follower {
    async fn run(mut self, cutter: oneshot::Sender<Frame>) {
        let stop = loop {
            match self.round().await {
                Ok(Round::More) => {}
                Ok(Round::Dry) => {
                    if let Err(stop) = self.wait().await {
                        break stop;
                    }
                }
                Err(stop) => break stop,
            }
        };
        match stop {
            Stop::Ended | Stop::Left => {}
            Stop::Slow => {
                // the reader may be gone altogether
                let _ = cutter.send(self.error(Refusal::of(codes::STREAM_READER_SLOW)));
            }
            Stop::Refused(refusal) => {
                let frame = self.error(refusal);
                let _ = self.frames.send_timeout(frame, Duration::from_millis(STREAM_STALL_MS)).await;
            }
        }
    }

    /// Tells what there is behind the mark.
    async fn round(&mut self) -> Result<Round, Stop> {
        match self.followed.clone() {
            Followed::Action(request) => self.action_round(request).await,
            Followed::Feed(request) => self.feed_round(request).await,
        }
    }

    fn id(&self, mark: Mark) -> Result<String, Stop> {
        self.gateway.cursors().give(&self.question, mark, clock::now_ms()).map_err(Stop::Refused)
    }

    async fn tell(
        &mut self,
        id: Option<String>,
        name: &'static str,
        correlation_id: Option<CorrelationId>,
        body: MessageBody,
    ) -> Result<(), Stop> {
        if self.is_over() {
            self.authorize().await?;
        }
        let reader = self.reader.caller().principal();
        let envelope = self.gateway.voice().tell(reader, correlation_id, body);
        let frame = Frame { id, name, envelope };
        match self.frames.send_timeout(frame, Duration::from_millis(STREAM_STALL_MS)).await {
            Ok(()) => Ok(()),
            Err(SendTimeoutError::Timeout(_)) => Err(Stop::Slow),
            Err(SendTimeoutError::Closed(_)) => Err(Stop::Left),
        }
    }

    fn error(&self, refusal: Refusal) -> Frame {
        let error = ProtocolError::from(refusal);
        let reader = self.reader.caller().principal();
        let envelope = self.gateway.voice().tell(reader, None, ErrorBody { error }.into());
        Frame { id: None, name: ERROR, envelope }
    }
}

/// A ledger that is interrupted comes back; everything else ends the stream.
fn dry<T>(found: Result<T, Refusal>) -> Result<Option<T>, Stop> {
    match found {
        Ok(found) => Ok(Some(found)),
        Err(refusal) if refusal.code == codes::SERVICE_NOT_READY => Ok(None),
        Err(refusal) => Err(Stop::Refused(refusal)),
    }
}
