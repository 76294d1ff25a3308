//! A TCP proxy between one process and nats-server: what a network does to a connection, it does on command.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, tcp::OwnedReadHalf, tcp::OwnedWriteHalf};
use tokio::sync::watch;
use tokio::task::AbortHandle;

const BUFFER_BYTES: usize = 64 * 1024;

/// What the network does now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Network {
    Whole,
    /// Connections are closed, and new ones at once.
    Cut,
    /// Connections stay and nothing travels on them. What waits is delivered when it is whole again, as by TCP.
    Silent,
}

/// Dropping it cuts everything for good.
#[derive(Debug)]
pub struct Proxy {
    port: u16,
    network: watch::Sender<Network>,
    accepting: AbortHandle,
}

// === impl Proxy ===

impl Proxy {
    /// # Panics
    /// There is no free port.
    pub async fn start(to: SocketAddr) -> Proxy {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("a free port");
        let port = listener.local_addr().expect("the bound address").port();
        let (network, now) = watch::channel(Network::Whole);
        let accepting = tokio::spawn(async move {
            while let Ok((near, _)) = listener.accept().await {
                tokio::spawn(carry(near, to, now.clone()));
            }
        });
        Proxy { port, network, accepting: accepting.abort_handle() }
    }

    pub fn url(&self) -> String {
        format!("nats://127.0.0.1:{}", self.port)
    }

    pub fn set(&self, network: Network) {
        self.network.send_replace(network);
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

async fn carry(near: TcpStream, to: SocketAddr, now: watch::Receiver<Network>) {
    let mut cut = now.clone();
    if cut.wait_for(|network| *network != Network::Silent).await.is_err() || *now.borrow() == Network::Cut {
        return;
    }
    let Ok(far) = TcpStream::connect(to).await else { return };
    // NATS is small messages; waiting for more of them is not what is tested
    let _ = (near.set_nodelay(true), far.set_nodelay(true));
    let (near_in, near_out) = near.into_split();
    let (far_in, far_out) = far.into_split();
    tokio::select! {
        () = one_way(near_in, far_out, now.clone()) => {}
        () = one_way(far_in, near_out, now) => {}
        _ = cut.wait_for(|network| *network == Network::Cut) => {}
    }
}

async fn one_way(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, mut now: watch::Receiver<Network>) {
    let mut buffer = vec![0; BUFFER_BYTES];
    loop {
        let Ok(read @ 1..) = from.read(&mut buffer).await else { return };
        if now.wait_for(|network| *network != Network::Silent).await.is_err() {
            return;
        }
        if tokio::time::timeout(Duration::from_secs(60), to.write_all(&buffer[..read])).await.is_err() {
            return;
        }
    }
}
