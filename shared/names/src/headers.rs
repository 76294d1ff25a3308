//! Headers of NATS messages. Standard ones are those of 20.4; none of them carries authority.

/// Protocol version of the envelope, `1.0`.
pub const AIP_VERSION: &str = "AIP-Version";
/// The envelope's message type.
pub const AIP_MESSAGE_TYPE: &str = "AIP-Message-Type";
/// The envelope's id.
pub const AIP_MESSAGE_ID: &str = "AIP-Message-Id";
/// The envelope's session id, when present.
pub const AIP_SESSION_ID: &str = "AIP-Session-Id";
/// The envelope's correlation id, when present.
pub const AIP_CORRELATION_ID: &str = "AIP-Correlation-Id";
/// W3C trace context of the hop that sent the message.
pub const TRACEPARENT: &str = "traceparent";
