//! What one 2 KiB envelope costs, and a million receipts: `cargo run --release -p aip-crypto --example measure`.

use std::error::Error;
use std::hint::black_box;
use std::time::Instant;

use aip_crypto::receipt::{self, ChainVerifier};
use aip_crypto::{SigningKey, canonical, sign_envelope, verify_envelope};
use serde_json::{Value, json};

const ROUNDS: u32 = 5;
const CALLS: u32 = 5_000;
const RECEIPTS: u32 = 1_000_000;

fn main() -> Result<(), Box<dyn Error>> {
    let key = SigningKey::from_seed(&[7; 32]);
    let mut envelope = envelope();
    sign_envelope(&mut envelope, &key)?;
    println!("envelope: {} bytes", canonical::to_vec(&envelope).len());
    measure("canonicalize", || canonical::to_vec(&envelope));
    measure("canonicalize and hash", || canonical::hash(&envelope));
    measure("verify", || verify_envelope(&envelope));
    let mut signed = envelope.clone();
    measure("sign", || sign_envelope(&mut signed, &key));
    chain()
}

fn envelope() -> Value {
    let items: Vec<_> = (0..18)
        .map(|n| json!({"sku": format!("item-{n:04}"), "quantity": n, "price": 12.5, "note": "fresh \"daily\"", "ok": true}))
        .collect();
    json!({
        "aip_version": "1.0",
        "message_type": "aip.core.v1.action",
        "message_id": "msg_0197f3a0c0de70008000000000000001",
        "sent_at": "2026-12-01T08:00:00Z",
        "from": {"id": "principal:measure", "kind": "agent"},
        "body": {"action": {
            "id": "act_0197f3a0c0de70008000000000000001",
            "capability_id": "cap:shop:order",
            "mode": "sync",
            "input": {"items": items, "address": {"street": "Große Straße 1", "city": "Köln"}},
        }},
    })
}

/// Prints the fastest and the slowest round's time a call.
fn measure<T>(what: &str, mut call: impl FnMut() -> T) {
    let mut rounds = Vec::new();
    for _ in 0..ROUNDS {
        let start = Instant::now();
        for _ in 0..CALLS {
            black_box(call());
        }
        rounds.push(start.elapsed().as_secs_f64() * 1e6 / f64::from(CALLS));
    }
    rounds.sort_by(f64::total_cmp);
    let (fastest, slowest) = (rounds.first().unwrap_or(&0.0), rounds.last().unwrap_or(&0.0));
    println!("{what}: {fastest:.1}-{slowest:.1} µs");
}

fn chain() -> Result<(), Box<dyn Error>> {
    let mut verifier = ChainVerifier::default();
    let mut previous: Option<String> = None;
    let start = Instant::now();
    for number in 0..RECEIPTS {
        let mut receipt = json!({
            "id": format!("rcpt_{number:032x}"),
            "receipt_type": "action_accepted",
            "actor": {"id": "gateway", "kind": "service"},
            "occurred_at": "2026-12-01T08:00:00Z",
            "data": {"n": number},
        });
        previous = Some(receipt::seal(&mut receipt, previous.as_deref())?);
        verifier.push(&receipt)?;
    }
    let each_us = start.elapsed().as_secs_f64() * 1e6 / f64::from(RECEIPTS);
    let status = std::fs::read_to_string("/proc/self/status")?;
    let peak = status.lines().find(|line| line.starts_with("VmHWM")).unwrap_or("VmHWM unknown");
    println!("{RECEIPTS} receipts made and verified: {each_us:.1} µs each, {peak}");
    Ok(())
}
