//! The gateway's doors: native HTTP (20.1) and native NATS (20.4).
//!
//! A door reads bytes off its transport, bounds them, checks what only the transport knows (content type, bearer
//! form, headers, subject) and carries the rest to the [`Front`]. It must never judge a message: who sent it, whether
//! it is valid and what it may do is decided behind the front, the same for both doors.

use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, Instant};

use aip_names::limits::{HTTP_DRAINING_MAX, STREAM_HEARTBEAT_MS};
use aip_service::Exposition;
use aip_wire::{MessageBody, Refusal};
use secrecy::SecretString;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::front::{Inbound, Live, Outbound, Via};

#[cfg(test)]
pub(super) mod fake;
pub mod http;
mod meter;
pub mod nats;
mod peek;
mod room;

pub use room::Bounds;
use room::{Room, Seat};

/// What the doors need of the gateway. The gateway is one implementation, the doors' own tests another.
pub trait Front: Clone + Send + Sync + 'static {
    /// Any envelope; an action waits for its result.
    fn message(&self, inbound: Inbound) -> impl Future<Output = Outbound> + Send;
    /// An envelope with an action body or, over HTTP, a bare action.
    fn action(&self, inbound: Inbound) -> impl Future<Output = Outbound> + Send;
    /// One of the read requests; what is refused comes back as a whole error envelope.
    fn query(
        &self,
        bearer: Option<SecretString>,
        body: MessageBody,
    ) -> impl Future<Output = Result<MessageBody, Outbound>> + Send;
    /// What goes on being told: of an action or of all that the reader may see, behind the frame with the id `last` if
    /// there is one. None when nothing is left to tell.
    fn follow(
        &self,
        bearer: Option<SecretString>,
        body: MessageBody,
        last: Option<String>,
    ) -> impl Future<Output = Result<Option<Live>, Outbound>> + Send;
    /// What a door says to a request that it does not hand in, of which `received` is what it has read.
    fn refuse(&self, received: &[u8], refusal: Refusal) -> Outbound;
    /// Why nothing can be served now, if so.
    fn not_ready(&self) -> Option<String>;
}

/// What one door stands on. Cheap to clone.
#[derive(Clone)]
pub struct Edge<F> {
    front: F,
    room: Room,
    work: TaskTracker,
    /// Places for refused requests of which the rest is still taken.
    draining: Arc<Semaphore>,
    exposition: Exposition,
    started: Instant,
    /// Ends live streams, which would never end by themselves.
    stop: CancellationToken,
    /// The longest silence of a live stream.
    heartbeat: Duration,
}

// === impl Edge ===

impl<F: Front> Edge<F> {
    pub fn new(via: Via, front: F, bounds: Bounds, exposition: Exposition) -> Edge<F> {
        Edge {
            front,
            room: Room::new(via, bounds),
            work: TaskTracker::new(),
            draining: Arc::new(Semaphore::new(HTTP_DRAINING_MAX)),
            exposition,
            started: Instant::now(),
            stop: CancellationToken::new(),
            heartbeat: Duration::from_millis(STREAM_HEARTBEAT_MS),
        }
    }

    /// Runs work to its end whether or not its client stays: what was admitted is not cancelled by a lost connection
    /// (20.1). The seat is held until the work has ended, so lost clients still count. None if the work panicked.
    async fn carry<T: Send + 'static>(
        &self,
        seat: Seat,
        work: impl Future<Output = T> + Send + 'static,
    ) -> Option<T> {
        let task = self.work.spawn(async move {
            let answer = work.await;
            drop(seat);
            answer
        });
        task.await.ok()
    }

    /// Lets nobody in any more and waits for the work that is under way. True if all of it ended in time.
    pub async fn drain(&self, within: Duration) -> bool {
        self.room.close();
        self.work.close();
        tokio::time::timeout(within, self.work.wait()).await.is_ok()
    }
}
