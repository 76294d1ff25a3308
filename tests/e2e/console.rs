//! The console's page of approvals in a real browser: sign-in, a decision, a quorum of two persons, live updates, what has
//! ended, the keyboard, a phone.

use serde_json::{Value, json};

use crate::browser::Browser;
use crate::harness::{Dev, id};

const ESCAPE: &str = "\u{E00C}";
const ENTER: &str = "\u{E007}";

async fn ask(dev: &Dev, capability: &str, amount: u64) -> Value {
    let action = json!({
        "id": id("act_"), "capability_id": capability, "idempotency_key": id("key_"),
        "input": {"from": "checking", "to": "savings", "amount_minor": amount, "memo": "the landlord"},
    });
    let (status, reply) = dev.action(&action).await;
    assert_eq!(status, 200, "{reply}");
    action
}

fn token(dev: &Dev, name: &str) -> String {
    std::fs::read_to_string(dev.file(&format!("keys/{name}"))).unwrap().trim().to_owned()
}

async fn signed_in(dev: &Dev, width: u32, height: u32, token: &str) -> Browser {
    let browser = Browser::start(width, height).await;
    browser.open(&format!("{}/console/approvals", dev.url)).await;
    browser.type_into("#token", token).await;
    browser.press(ENTER).await;
    browser.says("#live", "live").await;
    browser
}

#[tokio::test(flavor = "multi_thread")]
async fn a_person_signs_in_sees_what_waits_as_it_comes_and_decides() {
    let dev = Dev::start().await;
    let browser = Browser::start(1280, 900).await;
    browser.open(&format!("{}/console/approvals", dev.url)).await;
    browser.type_into("#token", "nobody-0123456789").await;
    browser.click("#signin-form button").await;
    browser.says("#signin-error", "not known").await;
    browser.picture("signin").await;
    browser.quit().await;

    let ann = signed_in(&dev, 1280, 900, &token(&dev, "approver-api-key")).await;
    ann.says("#none", "Nothing waits for you").await;
    // it comes while she looks
    let first = ask(&dev, "cap:accounts:payout:create", 700).await;
    ann.says("#waiting", "cap:accounts:payout:create").await;
    ann.click("#waiting .row").await;
    ann.says("#detail", "financial").await;
    ann.says("#detail", "700 EUR-cent").await;
    ann.says("#input", "amount_minor").await;
    ann.says("#progress", "role approver").await;
    let shown = ann.script("return document.body.innerText").await;
    assert!(!shown.as_str().unwrap().contains("landlord"), "what the schema marks is shown");
    ann.picture("detail").await;
    ann.type_into("#reason", "rent is due").await;
    ann.click("#approve").await;
    ann.says("#state", "It was approved").await;
    ann.says("#ended", "approved").await;
    ann.picture("approved").await;
    assert_eq!(dev.settled(first["id"].as_str().unwrap()).await["status"], "completed");

    // by keyboard alone: move, open, write a reason, deny
    let second = ask(&dev, "cap:accounts:payout:create", 5).await;
    ann.says("#waiting", "cap:accounts:payout:create").await;
    ann.press(ESCAPE).await;
    ann.script("document.activeElement.blur()").await;
    ann.press("j").await;
    ann.press(ENTER).await;
    ann.says("#detail", "5 EUR-cent").await;
    ann.press("r").await;
    ann.press("not now").await;
    // two tab stops behind the text
    ann.press("\u{E004}\u{E004}").await;
    ann.press(ENTER).await;
    ann.says("#state", "It was denied").await;
    assert_eq!(
        dev.settled(second["id"].as_str().unwrap()).await["error"]["code"],
        "aip.policy.approval_denied"
    );
    let complaints = ann.complaints().await;
    assert!(complaints.is_empty(), "{complaints:?}");
    ann.quit().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_decided_elsewhere_or_ended_has_no_buttons() {
    let dev = Dev::start().await;
    let ann = signed_in(&dev, 390, 844, &token(&dev, "approver-api-key")).await;
    let action = ask(&dev, "cap:accounts:payout:create", 9).await;
    ann.click("#waiting .row").await;
    ann.says("#approve", "Approve").await;
    ann.picture("phone").await;
    // the requester takes it back while she reads
    let url = format!("{}/aip/v1/actions/{}/cancel", dev.url, action["id"].as_str().unwrap());
    let cancelled = dev.http.post(url).bearer_auth(dev.api_key()).send().await.unwrap();
    assert!(cancelled.status().is_success());
    ann.says("#state", "It was withdrawn").await;
    let wide = ann.script("return document.documentElement.scrollWidth > window.innerWidth").await;
    assert_eq!(wide, json!(false), "a phone has to scroll sideways");
    assert_eq!(ann.script("return document.querySelector('#approve')").await, Value::Null);
    ann.picture("withdrawn").await;
    ann.click(".back").await;
    ann.says("#none", "Nothing waits for you").await;
    ann.quit().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_page_takes_scripts_of_its_own_origin_only() {
    let dev = Dev::start().await;
    let page = dev.http.get(format!("{}/console/approvals", dev.url)).send().await.unwrap();
    let policy = page.headers()["content-security-policy"].to_str().unwrap().to_owned();
    for rule in ["default-src 'none'", "script-src 'self'", "frame-ancestors 'none'", "form-action 'none'"] {
        assert!(policy.contains(rule), "{policy}");
    }
    assert!(!policy.contains("unsafe"));
    assert_eq!(page.headers()["x-content-type-options"], "nosniff");
}
