//! Waiting for the signals with which an operator stops a process.

use tokio::signal::unix::{SignalKind, signal};

/// Returns at SIGTERM or SIGINT, and at once if they cannot be heard, rather than never stopping.
pub async fn terminated() {
    let (Ok(mut term), Ok(mut interrupt)) =
        (signal(SignalKind::terminate()), signal(SignalKind::interrupt()))
    else {
        tracing::error!("signals cannot be heard");
        return;
    };
    tokio::select! {
        _ = term.recv() => {}
        _ = interrupt.recv() => {}
    }
}
