//! Live streams (20.2): what is told of one action, or of all that a reader may see, as it happens. A follower reads
//! the committed log of its own replica and wakes on its commits, so a reader may go on at any replica, from the id of
//! the last frame it got. It never tells more than the reader may see at that moment, and ends when the reader's
//! authority ends.

use std::time::Duration;

use secrecy::SecretString;
use tokio::sync::mpsc::error::SendTimeoutError;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::Instant;

use aip_admission::Reader;
use aip_kernel::Millis;
use aip_ledger::{LedgerError, Readiness, Watch};
use aip_names::limits::{PAGE_ROWS_DEFAULT, STREAM_AUTHORITY_MS, STREAM_FRAMES_MAX, STREAM_STALL_MS};
use aip_wire::{
    ActionEvents, ActionEventsRequest, CorrelationId, ErrorBody, Event, EventStream, EventStreamRequest,
    MessageBody, ProtocolError, Refusal, codes,
};

use crate::admit::result_of;
use crate::chunks::reading::Reading;
use crate::clock;
use crate::cursor::{Mark, Question};
use crate::front::{Frame, Live, Outbound};
use crate::gateway::Gateway;
use crate::machine::{ActionState, GatewayMachine, keys};
use crate::query::events::{self, Told};
use crate::query::readable;

mod chunks;

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
    correlation: Option<CorrelationId>,
    wake: Wake,
    frames: mpsc::Sender<Frame>,
}

/// What may bring something new.
struct Wake {
    action: Option<Watch<GatewayMachine>>,
    commits: watch::Receiver<u64>,
    readiness: watch::Receiver<Readiness>,
    directory: watch::Receiver<u64>,
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
        let begun = self.begin(bearer, body, last).await;
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

    async fn action_round(&mut self, request: ActionEventsRequest) -> Result<Round, Stop> {
        let (who, asked, mark) = (self.reader.clone(), request, self.mark.clone());
        let found = self
            .gateway
            .glance(move |view| events::of_action(view, &who, &asked, mark, PAGE_ROWS_DEFAULT))
            .await;
        let Some(found) = dry(found)? else { return Ok(Round::Dry) };
        // what was there and is not visible any more: the reader's authority has changed
        let (state, told) = found.ok_or_else(|| Stop::Refused(Refusal::of(codes::ACTION_NOT_FOUND)))?;
        let ends = state.is_terminal() && !told.more;
        let Told { mut events, mark, more, .. } = told;
        // the end is told behind the last chunk
        let end = if ends { events.pop() } else { None };
        for event in events {
            self.tell_event(&state, event, false).await?;
        }
        if ends {
            if self.reading.is_some() {
                let Some(last) = state.stream.last else { return Ok(Round::Dry) };
                if !self.tell_chunks(&state, last).await? {
                    return Ok(Round::More);
                }
            }
            if let Some(event) = end {
                self.tell_event(&state, event, true).await?;
            }
            self.tell_result(&state).await?;
            return Err(Stop::Ended);
        }
        self.passed(mark);
        Ok(if more { Round::More } else { Round::Dry })
    }

    async fn tell_event(
        &mut self,
        state: &ActionState,
        (event, mark): (Event, Mark),
        terminal: bool,
    ) -> Result<(), Stop> {
        let mark = Mark { chunk: self.mark.chunk, ..mark };
        let id = self.id(mark.clone())?;
        let body = ActionEvents {
            action_id: state.id.clone(),
            events: vec![event],
            chunks: Vec::new(),
            cursor: Some(id.clone()),
            terminal,
        };
        self.tell(Some(id), MESSAGE, state.correlation_id.clone(), body.into()).await?;
        self.mark = mark;
        Ok(())
    }

    /// Everything up to there was looked at.
    fn passed(&mut self, mark: Mark) {
        self.mark = Mark { chunk: self.mark.chunk, ..mark };
    }

    /// The last frame of an action, whose id says that nothing stands behind it.
    async fn tell_result(&mut self, state: &ActionState) -> Result<(), Stop> {
        let visible = readable(&self.reader, state, None, aip_admission::Family::Action);
        let Some(result) = result_of(state).filter(|_| visible) else { return Ok(()) };
        let id = self.id(Mark::new(END, 0))?;
        self.tell(Some(id), RESULT, state.correlation_id.clone(), result.into()).await
    }

    async fn feed_round(&mut self, request: EventStreamRequest) -> Result<Round, Stop> {
        let (who, mark) = (self.reader.clone(), self.mark.clone());
        let told = self
            .gateway
            .glance(move |view| events::feed(view, &who, &request.kinds, mark, PAGE_ROWS_DEFAULT))
            .await;
        let Some(Told { events, mark, more, .. }) = dry(told)? else { return Ok(Round::Dry) };
        for (event, mark) in events {
            // found for a reader who may see less by now
            if self.is_over() {
                self.authorize().await?;
                return Ok(Round::More);
            }
            let id = self.id(mark.clone())?;
            let correlation_id = event.correlation_id.clone();
            let body = EventStream { events: vec![event], next_cursor: Some(id.clone()) };
            self.tell(Some(id), MESSAGE, correlation_id, body.into()).await?;
            self.mark = mark;
        }
        self.mark = mark;
        Ok(if more { Round::More } else { Round::Dry })
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

    /// Until something may have happened. Authority is judged anew when it ends, when the directory changes, and from
    /// time to time, for keys that are trusted no more.
    async fn wait(&mut self) -> Result<(), Stop> {
        let again = Instant::now() + Duration::from_millis(STREAM_AUTHORITY_MS);
        loop {
            let until = self.reader.until_ms().map(|until| until.saturating_sub(clock::now_ms()));
            let over = until.map_or(again, |left| again.min(Instant::now() + Duration::from_millis(left)));
            let action = async {
                match (&mut self.wake.action, &mut self.wake.commits) {
                    (Some(action), _) => {
                        action.changed().await;
                        true
                    }
                    (None, commits) => commits.changed().await.is_ok(),
                }
            };
            let chunk = async {
                match &mut self.reading {
                    Some(reading) => reading.next().await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = self.frames.closed() => return Err(Stop::Left),
                woken = action => return if woken { Ok(()) } else { Err(stopping()) },
                found = chunk => self.found_chunk(found).await?,
                changed = self.wake.readiness.changed() => {
                    return if changed.is_ok() { Ok(()) } else { Err(stopping()) };
                }
                changed = self.wake.directory.changed() => {
                    if changed.is_err() {
                        return Err(stopping());
                    }
                    self.authorize().await?;
                }
                () = tokio::time::sleep_until(over) => {
                    self.authorize().await?;
                    return Ok(());
                }
            }
        }
    }

    fn is_over(&self) -> bool {
        let now: Millis = clock::now_ms();
        let changed = self.wake.directory.has_changed().unwrap_or(true);
        changed || self.reader.until_ms().is_some_and(|until| until <= now)
    }

    /// Who the reader is now, and what it may see.
    async fn authorize(&mut self) -> Result<(), Stop> {
        self.wake.directory.borrow_and_update();
        let now = clock::now_ms();
        let authenticator = self.gateway.authenticator();
        let caller = authenticator.caller(self.bearer.as_ref(), now).await.map_err(Stop::Refused)?;
        let reader = self.gateway.reader(&caller, now);
        // a token that now stands for somebody else does not go on here
        if reader.caller().id() != self.reader.caller().id() {
            return Err(Stop::Refused(Refusal::of(codes::AUTH_TOKEN)));
        }
        if matches!(self.followed, Followed::Feed(_)) {
            reader.require(aip_admission::Family::Event).map_err(Stop::Refused)?;
        }
        self.reader = reader;
        self.sees().await
    }

    /// Whether the reader may still see the action that it follows: what waits to be told is not told to others.
    async fn sees(&self) -> Result<(), Stop> {
        let Followed::Action(request) = &self.followed else { return Ok(()) };
        let (who, asked) = (self.reader.clone(), request.clone());
        let found =
            self.gateway.glance(move |view| events::of_action(view, &who, &asked, Mark::default(), 1)).await;
        match dry(found)? {
            Some(None) => Err(Stop::Refused(Refusal::of(codes::ACTION_NOT_FOUND))),
            _ => Ok(()),
        }
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

fn stopping() -> Stop {
    Stop::Refused(crate::errors::of_ledger(&LedgerError::Closed))
}
