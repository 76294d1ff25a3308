use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jsonwebtoken::{Algorithm, Header};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use aip_names::limits::{JWKS_REFRESH_MIN_MS, JWKS_STALE_MAX_MS, TOKEN_BYTES_MAX};
use aip_wire::codes::{self, Code};

use crate::testing::{ALICE_KEY, NOW_MS, OLD_KEY, TokenKey, authenticator, claims, jwks, run, secret, world};
use crate::{Authenticator, Directory, Method};

/// An authenticator whose issuer has these keys, in a folder of its own.
struct Issuer {
    authenticator: Authenticator,
    file: PathBuf,
    _folder: tempfile::TempDir,
}

impl Issuer {
    fn new(keys: &[&TokenKey], change: impl Fn(String) -> String) -> Issuer {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("jwks.json");
        std::fs::write(&file, jwks(keys)).unwrap();
        let directory = Directory::parse(&change(world()), folder.path()).unwrap();
        Issuer { authenticator: Authenticator::new(Arc::new(directory)).unwrap(), file, _folder: folder }
    }

    fn ask(&self, token: &str, now_ms: u64) -> Result<crate::Caller, &'static Code> {
        run(self.authenticator.caller(Some(&secret(token)), now_ms)).map_err(|refusal| refusal.code)
    }

    fn says(&self, token: &str) -> String {
        run(self.authenticator.caller(Some(&secret(token)), NOW_MS)).unwrap_err().message
    }
}

fn ed() -> TokenKey {
    TokenKey::ed25519("ed", 9)
}

fn part(value: &Value) -> String {
    URL_SAFE_NO_PAD.encode(value.to_string())
}

#[test]
fn each_algorithm_proves_the_principal_that_its_subject_is_bound_to() {
    let keys = [ed(), TokenKey::p256("ec"), TokenKey::rsa("rsa")];
    let issuer = Issuer::new(&[&keys[0], &keys[1], &keys[2]], |world| world);
    for key in &keys {
        let caller = issuer.ask(&key.token(&claims(json!({}))), NOW_MS).unwrap();
        assert_eq!(*caller.id(), "service:alice");
        assert_eq!(*caller.method(), Method::Bearer { issuer: crate::testing::ISS.to_owned() });
        assert!(caller.scopes().cover("action:write") && caller.tenants() == ["acme", "beta"]);
    }
}

#[test]
fn claims_are_judged_one_by_one() {
    let key = ed();
    let issuer = Issuer::new(&[&key], |world| world);
    let now_s = NOW_MS / 1_000;
    let cases = [
        (json!({ "aud": "somebody-else" }), codes::AUTH_TOKEN),
        (json!({ "aud": null }), codes::AUTH_TOKEN),
        (json!({ "aud": 7 }), codes::AUTH_TOKEN),
        (json!({ "iss": "https://other.example" }), codes::AUTH_TOKEN),
        (json!({ "iss": null }), codes::AUTH_TOKEN),
        (json!({ "sub": "nobody" }), codes::AUTH_TOKEN),
        (json!({ "sub": null }), codes::AUTH_TOKEN),
        (json!({ "exp": null }), codes::AUTH_TOKEN),
        (json!({ "exp": "soon" }), codes::AUTH_TOKEN),
        (json!({ "exp": -1 }), codes::AUTH_TOKEN),
        (json!({ "exp": now_s - 30 }), codes::AUTH_TOKEN_EXPIRED),
        (json!({ "nbf": now_s + 31 }), codes::AUTH_TOKEN),
        (json!({ "nbf": "later" }), codes::AUTH_TOKEN),
    ];
    for (members, code) in cases {
        assert_eq!(issuer.ask(&key.token(&claims(members.clone())), NOW_MS).unwrap_err(), code, "{members}");
    }
    // the configured leeway is 30 seconds
    for members in
        [json!({ "exp": now_s - 29 }), json!({ "nbf": now_s + 30 }), json!({ "aud": ["x", "aip"] })]
    {
        assert!(issuer.ask(&key.token(&claims(members.clone())), NOW_MS).is_ok(), "{members}");
    }
}

#[test]
fn the_algorithm_is_the_keys_and_not_the_tokens() {
    let (key, rsa) = (ed(), TokenKey::rsa("rsa"));
    let issuer = Issuer::new(&[&key, &rsa], |world| world);
    let good = key.token(&claims(json!({})));
    let (_, signature) = good.rsplit_once('.').unwrap();
    for alg in ["none", "None", "HS256", "RS256", "ES256", "EdDSA512", ""] {
        let header = part(&json!({ "alg": alg, "typ": "JWT", "kid": "ed" }));
        for signature in ["", signature] {
            let token = format!("{header}.{}.{signature}", part(&claims(json!({}))));
            assert_eq!(issuer.ask(&token, NOW_MS).unwrap_err(), codes::AUTH_TOKEN, "{alg}");
        }
    }
    // the public key as an HMAC secret, the classic confusion
    let public = URL_SAFE_NO_PAD.decode(key.jwk()["x"].as_str().unwrap()).unwrap();
    let header = Header { kid: Some("ed".to_owned()), ..Header::new(Algorithm::HS256) };
    let secret = jsonwebtoken::EncodingKey::from_secret(&public).unwrap();
    let forged = jsonwebtoken::encode(&header, &claims(json!({})), &secret).unwrap();
    assert_eq!(issuer.says(&forged), "the token's algorithm is not accepted");
    // a key of the issuer, but of another algorithm than the issuer may use
    let narrow =
        Issuer::new(&[&key, &rsa], |world| world.replace("\"EdDSA\", \"ES256\", \"RS256\"", "\"EdDSA\""));
    assert_eq!(narrow.says(&rsa.token(&claims(json!({})))), "the token's algorithm is not accepted");
}

#[test]
fn no_other_key_and_no_changed_claim_verifies() {
    let (key, other) = (ed(), TokenKey::ed25519("ed", 10));
    let issuer = Issuer::new(&[&key], |world| world);
    assert_eq!(issuer.says(&other.token(&claims(json!({})))), "the token's signature does not verify");
    let good = key.token(&claims(json!({})));
    let parts: Vec<&str> = good.split('.').collect();
    let raised = format!("{}.{}.{}", parts[0], part(&claims(json!({ "exp": NOW_MS }))), parts[2]);
    assert_eq!(issuer.says(&raised), "the token's signature does not verify");
    let unknown = key.token_under(
        &Header { kid: Some("gone".to_owned()), ..Header::new(Algorithm::EdDSA) },
        &claims(json!({})),
    );
    assert_eq!(issuer.says(&unknown), "the token was signed with an unknown key");
}

#[test]
fn texts_that_are_no_tokens_are_refused() {
    let issuer = Issuer::new(&[&ed()], |world| world);
    let header = part(&json!({ "alg": "EdDSA", "kid": "ed", "crit": ["b64"], "b64": false }));
    let critical = format!("{header}.{}.AAAA", part(&claims(json!({}))));
    let long = "x".repeat(TOKEN_BYTES_MAX + 1);
    for token in ["", "..", "a.b.c", "unknown-api-key", "a.b", "a.b.c.d", &critical, &long] {
        assert_eq!(issuer.ask(token, NOW_MS).unwrap_err(), codes::AUTH_TOKEN, "{token:.40}");
    }
}

#[test]
fn a_token_with_scopes_narrows_what_the_directory_gives() {
    let key = ed();
    let issuer = Issuer::new(&[&key], |world| {
        world.replace("audience = \"aip\"", "audience = \"aip\"\nscopes_claim = \"scope\"")
    });
    for scope in [json!("action:read admin"), json!(["action:read", "admin", 7])] {
        let caller = issuer.ask(&key.token(&claims(json!({ "scope": scope }))), NOW_MS).unwrap();
        assert_eq!(caller.scopes().iter().collect::<Vec<_>>(), ["action:read"]);
    }
    assert_eq!(issuer.ask(&key.token(&claims(json!({}))), NOW_MS).unwrap_err(), codes::AUTH_TOKEN);
}

#[test]
fn a_claim_of_ones_own_can_name_the_principal() {
    let key = ed();
    let issuer = Issuer::new(&[&key], |world| {
        world.replace("audience = \"aip\"", "audience = \"aip\"\nprincipal_claim = \"azp\"")
    });
    assert!(issuer.ask(&key.token(&claims(json!({ "azp": "alice-at-idp", "sub": "x" }))), NOW_MS).is_ok());
    assert_eq!(issuer.ask(&key.token(&claims(json!({}))), NOW_MS).unwrap_err(), codes::AUTH_TOKEN);
}

#[test]
fn api_keys_are_known_by_their_digest_until_they_expire() {
    let authenticator = authenticator();
    let ask = |key: &str, now_ms| run(authenticator.caller(Some(&secret(key)), now_ms)).map_err(|r| r.code);
    let caller = ask(ALICE_KEY, NOW_MS).unwrap();
    assert_eq!(*caller.id(), "service:alice");
    assert_eq!(*caller.method(), Method::ApiKey { id: "k1".to_owned() });
    assert!(ask(OLD_KEY, NOW_MS - 1).is_ok());
    assert_eq!(ask(OLD_KEY, NOW_MS).unwrap_err(), codes::AUTH_TOKEN_EXPIRED);
    assert_eq!(ask(&crate::testing::digest(ALICE_KEY), NOW_MS).unwrap_err(), codes::AUTH_TOKEN);
    assert_eq!(run(authenticator.caller(None, NOW_MS)).unwrap_err().code, codes::AUTH_MISSING);
}

#[test]
fn rotated_keys_are_read_when_a_token_names_one_that_is_missing() {
    let (old, new) = (ed(), TokenKey::ed25519("new", 10));
    let issuer = Issuer::new(&[&old], |world| world);
    let later = claims(json!({ "exp": NOW_MS / 1_000 + 86_400 }));
    assert!(issuer.ask(&old.token(&later), NOW_MS).is_ok());
    std::fs::write(&issuer.file, jwks(&[&new])).unwrap();
    // too near to the last read
    assert_eq!(issuer.ask(&new.token(&later), NOW_MS + 1).unwrap_err(), codes::AUTH_TOKEN);
    assert!(issuer.ask(&new.token(&later), NOW_MS + JWKS_REFRESH_MIN_MS).is_ok());
    assert_eq!(
        issuer.ask(&old.token(&later), NOW_MS + JWKS_REFRESH_MIN_MS + 1).unwrap_err(),
        codes::AUTH_TOKEN
    );
}

#[test]
fn withdrawn_keys_are_forgotten_when_the_set_is_old() {
    let (old, new) = (ed(), TokenKey::ed25519("new", 10));
    let issuer = Issuer::new(&[&old], |world| world);
    let later = claims(json!({ "exp": NOW_MS / 1_000 + 86_400 }));
    assert!(issuer.ask(&old.token(&later), NOW_MS).is_ok());
    std::fs::write(&issuer.file, jwks(&[&new])).unwrap();
    assert!(issuer.ask(&old.token(&later), NOW_MS + 299_999).is_ok());
    assert_eq!(issuer.ask(&old.token(&later), NOW_MS + 300_000).unwrap_err(), codes::AUTH_TOKEN);
}

#[test]
fn a_lost_source_leaves_the_keys_in_force_for_a_while_only() {
    let key = ed();
    let issuer = Issuer::new(&[&key], |world| world);
    let later = claims(json!({ "exp": NOW_MS / 1_000 + 86_400 }));
    let token = key.token(&later);
    assert!(issuer.ask(&token, NOW_MS).is_ok());
    std::fs::remove_file(&issuer.file).unwrap();
    assert!(issuer.ask(&token, NOW_MS + JWKS_STALE_MAX_MS - 1).is_ok());
    let refusal =
        run(issuer.authenticator.caller(Some(&secret(&token)), NOW_MS + JWKS_STALE_MAX_MS)).unwrap_err();
    assert_eq!(refusal.code, codes::AUTH_KEYS);
    assert!(refusal.retry_after_ms.is_some_and(|ms| ms > 0 && ms <= JWKS_REFRESH_MIN_MS), "{refusal:?}");
}

#[test]
fn a_new_directory_counts_from_the_next_request_on() {
    let key = ed();
    let issuer = Issuer::new(&[&key], |world| world);
    let token = key.token(&claims(json!({})));
    assert!(issuer.ask(&token, NOW_MS).is_ok());
    let folder = issuer.file.parent().unwrap_or(Path::new("."));
    let unbound = Directory::parse(&world().replace("alice-at-idp", "somebody"), folder).unwrap();
    issuer.authenticator.replace(Arc::new(unbound));
    assert_eq!(issuer.ask(&token, NOW_MS).unwrap_err(), codes::AUTH_TOKEN);
}

/// A key server on a free port of this machine that counts its requests; ends with the runtime it is started on.
async fn serve(answer: impl Fn(usize) -> String + Send + 'static) -> (String, Arc<AtomicUsize>) {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/jwks", listener.local_addr().unwrap());
    let count = Arc::new(AtomicUsize::new(0));
    let counted = count.clone();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut request = [0; 4_096];
            if stream.read(&mut request).await.is_err() {
                continue;
            }
            let answer = answer(counted.fetch_add(1, Ordering::SeqCst));
            let _ = stream.write_all(answer.as_bytes()).await;
        }
    });
    (url, count)
}

fn ok(body: &str) -> String {
    format!("HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}", body.len())
}

fn at(url: &str) -> Authenticator {
    let text = world().replace("jwks_file = \"jwks.json\"", &format!("jwks_url = \"{url}\""));
    Authenticator::new(Arc::new(Directory::parse(&text, Path::new("/nowhere")).unwrap())).unwrap()
}

#[test]
fn made_up_key_ids_cost_one_fetch_an_interval() {
    let key = ed();
    let (good, body) = (key.token(&claims(json!({}))), jwks(&[&key]));
    run(async move {
        let (url, count) = serve(move |_| ok(&body)).await;
        let authenticator = at(&url);
        assert!(authenticator.caller(Some(&secret(&good)), NOW_MS).await.is_ok());
        assert_eq!(count.load(Ordering::SeqCst), 1);
        for number in 0..50 {
            let header = Header { kid: Some(format!("made-up-{number}")), ..Header::new(Algorithm::EdDSA) };
            let token = key.token_under(&header, &claims(json!({})));
            let now_ms = NOW_MS + JWKS_REFRESH_MIN_MS + number;
            assert_eq!(
                authenticator.caller(Some(&secret(&token)), now_ms).await.unwrap_err().code,
                codes::AUTH_TOKEN
            );
        }
        assert_eq!(count.load(Ordering::SeqCst), 2);
        assert!(authenticator.caller(Some(&secret(&good)), NOW_MS + JWKS_REFRESH_MIN_MS).await.is_ok());
    });
}

#[test]
fn a_failing_key_server_is_left_alone_for_a_growing_while() {
    let key = ed();
    let (good, body) = (key.token(&claims(json!({}))), jwks(&[&key]));
    run(async move {
        let failing = "HTTP/1.1 500 Oops\r\nconnection: close\r\ncontent-length: 0\r\n\r\n";
        let (url, count) = serve(move |n| if n < 2 { failing.to_owned() } else { ok(&body) }).await;
        let authenticator = at(&url);
        let token = secret(&good);
        let mut waits = Vec::new();
        let mut now_ms = NOW_MS;
        for tries in 1..=2 {
            let refusal = authenticator.caller(Some(&token), now_ms).await.unwrap_err();
            assert_eq!(refusal.code, codes::AUTH_KEYS);
            assert_eq!(count.load(Ordering::SeqCst), tries);
            let again = authenticator.caller(Some(&token), now_ms + 1).await.unwrap_err();
            assert_eq!((again.code, count.load(Ordering::SeqCst)), (codes::AUTH_KEYS, tries));
            waits.push(refusal.retry_after_ms.unwrap());
            now_ms += refusal.retry_after_ms.unwrap();
        }
        assert_eq!(waits, [JWKS_REFRESH_MIN_MS, 2 * JWKS_REFRESH_MIN_MS]);
        assert!(authenticator.caller(Some(&token), now_ms).await.is_ok());
    });
}

#[test]
fn a_key_server_may_not_redirect_nor_send_without_end() {
    let key = ed();
    let good = key.token(&claims(json!({})));
    let elsewhere = "HTTP/1.1 302 Found\r\nlocation: http://127.0.0.1:1/\r\nconnection: close\r\ncontent-length: 0\r\n\r\n";
    let endless = ok(&" ".repeat(aip_names::limits::JWKS_BYTES_MAX + 1));
    for answer in [elsewhere.to_owned(), endless, ok("<html>")] {
        let good = good.clone();
        run(async move {
            let (url, _) = serve(move |_| answer.clone()).await;
            let refusal = at(&url).caller(Some(&secret(&good)), NOW_MS).await.unwrap_err();
            assert_eq!(refusal.code, codes::AUTH_KEYS);
        });
    }
}

#[test]
fn refusals_repeat_nothing_of_the_token() {
    let key = ed();
    let issuer = Issuer::new(&[&key], |world| world);
    for token in [key.token(&claims(json!({ "sub": "nobody-known" }))), "api-key-that-nobody-has".to_owned()]
    {
        let refusal = run(issuer.authenticator.caller(Some(&secret(&token)), NOW_MS)).unwrap_err();
        let told = format!("{refusal:?} {refusal}");
        assert!(!told.contains("nobody-known") && !told.contains(&token), "{told}");
    }
}
