//! The one way from bytes to an envelope: read strictly, decode, judge. Whatever passes has the shape and obeys the rules
//! of AIP 1.0; who sent it is not known here.

use std::io::{self, BufRead, Read, Write};

use aip_names::limits::ENVELOPE_BYTES_MAX;
use serde_json::{Map, Value, json};

use crate::codes;
use crate::decode::decode;
use crate::envelope::{AIP_VERSION, Envelope, TransportMessage};
use crate::message::MessageType;
use crate::read::{self, Bounds};
use crate::refusal::Refusal;
use crate::rules;

/// An envelope that passed, beside the value that was received: signatures are verified over the latter.
#[derive(Debug, Clone, PartialEq)]
pub struct Checked {
    value: Value,
    envelope: Envelope,
}

impl Checked {
    pub fn value(&self) -> &Value {
        &self.value
    }

    pub fn envelope(&self) -> &Envelope {
        &self.envelope
    }

    pub fn into_parts(self) -> (Value, Envelope) {
        (self.value, self.envelope)
    }
}

/// Checks the bytes of one envelope.
pub fn envelope(bytes: &[u8]) -> Result<Checked, Refusal> {
    value(read::strict(bytes)?)
}

/// Checks an envelope that was read strictly as a part of something else, such as a TransportMessage.
pub fn value(value: Value) -> Result<Checked, Refusal> {
    negotiate(&value)?;
    let envelope: Envelope = decode(&value)?;
    rules::envelope(&envelope)?;
    Ok(Checked { value, envelope })
}

/// Checks a NATS payload: a TransportMessage whose envelope passes. Its metadata is returned as received; whether it may be
/// trusted is the receiver's question. A bare envelope is refused: one subject, one frame.
pub fn frame(bytes: &[u8], bounds: &Bounds) -> Result<(Checked, Map<String, Value>), Refusal> {
    let received = read::strict_within(bytes, bounds)?;
    let message: TransportMessage =
        decode(&received).map_err(|refusal| Refusal { code: codes::TRANSPORT_FRAME, ..refusal })?;
    // the frame has room for metadata; the envelope may not take it
    if bytes.len() > ENVELOPE_BYTES_MAX && read::written_bytes(&message.envelope) > ENVELOPE_BYTES_MAX {
        return Err(Refusal::of(codes::LIMIT_ENVELOPE_BYTES));
    }
    Ok((value(message.envelope)?, message.metadata.unwrap_or_default()))
}

/// Looks at version and type before the shape: another version may have another shape, and deserves its own answer.
fn negotiate(value: &Value) -> Result<(), Refusal> {
    if let Some(version) = value.get("aip_version").and_then(Value::as_str)
        && version != AIP_VERSION
    {
        return Err(Refusal::new(codes::ENVELOPE_VERSION, "/aip_version", "this receiver speaks 1.0 only"));
    }
    let Some(declared) = value.get("message_type").and_then(Value::as_str) else { return Ok(()) };
    let Some(message_type) = MessageType::from_name(declared) else {
        return Err(Refusal::new(codes::ENVELOPE_TYPE, "/message_type", codes::ENVELOPE_TYPE.meaning));
    };
    // the body may carry any registered key; only the one that goes with the type is this message
    let body = value.get("body").and_then(Value::as_object);
    if let Some(body) = body
        && body.len() == 1
        && !body.contains_key(message_type.body_key())
        && body.keys().all(|key| MessageType::from_body_key(key).is_some())
    {
        let text = format!("{message_type} goes with the body {}", message_type.body_key());
        return Err(Refusal::new(codes::ENVELOPE_TYPE_MISMATCH, "/message_type", text));
    }
    Ok(())
}

/// Checks envelopes given as lines and writes one verdict a line. True when none was refused.
///
/// A line longer than an envelope may be is refused without being kept; the last line needs no end.
pub fn lines(mut reader: impl BufRead, mut writer: impl Write) -> io::Result<bool> {
    let mut all_valid = true;
    let mut line = Vec::new();
    while next_line(&mut reader, &mut line)? {
        let verdict = match envelope(&line) {
            Ok(checked) => json!({ "valid": true, "message_type": checked.envelope.message_type }),
            Err(refusal) => {
                all_valid = false;
                json!({
                    "valid": false, "code": refusal.code.name, "path": refusal.path, "message": refusal.message,
                })
            }
        };
        writeln!(writer, "{verdict}")?;
    }
    writer.flush()?;
    Ok(all_valid)
}

/// Reads one line without its end. Of a line that is too long only so much is kept as shows that it is.
fn next_line(reader: &mut impl BufRead, line: &mut Vec<u8>) -> io::Result<bool> {
    const KEPT: usize = ENVELOPE_BYTES_MAX + 2;
    line.clear();
    reader.by_ref().take(KEPT as u64).read_until(b'\n', line)?;
    if line.is_empty() {
        return Ok(false);
    }
    if line.last() == Some(&b'\n') {
        line.pop();
        if line.last() == Some(&b'\r') {
            line.pop();
        }
    } else if line.len() == KEPT {
        skip_line(reader)?;
    }
    Ok(true)
}

fn skip_line(reader: &mut impl BufRead) -> io::Result<()> {
    loop {
        let buffer = reader.fill_buf()?;
        if buffer.is_empty() {
            return Ok(());
        }
        let (length, ended) = match buffer.iter().position(|byte| *byte == b'\n') {
            Some(end) => (end + 1, true),
            None => (buffer.len(), false),
        };
        reader.consume(length);
        if ended {
            return Ok(());
        }
    }
}

#[cfg(test)]
mod tests {
    use aip_names::limits::{JSON_DEPTH_MAX, WORKER_ANSWER_BYTES_MAX};

    use super::*;

    const HEARTBEAT: &str = r#"{"aip_version":"1.0","message_type":"aip.core.v1.heartbeat","message_id":"msg_1","sent_at":"2026-07-14T08:30:00Z","body":{"heartbeat":{"sequence":1}}}"#;

    fn code(text: &str) -> &'static str {
        envelope(text.as_bytes()).unwrap_err().code.name
    }

    #[test]
    fn version_and_type_are_told_before_shape() {
        assert!(envelope(HEARTBEAT.as_bytes()).is_ok());
        assert_eq!(code(r#"{"aip_version":"2.0","what":"ever"}"#), "aip.envelope.version_unsupported");
        assert_eq!(
            code(&HEARTBEAT.replace("v1.heartbeat", "v2.heartbeat")),
            "aip.envelope.message_type_unsupported"
        );
        assert_eq!(code(&HEARTBEAT.replace("v1.heartbeat", "v1.ack")), "aip.envelope.message_type_mismatch");
        assert_eq!(code(&HEARTBEAT.replace("msg_1", "")), "aip.envelope.rule_violated");
        assert_eq!(code("[]"), "aip.envelope.schema_invalid");
        assert_eq!(code("null"), "aip.envelope.schema_invalid");
    }

    #[test]
    fn a_frame_holds_an_envelope_and_nothing_else() {
        let framed = format!(r#"{{"envelope":{HEARTBEAT},"metadata":{{"aip.trusted_context":{{}}}}}}"#);
        let (checked, metadata) = frame(framed.as_bytes(), &Bounds::FRAME).unwrap();
        assert_eq!(checked.envelope().message_type, MessageType::Heartbeat);
        assert!(metadata.contains_key("aip.trusted_context"));
        assert!(frame(format!(r#"{{"envelope":{HEARTBEAT}}}"#).as_bytes(), &Bounds::FRAME).is_ok());
        let told = |text: &str, bounds: &Bounds| frame(text.as_bytes(), bounds).unwrap_err().code.name;
        assert_eq!(told(HEARTBEAT, &Bounds::FRAME), "aip.transport.frame_invalid");
        assert_eq!(told(r#"{"envelope":1}"#, &Bounds::FRAME), "aip.envelope.schema_invalid");
        let large = format!("{framed}{}", " ".repeat(WORKER_ANSWER_BYTES_MAX));
        assert_eq!(told(&large, &Bounds::WORKER_ANSWER), "aip.worker.answer_too_large");
    }

    #[test]
    fn the_deepest_envelope_fits_the_frame() {
        let nested = |levels: usize| "[".repeat(levels) + &"]".repeat(levels);
        let deep =
            |levels: usize| format!("{},\"trace\":{}}}", &HEARTBEAT[..HEARTBEAT.len() - 1], nested(levels));
        let deepest = deep(JSON_DEPTH_MAX - 1);
        assert!(envelope(deepest.as_bytes()).is_ok());
        assert!(frame(format!(r#"{{"envelope":{deepest}}}"#).as_bytes(), &Bounds::FRAME).is_ok());
        assert_eq!(code(&deep(JSON_DEPTH_MAX)), "aip.limit.depth");
    }

    #[test]
    fn one_verdict_a_line() {
        let long = "x".repeat(3 * ENVELOPE_BYTES_MAX);
        let input = format!("{HEARTBEAT}\n\n{long}\n{HEARTBEAT}\r\n{{");
        let mut output = Vec::new();
        // a small buffer, so that the long line comes in many pieces
        let reader = io::BufReader::with_capacity(1_000, input.as_bytes());
        assert!(!lines(reader, &mut output).unwrap());
        let verdicts: Vec<Value> = String::from_utf8(output)
            .unwrap()
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        let told: Vec<&str> =
            verdicts.iter().map(|v| v["code"].as_str().or(v["message_type"].as_str()).unwrap()).collect();
        let expected = [
            "aip.core.v1.heartbeat",
            "aip.json.malformed",
            "aip.limit.envelope_bytes",
            "aip.core.v1.heartbeat",
            "aip.json.malformed",
        ];
        assert_eq!(told, expected);
        assert!(lines(HEARTBEAT.as_bytes(), io::sink()).unwrap());
        assert!(lines(&b""[..], io::sink()).unwrap());
    }

    #[test]
    fn a_line_of_exactly_the_bound_is_judged_whole() {
        let padded =
            |total: usize| format!("{HEARTBEAT}{}\n{HEARTBEAT}\n", " ".repeat(total - HEARTBEAT.len()));
        assert!(lines(padded(ENVELOPE_BYTES_MAX).as_bytes(), io::sink()).unwrap());
        assert!(!lines(padded(ENVELOPE_BYTES_MAX + 1).as_bytes(), io::sink()).unwrap());
        let mut output = Vec::new();
        lines(padded(ENVELOPE_BYTES_MAX + 2).as_bytes(), &mut output).unwrap();
        assert_eq!(String::from_utf8(output).unwrap().lines().count(), 2);
    }
}
