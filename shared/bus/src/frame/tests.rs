use serde_json::json;

use super::*;

#[test]
fn a_wrapped_envelope_keeps_its_bytes() {
    let payload = br#" {"metadata":{"a":1}, "envelope": { "b" :1.0e0, "envelope":2 } } "#;
    let frame = Frame::read(payload).unwrap();
    assert_eq!(frame.envelope, br#"{ "b" :1.0e0, "envelope":2 }"#);
    assert_eq!(frame.metadata, Some(&br#"{"a":1}"#[..]));
}

#[test]
fn an_escaped_member_name_is_the_same_name() {
    let frame = Frame::read(br#"{"\u0065nvelope":{}}"#).unwrap();
    assert_eq!(frame.envelope, b"{}");
    assert!(Frame::read(br#"{"\u0065nvelope":{},"envelope":{}}"#).is_err());
}

#[test]
fn an_object_without_the_member_envelope_is_a_bare_envelope() {
    let payload = br#"{"aip_version":"1.0","metadata":{"trusted":true}}"#;
    assert_eq!(Frame::read(payload).unwrap(), Frame { envelope: payload, metadata: None });
}

#[test]
fn no_message_can_be_read_both_ways() {
    let refused = Frame::read(br#"{"aip_version":"1.0","envelope":{}}"#).unwrap_err();
    assert!(matches!(refused, FrameError::ForeignMember { member } if member == "aip_version"));
    for payload in [
        &br#"{"envelope":{},"envelope":{}}"#[..],
        br#"{"envelope":{},"metadata":{},"metadata":{}}"#,
        br#"{"envelope":{}} {}"#,
        br#"[{"envelope":{}}]"#,
        br#""envelope""#,
        b"{\"envelope\":{\"a\":\"\xff\"}}",
        b"",
    ] {
        assert!(
            matches!(Frame::read(payload), Err(FrameError::Json(_))),
            "{}",
            String::from_utf8_lossy(payload)
        );
    }
    for payload in [&br#"{"envelope":{},"metadata":[]}"#[..], br#"{"envelope":{},"metadata":"x"}"#] {
        assert!(matches!(Frame::read(payload), Err(FrameError::Metadata)));
    }
    assert_eq!(Frame::read(br#"{"envelope":{},"metadata":null}"#).unwrap().metadata, None);
}

#[test]
fn deep_nesting_is_not_followed() {
    let deep = format!(r#"{{"x":{}{}}}"#, "[".repeat(300_000), "]".repeat(300_000));
    // whatever the answer is, it comes without a stack overflow
    let _ = Frame::read(deep.as_bytes());
    let wrapped = format!(r#"{{"envelope":{}{}}}"#, "[".repeat(300_000), "]".repeat(300_000));
    let _ = Frame::read(wrapped.as_bytes());
}

#[test]
fn too_large_is_refused_both_ways() {
    let filler = "x".repeat(limits::TRANSPORT_MESSAGE_BYTES_MAX);
    let payload = format!(r#"{{"a":"{filler}"}}"#);
    assert!(matches!(Frame::read(payload.as_bytes()), Err(FrameError::TooLarge { .. })));
    let message = TransportMessage { envelope: json!({ "a": filler }), metadata: None };
    assert!(matches!(Parcel::new(&message), Err(FrameError::TooLarge { .. })));
}

#[test]
fn what_is_sent_is_read_again_and_carries_the_standard_headers() {
    let envelope = json!({
        "aip_version": "1.0", "message_type": "aip.core.v1.action", "message_id": "msg_1",
        "correlation_id": "corr\r\nNats-Msg-Id: x", "body": {}
    });
    let metadata = json!({ "aip.trusted_context": { "tenant": "t" } }).as_object().cloned();
    let parcel =
        Parcel::new(&TransportMessage { envelope: envelope.clone(), metadata: metadata.clone() }).unwrap();
    let frame = Frame::read(&parcel.payload).unwrap();
    assert_eq!(serde_json::from_slice::<Value>(frame.envelope).unwrap(), envelope);
    assert_eq!(
        serde_json::from_slice::<Value>(frame.metadata.unwrap()).unwrap().as_object(),
        metadata.as_ref()
    );
    let header = |name: &str| parcel.headers.get(name).map(|value| value.as_str().to_owned());
    assert_eq!(header(headers::AIP_VERSION).as_deref(), Some("1.0"));
    assert_eq!(header(headers::AIP_MESSAGE_TYPE).as_deref(), Some("aip.core.v1.action"));
    assert_eq!(header(headers::AIP_MESSAGE_ID).as_deref(), Some("msg_1"));
    assert_eq!(header(headers::AIP_CORRELATION_ID), None, "a line break cannot smuggle a header in");
    assert_eq!(header(headers::AIP_SESSION_ID), None);
}
