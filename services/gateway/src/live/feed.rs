//! Following the feed: the events of all that the reader may see.

use aip_names::limits::PAGE_ROWS_DEFAULT;
use aip_wire::{EventStream, EventStreamRequest};

use super::{Follower, MESSAGE, Round, Stop, dry};
use crate::query::events::{self, Told};

// === impl Follower ===

impl Follower {
    pub(super) async fn feed_round(&mut self, request: EventStreamRequest) -> Result<Round, Stop> {
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
}
