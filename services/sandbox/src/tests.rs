//! Providers by themselves: what they do, that they do it once, and that tenants never meet.

use std::path::Path;

use aip_sdk::Context;
use aip_wire::trusted::TrustedContext;
use aip_wire::{ActionId, ProtocolError, Timestamp};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::book::Book;

/// An action by `tenant` under a key.
fn context(tenant: &str, capability: &str, key: Option<&str>) -> Context {
    let trusted: TrustedContext = serde_json::from_value(json!({
        "version": 1, "trust_domain": "aip.local", "action_id": ActionId::generate(), "capability_id": capability,
        "contract_hash": "h", "attempt": 1, "principal": {"id": "agent:a", "kind": "agent"},
        "authentication": {"type": "api_key", "id": "k"}, "scopes": [], "tenant": tenant,
        "deadline_ms": Timestamp::now().as_ms() + 20_000, "policy": {"directory": "d", "rule": "r"},
    }))
    .unwrap();
    Context::new(trusted, key, Default::default())
}

fn input<T: DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).unwrap()
}

fn output(answer: Result<impl Serialize, aip_sdk::ActionError>) -> Value {
    serde_json::to_value(answer.unwrap()).unwrap()
}

fn code<T>(answer: Result<T, aip_sdk::ActionError>) -> String {
    let error: ProtocolError = answer.err().unwrap().into();
    assert_eq!(error.details, None, "a refusal is certain");
    error.code
}

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().unwrap()
}

fn restaurant(folder: &Path) -> Book {
    Book::open(&folder.join("r.redb"), crate::restaurant::seed).unwrap()
}

fn accounts(folder: &Path) -> Book {
    Book::open(&folder.join("a.redb"), crate::accounts::seed).unwrap()
}

async fn balance(book: &Book, tenant: &str, account: &str) -> (u64, u64) {
    let context = context(tenant, "cap:accounts:balance:read", None);
    let said = output(crate::accounts::read(book.clone(), context, input(json!({"account": account}))).await);
    (said["balance_minor"].as_u64().unwrap(), said["effects"].as_u64().unwrap())
}

async fn transfer(book: &Book, context: &Context, amount_minor: u64) -> Result<Value, aip_sdk::ActionError> {
    let wanted = json!({"from": "checking", "to": "merchant", "amount_minor": amount_minor, "memo": "lunch"});
    let made = crate::accounts::transfer_once(book.clone(), context.clone(), input(wanted)).await?;
    Ok(serde_json::to_value(made).unwrap())
}

fn paying(tenant: &str, key: &str) -> Context {
    context(tenant, "cap:accounts:transfer:create", Some(key))
}

#[tokio::test]
async fn money_moves_once_for_an_action_and_once_for_a_key() {
    let folder = folder();
    let book = accounts(folder.path());
    let first = paying("acme", "k-1");
    let made = transfer(&book, &first, 2_500).await.unwrap();
    assert_eq!(made["from_balance_minor"], 97_500);
    // the same action again, another action under the same key, and the same after a restart
    assert_eq!(transfer(&book, &first, 2_500).await.unwrap(), made);
    assert_eq!(transfer(&book, &paying("acme", "k-1"), 2_500).await.unwrap(), made);
    drop(book);
    let book = accounts(folder.path());
    assert_eq!(transfer(&book, &first, 2_500).await.unwrap(), made);
    assert_eq!(balance(&book, "acme", "merchant").await, (2_500, 1));
    // another tenant has its own samples, and its own keys
    assert_eq!(balance(&book, "globex", "merchant").await, (0, 0));
    assert_eq!(transfer(&book, &paying("globex", "k-1"), 1).await.unwrap()["from_balance_minor"], 99_999);
}

#[tokio::test]
async fn what_cannot_be_paid_is_refused_and_changes_nothing() {
    let folder = folder();
    let book = accounts(folder.path());
    assert_eq!(
        code(transfer(&book, &paying("acme", "a"), 100_001).await),
        "sandbox.accounts.insufficient_funds"
    );
    assert_eq!(code(transfer(&book, &paying("acme", "b"), 0).await), "sandbox.accounts.amount_invalid");
    assert_eq!(
        code(transfer(&book, &paying("acme", "c"), u64::MAX).await),
        "sandbox.accounts.amount_invalid"
    );
    let itself = json!({"from": "checking", "to": "checking", "amount_minor": 1});
    let answer = crate::accounts::transfer_once(book.clone(), paying("acme", "d"), input(itself)).await;
    assert_eq!(code(answer), "sandbox.accounts.same_account");
    let nowhere = json!({"from": "checking", "to": "nowhere", "amount_minor": 1});
    let answer = crate::accounts::transfer_once(book.clone(), paying("acme", "e"), input(nowhere)).await;
    assert_eq!(code(answer), "sandbox.accounts.account_unknown");
    assert_eq!(balance(&book, "acme", "checking").await, (100_000, 0));
    // a refused key is free for another try
    assert!(transfer(&book, &paying("acme", "a"), 1).await.is_ok());
}

#[tokio::test]
async fn a_refund_is_made_once_and_money_is_never_made() {
    let folder = folder();
    let book = accounts(folder.path());
    let made = transfer(&book, &paying("acme", "k"), 300).await.unwrap();
    let refund = |key: &'static str, id: Value| {
        let context = context("acme", "cap:accounts:refund:create", Some(key));
        crate::accounts::refund_once(book.clone(), context, input(json!({ "transfer_id": id })))
    };
    assert_eq!(output(refund("r-1", made["transfer_id"].clone()).await)["amount_minor"], 300);
    assert_eq!(output(refund("r-1", made["transfer_id"].clone()).await)["amount_minor"], 300);
    assert_eq!(code(refund("r-2", made["transfer_id"].clone()).await), "sandbox.accounts.already_refunded");
    assert_eq!(code(refund("r-3", json!("transfer_0")).await), "sandbox.accounts.transfer_unknown");
    assert_eq!(balance(&book, "acme", "checking").await, (100_000, 2));
    assert_eq!(balance(&book, "acme", "merchant").await, (0, 2));
}

#[tokio::test]
async fn many_at_once_pay_what_is_there_and_no_more() {
    let folder = folder();
    let book = accounts(folder.path());
    let contexts: Vec<Context> = (0..30).map(|n| paying("acme", &format!("k-{n}"))).collect();
    let paid = futures_util::future::join_all(contexts.iter().map(|c| transfer(&book, c, 10_000))).await;
    assert_eq!(paid.iter().filter(|paid| paid.is_ok()).count(), 10);
    assert_eq!(balance(&book, "acme", "checking").await, (0, 10));
    assert_eq!(balance(&book, "acme", "merchant").await, (100_000, 10));
}

fn sitting(table: &str, party: u8) -> Value {
    json!({
        "restaurant": "trattoria-roma", "table": table, "date": "2027-03-14", "time": "19:00", "party": party,
        "guest_name": "Ada",
    })
}

async fn free_tables(book: &Book, tenant: &str) -> Vec<String> {
    let wanted = json!({"city": "Helsinki", "date": "2027-03-14", "time": "19:00", "party": 4});
    let context = context(tenant, "cap:restaurant:table:search", None);
    let found = output(crate::restaurant::find(book.clone(), context, input(wanted)).await);
    let tables = found["tables"].as_array().unwrap().clone();
    tables
        .iter()
        .map(|t| format!("{}/{}", t["restaurant"].as_str().unwrap(), t["table"].as_str().unwrap()))
        .collect()
}

#[tokio::test]
async fn a_table_is_booked_by_one_party_until_it_is_cancelled() {
    let folder = folder();
    let book = restaurant(folder.path());
    let all = free_tables(&book, "acme").await;
    assert_eq!(all, ["sushi-kai/t3", "sushi-kai/t4", "trattoria-roma/t3", "trattoria-roma/t4"]);
    let create = |key: &str, order: Value| {
        let context = context("acme", "cap:restaurant:booking:create", Some(key));
        crate::restaurant::reserve(book.clone(), context, input(order))
    };
    let booked = output(create("k-1", sitting("t3", 4)).await);
    assert_eq!((&booked["status"], &booked["guest_name"]), (&json!("confirmed"), &json!("Ada")));
    assert_eq!(output(create("k-1", sitting("t3", 4)).await), booked);
    assert_eq!(code(create("k-2", sitting("t3", 4)).await), "sandbox.restaurant.table_taken");
    assert_eq!(free_tables(&book, "acme").await.len(), 3);
    assert_eq!(free_tables(&book, "globex").await.len(), 4);
    let cancel = |id: Value| {
        let context = context("acme", "cap:restaurant:booking:cancel", None);
        crate::restaurant::free(book.clone(), context, input(json!({ "booking_id": id })))
    };
    for _ in 0..2 {
        assert_eq!(output(cancel(booked["booking_id"].clone()).await)["status"], "cancelled");
    }
    assert_eq!(code(cancel(json!("book_0")).await), "sandbox.restaurant.booking_unknown");
    assert_eq!(free_tables(&book, "acme").await, all);
    assert!(create("k-3", sitting("t3", 2)).await.is_ok());
    // cancelling the first again must not free the second's table
    assert_eq!(output(cancel(booked["booking_id"].clone()).await)["status"], "cancelled");
    assert_eq!(free_tables(&book, "acme").await.len(), 3);
}

#[tokio::test]
async fn what_cannot_be_booked_is_refused() {
    let folder = folder();
    let book = restaurant(folder.path());
    let mut n = 0;
    let mut refused = async |member: &str, value: Value| {
        n += 1;
        let mut order = sitting("t3", 4);
        order[member] = value;
        let context = context("acme", "cap:restaurant:booking:create", Some(&format!("k-{n}")));
        code(crate::restaurant::reserve(book.clone(), context, input(order)).await)
    };
    assert_eq!(refused("table", json!("t9")).await, "sandbox.restaurant.table_unknown");
    assert_eq!(refused("party", json!(5)).await, "sandbox.restaurant.table_too_small");
    assert_eq!(refused("date", json!("2027-02-30")).await, "sandbox.restaurant.date_invalid");
    assert_eq!(refused("time", json!("03:00")).await, "sandbox.restaurant.time_invalid");
    let nobody: TrustedContext = {
        let mut value = serde_json::to_value(context("x", "c", None).trusted()).unwrap();
        value.as_object_mut().unwrap().remove("tenant");
        input(value)
    };
    let nobody = Context::new(nobody, None, Default::default());
    let answer = crate::restaurant::reserve(book.clone(), nobody, input(sitting("t3", 4))).await;
    assert_eq!(code(answer), "sandbox.tenant_required");
}

#[tokio::test]
async fn a_full_report_fits_an_answer() {
    let folder = folder();
    let book = Book::open(&folder.path().join("w.redb"), crate::report::seed).unwrap();
    let sections = aip_names::limits::SANDBOX_REPORT_SECTIONS_MAX;
    let order = json!({"title": "Q", "sections": sections, "author_email": "a@example.org"});
    let context = context("acme", "cap:report:write", None);
    let report = output(crate::report::compose(book, context, input(order)).await);
    assert_eq!(report["sections"].as_array().unwrap().len(), usize::from(sections));
    let bytes = report.to_string().len();
    assert!((300_000..aip_names::limits::WORKER_ANSWER_BYTES_MAX - 8_192).contains(&bytes), "{bytes}");
}

#[tokio::test]
async fn a_slow_job_stops_when_told_to() {
    let folder = folder();
    let book = Book::open(&folder.path().join("s.redb"), crate::slow::seed).unwrap();
    let quick = context("acme", "cap:slow:job", None);
    let done = output(crate::slow::sleep(book.clone(), quick, input(json!({"duration_ms": 5}))).await);
    assert_eq!(done["slept_ms"], 5);
    let stopped = context("acme", "cap:slow:job", None);
    stopped.stop().cancel();
    let answer = crate::slow::sleep(book, stopped, input(json!({"duration_ms": 100_000}))).await;
    assert_eq!(code(answer), "sandbox.slow.stopped");
}

#[tokio::test]
async fn misbehaviour_counts_what_it_did_and_stops_after_so_many_attempts() {
    let folder = folder();
    let book = Book::open(&folder.path().join("c.redb"), crate::chaos::seed).unwrap();
    let told = |order: Value| {
        let context = context("acme", "cap:chaos:misbehave", None);
        crate::chaos::misbehave(book.clone(), context, input(order))
    };
    assert_eq!(
        output(told(json!({"mode": "none"})).await),
        json!({"ok": true, "mode": "none", "attempt": 1})
    );
    assert_eq!(code(told(json!({"mode": "error"})).await), "sandbox.chaos.error");
    assert_eq!(code(told(json!({"mode": "error", "before_effect": true})).await), "sandbox.chaos.error");
    assert_eq!(output(told(json!({"mode": "error", "attempts": 0})).await)["mode"], "none");
    assert_eq!(output(told(json!({"mode": "wrong_schema"})).await)["ok"], "perhaps");
    let question = context("acme", "cap:chaos:effects:read", None);
    let counted = output(crate::chaos::count(book.clone(), question, input(json!({}))).await);
    assert_eq!(counted["effects"], 4);
}

#[test]
fn answers_that_say_so_are_spoiled_and_others_are_not() {
    let answer = |mode: &str| {
        let output = json!({"ok": true, "mode": mode, "attempt": 1});
        let body = json!({"action_result": {"action_id": "act_1", "status": "completed", "output": output}});
        bytes::Bytes::from(json!({"envelope": {"body": body}}).to_string())
    };
    assert_eq!(crate::chaos::tamper(answer("none")), answer("none"));
    assert!(serde_json::from_slice::<Value>(&crate::chaos::tamper(answer("garbage"))).is_err());
    let large = crate::chaos::tamper(answer("oversize")).len();
    let (least, most) =
        (aip_names::limits::WORKER_ANSWER_BYTES_MAX, aip_names::limits::TRANSPORT_MESSAGE_BYTES_MAX);
    assert!((least..most).contains(&large), "{large}");
    let wrong: Value = serde_json::from_slice(&crate::chaos::tamper(answer("wrong_action"))).unwrap();
    assert_ne!(wrong["envelope"]["body"]["action_result"]["action_id"], "act_1");
}
