//! One connection as one identity. Cloning shares it.

use std::time::Duration;

use aip_names::{Identity, inbox_prefix, limits};
use async_nats::{Client, ConnectOptions, jetstream};
use tokio::sync::{mpsc, watch};

use crate::link::{self, Link};
use crate::settings::{BusError, Settings};

/// A connection that is kept up as long as it exists.
#[derive(Debug, Clone)]
pub struct Bus {
    client: Client,
    identity: Identity,
    link: watch::Receiver<Link>,
}

impl Bus {
    /// Starts connecting and returns at once; [`ready`](Self::ready) waits for the connection. Attempts go on
    /// for ever, with pauses that grow to [`limits::BUS_RECONNECT_MAX_MS`].
    ///
    /// # Errors
    /// The key cannot be read or the URL not parsed.
    pub async fn connect(settings: Settings) -> Result<Self, BusError> {
        // whoever installed a provider before us chose the same
        let _ = rustls::crypto::ring::default_provider().install_default();
        let Settings { url, identity, seed_file, name } = settings;
        let seed = match tokio::fs::read_to_string(&seed_file).await {
            Ok(seed) => seed.trim().to_owned(),
            Err(source) => return Err(BusError::Seed { identity, path: seed_file, source }),
        };
        let is_user = |pair: nkeys::KeyPair| matches!(pair.key_pair_type(), nkeys::KeyPairType::User);
        if !nkeys::KeyPair::from_seed(&seed).is_ok_and(is_user) {
            return Err(BusError::NotASeed { path: seed_file });
        }
        let (events_in, events) = mpsc::channel(limits::BUS_EVENTS_MAX);
        let options = ConnectOptions::with_nkey(seed)
            .name(name)
            .custom_inbox_prefix(inbox_prefix(&identity))
            .retry_on_initial_connect()
            .max_reconnects(None)
            .reconnect_delay_callback(pause_before)
            .connection_timeout(Duration::from_millis(limits::BUS_CONNECT_TIMEOUT_MS))
            .ping_interval(Duration::from_millis(limits::BUS_PING_INTERVAL_MS))
            .subscription_capacity(limits::BUS_SUBSCRIPTION_MESSAGES_MAX)
            .client_capacity(limits::BUS_COMMANDS_MAX)
            .event_callback(move |event| {
                let events_in = events_in.clone();
                async move {
                    let _ = events_in.send(event).await;
                }
            });
        let client = options.connect(&url).await.map_err(|source| BusError::Connect { url, source })?;
        let (link_in, link) = watch::channel(Link::Down { reason: "not connected yet".to_owned() });
        tokio::spawn(link::follow(client.clone(), events, link_in));
        Ok(Self { client, identity, link })
    }

    /// Waits until a fit server is connected. Used at start, so that a wrong address, key or server is told
    /// in a sentence instead of by silence.
    ///
    /// # Errors
    /// Not within `timeout`, or the server is unfit.
    pub async fn ready(&self, timeout: Duration) -> Result<(), BusError> {
        let mut link = self.link.clone();
        let waited =
            tokio::time::timeout(timeout, link.wait_for(|link| !matches!(link, Link::Down { .. }))).await;
        let state = match waited {
            Ok(Ok(state)) => state.clone(),
            Ok(Err(_)) | Err(_) => self.link.borrow().clone(),
        };
        match state {
            Link::Up(_) => Ok(()),
            Link::Unfit { reason } => Err(BusError::Unfit { reason }),
            Link::Down { reason } => {
                let waited_ms = u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX);
                Err(BusError::NotConnected { waited_ms, reason })
            }
        }
    }

    /// The state of the connection, to look at or to wait on.
    pub fn link(&self) -> watch::Receiver<Link> {
        self.link.clone()
    }

    pub fn identity(&self) -> &Identity {
        &self.identity
    }

    /// The client below, for what is not wrapped here.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// JetStream on this connection.
    pub fn jetstream(&self) -> jetstream::Context {
        let mut context = jetstream::new(self.client.clone());
        context.set_timeout(Duration::from_millis(limits::BUS_STREAM_TIMEOUT_MS));
        context
    }
}

/// The pause before an attempt: it doubles, is capped, and is cut by up to a half so that the services of a
/// restarted server do not come back in step.
fn pause_before(attempt: usize) -> Duration {
    if attempt <= 1 {
        return Duration::ZERO;
    }
    let doubled = limits::BUS_RECONNECT_FIRST_MS.saturating_mul(1 << attempt.saturating_sub(2).min(16));
    let pause_ms = doubled.min(limits::BUS_RECONNECT_MAX_MS);
    let nanos =
        std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default().subsec_nanos();
    Duration::from_millis(pause_ms - u64::from(nanos) % (pause_ms / 2 + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_and_are_capped() {
        assert_eq!(pause_before(0), Duration::ZERO);
        assert_eq!(pause_before(1), Duration::ZERO);
        for attempt in 2..200 {
            let pause_ms = u64::try_from(pause_before(attempt).as_millis()).unwrap();
            assert!((limits::BUS_RECONNECT_FIRST_MS / 2..=limits::BUS_RECONNECT_MAX_MS).contains(&pause_ms));
        }
        assert!(pause_before(100) >= Duration::from_millis(limits::BUS_RECONNECT_MAX_MS / 2));
        assert!(pause_before(usize::MAX) <= Duration::from_millis(limits::BUS_RECONNECT_MAX_MS));
    }
}
