//! The page with more than one person: a quorum of two, and what ran out of time.

use serde_json::json;

use crate::browser::Browser;
use crate::world::*;

const ENTER: &str = "\u{E007}";

async fn signed_in(url: &str, who: &str) -> Browser {
    let browser = Browser::start(1280, 900).await;
    browser.open(&format!("{url}/console/approvals")).await;
    browser.type_into("#token", &token(who)).await;
    browser.press(ENTER).await;
    browser.says("#live", "live").await;
    browser
}

#[tokio::test(flavor = "multi_thread")]
async fn two_persons_make_a_quorum_and_each_sees_the_other_agree() {
    let world = World::new(two_of_three()).await;
    let url = world.serve_http().await;
    let action = pay(3);
    let approval = world.ask(&action).await;
    world.view(&approval).await;
    let (ann, bob) = tokio::join!(signed_in(&url, "ann"), signed_in(&url, "bob"));
    for person in [&ann, &bob] {
        person.click("#waiting .row").await;
        person.says("#progress", "2 of 3").await;
        person.says("#progress", "nobody yet").await;
    }
    ann.click("#approve").await;
    ann.says("#state", "You agreed. It waits for others.").await;
    // told without being asked
    bob.says("#progress", "human:ann").await;
    bob.picture("quorum").await;
    assert_eq!(world.times(&action), 0);
    bob.click("#approve").await;
    bob.says("#state", "It was approved").await;
    ann.says("#state", "It was approved").await;
    assert_eq!(world.result(&action).await["status"], "completed");
    let complaints = bob.complaints().await;
    assert!(complaints.is_empty(), "{complaints:?}");
    tokio::join!(ann.quit(), bob.quit());
}

#[tokio::test(flavor = "multi_thread")]
async fn what_ran_out_of_time_says_so_and_takes_no_decision() {
    let mut policy = by_role();
    policy["ttl_ms"] = json!(12_000);
    let world = World::new(policy).await;
    let url = world.serve_http().await;
    let ann = signed_in(&url, "ann").await;
    world.ask(&pay(3)).await;
    ann.click("#waiting .row").await;
    ann.says("#state", "It expired").await;
    ann.says("#ended", "expired").await;
    assert_eq!(ann.script("return document.querySelector('#approve')").await, serde_json::Value::Null);
    ann.picture("expired").await;
    ann.quit().await;
}
