//! Chunks in pages (16.5): as many as there is room for behind where the reader was, and never fewer than it is told.

use aip_names::limits::PAGE_ROWS_DEFAULT;
use aip_wire::{Refusal, StreamChunk, codes};

use super::page::Budget;
use crate::chunks::head::broken;
use crate::chunks::reading::{Reached, Reading};
use crate::gateway::Gateway;
use crate::machine::ActionState;

// === impl Gateway ===

impl Gateway {
    /// The first chunks of an action, or the error that stands in their place: its status does not depend on the log.
    pub(super) async fn first_chunks(&self, state: &ActionState) -> Vec<StreamChunk> {
        let mut budget = Budget::new(PAGE_ROWS_DEFAULT);
        match self.chunk_page(state, Reached::default(), &mut budget).await {
            Ok((chunks, _)) => chunks,
            Err(refusal) => vec![broken(&state.id, 1, &refusal)],
        }
    }

    /// Chunks behind `after`, and how far they reach.
    ///
    /// # Errors
    /// `aip.stream.chunks_gone`; or the chunk log can't be read now.
    pub(super) async fn chunk_page(
        &self,
        state: &ActionState,
        after: Reached,
        budget: &mut Budget,
    ) -> Result<(Vec<StreamChunk>, Reached), Refusal> {
        let mut page = Vec::new();
        if !state.pinned.streams || budget.is_spent() {
            return Ok((page, after));
        }
        let gone = || Refusal::of(codes::STREAM_CHUNKS_GONE);
        let known = state.stream.last.unwrap_or(state.stream.reached);
        let Some((end, last)) = self.chunks().last(&state.id).await? else {
            return if known > after.sequence { Err(gone()) } else { Ok((page, after)) };
        };
        let mut reached = after;
        if last.head.sequence > after.sequence {
            let mut reading = Reading::new(self.chunks().clone(), state.id.clone(), after);
            while let Some(chunk) = reading.next_until(end).await? {
                let behind = state.stream.last.is_some_and(|last| chunk.sequence > last);
                if behind || !budget.takes(&chunk) {
                    return Ok((page, reached));
                }
                page.push(chunk);
                reached = reading.reached();
            }
        }
        if reached.sequence < known { Err(gone()) } else { Ok((page, reached)) }
    }
}
