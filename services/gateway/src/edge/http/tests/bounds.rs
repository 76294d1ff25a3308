//! Size, number, panic and drain.

use std::sync::Arc;

use aip_names::limits;
use aip_testkit::wait_for;
use aip_wire::codes;
use futures_util::stream;

use super::*;

const PATIENCE: Duration = Duration::from_secs(10);

#[tokio::test]
async fn a_body_over_the_bound_is_refused_declared_or_not() {
    let front = Fake::new();
    let over = vec![b' '; limits::ENVELOPE_BYTES_MAX + 1];
    let declared = ask(&router(&front), post("/aip/v1/messages", over.clone())).await;
    declared.is_refused(codes::HTTP_PAYLOAD);
    let chunks = over.chunks(65_536).map(|chunk| Ok::<_, std::io::Error>(chunk.to_vec())).collect::<Vec<_>>();
    let streamed = post("/aip/v1/actions", Body::from_stream(stream::iter(chunks)));
    ask(&router(&front), streamed).await.is_refused(codes::HTTP_PAYLOAD);
    let most = post("/aip/v1/messages", vec![b' '; limits::ENVELOPE_BYTES_MAX]);
    assert_eq!(ask(&router(&front), most).await.status, StatusCode::OK);
    assert_eq!(front.seen().len(), 1);
}

#[tokio::test]
async fn a_body_that_breaks_off_is_refused() {
    let front = Fake::new();
    let broken = stream::iter([Ok(b"{".to_vec()), Err(std::io::Error::other("gone"))]);
    let seen = ask(&router(&front), post("/aip/v1/messages", Body::from_stream(broken))).await;
    seen.is_refused(codes::HTTP_BODY_INCOMPLETE);
    assert_eq!(front.seen(), []);
}

#[tokio::test]
async fn an_answer_over_the_bound_is_an_error_and_not_cut() {
    let mut reply = fake::ok();
    reply.envelope["trace"] = Value::from("x".repeat(limits::HTTP_RESPONSE_BYTES_MAX));
    let seen = ask(&router(&Fake::answering(reply)), post("/aip/v1/messages", ENVELOPE)).await;
    seen.is_refused(codes::SERVICE_REPLY_TOO_LARGE);
}

#[tokio::test]
async fn a_full_door_says_so_at_once_and_stays_healthy() {
    let front = Fake::held();
    let router = router(&front);
    let inside = fake::bounds().in_flight;
    let waiting: Vec<_> = (0..inside)
        .map(|_| tokio::spawn(router.clone().oneshot(post("/aip/v1/messages", ENVELOPE))))
        .collect();
    wait_for("all inside", PATIENCE, || async { front.seen().len() == inside }).await;
    ask(&router, post("/aip/v1/messages", ENVELOPE)).await.is_refused(codes::SERVICE_OVERLOADED);
    ask(&router, get("/aip/v1/actions/act_1")).await.is_refused(codes::SERVICE_OVERLOADED);
    assert_eq!(ask(&router, get("/health")).await.status, StatusCode::OK);
    front.gate.add_permits(inside + 1);
    for task in waiting {
        assert_eq!(task.await.unwrap().unwrap().status(), StatusCode::OK);
    }
    assert_eq!(ask(&router, post("/aip/v1/messages", ENVELOPE)).await.status, StatusCode::OK);
}

#[tokio::test]
async fn one_sender_cannot_fill_the_door() {
    let front = Fake::held();
    let router = router(&front);
    let with_token = |token: &str| {
        let mut request = get("/aip/v1/actions/act_1");
        request.headers_mut().insert("authorization", format!("Bearer {token}").parse().unwrap());
        request
    };
    let share = fake::bounds().in_flight_per_sender;
    let waiting: Vec<_> =
        (0..share).map(|_| tokio::spawn(router.clone().oneshot(with_token("greedy")))).collect();
    wait_for("its share is taken", PATIENCE, || async { front.seen().len() == share }).await;
    ask(&router, with_token("greedy")).await.is_refused(codes::HTTP_RATE);
    front.gate.add_permits(share + 2);
    for task in waiting {
        assert_eq!(task.await.unwrap().unwrap().status(), StatusCode::OK);
    }
    assert_eq!(ask(&router, with_token("modest")).await.status, StatusCode::OK);
    assert_eq!(ask(&router, with_token("greedy")).await.status, StatusCode::OK);
}

#[tokio::test]
async fn bodies_under_way_are_bounded_by_their_bytes() {
    let front = Fake::held();
    let router = router(&front);
    let half = vec![b' '; limits::ENVELOPE_BYTES_MAX];
    assert_eq!(fake::bounds().bytes, 2 * limits::ENVELOPE_BYTES_MAX);
    let waiting: Vec<_> = (0..2)
        .map(|_| tokio::spawn(router.clone().oneshot(post("/aip/v1/messages", half.clone()))))
        .collect();
    wait_for("two bodies inside", PATIENCE, || async { front.seen().len() == 2 }).await;
    ask(&router, post("/aip/v1/messages", ENVELOPE)).await.is_refused(codes::SERVICE_OVERLOADED);
    front.gate.add_permits(3);
    for task in waiting {
        task.await.unwrap().unwrap();
    }
    assert_eq!(ask(&router, post("/aip/v1/messages", ENVELOPE)).await.status, StatusCode::OK);
}

#[tokio::test]
async fn a_panic_behind_the_door_is_one_answer_and_gives_its_seat_back() {
    let front = Fake { panics: true, ..Fake::new() };
    let router = router(&front);
    for _ in 0..=fake::bounds().in_flight {
        ask(&router, post("/aip/v1/actions", ENVELOPE)).await.is_refused(codes::SERVICE_INTERNAL);
    }
}

#[tokio::test]
async fn a_draining_door_lets_nobody_in_and_waits_for_those_inside() {
    let front = Fake::held();
    let edge = edge(&front);
    let router = http::router(edge.clone(), PATIENCE);
    let waiting = tokio::spawn(router.clone().oneshot(post("/aip/v1/actions", ENVELOPE)));
    wait_for("inside", PATIENCE, || async { front.seen().len() == 1 }).await;
    assert!(!edge.drain(Duration::ZERO).await, "the work is not done");
    ask(&router, post("/aip/v1/actions", ENVELOPE)).await.is_refused(codes::SERVICE_STOPPING);
    front.gate.add_permits(1);
    assert!(edge.drain(PATIENCE).await);
    assert_eq!(waiting.await.unwrap().unwrap().status(), StatusCode::OK);
}

#[tokio::test]
async fn admitted_work_outlives_its_client_and_a_lost_reader_gives_its_seat_back() {
    let front = Fake::held();
    let router = Arc::new(router(&front));
    let client = tokio::spawn((*router).clone().oneshot(post("/aip/v1/actions", ENVELOPE)));
    let reader = tokio::spawn((*router).clone().oneshot(get("/aip/v1/actions/act_1?wait_ms=30000")));
    wait_for("both inside", PATIENCE, || async { front.seen().len() == 2 }).await;
    client.abort();
    reader.abort();
    assert!(client.await.unwrap_err().is_cancelled() && reader.await.unwrap_err().is_cancelled());
    front.gate.add_permits(2);
    wait_for("the action's end", PATIENCE, || async { front.ended() == 1 }).await;
    // the reader's permit is still there for the next: it did not work on
    assert_eq!(ask(&router, get("/aip/v1/actions/act_1")).await.status, StatusCode::OK);
    assert_eq!((front.ended(), front.gate.available_permits()), (2, 0));
}
