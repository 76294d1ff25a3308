//! Live streams over a real HTTP connection.

use std::sync::Arc;
use std::time::Duration;

use aip_gateway::edge::http::{HttpBounds, HttpDoor};
use aip_gateway::edge::{Bounds, Edge};
use aip_gateway::front::Via;
use aip_testkit::wait_for;
use aip_wire::{MessageType, codes};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio_util::sync::CancellationToken;

use super::world::*;

pub const PATIENCE: Duration = Duration::from_secs(20);

pub struct Door {
    address: std::net::SocketAddr,
    stop: CancellationToken,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Frame {
    pub id: Option<String>,
    pub name: String,
    pub body: Value,
}

/// An open connection that is being told.
pub struct Following {
    pub status: u16,
    lines: tokio::io::Lines<BufReader<TcpStream>>,
}

pub async fn door(world: &World) -> Door {
    let bounds = Bounds { in_flight: 64, in_flight_per_sender: 32, bytes: 1 << 22 };
    let door = HttpDoor::bind("127.0.0.1:0".parse().unwrap(), HttpBounds::default()).await.unwrap();
    let (address, stop) = (door.address().unwrap(), CancellationToken::new());
    let edge = Edge::new(Via::Http, world.gateway.clone(), bounds, Arc::new(String::new));
    tokio::spawn(door.serve(edge, stop.clone(), Duration::from_secs(5)));
    Door { address, stop }
}

impl Drop for Door {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

impl Door {
    /// By the old version of HTTP, in which an answer ends with its connection.
    pub async fn follow(&self, token: &str, path: &str, last: Option<&str>) -> Following {
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        let last = last.map(|id| format!("Last-Event-ID: {id}\r\n")).unwrap_or_default();
        let head = format!(
            "GET {path} HTTP/1.0\r\nAuthorization: Bearer {token}\r\nAccept: text/event-stream\r\n{last}\r\n"
        );
        stream.write_all(head.as_bytes()).await.unwrap();
        let mut lines = BufReader::new(stream).lines();
        let status = lines.next_line().await.unwrap().unwrap();
        let status = status.split(' ').nth(1).unwrap().parse().unwrap();
        while !lines.next_line().await.unwrap().unwrap_or_default().is_empty() {}
        Following { status, lines }
    }
}

impl Following {
    /// The next frame; none at the end.
    pub async fn next(&mut self) -> Option<Frame> {
        tokio::time::timeout(PATIENCE, self.read()).await.expect("a frame or the end")
    }

    pub async fn read(&mut self) -> Option<Frame> {
        let mut frame = Frame { id: None, name: String::new(), body: Value::Null };
        while let Ok(Some(line)) = self.lines.next_line().await {
            match line.split_once(": ") {
                Some(("id", id)) => frame.id = Some(id.to_owned()),
                Some(("event", name)) => frame.name = name.to_owned(),
                Some(("data", data)) => {
                    let envelope: Value = serde_json::from_str(data).unwrap();
                    assert_eq!(envelope["aip_version"], "1.0");
                    frame.body = envelope["body"].clone();
                }
                _ if line.is_empty() && !frame.name.is_empty() => return Some(frame),
                _ => {}
            }
        }
        None
    }

    pub async fn rest(&mut self) -> Vec<Frame> {
        let mut frames = Vec::new();
        while let Some(frame) = self.next().await {
            frames.push(frame);
        }
        frames
    }
}

fn kind(frame: &Frame) -> String {
    let body = frame.body.get("action_events").or(frame.body.get("event_stream"));
    body.map_or_else(|| frame.name.clone(), |body| body["events"][0]["kind"].as_str().unwrap().to_owned())
}

fn event_id(frame: &Frame) -> String {
    let body = frame.body.get("action_events").or(frame.body.get("event_stream"));
    body.map_or_else(|| frame.name.clone(), |body| body["events"][0]["id"].as_str().unwrap().to_owned())
}

#[tokio::test(flavor = "multi_thread")]
async fn an_action_is_told_as_it_happens_and_a_reader_goes_on_without_gap_or_second_end() {
    let world = World::new().await;
    let door = door(&world).await;
    let action = action(json!({}));
    let id = action["id"].as_str().unwrap().to_owned();
    let path = format!("/aip/v1/actions/{id}/events");
    assert_eq!(door.follow(CLIENT_TOKEN, &path, None).await.status, 404);
    let (reply, frames) = tokio::join!(world.call(&action), async {
        let asked = || world.ask(MessageType::ActionStatusRequest, json!({"action_id": id}));
        wait_for("the action to be there", PATIENCE, || async { asked().await.is_ok() }).await;
        let mut following = door.follow(CLIENT_TOKEN, &path, None).await;
        assert_eq!(following.status, 200);
        let first = following.next().await.unwrap();
        // what comes now is pushed: the worker was not there before
        let _worker = world.serve().await;
        let mut frames = vec![first];
        frames.extend(following.rest().await);
        frames
    });
    assert_eq!(reply.status, 200, "{}", reply.envelope);
    let kinds: Vec<String> = frames.iter().map(kind).collect();
    assert_eq!(kinds.first().unwrap(), "aip.action.admitted");
    assert_eq!(kinds[kinds.len() - 2..], ["aip.action.completed".to_owned(), "result".to_owned()]);
    let result = &frames.last().unwrap().body["action_result"];
    assert_eq!(result["output"], json!({"said": "it"}));
    assert_eq!(frames[frames.len() - 2].body["action_events"]["terminal"], json!(true));
    // from every frame on, the rest and nothing else
    for (index, frame) in frames.iter().enumerate() {
        let mut again = door.follow(CLIENT_TOKEN, &path, frame.id.as_deref()).await;
        let rest: Vec<String> = again.rest().await.iter().map(event_id).collect();
        assert_eq!(rest, frames[index + 1..].iter().map(event_id).collect::<Vec<_>>(), "{index}");
        assert_eq!(again.status, if index + 1 == frames.len() { 204 } else { 200 });
    }
    // what another reader was told leads nowhere
    let foreign = door.follow(OTHER_TOKEN, &path, frames[0].id.as_deref()).await;
    assert_eq!(foreign.status, 400);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_feed_goes_on_where_its_reader_was() {
    let world = World::new().await;
    let (_worker, _serving) = world.serve().await;
    let door = door(&world).await;
    let mut following = door.follow(CLIENT_TOKEN, "/aip/v1/events", None).await;
    let mut told = Vec::new();
    for round in 0..3 {
        world.call(&action(json!({}))).await;
        world.call_as(OTHER_TOKEN, &action(json!({}))).await;
        let complete = |told: &[Frame]| told.iter().filter(|f| kind(f) == "aip.action.completed").count();
        while complete(&told) <= round {
            told.push(following.next().await.unwrap());
        }
        // the connection is lost
        following = door.follow(CLIENT_TOKEN, "/aip/v1/events", told.last().unwrap().id.as_deref()).await;
    }
    let page = world.ask(MessageType::EventStreamRequest, json!({})).await.unwrap();
    let all: Vec<String> = page["event_stream"]["events"]
        .as_array()
        .unwrap()
        .iter()
        .map(|event| event["id"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(told.iter().map(event_id).collect::<Vec<_>>(), all);
    // a stopping door says so, and that one may come back
    door.stop.cancel();
    let last = following.next().await.unwrap();
    assert_eq!((last.name.as_str(), &last.id), ("error", &None));
    assert_eq!(last.body["error"]["error"]["code"], codes::SERVICE_STOPPING.name);
    assert_eq!(following.next().await, None);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_live_stream_ends_with_the_authority_of_its_reader() {
    let world = World::new().await;
    let door = door(&world).await;
    let mut following = door.follow(CLIENT_TOKEN, "/aip/v1/events", None).await;
    assert_eq!(following.status, 200);
    world.authenticator.replace(Arc::new(directory_without_clients()));
    let last = following.next().await.unwrap();
    assert_eq!(last.body["error"]["error"]["code"], codes::AUTH_TOKEN.name);
    assert_eq!(following.next().await, None);
}
