//! What the tests of this crate share: a small world with two tenants, and messages from it.

use std::path::Path;
use std::sync::Arc;

use jsonwebtoken::{Algorithm, EncodingKey, Header, jwk::Jwk};
use secrecy::SecretString;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use aip_crypto::SigningKey;
use aip_wire::{Action, Capability, Envelope, MessageBody, Refusal, Timestamp};

use crate::{Authentic, Authenticator, Directory, Valid};

/// 2026-07-14T08:30:00Z
pub const NOW_MS: u64 = 1_784_017_800_000;
pub const ALICE_KEY: &str = "alice-key-0123456789abcdef";
pub const OLD_KEY: &str = "alice-old-key-0123456789abcdef";
pub const ISS: &str = "https://id.example";

pub fn alice() -> SigningKey {
    SigningKey::from_seed(&[1; 32])
}

pub fn bob() -> SigningKey {
    SigningKey::from_seed(&[2; 32])
}

/// Alice acts in acme and beta, bob in beta only, carol nowhere; dave may act for alice in acme.
pub fn world() -> String {
    format!(
        r#"
trust_domain = "aip.test"
tenant = [
  {{ id = "acme", external_accounts = [{{ id = "acct-1", system = "bank" }}, {{ id = "acct-2", system = "bank" }}] }},
  {{ id = "beta" }},
]

[[principal]]
id = "service:alice"
kind = "service"
display_name = "Alice"
tenants = ["acme", "beta"]
scopes = ["action:write", "action:read", "receipt:read:any"]
capabilities = ["cap:restaurant:*", "cap:bank:transfer"]
dids = ["{alice}"]
subjects = [{{ iss = "{ISS}", subject = "alice-at-idp" }}]
api_keys = [
  {{ id = "k1", sha256 = "{key}" }},
  {{ id = "k2", sha256 = "{old}", expires_at = 2026-07-14T08:30:00Z }},
]

[[principal]]
id = "agent:bob"
kind = "agent"
tenants = ["beta"]
scopes = ["action:write", "action:read:any"]
capabilities = ["cap:restaurant:search"]
risk_max = "medium"
dids = ["{bob}"]

[[principal]]
id = "human:carol"
kind = "human"
scopes = ["action:read"]
capabilities = ["*"]

[[principal]]
id = "agent:dave"
kind = "agent"
tenants = ["acme"]
scopes = ["action:write"]
api_keys = [{{ id = "d1", sha256 = "{dave}" }}]

[[issuer]]
iss = "{ISS}"
audience = "aip"
jwks_file = "jwks.json"
algorithms = ["EdDSA", "ES256", "RS256"]

[[worker]]
principal = "service:alice"
service = "sandbox-restaurant"
capabilities = ["cap:restaurant:*"]

[[credential]]
id = "vault/bank"
tenant = "acme"
issuer = "https://bank.example"
scopes = ["transfer", "balance"]
external_account = {{ id = "acct-1", system = "bank" }}

[[credential]]
id = "vault/expired"
tenant = "acme"
issuer = "https://bank.example"
scopes = ["transfer"]
expires_at = 2026-07-14T08:00:00Z

[[credential]]
id = "vault/renewable"
tenant = "acme"
issuer = "https://bank.example"
scopes = ["transfer"]
expires_at = 2026-07-14T08:00:00Z
refreshable = true

[[credential]]
id = "vault/beta"
tenant = "beta"
issuer = "https://bank.example"

[[grant]]
delegate = "agent:dave"
principal = "service:alice"
scopes = ["action:write"]
capabilities = ["cap:bank:*"]
tenant = "acme"
expires_at = 2026-07-14T09:00:00Z

[[grant]]
delegate = "agent:dave"
principal = "service:alice"
scopes = ["action:write"]
capabilities = ["cap:restaurant:*"]
tenant = "acme"
expires_at = 2026-07-14T08:30:00Z
"#,
        alice = alice().did(),
        bob = bob().did(),
        key = digest(ALICE_KEY),
        old = digest(OLD_KEY),
        dave = digest("dave-key"),
    )
}

pub fn digest(key: &str) -> String {
    hex::encode(Sha256::digest(key.as_bytes()))
}

pub fn directory() -> Arc<Directory> {
    Arc::new(Directory::parse(&world(), Path::new("/nowhere")).unwrap())
}

pub fn authenticator() -> Authenticator {
    Authenticator::new(directory()).unwrap()
}

pub fn secret(text: &str) -> SecretString {
    SecretString::from(text)
}

pub fn action_value() -> Value {
    json!({
        "id": "act_0190c42f2d5a70008000000000000003",
        "capability_id": "cap:restaurant:book",
        "input": { "name": "Jordan", "party_size": 2 },
    })
}

/// The action with these members set, or taken away where they are null.
pub fn action(members: Value) -> Action {
    let mut value = action_value();
    for (name, member) in members.as_object().unwrap() {
        value[name] = member.clone();
    }
    value.as_object_mut().unwrap().retain(|_, member| !member.is_null());
    aip_wire::decode(&value).unwrap()
}

pub fn envelope(action: Action) -> Envelope {
    Envelope::new(MessageBody::from(action), Timestamp::from_ms(NOW_MS))
}

pub fn value(envelope: &Envelope) -> Value {
    serde_json::to_value(envelope).unwrap()
}

pub fn signed(mut value: Value, key: &SigningKey) -> Value {
    aip_crypto::sign_envelope(&mut value, key).unwrap();
    value
}

pub fn valid(value: Value) -> Valid {
    aip_wire::validate::value(value).unwrap().into()
}

/// An action of the principal with this key, past the second gate.
pub fn authentic(action: Action, key: &SigningKey) -> Authentic {
    authenticate(signed(value(&envelope(action)), key), None).unwrap()
}

pub fn authenticate(value: Value, token: Option<&str>) -> Result<Authentic, Refusal> {
    let token = token.map(secret);
    run(authenticator().authenticate(valid(value), token.as_ref(), NOW_MS))
}

pub fn run<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
}

pub fn capability(id: &str, contract: Value) -> Capability {
    let mut value = json!({ "id": id, "name": id, "kind": "tool", "input_schema": {}, "risk": "low" });
    if !contract.is_null() {
        value["contract"] = contract;
    }
    aip_wire::decode(&value).unwrap()
}

/// A contract that allows everything this release can do, with these members replaced.
pub fn contract(members: Value) -> Value {
    let mut contract = json!({
        "side_effects": ["write"],
        "idempotency": {
            "requirement": "optional", "collision_behavior": "reject_conflict", "key_scope": "principal",
        },
        "execution": {
            "supports_sync": true, "supports_async": true, "supports_streaming": true, "supports_cancel": false,
            "supports_retry": true, "expected_completion": "any", "retry_safety": "safe_with_idempotency_key",
        },
        "data": { "sensitivity": "internal", "contains_pii": false, "redaction_required": false },
    });
    for (name, member) in members.as_object().unwrap() {
        contract[name] = member.clone();
    }
    contract
}

// === tokens ===

pub struct TokenKey {
    pub kid: &'static str,
    pub algorithm: Algorithm,
    key: EncodingKey,
}

impl TokenKey {
    pub fn ed25519(kid: &'static str, seed: u8) -> TokenKey {
        // PKCS #8 of an Ed25519 seed (RFC 8410)
        let mut der = hex::decode("302e020100300506032b657004220420").unwrap();
        der.extend_from_slice(&[seed; 32]);
        TokenKey { kid, algorithm: Algorithm::EdDSA, key: EncodingKey::from_ed_der(&der) }
    }

    pub fn p256(kid: &'static str) -> TokenKey {
        let pem = include_bytes!("../testdata/test-only-ec.pem");
        TokenKey { kid, algorithm: Algorithm::ES256, key: EncodingKey::from_ec_pem(pem).unwrap() }
    }

    pub fn rsa(kid: &'static str) -> TokenKey {
        let pem = include_bytes!("../testdata/test-only-rsa.pem");
        TokenKey { kid, algorithm: Algorithm::RS256, key: EncodingKey::from_rsa_pem(pem).unwrap() }
    }

    pub fn rsa_weak(kid: &'static str) -> TokenKey {
        let pem = include_bytes!("../testdata/test-only-rsa-1024.pem");
        TokenKey { kid, algorithm: Algorithm::RS256, key: EncodingKey::from_rsa_pem(pem).unwrap() }
    }

    pub fn jwk(&self) -> Value {
        let mut jwk =
            serde_json::to_value(Jwk::from_encoding_key(&self.key, self.algorithm).unwrap()).unwrap();
        jwk["kid"] = json!(self.kid);
        jwk
    }

    pub fn header(&self) -> Header {
        Header { kid: Some(self.kid.to_owned()), ..Header::new(self.algorithm) }
    }

    pub fn token(&self, claims: &Value) -> String {
        self.token_under(&self.header(), claims)
    }

    pub fn token_under(&self, header: &Header, claims: &Value) -> String {
        jsonwebtoken::encode(header, claims, &self.key).unwrap()
    }
}

pub fn jwks(keys: &[&TokenKey]) -> String {
    json!({ "keys": keys.iter().map(|key| key.jwk()).collect::<Vec<_>>() }).to_string()
}

/// Good claims, with these members set, or taken away where they are null.
pub fn claims(members: Value) -> Value {
    let now_s = NOW_MS / 1_000;
    let mut claims =
        json!({ "iss": ISS, "aud": "aip", "sub": "alice-at-idp", "exp": now_s + 60, "nbf": now_s - 60 });
    for (name, member) in members.as_object().unwrap() {
        claims[name] = member.clone();
    }
    claims.as_object_mut().unwrap().retain(|_, member| !member.is_null());
    claims
}
