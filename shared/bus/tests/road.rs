//! Requests over a real server: answered, bounded, listed, drained, and alive after the server was killed.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use aip_bus::{
    Answer, Bus, BusError, Frame, Handler, Incoming, Link, Parcel, Registration, RequestError, Serving,
    Settings, serve,
};
use aip_names::{Identity, MessageType, Service, Subject, User, Version};
use aip_testkit::{Scratch, TestNats, wait_for, wait_for_some};
use aip_wire::TransportMessage;
use futures_util::StreamExt;
use futures_util::future::join_all;
use serde_json::{Value, json};
use tokio::sync::Semaphore;

const SOON: Duration = Duration::from_secs(20);

fn settings(nats: &TestNats, identity: Identity) -> Settings {
    Settings { url: nats.url(), seed_file: nats.seed_file(&identity), name: "test".to_owned(), identity }
}

async fn bus(nats: &TestNats, identity: Identity) -> Bus {
    let bus = Bus::connect(settings(nats, identity)).await.unwrap();
    bus.ready(SOON).await.unwrap();
    bus
}

fn subject(service: &str) -> String {
    let message_type = MessageType::new("aip.core.v1.action").unwrap();
    Subject::message(&TestNats::trust_domain(), &Service::new(service).unwrap(), Version::V1, &message_type)
        .to_string()
}

fn parcel(body: Value) -> Parcel {
    let envelope = json!({ "aip_version": "1.0", "message_id": "msg_1", "body": body });
    Parcel::new(&TransportMessage { envelope, metadata: None }).unwrap()
}

fn body(payload: &[u8]) -> Value {
    serde_json::from_slice::<Value>(Frame::read(payload).unwrap().envelope).unwrap()["body"].clone()
}

/// Answers with the body it got, once `gate` lets it; `"refuse"`, `"bug"` and `"silent"` do what they say.
struct Echo {
    gate: Semaphore,
    taken: AtomicUsize,
}

impl Echo {
    fn open() -> Arc<Self> {
        Arc::new(Self { gate: Semaphore::new(Semaphore::MAX_PERMITS), taken: AtomicUsize::new(0) })
    }

    fn closed() -> Arc<Self> {
        Arc::new(Self { gate: Semaphore::new(0), taken: AtomicUsize::new(0) })
    }
}

impl Handler for Echo {
    async fn handle(&self, request: Incoming) -> Option<Answer> {
        self.taken.fetch_add(1, Ordering::SeqCst);
        drop(self.gate.acquire().await.unwrap());
        let body = body(&request.payload);
        assert!(body != json!("bug"), "told to fail");
        let error = (body == json!("refuse")).then(|| "aip.test.refused".to_owned());
        (body != json!("silent")).then(|| Answer { parcel: parcel(body), error })
    }

    fn busy(&self, _: &Incoming) -> Option<Answer> {
        Some(Answer { parcel: parcel(json!("busy")), error: Some("aip.test.busy".to_owned()) })
    }
}

async fn serve_gateway(bus: &Bus, handler: Arc<Echo>, running_max: usize) -> Serving {
    let service = Service::gateway();
    let all = Subject::all_messages(&TestNats::trust_domain(), &service, Version::V1);
    let registration = Registration {
        service,
        version: "1.0.0".to_owned(),
        description: "an echo".to_owned(),
        endpoints: vec![("messages".to_owned(), all)],
        running_max,
    };
    serve(bus, registration, handler).await.unwrap()
}

/// Asks until the service is there: a subscription takes a moment to reach the server.
async fn ask(client: &Bus, question: Value) -> Value {
    wait_for_some("an answer", SOON, || async {
        match client.request(&subject("gateway"), parcel(question.clone()), SOON).await {
            Ok(answer) => Some(body(&answer.payload)),
            Err(RequestError::NoResponders { .. } | RequestError::NotSent { .. }) => None,
            Err(error) => panic!("{error}"),
        }
    })
    .await
}

#[tokio::test]
async fn a_request_is_answered_and_a_missing_service_is_told_at_once() {
    let nats = TestNats::start().await;
    let (gateway, client) =
        (bus(&nats, Identity::Gateway).await, bus(&nats, TestNats::client("alice")).await);
    let refused = client.request(&subject("gateway"), parcel(json!(1)), SOON).await.unwrap_err();
    assert!(matches!(refused, RequestError::NoResponders { .. }), "{refused}");
    let _serving = serve_gateway(&gateway, Echo::open(), 8).await;
    assert_eq!(ask(&client, json!({ "n": 1 })).await, json!({ "n": 1 }));
    let silent =
        client.request(&subject("gateway"), parcel(json!("silent")), Duration::from_millis(100)).await;
    assert!(matches!(silent, Err(RequestError::TimedOut { waited_ms: 100, .. })));
}

#[tokio::test]
async fn what_exceeds_the_room_is_answered_busy_and_the_rest_is_drained() {
    let nats = TestNats::start().await;
    let (gateway, client) =
        (bus(&nats, Identity::Gateway).await, bus(&nats, TestNats::client("alice")).await);
    let echo = Echo::closed();
    let serving = serve_gateway(&gateway, echo.clone(), 2).await;
    let waiting = [json!("a"), json!("b")].map(|question| {
        let client = client.clone();
        tokio::spawn(async move { ask(&client, question).await })
    });
    wait_for("two running requests", SOON, || async { echo.taken.load(Ordering::SeqCst) == 2 }).await;
    assert_eq!(ask(&client, json!("c")).await, json!("busy"));

    let drain = tokio::spawn(serving.drain(SOON));
    wait_for("no more taken", SOON, || async {
        let asked = client.request(&subject("gateway"), parcel(json!("d")), SOON).await;
        matches!(asked, Err(RequestError::NoResponders { .. }))
    })
    .await;
    assert!(!drain.is_finished(), "two requests still run");
    echo.gate.add_permits(2);
    assert!(drain.await.unwrap(), "everything came to its end");
    let answers = join_all(waiting).await.into_iter().map(Result::unwrap).collect::<Vec<_>>();
    assert_eq!(answers, [json!("a"), json!("b")]);
}

#[tokio::test]
async fn a_drain_gives_up_after_its_grace() {
    let nats = TestNats::start().await;
    let (gateway, client) =
        (bus(&nats, Identity::Gateway).await, bus(&nats, TestNats::client("alice")).await);
    let echo = Echo::closed();
    let serving = serve_gateway(&gateway, echo.clone(), 2).await;
    let asking = tokio::spawn(async move { ask(&client, json!("a")).await });
    wait_for("a running request", SOON, || async { echo.taken.load(Ordering::SeqCst) == 1 }).await;
    assert!(!serving.drain(Duration::from_millis(100)).await);
    asking.abort();
}

#[tokio::test]
async fn a_rolling_restart_loses_no_request() {
    let nats = TestNats::start().await;
    let client = bus(&nats, TestNats::client("alice")).await;
    let other = bus(&nats, Identity::Gateway).await;
    let _steady = serve_gateway(&other, Echo::open(), 64).await;
    ask(&client, json!("there")).await;
    let restarting = tokio::spawn({
        let settings = settings(&nats, Identity::Gateway);
        async move {
            for _ in 0..20 {
                let bus = Bus::connect(settings.clone()).await.unwrap();
                bus.ready(SOON).await.unwrap();
                let echo = Echo::open();
                let serving = serve_gateway(&bus, echo.clone(), 64).await;
                wait_for("a share of the requests", SOON, || async { echo.taken.load(Ordering::SeqCst) > 3 })
                    .await;
                assert!(serving.drain(SOON).await);
            }
        }
    });
    let mut asked = 0;
    while !restarting.is_finished() {
        let to = subject("gateway");
        let four = (0..4).map(|n| client.request(&to, parcel(json!(n)), SOON));
        for (n, answer) in join_all(four).await.into_iter().enumerate() {
            assert_eq!(body(&answer.unwrap().payload), json!(n));
            asked += 1;
        }
    }
    restarting.await.unwrap();
    assert!(asked > 100, "{asked}");
}

#[tokio::test]
async fn the_services_api_lists_pings_and_counts() {
    let nats = TestNats::start().await;
    let (gateway, client) =
        (bus(&nats, Identity::Gateway).await, bus(&nats, TestNats::client("alice")).await);
    let _serving = serve_gateway(&gateway, Echo::open(), 8).await;
    ask(&client, json!("fine")).await;
    ask(&client, json!("refuse")).await;
    let bug = client.request(&subject("gateway"), parcel(json!("bug")), Duration::from_millis(200)).await;
    assert!(matches!(bug, Err(RequestError::TimedOut { .. })));

    let admin = bus(&nats, Identity::Admin).await;
    let about = async |question: &str| {
        let answer = admin.client().request(question.to_owned(), "".into()).await.unwrap();
        serde_json::from_slice::<Value>(&answer.payload).unwrap()
    };
    let ping = about("$SRV.PING").await;
    assert_eq!((&ping["type"], &ping["name"]), (&json!("io.nats.micro.v1.ping_response"), &json!("gateway")));
    let id = ping["id"].as_str().unwrap();
    let info = about(&format!("$SRV.INFO.gateway.{id}")).await;
    assert_eq!(info["endpoints"][0]["subject"], "aip.v1.aip_local.gateway.v1.*");
    assert_eq!(info["endpoints"][0]["queue_group"], "gateway");
    // the client library reads the same answers
    let stats: async_nats::service::Stats =
        serde_json::from_value(about("$SRV.STATS.gateway").await).unwrap();
    assert_eq!((stats.endpoints[0].requests, stats.endpoints[0].errors), (3, 2));
    assert_eq!(stats.endpoints[0].last_error.as_ref().unwrap().status, "bug");
    serde_json::from_value::<async_nats::service::Info>(info).unwrap();
}

#[tokio::test]
async fn requests_are_shared_in_the_queue_group() {
    let nats = TestNats::start().await;
    let client = bus(&nats, TestNats::client("alice")).await;
    let (one, two) = (bus(&nats, Identity::Gateway).await, bus(&nats, Identity::Gateway).await);
    let echoes = [Echo::open(), Echo::open()];
    let _one = serve_gateway(&one, echoes[0].clone(), 8).await;
    let _two = serve_gateway(&two, echoes[1].clone(), 8).await;
    let asked = AtomicUsize::new(0);
    wait_for("both to have had some", SOON, || async {
        ask(&client, json!(asked.fetch_add(1, Ordering::SeqCst))).await;
        echoes.iter().all(|echo| echo.taken.load(Ordering::SeqCst) > 0)
    })
    .await;
    assert_eq!(
        echoes.iter().map(|echo| echo.taken.load(Ordering::SeqCst)).sum::<usize>(),
        asked.into_inner()
    );
}

#[tokio::test]
async fn a_killed_server_is_found_again_and_the_service_goes_on() {
    let mut nats = TestNats::start().await;
    let (gateway, client) =
        (bus(&nats, Identity::Gateway).await, bus(&nats, TestNats::client("alice")).await);
    let _serving = serve_gateway(&gateway, Echo::open(), 8).await;
    ask(&client, json!("before")).await;
    let mut link = client.link();
    let before = up(&link.borrow_and_update());

    nats.server.kill().await.unwrap();
    tokio::time::timeout(SOON, link.wait_for(|link| !link.is_up())).await.unwrap().unwrap();
    let refused = client.request(&subject("gateway"), parcel(json!("away")), SOON).await.unwrap_err();
    assert!(matches!(refused, RequestError::NotSent { .. }), "{refused}");
    assert!(matches!(client.ready(Duration::from_millis(50)).await, Err(BusError::NotConnected { .. })));

    nats.server.restart().await.unwrap();
    client.ready(SOON).await.unwrap();
    let after = up(&client.link().borrow());
    assert!(after.epoch > before.epoch && after.server_id != before.server_id);
    assert_eq!(ask(&client, json!("after")).await, json!("after"));
}

fn up(link: &Link) -> aip_bus::Up {
    match link {
        Link::Up(up) => up.clone(),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_silent_server_is_noticed() {
    let nats = TestNats::start().await;
    let client = bus(&nats, TestNats::client("alice")).await;
    nats.server.pause().unwrap();
    let mut link = client.link();
    // two pings without an answer
    tokio::time::timeout(Duration::from_secs(40), link.wait_for(|link| !link.is_up()))
        .await
        .unwrap()
        .unwrap();
    nats.server.resume().unwrap();
    client.ready(SOON).await.unwrap();
}

#[tokio::test]
async fn a_service_may_start_before_its_server() {
    let scratch = Scratch::new();
    let users = [User::gateway()];
    let keys = aip_natsd::Identities::ensure(&scratch.join("nats").join("keys"), &users).unwrap();
    let port = aip_testkit::free_port();
    let settings = Settings {
        url: format!("nats://127.0.0.1:{port}"),
        identity: Identity::Gateway,
        seed_file: keys.seed_file(&Identity::Gateway),
        name: "early".to_owned(),
    };
    let early = Bus::connect(settings).await.unwrap();
    let told = early.ready(Duration::from_millis(100)).await.unwrap_err();
    assert!(matches!(told, BusError::NotConnected { .. }), "{told}");
    let server = aip_natsd::Server::start(aip_natsd::Settings {
        folder: scratch.join("nats"),
        port: Some(port),
        monitor_port: None,
        trust_domain: TestNats::trust_domain(),
        users: users.to_vec(),
    });
    let _server = server.await.unwrap();
    early.ready(SOON).await.unwrap();
}

#[tokio::test]
async fn an_unknown_key_is_told_and_a_broken_key_file_refused() {
    let nats = TestNats::start().await;
    let scratch = Scratch::new();
    let stranger = aip_natsd::Identities::ensure(&scratch.join("keys"), &[User::gateway()]).unwrap();
    let mut settings = settings(&nats, Identity::Gateway);
    settings.seed_file = stranger.seed_file(&Identity::Gateway);
    let bus = Bus::connect(settings.clone()).await.unwrap();
    let told = bus.ready(Duration::from_secs(2)).await.unwrap_err().to_string();
    assert!(told.to_lowercase().contains("authorization"), "{told}");

    settings.seed_file = scratch.join("none");
    assert!(matches!(Bus::connect(settings.clone()).await, Err(BusError::Seed { .. })));
    std::fs::write(scratch.join("none"), "SUNOTASEED").unwrap();
    assert!(matches!(Bus::connect(settings).await, Err(BusError::NotASeed { .. })));
}

#[tokio::test]
async fn an_answer_goes_to_the_sender_alone() {
    let nats = TestNats::start().await;
    let (gateway, alice) = (bus(&nats, Identity::Gateway).await, bus(&nats, TestNats::client("alice")).await);
    let bob = bus(&nats, TestNats::client("bob")).await;
    let _serving = serve_gateway(&gateway, Echo::open(), 8).await;
    let mut overheard = bob.client().subscribe("_INBOX.client-bob.>").await.unwrap();
    let answers: BTreeMap<i32, Value> =
        BTreeMap::from([(1, ask(&alice, json!(1)).await), (2, ask(&alice, json!(2)).await)]);
    assert_eq!(answers, BTreeMap::from([(1, json!(1)), (2, json!(2))]));
    assert_eq!(ask(&bob, json!("bob")).await, json!("bob"));
    let heard = tokio::time::timeout(Duration::from_millis(50), overheard.next()).await;
    if let Ok(Some(message)) = heard {
        assert_eq!(body(&message.payload), json!("bob"), "bob hears his own answer at most");
    }
}

/// The server lets anybody name any reply subject, and the answer goes out with the gateway's rights.
#[tokio::test]
async fn nobody_has_the_gateway_write_where_he_may_not() {
    let nats = TestNats::start().await;
    let (gateway, client) =
        (bus(&nats, Identity::Gateway).await, bus(&nats, TestNats::client("alice")).await);
    let td = TestNats::trust_domain();
    let spec = aip_names::ledger_stream(&td, &Service::gateway(), 0, 1);
    gateway.ensure_stream(&spec).await.unwrap();
    let echo = Echo::open();
    let _serving = serve_gateway(&gateway, echo.clone(), 8).await;
    ask(&client, json!("there")).await;
    let taken = echo.taken.load(Ordering::SeqCst);
    let ledger = Subject::ledger(&td, &Service::gateway(), 0).to_string();
    for elsewhere in [ledger, "_INBOX.gateway.x.1".to_owned(), subject("sandbox-restaurant")] {
        let asked =
            client.client().publish_with_reply(subject("gateway"), elsewhere, parcel(json!(1)).payload);
        asked.await.unwrap();
    }
    // requests of one connection come in their order
    assert_eq!(ask(&client, json!("after")).await, json!("after"));
    assert_eq!(echo.taken.load(Ordering::SeqCst), taken + 1, "only what can be answered is handled");
    let stream = gateway.jetstream().get_stream(&spec.name).await.unwrap();
    assert_eq!(stream.cached_info().state.last_sequence, 0);
}
