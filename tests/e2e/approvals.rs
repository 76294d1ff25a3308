//! Approvals as people meet them: asked for by a call, decided by another person over HTTP or by the command line, done
//! once, also when both services are killed in between.

use aip_testkit::{wait_for, wait_for_some};
use serde_json::{Value, json};

use crate::harness::{Dev, SOON, id};

const PAYOUT: &str = "cap:accounts:payout:create";

fn payout(amount: u64) -> Value {
    json!({
        "id": id("act_"), "capability_id": PAYOUT, "idempotency_key": id("key_"),
        "input": {"from": "checking", "to": "savings", "amount_minor": amount, "memo": "the landlord"},
    })
}

struct Person<'d> {
    dev: &'d Dev,
    token: String,
}

impl Person<'_> {
    async fn get(&self, path: &str) -> (u16, Value) {
        let request = self.dev.http.get(format!("{}{path}", self.dev.url)).bearer_auth(&self.token);
        self.answer(request).await
    }

    async fn decide(&self, approval: &str, decision: Value) -> (u16, Value) {
        let url = format!("{}/aip/v1/approvals/{approval}/decisions", self.dev.url);
        self.answer(self.dev.http.post(url).bearer_auth(&self.token).json(&decision)).await
    }

    async fn answer(&self, request: reqwest::RequestBuilder) -> (u16, Value) {
        let response = request.send().await.unwrap();
        (response.status().as_u16(), response.json().await.unwrap())
    }

    /// The approval, once its service has it.
    async fn sees(&self, approval: &str) -> Value {
        wait_for_some("the approval", SOON, || async {
            let (status, view) = self.get(&format!("/aip/v1/approvals/{approval}")).await;
            (status == 200).then(|| view["approval_record_view"].clone())
        })
        .await
    }
}

fn approver(dev: &Dev) -> Person<'_> {
    let token = std::fs::read_to_string(dev.file("keys/approver-api-key")).unwrap();
    Person { dev, token: token.trim().to_owned() }
}

fn code(answer: &Value) -> &str {
    answer["body"]["error"]["error"]["code"].as_str().unwrap_or_default()
}

/// Sends an action that has to be approved, and gives the approval's id.
async fn asked(dev: &Dev, action: &Value) -> String {
    let (status, reply) = dev.action(action).await;
    assert_eq!(status, 200, "{reply}");
    assert_eq!(reply["body"]["action_result"]["status"], "pending_approval", "{reply}");
    reply["extensions"]["aip.approval"]["approval_id"].as_str().unwrap().to_owned()
}

async fn balance(dev: &Dev) -> u64 {
    let output = dev.output("cap:accounts:balance:read", json!({"account": "checking"})).await;
    output["balance_minor"].as_u64().unwrap()
}

fn approve(view: &Value) -> Value {
    json!({"decision": "approved", "policy_hash": view["request"]["policy_hash"], "decision_id": id("d_")})
}

#[tokio::test(flavor = "multi_thread")]
async fn a_payout_is_done_once_when_another_person_has_agreed() {
    let dev = Dev::start().await;
    let (before, ann) = (balance(&dev).await, approver(&dev));
    let action = payout(700);
    let approval = asked(&dev, &action).await;
    // sent again it is the same action, and waits for the same approval
    assert_eq!(asked(&dev, &action).await, approval);
    let status = dev.get(&format!("/aip/v1/actions/{}", action["id"].as_str().unwrap())).await.1;
    assert_eq!(status["action_status"]["state"], "pending_approval");
    assert_eq!(status["action_status"]["approval_id"], json!(approval));
    let view = ann.sees(&approval).await;
    assert_eq!((&view["status"], &view["request"]["governed_value"]), (&json!("pending"), &json!(700)));
    // what the schema marks is not shown, and the input itself is nowhere
    let text = view.to_string();
    assert!(text.contains("amount%5Fminor") && !text.contains("landlord"), "{text}");
    let (status, refused) =
        ann.get(&format!("/aip/v1/approvals/{approval}?include_evidence_payload=true")).await;
    assert_eq!((status, code(&refused)), (403, "aip.policy.scope_missing"));

    // nobody approves what they asked for, and nobody decides in another's name
    let me = Person { dev: &dev, token: dev.api_key() };
    let (status, refused) = me.decide(&approval, approve(&view)).await;
    assert_eq!((status, code(&refused)), (403, "aip.policy.scope_missing"));
    let mut spoofed = approve(&view);
    spoofed["approver"] = json!({"id": "human:dev-approver", "kind": "human"});
    assert_eq!(me.decide(&approval, spoofed.clone()).await.0, 400);
    let (status, refused) =
        ann.decide(&approval, json!({"decision": "approved", "policy_hash": "another"})).await;
    assert_eq!((status, code(&refused)), (409, "aip.approval.policy_hash_mismatch"));

    let decision = approve(&view);
    let (status, decided) = ann.decide(&approval, decision.clone()).await;
    assert_eq!((status, &decided["approval_record_view"]["status"]), (200, &json!("approved")), "{decided}");
    assert_eq!(ann.decide(&approval, decision).await.0, 200, "a repetition is answered as before");
    let result = dev.settled(action["id"].as_str().unwrap()).await;
    assert_eq!(result["status"], "completed", "{result}");
    assert_eq!(balance(&dev).await, before - 700);

    let chain = dev.get(&format!("/aip/v1/receipts/action:{}", action["id"].as_str().unwrap())).await.1;
    let types: Vec<&str> = chain["receipt_chain"]["receipts"]
        .as_array()
        .unwrap()
        .iter()
        .map(|receipt| receipt["receipt_type"].as_str().unwrap())
        .collect();
    assert_eq!(&types[3..5], ["approval_requested", "approval_granted"], "{types:?}");
    let own = ann.get(&format!("/aip/v1/receipts/approval:{approval}")).await.1;
    let own = &own["receipt_chain"];
    assert_eq!(own["receipts"].as_array().unwrap().len(), 3, "{own}");
    aip_crypto::receipt::verify_chain(own).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn the_command_line_lists_shows_and_decides() {
    let dev = Dev::start().await;
    let before = balance(&dev).await;
    let input = r#"{"from": "checking", "to": "savings", "amount_minor": 5}"#;
    let called = dev.aip(&["action", "call", PAYOUT, input, "--key", "k1"]).await;
    let said = String::from_utf8_lossy(&called.stdout).into_owned();
    assert!(called.status.success() && said.contains("waits for approval appr_"), "{said}");
    let ann = ["--profile", ".aip/approver.toml", "--json"];
    let listed = wait_for_some("the approval in the list", SOON, || async {
        let listed = dev.aip_json(&[&["approval", "list"][..], &ann].concat()).await;
        listed.as_array().is_some_and(|found| !found.is_empty()).then_some(listed)
    })
    .await;
    let id = listed[0]["request"]["id"].as_str().unwrap().to_owned();
    let shown = dev.aip_json(&[&["approval", "show", &id][..], &ann].concat()).await;
    assert_eq!(shown["action_status"]["state"], json!(null), "the action is not the approver's to see");
    let denied = dev
        .aip_json(&[&["approval", "decide", "deny", &id, "--reason", "not this month"][..], &ann].concat())
        .await;
    assert_eq!(
        (&denied[0]["status"], &denied[0]["decision"]["reason"]),
        (&json!("denied"), &json!("not this month"))
    );
    let result = dev.settled(shown["request"]["action_id"].as_str().unwrap()).await;
    assert_eq!(result["error"]["code"], "aip.policy.approval_denied");
    assert_eq!(balance(&dev).await, before);
    let late = dev.aip(&[&["approval", "decide", "approve", &id][..], &ann].concat()).await;
    let said = String::from_utf8_lossy(&late.stderr).into_owned();
    assert!(!late.status.success() && said.contains("aip.approval.already_ended"), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn both_services_killed_between_decision_and_dispatch_still_do_it_once() {
    let dev = Dev::start().await;
    let (before, ann) = (balance(&dev).await, approver(&dev));
    let mut actions = Vec::new();
    for _ in 0..5 {
        let action = payout(1);
        let approval = asked(&dev, &action).await;
        let view = ann.sees(&approval).await;
        actions.push((action, approval, view));
    }
    for (at, (_, approval, view)) in actions.iter().enumerate() {
        // the answer may be lost with the process that owes it: the same decision is said again
        let decision = approve(view);
        let url = format!("{}/aip/v1/approvals/{approval}/decisions", dev.url);
        let request = || dev.http.post(&url).bearer_auth(&ann.token).json(&decision);
        let first = tokio::spawn(request().send());
        if at == 2 {
            dev.kill("policy-approval");
            dev.kill("gateway-0");
        }
        drop(first.await);
        wait_for("the decision to be taken", SOON * 3, || async {
            match request().send().await {
                Ok(response) => response.status().is_success(),
                Err(_) => false,
            }
        })
        .await;
    }
    let (mut done, mut unknown) = (0, 0);
    for (action, _, _) in &actions {
        let result = dev.settled(action["id"].as_str().unwrap()).await;
        match result["error"]["code"].as_str() {
            None => done += 1,
            // the gateway died while the worker was at it: a mutation is not sent again
            Some("aip.action.uncertain_outcome") => unknown += 1,
            Some(_) => panic!("{result}"),
        }
    }
    let moved = before - balance(&dev).await;
    assert!((done..=done + unknown).contains(&moved), "{done} done, {unknown} unknown, {moved} moved");
    assert!(done >= 3, "{done} done, {unknown} unknown");
}

#[tokio::test(flavor = "multi_thread")]
async fn without_the_service_nothing_is_taken_and_it_recovers_by_itself() {
    let dev = Dev::start().await;
    let (status, reply) = {
        dev.kill("policy-approval");
        dev.action(&payout(1)).await
    };
    // either it was gone already, or it was asked in time
    if status != 200 {
        assert!(code(&reply).starts_with("aip.service."), "{reply}");
        assert_eq!(status, 503, "{reply}");
    }
    wait_for("the service to be there again", SOON * 3, || async { dev.action(&payout(1)).await.0 == 200 })
        .await;
}
