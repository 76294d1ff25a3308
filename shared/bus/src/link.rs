//! Watches one connection: is it there, to which server, is that one fit. Everything that goes wrong on it is
//! counted, and logged at most once in a while: a broken link produces events faster than anybody reads.

use std::time::Duration;

use aip_names::metrics as names;
use async_nats::connection::State;
use async_nats::{Client, ClientError, Event, ServerError};
use tokio::sync::{mpsc, watch};

use crate::seldom::Seldom;
use crate::server;

/// The state of a connection. It is never closed for good.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Link {
    /// No server; attempts go on.
    Down { reason: String },
    /// Connected.
    Up(Up),
    /// Connected to a server that must not be used; attempts go on when it is gone.
    Unfit { reason: String },
}

/// A connection to a fit server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Up {
    /// Counts the connections of this process from 1. A new number means that anything may have been missed.
    pub epoch: u64,
    /// Changes with every start of a server.
    pub server_id: String,
    pub server_name: String,
    pub version: String,
}

impl Link {
    pub fn is_up(&self) -> bool {
        matches!(self, Self::Up(_))
    }
}

/// How often the state is looked at without an event: the client drops events that nobody takes in time.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);

/// Follows the connection until the last [`crate::Bus`] is dropped.
pub(crate) async fn follow(client: Client, mut events: mpsc::Receiver<Event>, link: watch::Sender<Link>) {
    let log = Seldom::default();
    let mut epoch = 0;
    loop {
        let event = tokio::select! {
            event = events.recv() => match event {
                Some(event) => Some(event),
                None => return,
            },
            () = tokio::time::sleep(LOOK_INTERVAL) => None,
            () = link.closed() => return,
        };
        let connected_anew = matches!(event, Some(Event::Connected));
        let reason = event.and_then(|event| count(&event, &log));
        update(&client, &link, connected_anew, &mut epoch, reason);
    }
}

/// Brings the link in line with what the client says now.
fn update(client: &Client, link: &watch::Sender<Link>, anew: bool, epoch: &mut u64, reason: Option<String>) {
    let connected = client.connection_state() == State::Connected;
    metrics::gauge!(names::BUS_CONNECTED).set(if connected { 1.0 } else { 0.0 });
    if !connected {
        link.send_if_modified(|link| match (&*link, reason) {
            (Link::Down { .. }, None) => false,
            (Link::Down { reason: known }, Some(reason)) if *known == reason => false,
            (_, reason) => {
                *link = Link::Down { reason: reason.unwrap_or_else(|| "connection lost".to_owned()) };
                true
            }
        });
        return;
    }
    let info = client.server_info();
    let same = match &*link.borrow() {
        Link::Up(up) => up.server_id == info.server_id,
        Link::Unfit { .. } => true,
        Link::Down { .. } => false,
    };
    if same && !anew {
        return;
    }
    *epoch += 1;
    metrics::counter!(names::BUS_CONNECTS).increment(1);
    let state = match server::judge(&info.version, info.max_payload) {
        Ok(()) => {
            tracing::info!(
                server = info.server_name,
                version = info.version,
                epoch,
                "connected to nats-server"
            );
            let (server_id, server_name) = (info.server_id, info.server_name);
            Link::Up(Up { epoch: *epoch, server_id, server_name, version: info.version })
        }
        Err(reason) => {
            tracing::error!(reason, "this nats-server is not used");
            Link::Unfit { reason }
        }
    };
    link.send_replace(state);
}

/// Counts an event; returns why there is no connection, if it says so.
fn count(event: &Event, log: &Seldom) -> Option<String> {
    match event {
        Event::Connected | Event::Draining | Event::LameDuckMode => None,
        Event::Disconnected | Event::Closed => {
            metrics::counter!(names::BUS_DISCONNECTS).increment(1);
            warn(log, "disconnected", "lost the connection to nats-server, trying again for ever");
            Some("connection lost".to_owned())
        }
        Event::SlowConsumer(_) | Event::ServerError(ServerError::SlowConsumer(_)) => {
            metrics::counter!(names::BUS_SLOW_CONSUMERS).increment(1);
            warn(log, "slow consumer", "dropped a message that was not read in time");
            None
        }
        Event::ServerError(ServerError::Other(detail)) if is_violation(detail) => {
            metrics::counter!(names::BUS_PERMISSION_VIOLATIONS).increment(1);
            warn(log, "permission violation", detail);
            None
        }
        Event::ServerError(ServerError::AuthorizationViolation) => {
            metrics::counter!(names::BUS_ERRORS).increment(1);
            warn(log, "authorization", "nats-server does not know our key");
            Some("nats-server does not know our key".to_owned())
        }
        Event::ServerError(ServerError::Other(detail)) | Event::ClientError(ClientError::Other(detail)) => {
            metrics::counter!(names::BUS_ERRORS).increment(1);
            warn(log, "connection error", detail);
            Some(detail.clone())
        }
        Event::ClientError(error) => {
            metrics::counter!(names::BUS_ERRORS).increment(1);
            warn(log, "client error", &error.to_string());
            Some(error.to_string())
        }
    }
}

fn warn(log: &Seldom, kind: &'static str, detail: &str) {
    if let Some(suppressed) = log.admit(kind) {
        tracing::warn!(kind, detail, suppressed, "nats");
    }
}

fn is_violation(detail: &str) -> bool {
    detail.to_ascii_lowercase().contains("permissions violation")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn violations_are_told_from_other_errors() {
        assert!(is_violation("Permissions Violation for Publish to \"a.b\""));
        assert!(!is_violation("Stale Connection"));
    }
}
