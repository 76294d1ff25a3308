//! Who the reader of a live stream is by now, and whether it may still see what it follows.

use aip_kernel::Millis;
use aip_wire::{Refusal, codes};

use super::{Followed, Follower, Stop, dry};
use crate::cursor::Mark;
use crate::query::events;
use aip_service::clock;

// === impl Follower ===

impl Follower {
    pub(super) fn is_over(&self) -> bool {
        let now: Millis = clock::now_ms();
        let changed = self.wake.directory.has_changed().unwrap_or(true);
        changed || self.reader.until_ms().is_some_and(|until| until <= now)
    }

    /// Who the reader is now, and what it may see.
    pub(super) async fn authorize(&mut self) -> Result<(), Stop> {
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
