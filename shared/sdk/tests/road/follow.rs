//! Following over HTTP: connections that break, and what is told all the same.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use aip_sdk::{Client, ClientError, HttpConfig, Proof, Told};
use aip_wire::{
    ActionEvents, ActionId, Envelope, ErrorBody, Event, EventId, MessageBody, ProtocolError, StreamChunk,
    StreamChunkKind, Timestamp, codes,
};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use crate::fake::completed;

/// The heads of the requests that came.
type Heads = Arc<Mutex<Vec<String>>>;

/// Answers each connection with the next text and closes it.
async fn serve(answers: Vec<String>) -> (String, Heads) {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let heads = Heads::default();
    let seen = Arc::clone(&heads);
    tokio::spawn(async move {
        for answer in answers {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut head = Vec::new();
            while !head.ends_with(b"\r\n\r\n") {
                head.push(stream.read_u8().await.unwrap());
            }
            seen.lock().unwrap().push(String::from_utf8(head).unwrap().to_lowercase());
            stream.write_all(answer.as_bytes()).await.unwrap();
        }
    });
    (url, heads)
}

fn stream(frames: &[String]) -> String {
    let head = "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-type: text/event-stream\r\n\r\n";
    format!("{head}retry: 1000\n\n: heartbeat\n\n{}", frames.concat())
}

fn frame(id: &str, name: &str, body: MessageBody) -> String {
    let envelope = serde_json::to_string(&Envelope::new(body, Timestamp::now())).unwrap();
    format!("id: {id}\nevent: {name}\ndata: {envelope}\n\n")
}

fn event(action: &ActionId, id: &EventId) -> MessageBody {
    let event: Event = serde_json::from_value(json!({
        "id": id, "kind": "aip.action.started", "occurred_at": Timestamp::now(), "action_id": action,
    }))
    .unwrap();
    ActionEvents {
        action_id: action.clone(),
        events: vec![event],
        chunks: Vec::new(),
        cursor: None,
        terminal: false,
    }
    .into()
}

fn chunk(action: &ActionId, sequence: u64) -> MessageBody {
    StreamChunk {
        action_id: action.clone(),
        sequence,
        kind: StreamChunkKind::Data,
        data: Some(json!(sequence)),
        part: None,
    }
    .into()
}

fn client(url: &str) -> Client {
    Client::http(HttpConfig { url: url.to_owned(), proof: Proof::Bearer("secret-key".into()) }).unwrap()
}

/// All that is told, in short; `|` is a lost connection.
async fn all(client: &Client, action: &ActionId) -> Result<String, ClientError> {
    let mut follow = client.follow(action, true)?;
    let mut said = String::new();
    while let Some(told) = tokio::time::timeout(Duration::from_secs(20), follow.next()).await.unwrap()? {
        said.push_str(&match told {
            Told::Event(_) => "e".to_owned(),
            Told::Chunk(chunk) => chunk.sequence.to_string(),
            Told::Lost(_) => "|".to_owned(),
            Told::Result(_) => "r".to_owned(),
        });
    }
    Ok(said)
}

#[tokio::test]
async fn what_breaks_off_goes_on_behind_the_last_frame_and_nothing_is_told_twice() {
    let (action, id) = (ActionId::generate(), EventId::generate());
    let (one, two, four) = (chunk(&action, 1), chunk(&action, 2), chunk(&action, 4));
    let busy = ErrorBody { error: ProtocolError::of(codes::STREAM_READER_SLOW, "slow") };
    let not_ready = "HTTP/1.1 503 X\r\nconnection: close\r\ncontent-length: 0\r\n\r\n".to_owned();
    let whole = frame("c4", "done", four.clone());
    let (url, heads) = serve(vec![
        stream(&[frame("e1", "message", event(&action, &id)), frame("c1", "chunk", one.clone())]),
        not_ready,
        // told again by a gateway that was asked again, then cut in the middle of a frame
        stream(&[
            frame("e1", "message", event(&action, &id)),
            frame("c1", "chunk", one),
            frame("c2", "chunk", two),
            whole[..whole.len() / 2].to_owned(),
        ]),
        // an error has no id of its own
        stream(&[whole, frame("", "error", busy.into()).replace("id: \n", "")]),
        stream(&[frame("r", "result", completed(&action, json!("ok")))]),
    ])
    .await;
    assert_eq!(all(&client(&url), &action).await.unwrap(), "e1||2|4|r");
    let heads = heads.lock().unwrap().clone();
    let asked = format!("get /aip/v1/actions/{action}/events?include_chunks=true http/1.1");
    let last = |head: &String| {
        assert!(head.starts_with(&asked) && head.contains("authorization: bearer secret-key"), "{head}");
        assert!(head.contains("accept: text/event-stream"), "{head}");
        head.split("last-event-id: ").nth(1).map(|id| id.lines().next().unwrap().to_owned())
    };
    let lasts: Vec<_> = heads.iter().map(|head| last(head).unwrap_or_default()).collect();
    assert_eq!(lasts, ["", "c1", "c1", "c2", "c4"]);
}

#[tokio::test]
async fn another_gateway_goes_on_where_one_was_lost() {
    let action = ActionId::generate();
    let (one, _) = serve(vec![stream(&[frame("c1", "chunk", chunk(&action, 1))])]).await;
    let again =
        [frame("c1", "chunk", chunk(&action, 1)), frame("r", "result", completed(&action, json!("ok")))];
    let (two, heads) = serve(vec![stream(&again)]).await;
    assert_eq!(all(&client(&format!("{one}, {two}/")), &action).await.unwrap(), "1|r");
    assert!(heads.lock().unwrap()[0].contains("last-event-id: c1"));
}

#[tokio::test]
async fn what_is_refused_for_good_is_not_asked_again() {
    let error = ErrorBody { error: ProtocolError::of(codes::ACTION_NOT_FOUND, "no") };
    let body = serde_json::to_string(&Envelope::new(error, Timestamp::now())).unwrap();
    let head = format!("HTTP/1.1 404 X\r\nconnection: close\r\ncontent-length: {}\r\n\r\n", body.len());
    let (url, heads) = serve(vec![head + &body]).await;
    let refused = all(&client(&url), &ActionId::generate()).await.unwrap_err();
    assert_eq!(refused.protocol_error().unwrap().code, "aip.action.not_found");
    assert_eq!(heads.lock().unwrap().len(), 1);
    // what cannot be signed cannot be asked without a token
    let proof = Proof::Signed {
        principal: crate::fake::principal("agent:alice"),
        key: Arc::new(aip_crypto::SigningKey::generate().unwrap()),
        gateway: None,
    };
    let signed = Client::http(HttpConfig { url, proof }).unwrap();
    let refused = signed.follow(&ActionId::generate(), true).unwrap_err();
    assert!(matches!(refused, ClientError::Invalid { .. }), "{refused}");
}

#[tokio::test]
async fn the_feed_is_followed_from_a_cursor_and_ends_when_nothing_is_left() {
    let nothing = "HTTP/1.1 204 X\r\nconnection: close\r\n\r\n".to_owned();
    let (url, heads) = serve(vec![nothing]).await;
    let kinds = ["a.b".to_owned(), "c d".to_owned()];
    let mut follow = client(&url).follow_events(&kinds, Some("behind".to_owned())).unwrap();
    assert_eq!(follow.next().await.unwrap(), None);
    assert_eq!(follow.next().await.unwrap(), None);
    let head = heads.lock().unwrap()[0].clone();
    assert!(head.starts_with("get /aip/v1/events?kinds=a.b%2cc+d http/1.1"), "{head}");
    assert!(head.contains("last-event-id: behind"), "{head}");
}
