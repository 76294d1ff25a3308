//! `aip action call --follow`: what an action's worker streams, as it comes. Its output goes to standard output, all else
//! that is said on the way to standard error; for programs everything is one JSON line.

use std::process::ExitCode;

use aip_sdk::{Follow, Told};
use aip_wire::{ActionResult, MessagePart, StreamChunk, StreamChunkKind};
use serde_json::Value;

use crate::lists::word;
use crate::output::{self, Failure, because, pretty, say};

/// Shows it to its end.
pub async fn show(mut follow: Follow, json: bool) -> Result<ExitCode, Failure> {
    loop {
        let told = follow.next().await.map_err(|error| {
            let failure = because("the stream ended too soon", &error).json(json);
            match error.protocol_error() {
                Some(protocol) => failure.code(protocol.code.clone()),
                None => failure,
            }
        })?;
        match told {
            Some(Told::Event(event)) if json => output::print_json(&event)?,
            Some(Told::Event(event)) => output::progress(json, &format!("· {}", event.kind)),
            Some(Told::Chunk(chunk)) if json => output::print_json(&chunk)?,
            Some(Told::Chunk(chunk)) => show_chunk(&chunk),
            Some(Told::Lost(why)) => lost(json, &why),
            Some(Told::Result(result)) => return ended(&result, json),
            // a feed that ends without a result has none for this reader
            None => return Ok(ExitCode::SUCCESS),
        }
    }
}

pub fn lost(json: bool, why: &str) {
    output::progress(json, &format!("the stream broke off ({why}); going on …"));
}

fn ended(result: &ActionResult, json: bool) -> Result<ExitCode, Failure> {
    show_result(result, json)?;
    Ok(if result.error.is_some() { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

pub fn show_result(result: &ActionResult, json: bool) -> Result<(), Failure> {
    if json {
        return output::print_json(result);
    }
    say!("{} {}", word(&result.status), result.action_id);
    for part in &result.message {
        if let MessagePart::Text { text, .. } = part {
            say!("{}", printable(text));
        }
    }
    if let Some(output) = &result.output {
        say!("{}", pretty(output));
    }
    if let Some(error) = &result.error {
        say!("{}: {}", error.code, error.message);
    }
    Ok(())
}

fn show_chunk(chunk: &StreamChunk) {
    let text = text_of(chunk);
    match chunk.kind {
        StreamChunkKind::Data => say!("{text}"),
        StreamChunkKind::Progress => output::progress(false, &progress(chunk).unwrap_or(text)),
        StreamChunkKind::Error => {
            let told = |member| chunk.data.as_ref()?.get(member)?.as_str().map(printable);
            let why = told("code").zip(told("message")).map(|(code, message)| format!("{code}: {message}"));
            output::progress(false, &format!("the stream ended: {}", why.unwrap_or(text)));
        }
        StreamChunkKind::Done => {}
        StreamChunkKind::Tool
        | StreamChunkKind::Thought
        | StreamChunkKind::Preview
        | StreamChunkKind::PendingApproval => {
            output::progress(false, &format!("{}: {text}", word(&chunk.kind)));
        }
    }
}

/// `2/5 the message`, if the worker said it as the SDK does.
fn progress(chunk: &StreamChunk) -> Option<String> {
    let data = chunk.data.as_ref()?;
    let (done, of) = (data.get("done")?.as_u64()?, data.get("of")?.as_u64()?);
    let message = data.get("message").and_then(Value::as_str).unwrap_or_default();
    Some(format!("[{done}/{of}] {}", printable(message)))
}

fn text_of(chunk: &StreamChunk) -> String {
    match (&chunk.data, &chunk.part) {
        (Some(Value::String(text)), _) | (None, Some(MessagePart::Text { text, .. })) => printable(text),
        (Some(data), _) => data.to_string(),
        (None, Some(part)) => serde_json::to_string(part).unwrap_or_default(),
        (None, None) => String::new(),
    }
}

/// A worker's text must not steer the terminal.
fn printable(text: &str) -> String {
    text.chars().filter(|char| !char.is_control() || matches!(char, '\n' | '\t')).collect()
}

#[cfg(test)]
mod tests {
    use aip_wire::ActionId;
    use serde_json::json;

    use super::*;

    #[test]
    fn chunks_are_readable_and_steer_no_terminal() {
        let chunk = |data: Value| StreamChunk {
            action_id: ActionId::generate(),
            sequence: 1,
            kind: StreamChunkKind::Data,
            data: Some(data),
            part: None,
        };
        let said = json!({"done": 2, "of": 5, "message": "Section\u{1b}[2J 2"});
        assert_eq!(progress(&chunk(said)).unwrap(), "[2/5] Section[2J 2");
        assert_eq!(progress(&chunk(json!({"done": "2"}))), None);
        assert_eq!(text_of(&chunk(json!("a\tb\n\u{7}c"))), "a\tb\nc");
        assert_eq!(text_of(&chunk(json!({"a": "\u{7}"}))), r#"{"a":"\u0007"}"#);
    }
}
