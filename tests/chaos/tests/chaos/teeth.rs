//! The judge itself: what must not be is called so. And the network that is cut and silent.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use aip_chaos::journal::{End, Entry, Journal, Told};
use aip_chaos::judge::{self, Stand};
use aip_chaos::provider::{Line, What};
use aip_chaos::proxy::{Network, Proxy};
use aip_chaos::worker::{NAP, NOTE, PAY};
use aip_wire::{ActionId, ActionLifecycleState, ActionResultStatus, codes};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

fn end(status: ActionResultStatus, code: &str) -> End {
    let uncertain = code == codes::ACTION_UNCERTAIN.name;
    End { status, code: code.to_owned(), uncertain, cause: String::new(), output: Some(json!(1)) }
}

fn completed() -> End {
    end(ActionResultStatus::Completed, "")
}

fn entry(told: Told) -> Entry {
    let (key, deadline) = (Some("k".to_owned()), Instant::now());
    Entry { tenant: 0, capability: PAY, key, deadline, told, stands_for: None, cancelled: false }
}

fn kept(told: Told, stand: Option<Stand>) -> bool {
    let id = ActionId::generate();
    judge::kept(&[(id.clone(), entry(told))], &HashMap::from([(id, stand)])).is_empty()
}

fn stand(state: ActionLifecycleState, end: Option<End>) -> Option<Stand> {
    Some(Stand { state, end, early_ms: 0, spent: false })
}

#[test]
fn what_was_acknowledged_is_there_has_ended_and_stays_as_it_was_told() {
    use ActionLifecycleState as S;
    let done = || stand(S::Completed, Some(completed()));
    assert!(kept(Told::Ended(completed()), done()));
    assert!(kept(Told::Taken, done()));
    assert!(kept(Told::Nothing, None));
    assert!(!kept(Told::Taken, None), "lost");
    assert!(!kept(Told::Ended(completed()), None), "lost");
    assert!(!kept(Told::Taken, stand(S::Running, None)), "never ends");
    assert!(!kept(Told::Nothing, stand(S::Queued, None)), "never ends");
    let failed = end(ActionResultStatus::Failed, "aip.worker.failed");
    assert!(!kept(Told::Ended(completed()), stand(S::Failed, Some(failed))), "told otherwise");
    assert!(!kept(Told::Refused("aip.x".to_owned()), None), "good actions are not refused");
}

#[test]
fn an_answer_of_another_action_is_judged_when_that_one_is_asked_for() {
    let (id, other) = (ActionId::generate(), ActionId::generate());
    let own = Entry { stands_for: Some(other.clone()), ..entry(Told::Ended(completed())) };
    let judged = |stands: Vec<(ActionId, Option<Stand>)>| {
        judge::kept(&[(id.clone(), own.clone())], &stands.into_iter().collect()).is_empty()
    };
    assert!(judged(vec![(id.clone(), None)]), "its own time is not over");
    assert!(!judged(vec![(id.clone(), None), (other.clone(), None)]), "lost");
    let done = stand(ActionLifecycleState::Completed, Some(completed()));
    assert!(judged(vec![(id.clone(), None), (other.clone(), done)]));
}

#[test]
fn effects_fit_what_was_told_of_them() {
    let id = ActionId::generate();
    let line = |what, attempt| Line {
        what,
        tenant: "tenant:red".to_owned(),
        capability: PAY.to_owned(),
        action: id.to_string(),
        key: Some("k".to_owned()),
        attempt,
        pid: 1,
    };
    let once = [line(What::Begun, 1), line(What::Done, 1)];
    let twice = [line(What::Begun, 1), line(What::Begun, 2), line(What::Done, 2)];
    let foreign = [Line { tenant: "tenant:blue".to_owned(), ..line(What::Begun, 1) }];
    assert!(judge::payments(&once).is_empty());
    assert_eq!(judge::payments(&twice).len(), 1);
    let judged = |lines: &[Line], end: End| {
        let entries = [(id.clone(), entry(Told::Ended(end.clone())))];
        let stands = HashMap::from([(id.clone(), stand(ActionLifecycleState::Failed, Some(end)))]);
        judge::bank(lines, &entries, &stands).is_empty()
    };
    let uncertain = || end(ActionResultStatus::Failed, "aip.action.uncertain_outcome");
    let not_done = || end(ActionResultStatus::Failed, "aip.worker.unavailable");
    assert!(judged(&once, completed()) && judged(&once, uncertain()) && judged(&[], uncertain()));
    assert!(judged(&[], not_done()));
    assert!(!judged(&[], completed()), "told, and not done");
    assert!(!judged(&once, not_done()), "done, and told not to be");
    assert!(!judged(&foreign, uncertain()), "another tenant's");
}

#[test]
fn what_nobody_had_was_not_done_though_it_may_be_repeated() {
    let id = ActionId::generate();
    let judged = |capability: &'static str, done: bool, code: &str| {
        let line = Line {
            what: What::Done,
            tenant: "tenant:red".to_owned(),
            capability: capability.to_owned(),
            action: id.to_string(),
            key: Some("k".to_owned()),
            attempt: 1,
            pid: 1,
        };
        let end = end(ActionResultStatus::Failed, code);
        let entries = [(id.clone(), Entry { capability, ..entry(Told::Ended(end.clone())) })];
        let stands = HashMap::from([(id.clone(), stand(ActionLifecycleState::Failed, Some(end)))]);
        judge::bank(if done { std::slice::from_ref(&line) } else { &[] }, &entries, &stands).is_empty()
    };
    for capability in [NOTE, NAP] {
        for code in ["aip.worker.unavailable", "aip.action.deadline_expired"] {
            assert!(judged(capability, false, code));
            assert!(!judged(capability, true, code), "{capability} was done: {code}");
        }
        assert!(judged(capability, true, "chaos.stopped"), "another attempt did it");
    }
}

#[test]
fn an_outcome_that_is_not_known_has_a_reason_and_is_rare() {
    let uncertain = || end(ActionResultStatus::Failed, codes::ACTION_UNCERTAIN.name);
    let judged = |early_ms: i64, spent: bool, cancelled: bool, many: usize| {
        let all = (0..many).map(|_| {
            let (id, end) = (ActionId::generate(), uncertain());
            let entry = Entry { capability: NOTE, cancelled, ..entry(Told::Ended(end.clone())) };
            let stand = Stand { state: ActionLifecycleState::Failed, end: Some(end), early_ms, spent };
            ((id.clone(), entry), (id, Some(stand)))
        });
        let (entries, stands): (Vec<_>, HashMap<_, _>) = all.unzip();
        judge::known(&entries, &stands).is_empty()
    };
    assert!(judged(0, false, false, 1) && judged(-900, false, false, 1));
    assert!(judged(9_000, true, false, 1) && judged(9_000, false, true, 1));
    assert!(!judged(9_000, false, false, 1), "there was time to repeat it");
    assert!(!judged(0, false, false, 50), "that many are no accident");
    let untold: Vec<_> = (0..50).map(|_| (ActionId::generate(), entry(Told::Nothing))).collect();
    assert!(!judge::known(&untold, &HashMap::new()).is_empty());
}

#[test]
fn what_a_client_was_told_may_not_change() {
    let (journal, id) = (Journal::default(), ActionId::generate());
    journal.open(&id, entry(Told::Nothing));
    journal.told(&id, Told::Taken);
    journal.told(&id, Told::Ended(completed()));
    journal.told(&id, Told::Ended(completed()));
    assert!(journal.all_wrong().is_empty());
    journal.told(&id, Told::Ended(end(ActionResultStatus::Failed, "aip.x")));
    assert_eq!(journal.all_wrong().len(), 1);
}

#[tokio::test]
async fn a_silent_network_delivers_later_and_a_cut_one_never() {
    const SHORT: Duration = Duration::from_millis(200);
    const SOON: Duration = Duration::from_secs(10);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let proxy = Proxy::start(listener.local_addr().unwrap()).await;
    let address = proxy.url().trim_start_matches("nats://").to_owned();
    let mut near = TcpStream::connect(&address).await.unwrap();
    let (mut far, _) = listener.accept().await.unwrap();
    let mut byte = [0];
    near.write_all(b"1").await.unwrap();
    tokio::time::timeout(SOON, far.read_exact(&mut byte)).await.unwrap().unwrap();
    proxy.set(Network::Silent);
    near.write_all(b"2").await.unwrap();
    assert!(tokio::time::timeout(SHORT, far.read_exact(&mut byte)).await.is_err(), "heard in silence");
    proxy.set(Network::Whole);
    tokio::time::timeout(SOON, far.read_exact(&mut byte)).await.unwrap().unwrap();
    assert_eq!(&byte, b"2");
    proxy.set(Network::Cut);
    assert_eq!(tokio::time::timeout(SOON, near.read(&mut byte)).await.unwrap().unwrap_or(0), 0);
    let mut again = TcpStream::connect(&address).await.unwrap();
    assert_eq!(tokio::time::timeout(SOON, again.read(&mut byte)).await.unwrap().unwrap_or(0), 0);
}
