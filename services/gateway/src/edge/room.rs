//! How many requests may be inside a door at once, how many of them of one sender, and how many bytes they may hold.
//! Never waits: a full room is said at once, with a delay after which to try again, so that load cannot pile up.

use std::collections::HashMap;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::sync::{Arc, Mutex, PoisonError};

use aip_wire::{Refusal, codes};
use secrecy::{ExposeSecret, SecretString};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, TryAcquireError};

use super::meter;
use crate::front::Via;

/// Bounds of one door.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    /// Requests under way.
    pub in_flight: usize,
    /// Of these, with one bearer token. What has no token is bounded by the room alone: nobody may fill the share of
    /// another by claiming its name.
    pub in_flight_per_sender: usize,
    /// Bytes of the requests under way, as received.
    pub bytes: usize,
}

/// The room of one door.
#[derive(Debug, Clone)]
pub(super) struct Room {
    via: Via,
    seats: Arc<Semaphore>,
    bytes: Arc<Semaphore>,
    senders: Arc<Senders>,
}

/// Who holds how many seats; never more entries than seats.
#[derive(Debug)]
struct Senders {
    each: usize,
    // tokens stand here only as keyed hashes
    hasher: RandomState,
    held: Mutex<HashMap<u64, usize>>,
}

/// A place in the room, given back when dropped.
#[derive(Debug)]
pub(super) struct Seat {
    via: Via,
    sender: Option<u64>,
    senders: Arc<Senders>,
    _seat: OwnedSemaphorePermit,
    _bytes: OwnedSemaphorePermit,
}

// === impl Room ===

impl Room {
    pub fn new(via: Via, bounds: Bounds) -> Room {
        Room {
            via,
            seats: Arc::new(Semaphore::new(bounds.in_flight)),
            bytes: Arc::new(Semaphore::new(bounds.bytes)),
            senders: Arc::new(Senders {
                each: bounds.in_flight_per_sender,
                hasher: RandomState::new(),
                held: Mutex::default(),
            }),
        }
    }

    /// A seat for a request of this many bytes.
    pub fn seat(&self, bytes: usize, bearer: Option<&SecretString>) -> Result<Seat, Refusal> {
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
        let seat = self.seats.clone().try_acquire_owned().map_err(no_seat)?;
        let held = self.bytes.clone().try_acquire_many_owned(bytes).map_err(no_seat)?;
        let sender = bearer.map(|token| self.senders.hasher.hash_one(token.expose_secret()));
        if sender.is_some_and(|sender| !self.senders.enter(sender)) {
            return Err(Refusal::new(codes::HTTP_RATE, "", "too many requests of this sender are under way"));
        }
        meter::entered(self.via);
        Ok(Seat { via: self.via, sender, senders: self.senders.clone(), _seat: seat, _bytes: held })
    }

    /// From now on nobody gets a seat; those inside keep theirs.
    pub fn close(&self) {
        self.seats.close();
        self.bytes.close();
    }
}

impl Senders {
    fn enter(&self, sender: u64) -> bool {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        let count = held.entry(sender).or_default();
        let free = *count < self.each;
        *count += usize::from(free);
        free
    }

    fn leave(&self, sender: u64) {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = held.get_mut(&sender) {
            *count -= 1;
            if *count == 0 {
                held.remove(&sender);
            }
        }
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        if let Some(sender) = self.sender {
            self.senders.leave(sender);
        }
        meter::left(self.via);
    }
}

fn no_seat(error: TryAcquireError) -> Refusal {
    match error {
        TryAcquireError::NoPermits => Refusal::of(codes::SERVICE_OVERLOADED),
        TryAcquireError::Closed => Refusal::of(codes::SERVICE_STOPPING),
    }
}
