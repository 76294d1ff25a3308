//! What an HTTP client shows in `Authorization: Bearer`: a JWT of a configured issuer, or an API key. Neither the
//! token nor any part of its content that was not verified ever leaves this room, not even in a refusal.

use jsonwebtoken::{Algorithm, DecodingKey, Validation, dangerous, errors::ErrorKind};
use secrecy::{ExposeSecret, SecretString};
use serde::Deserialize;
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

use aip_names::limits::TOKEN_BYTES_MAX;
use aip_wire::{Refusal, codes};

use crate::caller::{Caller, Method};
use crate::directory::{Directory, Issuer, TokenAlgorithm};
use crate::keys::{KeyFailure, KeyPool};
use crate::pattern::Scopes;

#[derive(Deserialize)]
struct UnverifiedIssuer {
    iss: String,
}

type Claims = Map<String, Value>;

/// The caller that a token proves.
pub(crate) async fn verify(
    token: &SecretString,
    directory: &Directory,
    keys: &KeyPool,
    now_ms: u64,
) -> Result<Caller, Refusal> {
    let token = token.expose_secret();
    if token.is_empty() || token.len() > TOKEN_BYTES_MAX {
        return Err(malformed("the token is empty or too long"));
    }
    // API keys are opaque, but a text in three parts can only be meant as a JWT
    match token.split('.').count() {
        3 => jwt(token, directory, keys, now_ms).await,
        _ => api_key(token, directory, now_ms),
    }
}

fn api_key(token: &str, directory: &Directory, now_ms: u64) -> Result<Caller, Refusal> {
    let digest: [u8; 32] = Sha256::digest(token.as_bytes()).into();
    let unknown = || refuse(codes::AUTH_TOKEN, "the api key is not known");
    let key = directory.api_key(&digest).ok_or_else(unknown)?;
    if key.expires_at_ms.is_some_and(|expires_at_ms| now_ms >= expires_at_ms) {
        return Err(refuse(codes::AUTH_TOKEN_EXPIRED, "the api key has expired"));
    }
    let party = directory.party(&key.principal).ok_or_else(unknown)?;
    Ok(Caller::new(party, Method::ApiKey { id: key.id.clone() }).until(key.expires_at_ms))
}

async fn jwt(token: &str, directory: &Directory, keys: &KeyPool, now_ms: u64) -> Result<Caller, Refusal> {
    // chooses whose keys to try; the verified claims are checked against it again
    let unverified: UnverifiedIssuer = dangerous::insecure_decode_claims(token)
        .map_err(|_| malformed("the token is not a jwt with an issuer"))?;
    let issuer = directory
        .issuer(&unverified.iss)
        .ok_or_else(|| refuse(codes::AUTH_TOKEN, "the token's issuer is not known"))?;
    // also refuses `none`, which the library has no name for
    let header = jsonwebtoken::decode_header(token).map_err(|_| algorithm())?;
    let key = keys.key(&issuer.iss, header.kid.as_deref(), now_ms).await.map_err(key_refusal)?;
    if !issuer.algorithms.contains(&key.algorithm) || header.alg != jose(key.algorithm) {
        return Err(algorithm());
    }
    let claims = verified_claims(token, &key.decoding, key.algorithm, issuer)?;
    let until_ms = check_times(&claims, issuer.leeway_ms, now_ms)?;
    Ok(caller(&claims, issuer, directory)?.until(Some(until_ms)))
}

fn verified_claims(
    token: &str,
    key: &DecodingKey,
    algorithm: TokenAlgorithm,
    issuer: &Issuer,
) -> Result<Claims, Refusal> {
    let mut validation = Validation::new(jose(algorithm));
    validation.set_issuer(&[&issuer.iss]);
    validation.set_audience(&[&issuer.audience]);
    validation.set_required_spec_claims(&["exp", "iss", "aud"]);
    // the library asks the system clock; time is judged by ours, in one place
    validation.validate_exp = false;
    validation.validate_nbf = false;
    let verified =
        jsonwebtoken::decode::<Claims>(token, key, &validation).map_err(|error| match error.kind() {
            ErrorKind::InvalidSignature => refuse(codes::AUTH_TOKEN, "the token's signature does not verify"),
            ErrorKind::InvalidAudience => refuse(codes::AUTH_TOKEN, "the token is meant for somebody else"),
            ErrorKind::MissingRequiredClaim(claim) if claim == "aud" => {
                refuse(codes::AUTH_TOKEN, "the token names no audience")
            }
            ErrorKind::MissingRequiredClaim(_) => malformed("the token lacks a required claim"),
            _ => malformed("the token is malformed"),
        })?;
    Ok(verified.claims)
}

/// When the token expires, if it is valid now.
fn check_times(claims: &Claims, leeway_ms: u64, now_ms: u64) -> Result<u64, Refusal> {
    let expires_at_ms = instant_ms(claims, "exp")?.ok_or_else(|| malformed("the token has no expiry"))?;
    let until_ms = expires_at_ms.saturating_add(leeway_ms);
    if now_ms >= until_ms {
        return Err(refuse(codes::AUTH_TOKEN_EXPIRED, "the token has expired"));
    }
    if instant_ms(claims, "nbf")?
        .is_some_and(|valid_from_ms| now_ms.saturating_add(leeway_ms) < valid_from_ms)
    {
        return Err(refuse(codes::AUTH_TOKEN, "the token is not valid yet"));
    }
    Ok(until_ms)
}

/// A `NumericDate` of RFC 7519: seconds, perhaps with a fraction.
fn instant_ms(claims: &Claims, name: &str) -> Result<Option<u64>, Refusal> {
    match claims.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(value) => match value.as_f64() {
            Some(seconds) if seconds >= 0.0 => Ok(Some((seconds * 1_000.0) as u64)),
            _ => Err(malformed("a time in the token is not a number of seconds")),
        },
    }
}

fn caller(claims: &Claims, issuer: &Issuer, directory: &Directory) -> Result<Caller, Refusal> {
    let subject = claims.get(&issuer.principal_claim).and_then(Value::as_str);
    let subject = subject.ok_or_else(|| malformed("the token lacks the claim that names its principal"))?;
    let party = directory
        .party_of_subject(&issuer.iss, subject)
        .ok_or_else(|| refuse(codes::AUTH_TOKEN, "the token's subject is bound to no principal"))?;
    let caller = Caller::new(party, Method::Bearer { issuer: issuer.iss.clone() });
    let Some(name) = &issuer.scopes_claim else { return Ok(caller) };
    let scopes = match claims.get(name) {
        Some(Value::String(text)) => Scopes::new(text.split_ascii_whitespace().map(str::to_owned)),
        Some(Value::Array(items)) => Scopes::new(items.iter().filter_map(Value::as_str).map(str::to_owned)),
        _ => return Err(malformed("the token lacks the claim that names its scopes")),
    };
    Ok(caller.narrowed_to(&scopes))
}

fn key_refusal(failure: KeyFailure) -> Refusal {
    match failure {
        KeyFailure::Unknown => refuse(codes::AUTH_TOKEN, "the token was signed with an unknown key"),
        KeyFailure::Unavailable { retry_after_ms } => {
            refuse(codes::AUTH_KEYS, "the keys of the token's issuer cannot be read")
                .retry_after_ms(retry_after_ms)
        }
    }
}

fn jose(algorithm: TokenAlgorithm) -> Algorithm {
    match algorithm {
        TokenAlgorithm::EdDsa => Algorithm::EdDSA,
        TokenAlgorithm::Es256 => Algorithm::ES256,
        TokenAlgorithm::Rs256 => Algorithm::RS256,
    }
}

fn malformed(message: &str) -> Refusal {
    refuse(codes::AUTH_TOKEN, message)
}

fn algorithm() -> Refusal {
    refuse(codes::AUTH_TOKEN, "the token's algorithm is not accepted")
}

/// A token is no part of the message, so there is no place to name.
fn refuse(code: &'static codes::Code, message: &str) -> Refusal {
    Refusal::new(code, "", message)
}

#[cfg(test)]
mod tests;
