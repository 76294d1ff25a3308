//! Reads the frame of a NATS message (20.4): the envelope's bytes as they came, and that headers and subject say the
//! same as it. Metadata is checked for its form and dropped: nothing from outside may add to an envelope.

use aip_bus::{Frame, FrameError, HeaderMap};
use aip_names::{fold, headers};
use aip_wire::{Refusal, codes};
use bytes::Bytes;

use crate::edge::peek::Peek;

/// The envelope's bytes, whatever they are.
pub(super) fn envelope(payload: &Bytes) -> Result<Bytes, Refusal> {
    // the reason may repeat what was sent, the code's own words do not
    let frame = Frame::read(payload).map_err(|error| match error {
        FrameError::TooLarge { .. } => Refusal::of(codes::LIMIT_ENVELOPE_BYTES),
        _ => Refusal::of(codes::TRANSPORT_FRAME),
    })?;
    Ok(payload.slice_ref(frame.envelope))
}

/// Holds subject and headers to the envelope. A header may be left out; one that is there says what the envelope says.
/// An envelope that cannot be read is left for the front to refuse.
pub(super) fn agree(subject: &str, given: &HeaderMap, peek: &Peek) -> Result<(), Refusal> {
    let Some(message_type) = &peek.message_type else { return Ok(()) };
    if fold(message_type) != subject.rsplit('.').next().unwrap_or_default() {
        return Err(mismatch("the subject names another message type than the envelope"));
    }
    for (name, member) in [
        (headers::AIP_VERSION, &peek.aip_version),
        (headers::AIP_MESSAGE_TYPE, &peek.message_type),
        (headers::AIP_MESSAGE_ID, &peek.message_id),
        (headers::AIP_SESSION_ID, &peek.session_id),
        (headers::AIP_CORRELATION_ID, &peek.correlation_id),
    ] {
        // header names are told apart by case on NATS, but no reader should have to rely on it
        let values = given.iter().filter(|(key, _)| AsRef::<str>::as_ref(key).eq_ignore_ascii_case(name));
        if values.flat_map(|(_, values)| values).any(|value| Some(value.as_str()) != member.as_deref()) {
            return Err(mismatch(&format!("the header {name} contradicts the envelope")));
        }
    }
    Ok(())
}

fn mismatch(why: &str) -> Refusal {
    Refusal::new(codes::TRANSPORT_HEADERS, "", why)
}

#[cfg(test)]
mod tests {
    use aip_names::limits;

    use super::*;

    const SUBJECT: &str = "aip.v1.aip_local.gateway.v1.aip_core_v1_action";
    const ENVELOPE: &str = r#"{"aip_version":"1.0", "message_type":"aip.core.v1.action","message_id":"msg_1","correlation_id":"corr_1"}"#;

    fn open(subject: &str, headers: &HeaderMap, payload: &Bytes) -> Result<Bytes, Refusal> {
        let envelope = envelope(payload)?;
        agree(subject, headers, &Peek::at(&envelope))?;
        Ok(envelope)
    }

    fn framed(envelope: &str) -> Bytes {
        Bytes::from(format!(
            r#"{{"envelope":{envelope},"metadata":{{"aip.trusted_context":{{"tenant":"x"}}}}}}"#
        ))
    }

    fn headers(pairs: &[(&str, &str)]) -> HeaderMap {
        let mut map = HeaderMap::new();
        for (name, value) in pairs {
            map.append(*name, *value);
        }
        map
    }

    #[test]
    fn the_envelope_comes_out_byte_for_byte_and_metadata_stays_behind() {
        let all = headers(&[
            ("AIP-Version", "1.0"),
            ("AIP-Message-Type", "aip.core.v1.action"),
            ("AIP-Message-Id", "msg_1"),
            ("AIP-Correlation-Id", "corr_1"),
            ("traceparent", "00-0-0-00"),
        ]);
        for given in [&HeaderMap::new(), &all] {
            for payload in [framed(ENVELOPE), Bytes::from_static(ENVELOPE.as_bytes())] {
                assert_eq!(open(SUBJECT, given, &payload).unwrap(), ENVELOPE);
            }
        }
        // what is no envelope is not the frame's to judge
        assert_eq!(open(SUBJECT, &all, &framed("[1]")).unwrap(), "[1]");
    }

    #[test]
    fn headers_and_subject_may_not_say_something_else() {
        for (name, value) in [
            ("AIP-Version", "1.1"),
            ("AIP-Message-Type", "aip.core.v1.cancel"),
            ("AIP-Message-Id", "msg_2"),
            ("aip-message-id", "msg_2"),
            ("AIP-Session-Id", "sess_1"),
            ("AIP-Correlation-Id", ""),
        ] {
            let refusal = open(SUBJECT, &headers(&[(name, value)]), &framed(ENVELOPE)).unwrap_err();
            assert_eq!(refusal.code, codes::TRANSPORT_HEADERS, "{name}");
        }
        let twice = headers(&[("AIP-Message-Id", "msg_1"), ("AIP-Message-Id", "msg_2")]);
        assert_eq!(open(SUBJECT, &twice, &framed(ENVELOPE)).unwrap_err().code, codes::TRANSPORT_HEADERS);
        for subject in
            ["aip.v1.aip_local.gateway.v1.aip_core_v1_cancel", "aip.v1.aip_local.gateway.v1.action", ""]
        {
            assert_eq!(
                open(subject, &HeaderMap::new(), &framed(ENVELOPE)).unwrap_err().code,
                codes::TRANSPORT_HEADERS
            );
        }
    }

    #[test]
    fn only_a_transport_message_is_a_frame() {
        for text in [
            "",
            "[]",
            r#"{"envelope":{}"#,
            r#"{"envelope":{}} {}"#,
            r#"{"envelope":{},"envelope":{}}"#,
            r#"{"envelope":{},"more":1}"#,
            r#"{"envelope":{},"metadata":[]}"#,
            r#"{"envelope":{},"metadata":"x"}"#,
        ] {
            let refusal = open(SUBJECT, &HeaderMap::new(), &Bytes::from_static(text.as_bytes())).unwrap_err();
            assert_eq!(refusal.code, codes::TRANSPORT_FRAME, "{text}");
        }
        let large = Bytes::from(vec![b' '; limits::TRANSPORT_MESSAGE_BYTES_MAX + 1]);
        assert_eq!(open(SUBJECT, &HeaderMap::new(), &large).unwrap_err().code, codes::LIMIT_ENVELOPE_BYTES);
    }
}
