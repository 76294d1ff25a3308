//! The native HTTP door (profile `aip.native.http.v1`, 20.1): plain HTTP/1.1; TLS ends before it.
//!
//! Every wait on a client is bounded: for its head, its body, and its reading of the answer.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use aip_names::limits;
use aip_wire::Refusal;
use aip_wire::codes::{self, Code};
use axum::Router;
use axum::body::Body;
use axum::extract::rejection::RawPathParamsRejection;
use axum::extract::{RawPathParams, Request, State};
use axum::http::Response;
use axum::routing::{MethodFilter, MethodRouter, on};
use futures_util::future::BoxFuture;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_io_timeout::TimeoutStream;
use tokio_util::sync::CancellationToken;

use super::{Edge, Front, meter};

mod answer;
mod body;
mod cancel;
mod console;
mod decide;
mod head;
#[cfg(test)]
mod openapi;
mod query;
mod reply;
mod sse;
pub mod table;
#[cfg(test)]
mod tests;

/// How much a client may take, and how slowly.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HttpBounds {
    pub connections: usize,
    pub head_read: Duration,
    pub body_read: Duration,
    pub write_stall: Duration,
}

impl Default for HttpBounds {
    fn default() -> HttpBounds {
        HttpBounds {
            connections: limits::HTTP_CONNECTIONS_MAX,
            head_read: Duration::from_millis(limits::HTTP_HEAD_READ_MS),
            body_read: Duration::from_millis(limits::HTTP_BODY_READ_MS),
            write_stall: Duration::from_millis(limits::HTTP_WRITE_STALL_MS),
        }
    }
}

/// A bound socket that does not serve yet.
#[derive(Debug)]
pub struct HttpDoor {
    listener: TcpListener,
    bounds: HttpBounds,
}

// === impl HttpDoor ===

impl HttpDoor {
    /// Takes the address, so that a port in use is found before anything else is started.
    pub async fn bind(address: SocketAddr, bounds: HttpBounds) -> io::Result<HttpDoor> {
        Ok(HttpDoor { listener: TcpListener::bind(address).await?, bounds })
    }

    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Serves until `stop`, then takes no more connections and lets those that stand finish what they are at, for up
    /// to `drain`. Work that outlives its connection is waited for by [`Edge::drain`].
    pub async fn serve<F: Front>(self, edge: Edge<F>, stop: CancellationToken, drain: Duration) {
        let edge = Edge { stop: stop.clone(), ..edge };
        let router = router(edge, self.bounds.body_read);
        let open = Arc::new(Semaphore::new(self.bounds.connections));
        let graceful = GracefulShutdown::new();
        while let Some(stream) = next(&self.listener, &open, &stop).await {
            let (stream, permit) = stream;
            let connection = graceful.watch(connection(stream, router.clone(), self.bounds));
            let (open, connections) = (open.clone(), self.bounds.connections);
            meter::connections(connections.saturating_sub(open.available_permits()));
            tokio::spawn(async move {
                if let Err(error) = connection.await {
                    tracing::debug!(error = &error as &dyn std::error::Error, "connection ended early");
                }
                drop(permit);
                meter::connections(connections.saturating_sub(open.available_permits()));
            });
        }
        drop(self.listener);
        if tokio::time::timeout(drain, graceful.shutdown()).await.is_err() {
            tracing::warn!("connections were still open when the drain bound passed");
        }
    }
}

type Accepted = (TcpStream, tokio::sync::OwnedSemaphorePermit);

/// The next connection, once there is room for it. None when it is time to stop.
async fn next(listener: &TcpListener, open: &Arc<Semaphore>, stop: &CancellationToken) -> Option<Accepted> {
    loop {
        let accepting = async {
            // never closed, so this only waits
            let permit = open.clone().acquire_owned().await.map_err(io::Error::other)?;
            let (stream, _) = listener.accept().await?;
            Ok::<_, io::Error>((stream, permit))
        };
        let accepted = tokio::select! {
            () = stop.cancelled() => return None,
            accepted = accepting => accepted,
        };
        match accepted {
            Ok((stream, permit)) => {
                // small answers must not wait for each other
                stream.set_nodelay(true).ok();
                return Some((stream, permit));
            }
            Err(error) => {
                // a client that is gone again, or no file descriptor left: the latter needs time, not a busy loop
                tracing::warn!(error = &error as &dyn std::error::Error, "cannot accept a connection");
                tokio::time::sleep(Duration::from_millis(limits::HTTP_ACCEPT_RETRY_MS)).await;
            }
        }
    }
}

type Service = TowerToHyperService<Router>;
type Connection = http1::Connection<TokioIo<std::pin::Pin<Box<TimeoutStream<TcpStream>>>>, Service>;

fn connection(stream: TcpStream, router: Router, bounds: HttpBounds) -> Connection {
    let mut stream = TimeoutStream::new(stream);
    stream.set_write_timeout(Some(bounds.write_stall));
    http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(bounds.head_read)
        .max_buf_size(limits::HTTP_READ_BYTES_MAX)
        .max_header_size(limits::HTTP_HEAD_BYTES_MAX)
        .max_headers(limits::HTTP_HEADERS_MAX)
        .serve_connection(TokioIo::new(Box::pin(stream)), TowerToHyperService::new(router))
}

/// The routes of the table.
pub fn router<F: Front>(edge: Edge<F>, body_read: Duration) -> Router {
    let mut router: Router<Edge<F>> = Router::new();
    for route in table::routes() {
        router = router.route(route.path, handler(route, body_read));
    }
    router
        .fallback(refusing::<F>(codes::HTTP_ROUTE))
        .method_not_allowed_fallback(refusing::<F>(codes::HTTP_METHOD))
        .with_state(edge)
}

fn handler<F: Front>(route: &'static table::Route, body_read: Duration) -> MethodRouter<Edge<F>> {
    let filter =
        if route.method == axum::http::Method::POST { MethodFilter::POST } else { MethodFilter::GET };
    on(filter, move |State(edge): State<Edge<F>>, path: Path, request: Request<Body>| async move {
        answer::answer(edge, route, members(path), request, body_read).await
    })
}

/// Answers what no route takes.
fn refusing<F: Front>(
    code: &'static Code,
) -> impl Fn(State<Edge<F>>, Request) -> BoxFuture<'static, Response<Body>> + Clone + Send + Sync + 'static {
    move |State(edge), request| Box::pin(answer::none(edge, request, code))
}

type Path = Result<RawPathParams, RawPathParamsRejection>;

fn members(path: Path) -> Result<answer::PathMembers, Refusal> {
    let bad = || Refusal::new(codes::QUERY_INVALID, "", "the path is not percent-encoded UTF-8");
    let path = path.map_err(|_| bad())?;
    let members: answer::PathMembers =
        path.iter().map(|(name, text)| (name.to_owned(), text.to_owned())).collect();
    if members.iter().any(|(_, text)| text.trim().is_empty() || text.chars().any(char::is_control)) {
        return Err(bad());
    }
    Ok(members)
}
