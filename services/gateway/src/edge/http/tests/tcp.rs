//! What only a socket shows: slow clients, long heads, lost connections, drain.

use std::net::SocketAddr;

use aip_names::limits;
use aip_testkit::wait_for;
use aip_wire::codes;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::*;
use crate::edge::http::{HttpBounds, HttpDoor};

const PATIENCE: Duration = Duration::from_secs(20);

/// A door on a real port.
struct Served {
    address: SocketAddr,
    stop: CancellationToken,
    task: JoinHandle<()>,
}

impl Served {
    async fn new(front: &Fake, bounds: HttpBounds) -> Served {
        let door = HttpDoor::bind("127.0.0.1:0".parse().unwrap(), bounds).await.unwrap();
        let (address, stop) = (door.address().unwrap(), CancellationToken::new());
        let task = tokio::spawn(door.serve(edge(front), stop.clone(), PATIENCE));
        Served { address, stop, task }
    }

    async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address).await.unwrap()
    }

    /// Sends and reads until the door closes the connection.
    async fn exchange(&self, text: &str) -> String {
        let mut stream = self.connect().await;
        stream.write_all(text.as_bytes()).await.unwrap();
        rest(stream).await
    }

    async fn end(self) {
        self.stop.cancel();
        tokio::time::timeout(PATIENCE, self.task).await.unwrap().unwrap();
    }
}

async fn rest(mut stream: TcpStream) -> String {
    let mut bytes = Vec::new();
    // a reset after the answer ends the reading as a close does
    tokio::time::timeout(PATIENCE, stream.read_to_end(&mut bytes)).await.unwrap().ok();
    String::from_utf8_lossy(&bytes).into_owned()
}

fn posted(text: &str) -> String {
    format!(
        "POST /aip/v1/messages HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{text}",
        text.len()
    )
}

const HEALTH: &str = "GET /health HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n";

fn hasty() -> HttpBounds {
    let soon = Duration::from_millis(200);
    HttpBounds { connections: 1, head_read: soon, body_read: soon, write_stall: soon }
}

#[tokio::test]
async fn a_head_that_trickles_in_is_cut_off() {
    let served = Served::new(&Fake::new(), hasty()).await;
    for started in ["", "GET /health HT", "GET /health HTTP/1.1\r\nx: "] {
        let mut slow = served.connect().await;
        slow.write_all(started.as_bytes()).await.unwrap();
        // there is room for one connection, so this is answered only once the slow one is gone
        assert!(served.exchange(HEALTH).await.starts_with("HTTP/1.1 200"), "{started}");
    }
    served.end().await;
}

#[tokio::test]
async fn a_body_that_trickles_in_is_refused_with_its_code() {
    let front = Fake::new();
    let served = Served::new(&front, hasty()).await;
    let answer = served.exchange(&posted(ENVELOPE).replace(r#""msg_1"}"#, "")).await;
    assert!(answer.starts_with("HTTP/1.1 408"), "{answer}");
    assert!(answer.contains(codes::HTTP_BODY_TIMEOUT.name), "{answer}");
    assert_eq!(front.seen(), []);
    served.end().await;
}

#[tokio::test]
async fn a_client_that_does_not_read_is_cut_off() {
    let mut reply = fake::ok();
    reply.envelope["trace"] = Value::from("x".repeat(limits::HTTP_RESPONSE_BYTES_MAX - 1_000));
    let served = Served::new(&Fake::answering(reply), hasty()).await;
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(4_096).unwrap();
    let mut stalled = socket.connect(served.address).await.unwrap();
    // more answers than the socket buffers of any system hold
    for _ in 0..16 {
        stalled.write_all(posted(ENVELOPE).as_bytes()).await.unwrap();
    }
    assert!(served.exchange(HEALTH).await.starts_with("HTTP/1.1 200"));
    served.end().await;
}

#[tokio::test]
async fn a_head_over_the_bound_is_refused() {
    let served = Served::new(&Fake::new(), HttpBounds::default()).await;
    let long = "a".repeat(limits::HTTP_HEAD_BYTES_MAX);
    let answer = served.exchange(&format!("GET /health HTTP/1.1\r\nhost: x\r\nx: {long}\r\n\r\n")).await;
    assert!(answer.starts_with("HTTP/1.1 431"), "{answer}");
    let many = "x: y\r\n".repeat(limits::HTTP_HEADERS_MAX + 1);
    let answer = served.exchange(&format!("GET /health HTTP/1.1\r\nhost: x\r\n{many}\r\n")).await;
    assert!(answer.starts_with("HTTP/1.1 431"), "{answer}");
    served.end().await;
}

#[tokio::test]
async fn a_declared_body_over_the_bound_is_refused_unread() {
    let served = Served::new(&Fake::new(), HttpBounds::default()).await;
    let answer = served
        .exchange(
            "POST /aip/v1/actions HTTP/1.1\r\nhost: x\r\nexpect: 100-continue\r\n\
             content-type: application/json\r\ncontent-length: 9999999\r\n\r\n",
        )
        .await;
    assert!(answer.starts_with("HTTP/1.1 413"), "{answer}");
    assert!(answer.contains(codes::HTTP_PAYLOAD.name), "{answer}");
    // nobody takes the rest of the body for a next request
    assert!(answer.to_ascii_lowercase().contains("connection: close"), "{answer}");
    served.end().await;
}

/// As most clients do.
#[tokio::test]
async fn who_sends_all_of_a_refused_body_before_reading_gets_the_refusal() {
    let served = Served::new(&Fake::new(), HttpBounds::default()).await;
    let large = "x".repeat(limits::HTTP_DRAIN_BYTES_MAX / 2);
    for (path, code) in [
        ("/aip/v1/messages", codes::HTTP_PAYLOAD),
        ("/aip/v1/actions?nothing=known", codes::QUERY_INVALID),
        ("/no/such/route", codes::HTTP_ROUTE),
    ] {
        let mut stream = served.connect().await;
        stream.write_all(posted(&large).replace("/aip/v1/messages", path).as_bytes()).await.unwrap();
        let mut bytes = Vec::new();
        let mut buffer = [0; 4_096];
        while !String::from_utf8_lossy(&bytes).contains(code.name) {
            let read = tokio::time::timeout(PATIENCE, stream.read(&mut buffer)).await.unwrap();
            let read = read.unwrap_or_else(|error| panic!("{path}: {error}"));
            assert!(read > 0, "{path}: {}", String::from_utf8_lossy(&bytes));
            bytes.extend_from_slice(&buffer[..read]);
        }
    }
    served.end().await;
}

#[tokio::test]
async fn a_lost_connection_does_not_end_admitted_work() {
    let front = Fake::held();
    let served = Served::new(&front, HttpBounds::default()).await;
    let mut client = served.connect().await;
    client.write_all(posted(ENVELOPE).as_bytes()).await.unwrap();
    wait_for("the work to begin", PATIENCE, || async { front.seen().len() == 1 }).await;
    drop(client);
    front.gate.add_permits(1);
    wait_for("the work to end", PATIENCE, || async { front.ended() == 1 }).await;
    served.end().await;
}

#[tokio::test]
async fn one_connection_carries_many_requests() {
    let front = Fake::new();
    let served = Served::new(&front, HttpBounds::default()).await;
    let answers = served.exchange(&format!("{}{}{HEALTH}", posted(ENVELOPE), posted(ENVELOPE))).await;
    assert_eq!(answers.matches("HTTP/1.1 200").count(), 3, "{answers}");
    assert_eq!(front.seen().len(), 2);
    served.end().await;
}

#[tokio::test]
async fn a_stopping_door_finishes_what_it_took() {
    let front = Fake::held();
    let served = Served::new(&front, HttpBounds::default()).await;
    let mut client = served.connect().await;
    client.write_all(posted(ENVELOPE).as_bytes()).await.unwrap();
    wait_for("the work to begin", PATIENCE, || async { front.seen().len() == 1 }).await;
    served.stop.cancel();
    let address = served.address;
    wait_for("the door to take nobody", PATIENCE, || async { TcpStream::connect(address).await.is_err() })
        .await;
    assert!(!served.task.is_finished());
    front.gate.add_permits(1);
    let answer = rest(client).await;
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    served.end().await;
}

#[tokio::test]
async fn a_stopping_door_does_not_wait_for_idle_connections() {
    let served = Served::new(&Fake::new(), HttpBounds::default()).await;
    let mut idle = served.connect().await;
    idle.write_all(b"GET /health HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
    let mut first = [0; 12];
    idle.read_exact(&mut first).await.unwrap();
    assert_eq!(&first, b"HTTP/1.1 200");
    served.end().await;
}
