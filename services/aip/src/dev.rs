//! `aip dev`: all of the system on one machine, in one folder, with no container. Starts nats-server, the gateway and
//! the sandbox as processes of their own, says where things are, starts again what ends by itself, stops them in order
//! on Ctrl-C and finds everything again on the next start. It knows processes and files, nothing of the protocol.

mod children;
mod layout;

use std::collections::{HashMap, VecDeque};
use std::fs::File;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use aip_natsd::{Server, Settings};
use clap::Args as ClapArgs;
use nix::fcntl::Flock;

use crate::output::{Failure, because};
use crate::site::Site;
use children::{Child, Children};
use layout::Layout;

const READY_TIMEOUT: Duration = Duration::from_secs(60);
const RESTART_WINDOW: Duration = Duration::from_secs(60);
const RESTART_PAUSE: Duration = Duration::from_millis(50);
/// The pause grows to some six seconds, which bounds what can be in the window.
const RESTART_DOUBLINGS_MAX: u32 = 7;
const POLL: Duration = Duration::from_millis(100);

#[derive(ClapArgs, Debug)]
pub struct Args {
    /// The folder that holds all data
    #[arg(long, default_value = ".aip")]
    data_dir: PathBuf,
    /// Where HTTP is served
    #[arg(long, default_value = "127.0.0.1:8080")]
    http: SocketAddr,
    /// The port of NATS; 0 takes a free one
    #[arg(long, default_value_t = 4222)]
    nats_port: u16,
    /// Gateway replicas; the further ones serve HTTP on the ports that follow
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=REPLICAS_MAX))]
    gateways: u16,
}

const REPLICAS_MAX: i64 = 8;

pub async fn run(args: Args) -> Result<ExitCode, Failure> {
    let layout = Layout::new(args.data_dir, args.http, args.gateways)?;
    let _lock = layout.lock()?;
    let mut stop = std::pin::pin!(stopped());
    let mut server = start_nats(&layout, args.nats_port).await?;
    layout.write(&server)?;
    let mut children = Children::start(&layout).await?;
    tokio::select! {
        ready = children.ready(&layout, READY_TIMEOUT) => ready?,
        () = &mut stop => {
            children.stop().await;
            let _ = server.stop().await;
            return Ok(ExitCode::SUCCESS);
        }
    }
    layout.say(&server);
    let gave_up = supervise(&layout, &mut server, &mut children, &mut stop).await;
    eprintln!("stopping …");
    children.stop().await;
    // It may be what ended.
    let _ = server.stop().await;
    match gave_up {
        None => Ok(ExitCode::SUCCESS),
        Some(failure) => Err(failure.hint("everything is kept: start `aip dev` again")),
    }
}

/// Starts again what ends by itself, until told to stop. A start that fails ends it all.
async fn supervise(
    layout: &Layout,
    server: &mut Server,
    children: &mut Children,
    stop: &mut (impl Future<Output = ()> + Unpin),
) -> Option<Failure> {
    let mut restarts = Restarts::default();
    loop {
        let (name, log) = tokio::select! {
            () = &mut *stop => return None,
            () = server.ended() => ("nats-server".to_owned(), server.log_file()),
            Child { name, log } = children.ended() => (name, log),
        };
        eprintln!("{name} ended; starting it again (its log is {})", log.display());
        tokio::select! {
            () = &mut *stop => return None,
            () = tokio::time::sleep(restarts.pause(&name)) => {}
        }
        let restarted = match name.as_str() {
            "nats-server" => {
                server.restart().await.map_err(|error| because("can't start nats-server again", &error))
            }
            _ => children.restart(layout, &name).await,
        };
        if let Err(failure) = restarted {
            return Some(failure);
        }
    }
}

/// How often each process ended lately: what ends again and again is started ever more seldom.
#[derive(Default)]
struct Restarts {
    recent: HashMap<String, VecDeque<Instant>>,
}

// === impl Restarts ===

impl Restarts {
    fn pause(&mut self, name: &str) -> Duration {
        let now = Instant::now();
        let recent = self.recent.entry(name.to_owned()).or_default();
        recent.retain(|at| now.duration_since(*at) < RESTART_WINDOW);
        recent.push_back(now);
        let doublings = u32::try_from(recent.len() - 1).unwrap_or(u32::MAX).min(RESTART_DOUBLINGS_MAX);
        RESTART_PAUSE * 2_u32.pow(doublings)
    }
}

async fn start_nats(layout: &Layout, port: u16) -> Result<Server, Failure> {
    let settings = Settings {
        folder: layout.folder().join("nats"),
        port: (port != 0).then_some(port),
        monitor_port: None,
        trust_domain: layout.trust_domain().clone(),
        users: Site::users()?,
    };
    Server::start(settings).await.map_err(|error| {
        because("can't start nats-server", &error)
            .hint("another one may use the port: try --nats-port 0; or set NATS_SERVER_BIN to a nats-server 2.12 or newer")
    })
}

async fn stopped() {
    aip_sdk::terminated().await;
}

/// The nats-server of a stopped `aip dev`, for a command that needs nothing else of it. The folder stays locked as long
/// as this lives, so that no `aip dev` starts in it meanwhile.
pub struct NatsOnly {
    pub server: Server,
    _lock: Flock<File>,
}

pub async fn nats_only(folder: PathBuf) -> Result<NatsOnly, Failure> {
    if !folder.join("nats").is_dir() {
        return Err(Failure::new(format!("{} is no folder of `aip dev`", folder.display())));
    }
    let layout = Layout::new(folder, SocketAddr::from(([127, 0, 0, 1], 0)), 1)?;
    let lock = layout.lock()?;
    Ok(NatsOnly { server: start_nats(&layout, 0).await?, _lock: lock })
}
