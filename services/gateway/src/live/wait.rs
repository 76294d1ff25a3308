//! What a follower waits for.

use std::time::Duration;

use aip_ledger::{LedgerError, Readiness, Watch};
use aip_names::limits::STREAM_AUTHORITY_MS;
use tokio::sync::watch;
use tokio::time::Instant;

use super::{Follower, Stop};
use crate::machine::GatewayMachine;
use aip_service::clock;

/// What may bring something new.
pub(super) struct Wake {
    pub action: Option<Watch<GatewayMachine>>,
    pub commits: watch::Receiver<u64>,
    pub readiness: watch::Receiver<Readiness>,
    pub directory: watch::Receiver<u64>,
}

// === impl Follower ===

impl Follower {
    /// Until something may have happened. Authority is judged anew when it ends, when the directory changes, and from
    /// time to time, for keys that are trusted no more.
    pub(super) async fn wait(&mut self) -> Result<(), Stop> {
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
}

fn stopping() -> Stop {
    Stop::Refused(aip_service::fault::of_ledger(&LedgerError::Closed))
}
