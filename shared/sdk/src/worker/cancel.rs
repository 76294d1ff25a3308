//! Hears which actions are to be cancelled. Every replica hears all of them, because the gateway does not know which one
//! runs an action; nobody answers.

use std::sync::Arc;

use aip_bus::{Bus, BusError};
use aip_names::Subject;
use aip_wire::read::Bounds;
use aip_wire::{CancelTarget, MessageBody, MessageType, validate};
use futures_util::StreamExt;
use tokio::task::AbortHandle;

use super::dispatch::Inner;
use super::{WorkerConfig, WorkerError};

/// Listens until it is aborted.
pub(super) async fn listen(
    bus: &Bus,
    config: &WorkerConfig,
    inner: Arc<Inner>,
) -> Result<AbortHandle, WorkerError> {
    let cancel = aip_names::MessageType::new(MessageType::Cancel.as_str())?;
    let subject =
        Subject::message(&config.trust_domain, &config.service, config.version, &cancel).to_string();
    let listening = bus.client().subscribe(subject.clone()).await;
    let mut wishes = listening.map_err(|error| BusError::Subscribe {
        action: "listen to",
        subject,
        detail: error.to_string(),
    })?;
    let task = tokio::spawn(async move {
        while let Some(message) = wishes.next().await {
            let Ok((checked, _)) = validate::frame(&message.payload, &Bounds::FRAME) else { continue };
            let (_, envelope) = checked.into_parts();
            if let MessageBody::Cancel(wish) = envelope.body
                && let CancelTarget::Action(action) = &wish.target
            {
                inner.cancel(action);
            }
        }
    });
    Ok(task.abort_handle())
}
