//! Following one action: its events as they are recorded, its chunks before its end, then its result.

use aip_names::limits::PAGE_ROWS_DEFAULT;
use aip_wire::{ActionEvents, ActionEventsRequest, Event, Refusal, codes};

use super::chunks::Chunks;
use super::{END, Follower, MESSAGE, RESULT, Round, Stop, dry};
use crate::admit::result_of;
use crate::cursor::Mark;
use crate::machine::ActionState;
use crate::query::events::{self, Told};
use crate::query::readable;

// === impl Follower ===

impl Follower {
    pub(super) async fn action_round(&mut self, request: ActionEventsRequest) -> Result<Round, Stop> {
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
            match self.tell_chunks(&state).await? {
                Chunks::All => {}
                Chunks::Owed => return Ok(Round::More),
                Chunks::Open => return Ok(Round::Dry),
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
}
