use std::collections::BTreeSet;

use aip_crypto::receipt::verify_chain;
use aip_wire::{MessageType, codes};
use futures_util::{StreamExt, stream};
use serde_json::{Value, json};

use super::world::*;

async fn list(world: &World, token: &str, request: Value) -> Value {
    let answer = world.ask_as(token, MessageType::ActionListRequest, request).await;
    answer.unwrap_or_else(|refused| panic!("{}", refused.envelope))["action_list"].clone()
}

async fn refused(world: &World, token: &str, asked: MessageType, request: Value) -> String {
    code(&world.ask_as(token, asked, request).await.unwrap_err()).to_owned()
}

fn ids(list: &Value) -> Vec<String> {
    let actions = list["actions"].as_array().unwrap();
    actions.iter().map(|action| action["action_id"].as_str().unwrap().to_owned()).collect()
}

async fn done(world: &World, token: &str) -> String {
    let action = action(json!({}));
    let reply = world.call_as(token, &action).await;
    assert_eq!(reply.status, 200, "{}", reply.envelope);
    action["id"].as_str().unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn two_tenants_see_nothing_of_each_other() {
    let world = World::new().await;
    let (_worker, _serving) = world.serve().await;
    let mut mine = Vec::new();
    let mut theirs = Vec::new();
    for _ in 0..3 {
        mine.push(done(&world, CLIENT_TOKEN).await);
        theirs.push(done(&world, OTHER_TOKEN).await);
    }
    theirs.pop();
    let last = done(&world, OTHER_TOKEN).await;
    mine.reverse();
    for (token, own, foreign) in
        [(CLIENT_TOKEN, &mine, "service:other"), (OTHER_TOKEN, &theirs, "service:client")]
    {
        let all = list(&world, token, json!({})).await;
        assert!(all.get("cursor").is_none());
        assert!(own.iter().all(|id| ids(&all).contains(id)), "{all}");
        assert_eq!(all["total_size"], ids(&all).len());
        let none = list(&world, token, json!({"principal_id": foreign})).await;
        assert_eq!((&none["actions"], &none["total_size"]), (&json!([]), &json!(0)));
    }
    assert_eq!(ids(&list(&world, CLIENT_TOKEN, json!({})).await), mine);
    assert_eq!(list(&world, OTHER_TOKEN, json!({})).await["total_size"], 4);
    for (token, tenant) in [(CLIENT_TOKEN, "beta"), (OTHER_TOKEN, "acme"), (CLIENT_TOKEN, "nowhere")] {
        let request = json!({"tenant_id": tenant});
        let code = refused(&world, token, MessageType::ActionListRequest, request).await;
        assert_eq!(code, codes::TENANT_MISMATCH.name);
    }
    // the feed, the audit, and single actions
    for (token, foreign) in [(CLIENT_TOKEN, &last), (OTHER_TOKEN, &mine[0])] {
        let feed = world.ask_as(token, MessageType::EventStreamRequest, json!({})).await.unwrap();
        let audit = world.ask_as(token, MessageType::AuditQueryRequest, json!({})).await.unwrap();
        for told in [&feed["event_stream"], &audit["audit_query_result"]] {
            assert!(!told["events"].as_array().unwrap().is_empty());
            assert!(!told.to_string().contains(foreign.as_str()), "{told}");
        }
        let request = json!({"action_id": foreign});
        let code = refused(&world, token, MessageType::ActionEventsRequest, request.clone()).await;
        assert_eq!(code, codes::ACTION_NOT_FOUND.name);
        let audit = world.ask_as(token, MessageType::AuditQueryRequest, request).await.unwrap();
        assert_eq!(audit["audit_query_result"]["events"], json!([]));
    }
    // a cursor means nothing to another reader, nor in another query
    let cursor = list(&world, CLIENT_TOKEN, json!({"limit": 1})).await["cursor"].clone();
    for (token, request) in [
        (OTHER_TOKEN, json!({"cursor": cursor})),
        (CLIENT_TOKEN, json!({"cursor": cursor, "state": "completed"})),
        (CLIENT_TOKEN, json!({"cursor": "offset:1"})),
    ] {
        let code = refused(&world, token, MessageType::ActionListRequest, request).await;
        assert_eq!(code, codes::QUERY_CURSOR.name);
    }
    let next = list(&world, CLIENT_TOKEN, json!({"cursor": cursor, "limit": 5})).await;
    assert_eq!((ids(&next), &next["total_size"]), (mine[1..].to_vec(), &json!(3)));
}

#[tokio::test(flavor = "multi_thread")]
async fn paging_meets_each_action_once_while_new_ones_arrive() {
    let world = World::new().await;
    let (_worker, _serving) = world.serve().await;
    // as many at a time as the worker takes
    let actions = stream::iter((0..250).map(|_| done(&world, CLIENT_TOKEN)));
    let made: BTreeSet<String> = actions.buffer_unordered(32).collect().await;
    let mut seen = Vec::new();
    let mut cursor = Value::Null;
    loop {
        let page = list(&world, CLIENT_TOKEN, json!({"limit": 40, "cursor": cursor})).await;
        assert!(page["total_size"].as_u64().unwrap() >= 250);
        seen.extend(ids(&page));
        let Some(next) = page.get("cursor") else { break };
        cursor = next.clone();
        done(&world, CLIENT_TOKEN).await;
    }
    assert_eq!(seen.len(), 250);
    assert_eq!(seen.into_iter().collect::<BTreeSet<_>>(), made);
    // the feed tells each in the order of the log, whatever the page
    let mut told: Vec<Value> = Vec::new();
    let mut cursor = Value::Null;
    loop {
        let request = json!({"limit": 101, "cursor": cursor});
        let page = world.ask(MessageType::EventStreamRequest, request).await.unwrap();
        let page = &page["event_stream"];
        cursor = page["next_cursor"].clone();
        if page["events"].as_array().unwrap().is_empty() {
            break;
        }
        told.extend(page["events"].as_array().unwrap().iter().cloned());
    }
    let unique: BTreeSet<&str> = told.iter().map(|event| event["id"].as_str().unwrap()).collect();
    assert_eq!(unique.len(), told.len());
    for id in &made {
        let of: Vec<&str> = told
            .iter()
            .filter(|event| event["action_id"] == json!(id))
            .map(|event| event["kind"].as_str().unwrap())
            .collect();
        assert_eq!((of.first(), of.last()), (Some(&"aip.action.admitted"), Some(&"aip.action.completed")));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn filters_narrow_and_limits_are_refused_outside_their_bounds() {
    let world = World::new().await;
    let (_worker, _serving) = world.serve().await;
    let completed = done(&world, CLIENT_TOKEN).await;
    let failed = action(json!({"input": {"do": "fail", "card": "4111"}}));
    world.call(&failed).await;
    let failed = failed["id"].as_str().unwrap().to_owned();
    for (request, expected) in [
        (json!({}), vec![&failed, &completed]),
        (json!({"state": "completed"}), vec![&completed]),
        (json!({"state": "failed", "tenant_id": "acme"}), vec![&failed]),
        (json!({"capability_id": "cap:test:say"}), vec![&failed, &completed]),
        (json!({"capability_id": "cap:test:other"}), vec![]),
        (json!({"principal_id": "service:client"}), vec![&failed, &completed]),
        (json!({"session_id": "sess_1"}), vec![]),
        (json!({"approval_id": "appr_1"}), vec![]),
        (json!({"transaction_id": "txn_1"}), vec![]),
    ] {
        let found = list(&world, CLIENT_TOKEN, request.clone()).await;
        assert_eq!(ids(&found).iter().collect::<Vec<_>>(), expected, "{request}");
        assert_eq!(found["total_size"], expected.len(), "{request}");
    }
    let full = json!({"include_results": true, "include_receipts": true, "state": "completed"});
    let full = list(&world, CLIENT_TOKEN, full).await;
    assert_eq!(full["actions"][0]["result"]["output"], json!({"said": "it"}));
    assert!(verify_chain(&full["actions"][0]["receipt_chain"]).is_ok());
    for (asked, request) in [
        (MessageType::ActionListRequest, json!({"limit": 0})),
        (MessageType::ActionListRequest, json!({"limit": 1001})),
        (MessageType::EventStreamRequest, json!({"limit": 0})),
        (MessageType::ActionEventsRequest, json!({"action_id": completed, "limit": 1001})),
        (MessageType::AuditQueryRequest, json!({"limit": 0})),
    ] {
        assert_eq!(refused(&world, CLIENT_TOKEN, asked, request).await, codes::LIMIT_PAGE_ROWS.name);
    }
    // what is told of an action is safe to be told
    let request = json!({"action_id": failed});
    let events = world.ask(MessageType::ActionEventsRequest, request).await.unwrap();
    let events = &events["action_events"];
    assert!(!events.to_string().contains("4111"), "{events}");
    assert_eq!(events["terminal"], json!(true));
    let last = events["events"].as_array().unwrap().last().unwrap();
    assert_eq!(
        (&last["kind"], &last["data"]["code"]),
        (&json!("aip.action.failed"), &json!(codes::WORKER_FAILED.name))
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn events_of_an_action_are_the_same_whenever_they_are_told() {
    let world = World::new().await;
    let (_worker, _serving) = world.serve().await;
    let id = done(&world, CLIENT_TOKEN).await;
    let asked = MessageType::ActionEventsRequest;
    let all = world.ask(asked, json!({"action_id": id})).await.unwrap()["action_events"].clone();
    let events = all["events"].as_array().unwrap();
    assert!(events.iter().all(|event| event["action_id"] == json!(id)));
    let mut one_by_one = Vec::new();
    let mut cursor = Value::Null;
    while one_by_one.len() < events.len() {
        let request = json!({"action_id": id, "limit": 1, "cursor": cursor});
        let page = world.ask(asked, request).await.unwrap()["action_events"].clone();
        cursor = page["cursor"].clone();
        assert_eq!(page["events"].as_array().unwrap().len(), 1);
        one_by_one.extend(page["events"].as_array().unwrap().iter().cloned());
    }
    assert_eq!(&one_by_one, events);
    let behind = world.ask(asked, json!({"action_id": id, "cursor": cursor})).await.unwrap();
    assert_eq!(behind["action_events"]["events"], json!([]));
    let kinds = json!({"action_id": id, "kinds": ["aip.action.completed"]});
    let completed = world.ask(asked, kinds).await.unwrap();
    assert_eq!(completed["action_events"]["events"], json!([events.last().unwrap()]));
    // and the feed says the same of it, also over NATS
    let envelope = signed(envelope(MessageType::EventStreamRequest, json!({})), &world.client_key);
    let reply = world.send(&envelope).await;
    let told = reply.envelope["body"]["event_stream"]["events"].as_array().unwrap().clone();
    assert_eq!(&told, events);
}

#[tokio::test(flavor = "multi_thread")]
async fn to_look_at_the_audit_and_to_take_it_away_are_two_rights() {
    let world = World::new().await;
    let (_worker, _serving) = world.serve().await;
    let id = done(&world, CLIENT_TOKEN).await;
    let asked = MessageType::AuditQueryRequest;
    let all = world.ask(asked, json!({"action_id": id})).await.unwrap()["audit_query_result"].clone();
    let events = all["events"].as_array().unwrap();
    let labels: Vec<&str> = events.iter().map(|event| event["action"].as_str().unwrap()).collect();
    assert_eq!(
        (labels.first(), labels.last()),
        (Some(&"aip.action.admitted"), Some(&"aip.action.completed"))
    );
    for request in [json!({"export": true}), json!({"include_receipts": true})] {
        assert_eq!(refused(&world, CLIENT_TOKEN, asked, request).await, codes::POLICY_SCOPE.name);
    }
    // times are inclusive, at both ends
    let (from, to) = (&events[0]["occurred_at"], &events.last().unwrap()["occurred_at"]);
    let exact = json!({"action_id": id, "from": from, "to": to});
    let exact = world.ask(asked, exact).await.unwrap();
    assert_eq!(exact["audit_query_result"]["events"], all["events"]);
    let later = json!({"action_id": id, "from": "2100-01-01T00:00:00Z"});
    let later = world.ask(asked, later).await.unwrap();
    assert_eq!(later["audit_query_result"]["events"], json!([]));
    // the other may export, but only what it may see
    let own = done(&world, OTHER_TOKEN).await;
    let request = json!({"export": true, "include_receipts": true});
    let exported = world.ask_as(OTHER_TOKEN, asked, request).await.unwrap()["audit_query_result"].clone();
    let chains = exported["receipt_chains"].as_array().unwrap();
    assert_eq!(chains.len(), 1);
    assert_eq!(chains[0]["chain_id"], format!("action:{own}"));
    assert!(verify_chain(&chains[0]).is_ok());
    assert!(!exported.to_string().contains(&id));
    // page by page it is the same
    let mut paged = Vec::new();
    let mut cursor = Value::Null;
    loop {
        let request = json!({"limit": 1, "cursor": cursor, "action_id": id});
        let page = world.ask(asked, request).await.unwrap()["audit_query_result"].clone();
        paged.extend(page["events"].as_array().unwrap().iter().cloned());
        let Some(next) = page.get("cursor") else { break };
        cursor = next.clone();
    }
    assert_eq!(&paged, events);
}
