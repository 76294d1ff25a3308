//! A gateway's process by itself, pressed from outside: by a disk that is full and by more than it can hold.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use aip_bus::{Bus, Parcel, Settings};
use aip_crypto::{SigningKey, sign_envelope};
use aip_names::Identity;
use aip_names::metrics::{EFFECTS_ADOPTED, EFFECTS_RUNNING};
use aip_testkit::{Proc, TestNats, free_port, wait_for};
use futures_util::StreamExt;
use futures_util::future::{join_all, ready};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::harness::{SOON, aip, id};

const TOKEN: &str = "pressing-token-0123456789";
/// The shell counts in half kilobytes: room for a new store and a few megabytes.
const FILE_BLOCKS: u32 = 12_288;
/// As much for a whole disk.
const DISK_MEGABYTES: u32 = 6;
const LARGE_REQUESTS: usize = 500;
/// Asynchronous actions that wait for a worker, and the bytes of each.
const WAITING: usize = 400;
const WAITING_BYTES: usize = 250_000;
const MEMORY_BYTES_MAX: u64 = 256 * 1_048_576;

struct Alone {
    nats: TestNats,
    http: SocketAddr,
    config: PathBuf,
    worker: SigningKey,
}

impl Alone {
    async fn new() -> Alone {
        let nats = TestNats::start().await;
        let http: SocketAddr = ([127, 0, 0, 1], free_port()).into();
        let (folder, worker) = (nats.scratch().path(), SigningKey::generate().unwrap());
        SigningKey::generate().unwrap().save(&folder.join("gateway.key")).unwrap();
        let directory = format!(
            r#"
trust_domain = "aip.local"
tenant = [{{ id = "acme" }}]
[[principal]]
id = "service:client"
kind = "service"
tenants = ["acme"]
scopes = ["action:write"]
capabilities = ["cap:test:*"]
api_keys = [{{ id = "c", sha256 = "{}" }}]
[[principal]]
id = "agent:restaurant"
kind = "agent"
dids = ["{}"]
[[worker]]
principal = "agent:restaurant"
service = "sandbox-restaurant"
capabilities = ["cap:test:*"]
"#,
            hex::encode(Sha256::digest(TOKEN)),
            worker.did(),
        );
        std::fs::write(folder.join("directory.toml"), directory).unwrap();
        let text = format!(
            "trust_domain = \"aip.local\"\nreplica = \"gateway-0\"\ndata_dir = \"gateway\"\n\
             directory = \"directory.toml\"\nsigning_key = \"gateway.key\"\n\
             nats = {{ url = \"{}\", seed = {:?} }}\nhttp = {{ bind = \"{http}\" }}\n",
            nats.url(),
            nats.seed_file(&Identity::Gateway),
        );
        let config = folder.join("gateway.toml");
        std::fs::write(&config, text).unwrap();
        Alone { nats, http, config, worker }
    }

    /// Starts the gateway, behind these words of the shell, and waits until it is ready.
    async fn start(&self, first: &str) -> Proc {
        let mut command = Command::new("sh");
        command.args(["-c", &format!("{first} exec \"$@\""), "sh", aip(), "gateway", "--config"]);
        command.arg(&self.config);
        let proc = Proc::spawn(command).await;
        wait_for("the gateway to be ready", SOON, || async {
            matches!(self.ask("GET /ready", None, b"").await, Some((200, _)))
        })
        .await;
        proc
    }

    /// Status and text of the answer; none when there was no whole one.
    async fn ask(&self, line: &str, token: Option<&str>, body: &[u8]) -> Option<(u16, String)> {
        let mut stream = TcpStream::connect(self.http).await.ok()?;
        let bearer = token.map(|token| format!("authorization: Bearer {token}\r\n")).unwrap_or_default();
        let head = format!(
            "{line} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n{bearer}content-type: application/json\r\ncontent-length: {}\r\n\r\n",
            body.len()
        );
        let (mut reader, mut writer) = stream.split();
        let mut answer = String::new();
        // who is refused is told before all was sent
        let send = async {
            let _ = writer.write_all(head.as_bytes()).await;
            let _ = writer.write_all(body).await;
        };
        let (_, _) = tokio::join!(send, reader.read_to_string(&mut answer));
        let status = answer.split(' ').nth(1)?.parse().ok()?;
        Some((status, answer))
    }

    /// Registers capabilities with a description of so many bytes. True when it was acknowledged.
    async fn register(&self, name: &str, bytes: usize) -> bool {
        self.offer(name, bytes, &["sync"]).await
    }

    /// The same, for these modes.
    async fn offer(&self, name: &str, bytes: usize, modes: &[&str]) -> bool {
        let capability = |number: usize| {
            json!({
                "id": format!("cap:test:{name}{number}"), "name": "say", "kind": "tool", "risk": "low",
                "input_schema": {"type": "object", "description": "x".repeat(bytes)},
                "output_schema": {"type": "object"},
                "contract": {
                    "side_effects": ["write"],
                    "idempotency": {
                        "requirement": "optional", "collision_behavior": "reject_conflict",
                        "key_scope": "principal",
                    },
                    "execution": {
                        "supports_sync": true, "supports_async": modes.contains(&"async"), "supports_streaming": false,
                        "supports_cancel": false, "supports_retry": false, "expected_completion": "sync",
                        "retry_safety": "unsafe",
                    },
                    "data": {"sensitivity": "internal", "contains_pii": false, "redaction_required": false},
                },
            })
        };
        let capabilities: Vec<Value> = (0..4).map(capability).collect();
        let handlers: Vec<Value> =
            capabilities.iter().map(|one| json!({"capability_id": one["id"], "modes": modes})).collect();
        let mut message = json!({
            "aip_version": "1.0", "message_type": "aip.discovery.v1.manifest_response",
            "message_id": id("msg_"), "sent_at": aip_wire::Timestamp::now(),
            "body": {"manifest": {
                "manifest_version": "aip-manifest/v1",
                "agent": {"id": "agent:restaurant", "kind": "agent"},
                "capabilities": capabilities,
                "profiles": ["aip.native.nats.v1"],
                "extensions": {"aip.worker": {
                    "service": "sandbox-restaurant", "version": "v1", "handlers": handlers,
                }},
            }},
        });
        sign_envelope(&mut message, &self.worker).unwrap();
        let told = self.ask("POST /aip/v1/messages", None, message.to_string().as_bytes()).await;
        told.is_some_and(|(status, answer)| {
            assert!(status == 200 || status >= 500, "{answer}");
            status == 200
        })
    }
}

/// The most memory that a process has had, in bytes.
fn memory_max(pid: i32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() * 1_024
}

/// The gateway's data on a disk of its own, in memory.
struct Disk(PathBuf);

impl Disk {
    /// None where nothing may be mounted.
    fn mount(place: PathBuf, megabytes: u32) -> Option<Disk> {
        std::fs::create_dir_all(&place).unwrap();
        mount(&format!("size={megabytes}m,mode=700"), &place).then(|| Disk(place))
    }

    fn grow(&self, megabytes: u32) {
        assert!(mount(&format!("remount,size={megabytes}m"), &self.0));
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        // also while something still looks into it
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

fn mount(options: &str, place: &Path) -> bool {
    let mut command = Command::new("mount");
    command.args(["-t", "tmpfs", "-o", options, "tmpfs"]).arg(place).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

impl Alone {
    /// Registers until the gateway ends by its store. How many registrations it has acknowledged.
    async fn fill(&self, proc: &Proc, why: &str) -> u64 {
        let mut acknowledged = 0;
        for number in 0..200 {
            if !proc.is_running() {
                break;
            }
            acknowledged += u64::from(self.register(&format!("pad{number}-"), 100_000).await);
        }
        let ended = proc.ended(SOON).await;
        assert_eq!(ended.code(), Some(4), "{ended}: {:?}", proc.lines());
        let said = |line: &String| line.contains("the store failed") && line.contains(why);
        assert!(proc.lines().iter().any(said), "{:?}", proc.lines());
        assert!(acknowledged > 0);
        acknowledged
    }

    /// With room again it goes on where it was.
    async fn has_all(&self, acknowledged: u64) {
        let proc = self.start("").await;
        assert!(self.register("again", 10).await);
        proc.terminate();
        assert!(proc.ended(SOON).await.success());
        let mut verify = Command::new(aip());
        let verified =
            verify.args(["ledger", "verify", "--json", "--config"]).arg(&self.config).output().unwrap();
        assert!(verified.status.success(), "{}", String::from_utf8_lossy(&verified.stderr));
        let said: Value = serde_json::from_slice(&verified.stdout).unwrap();
        assert!(said["verified"]["records"].as_u64().unwrap() > acknowledged, "{said}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gateway_whose_disk_is_full_ends_and_has_lost_nothing() {
    let alone = Alone::new().await;
    let Some(disk) = Disk::mount(alone.nats.scratch().join("gateway"), DISK_MEGABYTES) else {
        println!("not run: nothing may be mounted here");
        return;
    };
    let proc = alone.start("").await;
    let acknowledged = alone.fill(&proc, "No space left on device").await;
    disk.grow(10 * DISK_MEGABYTES);
    alone.has_all(acknowledged).await;
}

/// A limit on a file's size, which anybody may set: a write that does not fit fails much as on a full disk.
#[tokio::test(flavor = "multi_thread")]
async fn a_gateway_whose_store_cannot_be_written_ends_and_has_lost_nothing() {
    let alone = Alone::new().await;
    // not the signal but the error is what a full disk gives
    let proc = alone.start(&format!("trap '' XFSZ; ulimit -f {FILE_BLOCKS};")).await;
    let acknowledged = alone.fill(&proc, "").await;
    alone.has_all(acknowledged).await;
}

/// What waits for a worker is put into its queue again, all of it, when a gateway comes back.
#[tokio::test(flavor = "multi_thread")]
async fn a_gateway_that_comes_back_to_much_that_waits_stays_within_memory() {
    let alone = Arc::new(Alone::new().await);
    let proc = alone.start("").await;
    assert!(alone.offer("say", 10, &["sync", "async"]).await);
    let action = json!({
        "capability_id": "cap:test:say0", "input": {"a": "x".repeat(WAITING_BYTES)}, "mode": "async",
        "timeout_ms": 3_600_000,
    });
    let body: Arc<[u8]> = action.to_string().into_bytes().into();
    let sent = futures_util::stream::iter(0..WAITING).map(|_| {
        let (alone, body) = (Arc::clone(&alone), Arc::clone(&body));
        async move { alone.ask("POST /aip/v1/actions", Some(TOKEN), &body).await }
    });
    let taken = sent.buffer_unordered(8).filter(|told| ready(matches!(told, Some((200, _))))).count().await;
    assert_eq!(taken, WAITING, "{:?}", alone.ask("POST /aip/v1/actions", Some(TOKEN), &body).await);
    let before = memory_max(proc.id());
    proc.kill().await;
    // once with its store, and once with nothing but the log
    for (how, store) in [("back", true), ("without its store", false)] {
        if !store {
            std::fs::remove_dir_all(alone.nats.scratch().join("gateway")).unwrap();
        }
        let proc = alone.start("").await;
        let queued = || async {
            let page = alone.ask("GET /metrics", None, b"").await.map(|(_, page)| page).unwrap_or_default();
            let count = |name: &str| {
                let line = page.lines().find(|line| line.starts_with(name));
                line.and_then(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).unwrap_or(0.0)
            };
            count(EFFECTS_ADOPTED) >= WAITING as f64 && count(EFFECTS_RUNNING) == 0.0
        };
        wait_for("all to be in the queue again", Duration::from_secs(120), queued).await;
        let memory = memory_max(proc.id());
        println!("{} MiB at first, {} MiB {how}", before >> 20, memory >> 20);
        assert!(memory <= MEMORY_BYTES_MAX, "{memory} bytes {how}");
        proc.kill().await;
    }
}

/// One door after the other: a client that sends this much over NATS at once can have the server cut off its slowest
/// reader, which is for the server to bound, not for the gateway.
#[tokio::test(flavor = "multi_thread")]
async fn hundreds_of_large_requests_at_each_door_stay_within_memory() {
    let alone = Arc::new(Alone::new().await);
    let proc = alone.start("").await;
    assert!(alone.register("say", 10).await);
    let told = over_nats(&alone).await;
    let statuses = over_http(&alone).await;
    let of = |status: u16| statuses.iter().filter(|told| **told == Some(status)).count();
    let (taken, refused, memory) = (of(200), of(503), memory_max(proc.id()));
    println!("{told} told over NATS; {taken} taken, {refused} refused over HTTP; {} MiB", memory >> 20);
    assert!(told > 0);
    assert!(taken > 0 && refused > 0, "{statuses:?}");
    assert!(memory <= MEMORY_BYTES_MAX, "{memory} bytes");
    // and it is none the worse
    wait_for("another registration", SOON, || alone.register("after", 10)).await;
    proc.terminate();
    assert!(proc.ended(Duration::from_secs(60)).await.success(), "{:?}", proc.lines());
}

/// Sends more than a message of ours may have, and less than the server takes. How many were answered.
async fn over_nats(alone: &Alone) -> usize {
    let identity = TestNats::client("alice");
    let (url, seed_file) = (alone.nats.url(), alone.nats.seed_file(&identity));
    let bus = Bus::connect(Settings { url, identity, seed_file, name: "pressing".to_owned() }).await.unwrap();
    bus.ready(SOON).await.unwrap();
    let parcel = Parcel { payload: vec![b'x'; 900 * 1_024].into(), headers: Default::default() };
    let sent = (0..LARGE_REQUESTS).map(|_| {
        let request =
            bus.client().request("aip.v1.aip_local.gateway.v1.aip_core_v1_action", parcel.payload.clone());
        async move { request.await.is_ok() }
    });
    join_all(sent).await.into_iter().filter(|told| *told).count()
}

/// Sends just less than an envelope may have. Nobody serves it, so what is taken stays until its deadline.
async fn over_http(alone: &Arc<Alone>) -> Vec<Option<u16>> {
    let part = "x".repeat(160_000);
    let action = json!({
        "capability_id": "cap:test:say0", "input": {"a": part, "b": part, "c": part}, "timeout_ms": 10_000,
    });
    let body: Arc<[u8]> = action.to_string().into_bytes().into();
    let sent = (0..LARGE_REQUESTS).map(|_| {
        let (alone, body) = (Arc::clone(alone), Arc::clone(&body));
        let ask = async move { alone.ask("POST /aip/v1/actions", Some(TOKEN), &body).await };
        tokio::spawn(async move { ask.await.map(|(status, _)| status) })
    });
    join_all(sent).await.into_iter().map(Result::unwrap).collect()
}
