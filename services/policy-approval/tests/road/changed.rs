//! What was approved is looked at again before it is done.

use std::sync::Arc;

use aip_names::Version;
use aip_testkit::{wait_for, wait_for_some};
use serde_json::json;

use crate::world::*;

fn v2() -> Version {
    Version::new("v2").unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_contract_that_changed_meanwhile_is_approved_anew() {
    let mut world = World::new(by_role()).await;
    let action = pay(8);
    let first = world.ask(&action).await;
    world.view(&first).await;
    let mut stricter = two_of_three();
    stricter["policy_version"] = json!("2");
    world.start_worker(stricter, v2()).await;
    world.approve("ann", &first).await;
    let second = wait_for_some("another approval", SOON, || async {
        let id = world.status(&action).await["approval_id"].as_str().unwrap().to_owned();
        (id != first).then_some(id)
    })
    .await;
    assert_eq!(world.status(&action).await["state"], "pending_approval");
    assert_eq!(world.times(&action), 0, "the first approval was for something else");
    world.approve("ann", &second).await;
    world.approve("bob", &second).await;
    assert_eq!(world.result(&action).await["status"], "completed");
    assert_eq!(world.times(&action), 1);
    let kinds = world.kinds(&action).await;
    assert!(kinds.contains(&"aip.action.approval_stale".to_owned()), "{kinds:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn who_is_not_known_any_more_or_left_the_tenant_has_nothing_done() {
    let gone = directory_text().replacen("id = \"human:req\"", "id = \"human:somebody\"", 1);
    let moved = {
        let text = directory_text();
        let at = text.find("id = \"human:req\"").unwrap();
        let (before, after) = text.split_at(at);
        format!("{before}{}", after.replacen("\"acme\"", "\"beta\"", 1))
    };
    for (text, code) in [(gone, "aip.approval.identity_changed"), (moved, "aip.approval.tenant_changed")] {
        let world = World::new(by_role()).await;
        let action = pay(8);
        let approval = world.ask(&action).await;
        world.view(&approval).await;
        world.gateways[0].1.replace(Arc::new(directory(&text)));
        // decided by another who is still known there
        let decided = world.decide_for("ann", &approval).await;
        assert!(decided.is_ok(), "{decided:?}");
        let result = world.result_as("olga", &action).await;
        assert_eq!(result["error"]["code"], code);
        assert_eq!(world.times(&action), 0);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn without_the_service_nothing_is_taken_and_what_was_taken_goes_on_when_it_is_back() {
    let mut world = World::new(by_role()).await;
    let waiting = pay(1);
    let approval = world.ask(&waiting).await;
    world.view(&approval).await;
    let (service, serving) = world.services.pop().unwrap();
    serving.drain(SOON).await;
    let reply = world.send(&pay(2)).await;
    assert_eq!(reply.envelope["body"]["error"]["error"]["code"], "aip.service.absent");
    assert_eq!(world.refused_while_away("ann", &approval).await, "aip.service.absent");
    aip_service::Service::drain(&service).await;
    drop(service);
    wait_for_service(&mut world).await;
    world.approve("ann", &approval).await;
    assert_eq!(world.result(&waiting).await["status"], "completed");
    let again = pay(3);
    wait_for("actions to be taken again", SOON, || async { world.send(&again).await.status == 200 }).await;
}

async fn wait_for_service(world: &mut World) {
    // another replica of the same ledger: it learns what the first one recorded
    world.start_service(1).await;
}
