//! Signed envelopes (22.2). A signature is always judged over the value that was received, and proves possession of a
//! key, never authority: the caller binds the returned DID to a principal.

use base64::engine::general_purpose::STANDARD;
use base64::{DecodeSliceError, Engine};
use ed25519_dalek::Signature;
use serde_json::{Map, Value};

use crate::canonical;
use crate::did::{Did, DidError};
use crate::key::SigningKey;

/// The only member that a signature doesn't cover.
const SIGNATURE_PATH: [&str; 2] = ["security", "signature"];

/// Why an envelope can't be signed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SignError {
    #[error("the envelope is not an object")]
    NotAnObject,
    #[error("security is not an object")]
    SecurityNotAnObject,
}

/// Why an envelope doesn't carry a good signature.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SignatureError {
    #[error("the envelope is not an object")]
    NotAnObject,
    /// Absent or null: the envelope isn't signed.
    #[error("security is missing")]
    SecurityMissing,
    #[error("security is not an object")]
    SecurityNotAnObject,
    #[error("security.did is missing or not a string")]
    DidMissing,
    #[error("security.did is malformed")]
    Did(#[source] DidError),
    #[error("security.signature is missing or not a string")]
    SignatureMissing,
    /// Not the standard alphabet with its padding, or with bits set that carry nothing.
    #[error("security.signature is not standard base64")]
    SignatureEncoding,
    #[error("security.signature is not 64 bytes long")]
    SignatureLength,
    #[error("the signature does not verify")]
    Mismatch,
}

// === impl SignatureError ===

impl SignatureError {
    /// The member at fault, as a JSON pointer.
    pub fn pointer(&self) -> &'static str {
        match self {
            Self::NotAnObject => "",
            Self::SecurityMissing | Self::SecurityNotAnObject => "/security",
            Self::DidMissing | Self::Did(_) => "/security/did",
            Self::SignatureMissing | Self::SignatureEncoding | Self::SignatureLength | Self::Mismatch => {
                "/security/signature"
            }
        }
    }
}

/// Signs `envelope` in place, by setting `security.did` and `security.signature`.
///
/// Other members of `security` stay and are signed; an earlier signature is replaced.
pub fn sign_envelope(envelope: &mut Value, key: &SigningKey) -> Result<(), SignError> {
    let members = envelope.as_object_mut().ok_or(SignError::NotAnObject)?;
    let security = members.entry("security").or_insert(Value::Null);
    if security.is_null() {
        *security = Value::Object(Map::new());
    }
    let security = security.as_object_mut().ok_or(SignError::SecurityNotAnObject)?;
    security.insert("did".to_owned(), Value::from(key.did().as_str()));

    let signature = key.sign(&canonical::to_vec_without(envelope, &SIGNATURE_PATH));
    if let Some(security) = envelope.get_mut("security").and_then(Value::as_object_mut) {
        security.insert("signature".to_owned(), Value::from(STANDARD.encode(signature)));
    }
    Ok(())
}

/// Verifies the signature of a received envelope and returns whose key made it.
///
/// Strict: small-order keys and points, and signatures in any but their one encoding, are refused.
pub fn verify_envelope(envelope: &Value) -> Result<Did, SignatureError> {
    let members = envelope.as_object().ok_or(SignatureError::NotAnObject)?;
    let security = match members.get("security") {
        None | Some(Value::Null) => return Err(SignatureError::SecurityMissing),
        Some(security) => security.as_object().ok_or(SignatureError::SecurityNotAnObject)?,
    };
    let did = security.get("did").and_then(Value::as_str).ok_or(SignatureError::DidMissing)?;
    let did: Did = did.parse().map_err(SignatureError::Did)?;
    let signature = security.get("signature").and_then(Value::as_str);
    let signature = decode_signature(signature.ok_or(SignatureError::SignatureMissing)?)?;

    let message = canonical::to_vec_without(envelope, &SIGNATURE_PATH);
    did.verifying_key().verify_strict(&message, &signature).map_err(|_| SignatureError::Mismatch)?;
    Ok(did)
}

fn decode_signature(text: &str) -> Result<Signature, SignatureError> {
    // Two bytes more than needed: what the decoder wants for the padding.
    let mut bytes = [0; Signature::BYTE_SIZE + 2];
    let length = STANDARD.decode_slice(text, &mut bytes).map_err(|error| match error {
        DecodeSliceError::OutputSliceTooSmall => SignatureError::SignatureLength,
        DecodeSliceError::DecodeError(_) => SignatureError::SignatureEncoding,
    })?;
    let decoded = bytes.get(..length).ok_or(SignatureError::SignatureLength)?;
    Signature::from_slice(decoded).map_err(|_| SignatureError::SignatureLength)
}
