//! Handshakes and heartbeats (sections 10 and 11.9).

use super::Judged;
use super::check::{At, nonblank};
use crate::types::{Handshake, Heartbeat};

pub(super) fn handshake(handshake: &Handshake, at: &At<'_>) -> Judged {
    nonblank(at, "purpose", &handshake.purpose)
}

pub(super) fn heartbeat(heartbeat: &Heartbeat, at: &At<'_>) -> Judged {
    // peers keep progress in 32 bits; beyond their range it would reach them as infinite
    if heartbeat.progress.is_some_and(|progress| progress.abs() > f64::from(f32::MAX)) {
        return Err(at.member("progress").rule("must fit a 32-bit float"));
    }
    Ok(())
}
