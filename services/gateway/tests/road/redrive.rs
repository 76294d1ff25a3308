//! Dead letters taken up again, through the gateway's own capability.

use std::sync::Arc;
use std::time::Duration;

use aip_bus::Worked;
use aip_gateway::front::Outbound;
use aip_names::{Service, Version, operator, queue_consumer_name, queue_stream_name};
use aip_testkit::{TestNats, wait_for};
use aip_wire::{ActionId, MessageType, codes, events};
use serde_json::{Value, json};
use tokio::runtime::Runtime;

use super::queued::TAKEN;
use super::world::*;

fn order(letter: &ActionId) -> Value {
    json!({
        "id": ActionId::generate(), "capability_id": operator::GATEWAY_REDRIVE, "mode": "sync",
        "input": {"action_id": letter, "reason": "the worker is mended"},
    })
}

/// The id of the new action.
fn made(reply: &Outbound) -> ActionId {
    let output = &reply.envelope["body"]["action_result"]["output"];
    ActionId::opaque(output["action_id"].as_str().unwrap_or_else(|| panic!("{}", reply.envelope)))
}

impl World {
    /// Has an action of the client dead-lettered: no worker begins it, however often it is handed out.
    async fn dead_letter(&self, action: &Value) -> ActionId {
        let id = self.submit(action).await;
        self.give_back(&id).await;
        id
    }

    /// What waits in the queue is given back until the queue gives it up.
    async fn give_back(&self, id: &ActionId) {
        for _ in 0..aip_names::limits::QUEUE_DELIVERIES_MAX {
            let (job, _) = self.pull().await;
            job.end(Worked::GivenBack { after: Duration::ZERO }).await.unwrap();
        }
        let stream = queue_stream_name(&TestNats::trust_domain(), &Service::new(SERVICE).unwrap());
        let taker = self.bus.taker(&stream, &queue_consumer_name(Version::V1)).await.unwrap();
        let mut batch = taker.ask(1).await.unwrap();
        let (nothing, ()) = tokio::join!(batch.next(), self.stands(id, "dead_lettered"));
        assert!(nothing.is_none());
    }

    async fn redrive(&self, letter: &ActionId) -> Outbound {
        self.call_as(OPERATOR_TOKEN, &order(letter)).await
    }

    async fn status(&self, id: &ActionId) -> Value {
        let status = self.ask(MessageType::ActionStatusRequest, json!({"action_id": id})).await.unwrap();
        status["action_status"].clone()
    }

    /// A worker that is mended does it.
    async fn done(&self, id: &ActionId) {
        let (job, context) = self.pull().await;
        assert_eq!((&context.action_id, context.attempt), (id, 1));
        assert_eq!(context.principal.id, "service:client");
        assert_eq!(context.tenant.as_deref(), Some("acme"));
        assert_eq!(self.says(id, "mended", 1, "started").await, TAKEN);
        assert_eq!(self.says(id, "mended", 1, "ended").await, TAKEN);
        job.end(Worked::Done).await.unwrap();
        assert_eq!(self.result(id).await["status"], "completed");
    }
}

/// The digest of the manifest's one capability.
fn contract_of(manifest: &Value) -> String {
    let capability = aip_wire::decode(&manifest["capabilities"][0]).unwrap();
    aip_admission::contract_hash(&capability).unwrap()
}

fn said() -> Value {
    action(json!({"mode": "async", "timeout_ms": 600_000, "idempotency_key": "k", "input": {"do": "it"}}))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dead_letter_is_done_by_a_new_action_that_names_it() {
    let world = World::with_queue().await;
    let sent = said();
    let letter = world.dead_letter(&sent).await;
    let before = world.status(&letter).await;
    let order = order(&letter);
    let reply = world.call_as(OPERATOR_TOKEN, &order).await;
    assert_eq!(reply.status, 200, "{}", reply.envelope);
    let result = &reply.envelope["body"]["action_result"];
    assert_eq!(result["output"]["redriven"], json!(letter));
    assert!(result["receipt"]["hash"].is_string());
    let new = made(&reply);
    assert_ne!(new, letter);
    // the same order again is the same answer
    let again = world.call_as(OPERATOR_TOKEN, &order).await;
    assert_eq!(made(&again), new);
    // linked both ways, and nothing else of the old one is another than before
    let path = |id: &ActionId| json!(format!("/aip/v1/actions/{id}"));
    let mut after = world.status(&letter).await;
    assert_eq!(after["links"]["redriven_as"], path(&new));
    after["links"].as_object_mut().unwrap().remove("redriven_as");
    assert_eq!(after, before);
    let status = world.status(&new).await;
    assert_eq!(status["links"]["redrive_of"], path(&letter));
    let (own, old) = (status["correlation_id"].clone(), before["correlation_id"].clone());
    assert!(own.is_string() && own != old, "{own} and {old}");
    world.done(&new).await;
    // who brings the key again is answered by what came of it
    let mut repeated = sent.clone();
    repeated["id"] = json!(ActionId::generate());
    let cached = world.call(&repeated).await;
    assert_eq!(cached.envelope["body"]["ack"], json!({"action_id": new, "status": "cached"}));
    // told as an event of the new action, by the operator
    let told = world.ask(MessageType::ActionEventsRequest, json!({"action_id": new})).await.unwrap();
    let told = told["action_events"]["events"].as_array().unwrap().clone();
    let redriven = told.iter().find(|event| event["kind"] == events::ACTION_REDRIVEN.name).unwrap();
    assert_eq!(redriven["actor"]["id"], "service:operator");
    assert_eq!(redriven["data"]["redrive_of"], json!(letter));
    let listed = world.ask(MessageType::ActionListRequest, json!({"state": "dead_lettered"})).await.unwrap();
    assert_eq!(listed["action_list"]["actions"][0]["links"]["redriven_as"], path(&new));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_time_only_when_the_first_was_dead_lettered_too() {
    let world = World::with_queue().await;
    let letter = world.dead_letter(&said()).await;
    let first = made(&world.redrive(&letter).await);
    let refused = world.redrive(&letter).await;
    assert_eq!(result_code(&refused), codes::ACTION_REDRIVEN.name);
    let error = &refused.envelope["body"]["action_result"]["error"];
    assert_eq!(error["details"]["action_id"], json!(first));
    let early = world.redrive(&first).await;
    assert_eq!(result_code(&early), codes::ACTION_NOT_DEAD.name, "{}", early.envelope);
    world.give_back(&first).await;
    let second = made(&world.redrive(&letter).await);
    assert_ne!(second, first);
    let refused = world.redrive(&first).await;
    assert_eq!(result_code(&refused), codes::ACTION_REDRIVEN.name);
    world.done(&second).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_redrives_who_may_not_and_what_is_hidden_is_not_there() {
    let world = World::with_queue().await;
    let letter = world.dead_letter(&said()).await;
    // a client that may do all that workers offer, and an operator of another tenant
    let denied = world.call(&order(&letter)).await;
    assert_eq!((code(&denied), denied.status), (codes::CAPABILITY_UNKNOWN.name, 404));
    for other in [letter.clone(), ActionId::generate()] {
        let hidden = world.call_as(BETA_OPERATOR_TOKEN, &order(&other)).await;
        assert_eq!(result_code(&hidden), codes::ACTION_NOT_FOUND.name, "{}", hidden.envelope);
    }
    // what the client lent to another to read it stays the client's
    let request = json!({"action_id": letter});
    assert!(world.ask_as(DELEGATE_TOKEN, MessageType::ActionStatusRequest, request).await.is_ok());
    let lent = world.call_as(DELEGATE_TOKEN, &order(&letter)).await;
    assert_eq!(result_code(&lent), codes::POLICY_DENIED.name, "{}", lent.envelope);
    let shown = async |token| {
        let manifest = world.ask_as(token, MessageType::ManifestRequest, json!({})).await.unwrap();
        manifest["manifest"]["capabilities"].to_string().contains(operator::GATEWAY_REDRIVE)
    };
    assert!(shown(OPERATOR_TOKEN).await && !shown(CLIENT_TOKEN).await);
    assert!(!world.status(&letter).await["links"].to_string().contains("redriven_as"));
    let mut asynchronous = order(&letter);
    asynchronous["mode"] = json!("async");
    let refused = world.call_as(OPERATOR_TOKEN, &asynchronous).await;
    assert_eq!(code(&refused), codes::CAPABILITY_MODE.name);
    let mut unknown = order(&letter);
    unknown["input"]["all"] = json!(true);
    assert_eq!(code(&world.call_as(OPERATOR_TOKEN, &unknown).await), codes::ACTION_INPUT.name);
    // and no worker offers it in our stead
    let reply = world.register(manifest(&[say(operator::GATEWAY_REDRIVE, safe())])).await;
    assert_eq!(code(&reply), codes::MANIFEST_NOT_ALLOWED.name);
}

#[tokio::test(flavor = "multi_thread")]
async fn it_is_admitted_by_what_holds_now() {
    let world = World::with_queue().await;
    let letter = world.dead_letter(&said()).await;
    // another contract, or none
    let mut other = queueable();
    other["capabilities"][0]["description"] = json!("says it in another way");
    other["extensions"]["aip.withdraw"] = json!([contract_of(&queueable())]);
    assert_eq!(world.register(other).await.status, 200);
    assert_eq!(result_code(&world.redrive(&letter).await), codes::CAPABILITY_CONTRACT.name);
    world.registered(&[say("cap:test:other", contract(json!({})))]).await;
    assert_eq!(result_code(&world.redrive(&letter).await), codes::CAPABILITY_UNKNOWN.name);
    // the old contract is back, and its owner is not known any more
    assert_eq!(world.register(queueable()).await.status, 200);
    let known = world.authenticator.directory();
    world.authenticator.replace(Arc::new(directory_without("service:client")));
    let refused = world.redrive(&letter).await;
    assert_eq!(result_code(&refused), codes::POLICY_DENIED.name, "{}", refused.envelope);
    world.authenticator.replace(known);
    let new = made(&world.redrive(&letter).await);
    world.done(&new).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn two_replicas_make_one_action_of_a_dead_letter() {
    let world = World::with_queue().await;
    let second = World::replica(world.nats(), "gateway-1").await;
    let letter = world.dead_letter(&said()).await;
    let orders: Vec<Value> = (0..8).map(|_| order(&letter)).collect();
    let replies = futures_util::future::join_all(orders.iter().enumerate().map(|(place, order)| {
        let replica = if place % 2 == 0 { &world } else { &second };
        replica.call_as(OPERATOR_TOKEN, order)
    }))
    .await;
    let won: Vec<&Outbound> = replies.iter().filter(|reply| result_code(reply) == "no error").collect();
    assert_eq!(won.len(), 1);
    let new = made(won[0]);
    for reply in replies.iter().filter(|reply| result_code(reply) != "no error") {
        assert_eq!(result_code(reply), codes::ACTION_REDRIVEN.name, "{}", reply.envelope);
        let error = &reply.envelope["body"]["action_result"]["error"];
        assert_eq!(error["details"]["action_id"], json!(new));
    }
    world.done(&new).await;
}

/// A gateway that goes with its runtime, wherever it is in what it does.
#[test]
fn an_order_of_a_gateway_that_dies_is_finished_by_another_and_makes_one_action() {
    let outside = Runtime::new().unwrap();
    let nats = Arc::new(outside.block_on(TestNats::start()));
    let survivor = outside.block_on(World::on(Arc::clone(&nats)));
    outside.block_on(async { assert_eq!(survivor.register(queueable()).await.status, 200) });
    // killed between the records: when the order is admitted, and when the new action is
    for (round, wanted) in [(0, 1), (1, 2), (2, 1), (3, 2)] {
        let letter = outside.block_on(survivor.dead_letter(&action(json!({
            "mode": "async", "timeout_ms": 600_000, "input": {"do": format!("round {round}")},
        }))));
        let dying = Runtime::new().unwrap();
        let world = dying.block_on(World::replica(&nats, &format!("gateway-{}", round + 1)));
        let order = order(&letter);
        let id = ActionId::opaque(order["id"].as_str().unwrap());
        let (gateway, sent) = (world.gateway.clone(), order.clone());
        dying.spawn(async move { call_on(&gateway, OPERATOR_TOKEN, &sent).await });
        outside.block_on(wait_for("the order", Duration::from_secs(20), || async {
            let order = json!({"action_id": id});
            let known =
                survivor.ask_as(OPERATOR_TOKEN, MessageType::ActionStatusRequest, order).await.is_ok();
            let redriven = survivor.status(&letter).await["links"]["redriven_as"].is_string();
            usize::from(known) + usize::from(redriven) >= wanted
        }));
        dying.shutdown_background();
        drop(world);
        let reply = outside.block_on(survivor.call_as(OPERATOR_TOKEN, &order));
        let new = made(&reply);
        let status = outside.block_on(survivor.status(&letter));
        assert_eq!(status["links"]["redriven_as"], json!(format!("/aip/v1/actions/{new}")));
        outside.block_on(survivor.done(&new));
    }
}
