//! The public keys of token issuers. A key verifies exactly one algorithm, fixed here when it is read: what a token
//! says about its algorithm chooses nothing.

mod cache;
mod source;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jsonwebtoken::DecodingKey;
use serde::Deserialize;
use serde_json::Value;

use aip_names::limits::{JWKS_KEYS_MAX, RSA_MODULUS_BYTES};

use crate::directory::TokenAlgorithm;

pub(crate) use cache::{KeyFailure, KeyPool};

/// The keys that an issuer published, at one moment.
#[derive(Debug, Default)]
pub(crate) struct KeySet(Vec<Key>);

#[derive(Clone)]
pub(crate) struct Key {
    id: Option<String>,
    pub algorithm: TokenAlgorithm,
    pub decoding: DecodingKey,
}

/// Why a document is no key set.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum KeySetError {
    #[error("it is not a JWKS document")]
    Shape,
    #[error("it has more than {JWKS_KEYS_MAX} keys")]
    TooMany,
}

#[derive(Deserialize)]
struct KeySetDocument {
    keys: Vec<Value>,
}

/// The public members of a JWK (RFC 7517, 7518, 8037); the others are not even read.
#[derive(Deserialize)]
struct JwkDocument {
    kty: String,
    kid: Option<String>,
    alg: Option<String>,
    r#use: Option<String>,
    key_ops: Option<Vec<String>>,
    crv: Option<String>,
    x: Option<String>,
    y: Option<String>,
    n: Option<String>,
    e: Option<String>,
}

const P256_COORDINATE_BYTES: usize = 32;
const ED25519_KEY_BYTES: usize = 32;
const RSA_EXPONENT_BYTES_MAX: usize = 4;

// === impl KeySet ===

impl KeySet {
    /// Reads a JWKS. Keys that are of no use here (encryption, other algorithms, malformed) are left out, as RFC 7517
    /// asks; a set without any usable key is a set that trusts nobody.
    pub fn parse(bytes: &[u8]) -> Result<KeySet, KeySetError> {
        let document: KeySetDocument = serde_json::from_slice(bytes).map_err(|_| KeySetError::Shape)?;
        if document.keys.len() > JWKS_KEYS_MAX {
            return Err(KeySetError::TooMany);
        }
        let keys = document.keys.into_iter().filter_map(|jwk| serde_json::from_value(jwk).ok());
        Ok(KeySet(keys.filter_map(Key::read).collect()))
    }

    /// The key of this id. A token that names none is only understood if there is nothing to choose.
    pub fn find(&self, kid: Option<&str>) -> Option<&Key> {
        match (kid, self.0.as_slice()) {
            (Some(kid), keys) => keys.iter().find(|key| key.id.as_deref() == Some(kid)),
            (None, [only]) => Some(only),
            (None, _) => None,
        }
    }
}

impl Key {
    fn read(jwk: JwkDocument) -> Option<Key> {
        let for_signatures = jwk.r#use.as_deref().is_none_or(|r#use| r#use == "sig")
            && jwk.key_ops.as_ref().is_none_or(|ops| ops.iter().any(|op| op == "verify"));
        if !for_signatures {
            return None;
        }
        let (algorithm, decoding) = match (jwk.kty.as_str(), jwk.crv.as_deref()) {
            ("OKP", Some("Ed25519")) => {
                // the library takes the length for granted
                let x = coordinate(jwk.x.as_deref()?, ED25519_KEY_BYTES)?;
                (TokenAlgorithm::EdDsa, DecodingKey::from_ed_der(&x))
            }
            ("EC", Some("P-256")) => {
                let (x, y) = (jwk.x.as_deref()?, jwk.y.as_deref()?);
                coordinate(x, P256_COORDINATE_BYTES)?;
                coordinate(y, P256_COORDINATE_BYTES)?;
                (TokenAlgorithm::Es256, DecodingKey::from_ec_components(x, y).ok()?)
            }
            ("RSA", None) => {
                let n = URL_SAFE_NO_PAD.decode(jwk.n.as_deref()?).ok()?;
                let e = URL_SAFE_NO_PAD.decode(jwk.e.as_deref()?).ok()?;
                let fits = RSA_MODULUS_BYTES.contains(&n.len()) && e.len() <= RSA_EXPONENT_BYTES_MAX;
                (TokenAlgorithm::Rs256, fits.then(|| DecodingKey::from_rsa_raw_components(&n, &e))?)
            }
            _ => return None,
        };
        let pinned = jwk.alg.as_deref().is_none_or(|alg| alg == algorithm.name());
        pinned.then_some(Key { id: jwk.kid, algorithm, decoding })
    }
}

fn coordinate(text: &str, bytes: usize) -> Option<Vec<u8>> {
    URL_SAFE_NO_PAD.decode(text).ok().filter(|decoded| decoded.len() == bytes)
}

impl std::fmt::Debug for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Key")
            .field("id", &self.id)
            .field("algorithm", &self.algorithm)
            .finish_non_exhaustive()
    }
}

impl TokenAlgorithm {
    /// As JOSE spells it.
    pub fn name(self) -> &'static str {
        match self {
            TokenAlgorithm::EdDsa => "EdDSA",
            TokenAlgorithm::Es256 => "ES256",
            TokenAlgorithm::Rs256 => "RS256",
        }
    }
}

#[cfg(test)]
mod tests;
