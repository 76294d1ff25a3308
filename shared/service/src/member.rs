//! A replica's place in its queue group.

use std::future::Future;
use std::time::Duration;

use aip_bus::{BusError, Serving};
use aip_ledger::Readiness;
use aip_names::limits;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

/// Is in the group while the ledger is ready and only then: a replica that may not answer must not take requests from
/// those that may. Whoever is inside when it leaves is still answered, and it does not wait for them to join again: a
/// blink of the ledger must not close the door for as long as the longest request takes.
pub async fn attend<J>(
    mut readiness: watch::Receiver<Readiness>,
    stop: CancellationToken,
    join: impl Fn() -> J,
) where
    J: Future<Output = Result<Serving, BusError>>,
{
    let mut leaving = JoinSet::new();
    loop {
        while leaving.try_join_next().is_some() {}
        let ready = tokio::select! {
            () = stop.cancelled() => break,
            ready = readiness.wait_for(|readiness| *readiness == Readiness::Ready) => ready.is_ok(),
        };
        if !ready {
            break;
        }
        match join().await {
            Ok(serving) => {
                tokio::select! {
                    () = stop.cancelled() => {}
                    _ = readiness.wait_for(|readiness| *readiness != Readiness::Ready) => {}
                }
                // later answers the server would not take
                leaving.spawn(serving.drain(Duration::from_millis(limits::NATS_REPLY_WINDOW_MS)));
            }
            Err(error) => {
                tracing::warn!(error = &error as &dyn std::error::Error, "cannot join the queue group");
                sleep(Duration::from_millis(limits::NATS_JOIN_RETRY_MS)).await;
            }
        }
    }
    leaving.join_all().await;
}
