use std::sync::Arc;

use aip_crypto::{SigningKey, sign_envelope};
use aip_sdk::{CallOptions, Client, ClientError, HttpConfig, Proof};
use aip_wire::{Envelope, MessageBody, Timestamp, validate};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use crate::fake::{completed, principal};

/// Answers requests one after the other with what `answer` makes of their heads and bodies.
async fn serve(answer: impl Fn(&str, &[u8]) -> (u16, String) + Send + 'static) -> String {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut request = Vec::new();
            let (head, length) = loop {
                let mut buffer = [0; 4_096];
                let read = stream.read(&mut buffer).await.unwrap();
                request.extend_from_slice(&buffer[..read]);
                if let Some(end) = request.windows(4).position(|window| window == b"\r\n\r\n") {
                    let head = String::from_utf8(request[..end].to_vec()).unwrap().to_lowercase();
                    let length = head.split("content-length: ").nth(1).unwrap();
                    let length: usize = length.lines().next().unwrap().trim().parse().unwrap();
                    request.drain(..end + 4);
                    break (head, length);
                }
            };
            while request.len() < length {
                let mut buffer = [0; 4_096];
                let read = stream.read(&mut buffer).await.unwrap();
                request.extend_from_slice(&buffer[..read]);
            }
            let (status, body) = answer(&head, &request);
            let head =
                format!("HTTP/1.1 {status} X\r\nconnection: close\r\ncontent-length: {}\r\n\r\n", body.len());
            stream.write_all((head + &body).as_bytes()).await.unwrap();
        }
    });
    url
}

fn reply(body: &[u8]) -> Envelope {
    let request = validate::envelope(body).unwrap().into_parts().1;
    let MessageBody::Action(action) = &request.body else { panic!("{request:?}") };
    Envelope::reply_to(&request, completed(&action.id, json!("done")), Timestamp::now())
}

fn bearer(url: &str) -> Client {
    Client::http(HttpConfig { url: url.to_owned(), proof: Proof::Bearer("secret-key".into()) }).unwrap()
}

#[tokio::test]
async fn a_bearer_call_is_an_envelope_to_the_messages_endpoint() {
    let url = serve(|head, body| {
        assert!(head.starts_with("post /aip/v1/messages http/1.1"), "{head}");
        assert!(head.contains("authorization: bearer secret-key"), "{head}");
        assert!(head.contains("content-type: application/aip+json"), "{head}");
        (200, serde_json::to_string(&reply(body)).unwrap())
    })
    .await;
    let result = bearer(&format!("{url}/")).call("cap:a", json!({}), CallOptions::default()).await.unwrap();
    assert_eq!(result.output, Some(json!("done")));
    let closed = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let nowhere = format!("http://{}", closed.local_addr().unwrap());
    drop(closed);
    let several = bearer(&format!("{nowhere},{url}"));
    let options = CallOptions { read_only: true, ..CallOptions::default() };
    let result = several.call("cap:a", json!({}), options).await.unwrap();
    assert_eq!(result.output, Some(json!("done")), "the next gateway answers");
}

#[tokio::test]
async fn a_signed_call_wants_a_signed_answer() {
    let (gateway, key) = (SigningKey::generate().unwrap(), Arc::new(SigningKey::generate().unwrap()));
    let did = gateway.did().clone();
    let url = serve(move |head, body| {
        assert!(!head.contains("authorization"), "{head}");
        let mut value = serde_json::to_value(reply(body)).unwrap();
        if value["body"]["action_result"]["action_id"].as_str().unwrap() != "act_unsigned" {
            sign_envelope(&mut value, &gateway).unwrap();
        }
        (200, value.to_string())
    })
    .await;
    let proof = Proof::Signed { principal: principal("agent:alice"), key, gateway: Some(did) };
    let client = Client::http(HttpConfig { url, proof }).unwrap();
    assert!(client.call("cap:a", json!({}), CallOptions::default()).await.is_ok());
    let unsigned =
        CallOptions { action_id: Some(aip_wire::ActionId::opaque("act_unsigned")), ..CallOptions::default() };
    let error = client.call("cap:a", json!({}), unsigned).await.unwrap_err();
    assert!(matches!(error, ClientError::Untrusted { .. }), "{error}");
}

#[tokio::test]
async fn what_is_no_envelope_says_nothing_about_the_action() {
    let url = serve(|_, _| (502, "<html>bad gateway</html>".to_owned())).await;
    let options = CallOptions { timeout_ms: Some(500), ..CallOptions::default() };
    let error = bearer(&url).call("cap:a", json!({}), options.clone()).await.unwrap_err();
    assert!(matches!(error, ClientError::Unknown { .. }), "{error}");
    assert!(error.to_string().contains("502"), "{error}");
    let closed = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let nowhere = format!("http://{}", closed.local_addr().unwrap());
    drop(closed);
    let error = bearer(&nowhere).call("cap:a", json!({}), options).await.unwrap_err();
    assert!(matches!(error, ClientError::Unreachable { .. } | ClientError::Unknown { .. }), "{error}");
    let bad = Client::http(HttpConfig { url: "not a url".to_owned(), proof: Proof::Bearer("k".into()) });
    assert!(matches!(bad, Err(ClientError::Invalid { .. })));
}
