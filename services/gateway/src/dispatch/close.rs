//! Ends the stream of an action that has ended: nothing is kept behind it any more, native readers hear the result, and how
//! far it reaches is recorded.

use aip_kernel::EffectId;

use super::Inner;
use crate::admit::result_of;
use crate::chunks::Closed;
use crate::machine::{Command, State};

impl Inner {
    /// What is to be recorded; none while the chunk log is not to be used.
    pub(super) async fn close_stream(&self, id: &EffectId) -> Option<Command> {
        let entity = self.ledger.get()?.peek(|view| view.entity(&id.entity)).ok()??;
        let State::Action(state) = entity.state else { return None };
        if !state.is_terminal() || state.stream.last.is_some() {
            return None;
        }
        let Closed { last, broken } = self.chunks.close(&state.id, state.stream.reached).await.ok()?;
        if let Some(chunk) = broken {
            let what = format!("chunk {}", chunk.sequence);
            self.native.tell(&state, &what, chunk.into()).await;
        }
        if let Some(result) = result_of(&state) {
            self.native.tell(&state, "result", result.into()).await;
        }
        Some(Command::CloseStream { action: state.id.into_string(), last })
    }
}
