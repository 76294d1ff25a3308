//! Whether the process lives, whether it may answer, and its metrics: for whoever looks after it.

use aip_ledger::Readiness;
use axum::Router;
use axum::http::StatusCode;
use axum::routing::get;
use tokio::net::TcpListener;
use tokio::sync::watch;

use crate::run::Exposition;

/// Serves `/live`, `/ready` and `/metrics` until it is dropped.
pub(crate) async fn serve(
    listener: TcpListener,
    readiness: watch::Receiver<Readiness>,
    exposition: Exposition,
) -> std::io::Result<()> {
    let ready = move || {
        let readiness = readiness.borrow().clone();
        std::future::ready(match readiness {
            Readiness::Ready => (StatusCode::OK, "ready\n".to_owned()),
            Readiness::NotReady { reason } => (StatusCode::SERVICE_UNAVAILABLE, format!("{reason}\n")),
        })
    };
    let pages = Router::new()
        .route("/live", get(|| std::future::ready("live\n")))
        .route("/ready", get(ready))
        .route("/metrics", get(move || std::future::ready(exposition())));
    axum::serve(listener, pages).await
}
