use super::*;

fn td() -> TrustDomain {
    TrustDomain::new("aip.local").unwrap()
}

/// Whether a NATS pattern covers a subject (queue part cut off).
fn covers(pattern: &str, subject: &str) -> bool {
    let pattern = pattern.split(' ').next().unwrap();
    let (mut pattern, mut subject) = (pattern.split('.'), subject.split('.'));
    loop {
        match (pattern.next(), subject.next()) {
            (Some(">"), Some(_)) | (None, None) => return true,
            (Some("*"), Some(_)) => {}
            (Some(a), Some(b)) if a == b => {}
            _ => return false,
        }
    }
}

fn everyone() -> Vec<User> {
    vec![
        User::gateway(),
        User::admin(),
        User::worker("restaurant", &["sandbox-restaurant"]).unwrap(),
        User::own(OwnService::Transaction),
        User::own(OwnService::CallbackOutbox),
        User::client("alice").unwrap(),
        User::client("bob").unwrap().hearing_streams(),
    ]
}

#[test]
fn only_the_gateway_touches_its_ledger() {
    let stream = ledger_stream_name(&td(), &Service::gateway(), 0);
    let touching = [
        Subject::ledger(&td(), &Service::gateway(), 0).to_string(),
        format!("$JS.API.STREAM.CREATE.{stream}"),
        format!("$JS.API.STREAM.UPDATE.{stream}"),
        format!("$JS.API.STREAM.MSG.GET.{stream}"),
        format!("$JS.API.CONSUMER.CREATE.{stream}.tail"),
        format!("$JS.API.CONSUMER.CREATE.{stream}.tail.aip.v1.x"),
        format!("$JS.API.CONSUMER.MSG.NEXT.{stream}.tail"),
    ];
    for user in everyone() {
        let granted = permissions(&td(), &user, &everyone()).unwrap();
        for subject in &touching {
            let publishes = granted.publish_allow.iter().any(|pattern| covers(pattern, subject));
            assert_eq!(
                publishes,
                user.identity == Identity::Gateway,
                "{} publishes {subject}",
                user.identity
            );
            let hears = granted.subscribe_allow.iter().any(|pattern| covers(pattern, subject));
            assert!(!hears, "{} hears {subject}", user.identity);
        }
    }
}

#[test]
fn a_service_is_alone_with_its_ledger_and_hears_the_gateway_only() {
    let service = OwnService::Transaction.service();
    let ledger = Subject::ledger(&td(), &service, 0).to_string();
    let message = "aip.v1.aip_local.transaction.v1.aip_transaction_v1_query_request";
    let door = "aip.v1.aip_local.gateway.v1.aip_core_v1_action";
    for user in everyone() {
        let granted = permissions(&td(), &user, &everyone()).unwrap();
        let may = |subject: &str| granted.publish_allow.iter().any(|pattern| covers(pattern, subject));
        let own = user.identity == Identity::Own(OwnService::Transaction);
        assert_eq!(may(&ledger), own, "{}", user.identity);
        assert_eq!(may(message), user.identity == Identity::Gateway, "{}", user.identity);
        let hears = granted.subscribe_allow.iter().any(|pattern| covers(pattern, message));
        assert_eq!(hears, own, "{}", user.identity);
        if let Identity::Own(_) = user.identity {
            assert!(may(door), "{}", user.identity);
        }
    }
}

#[test]
fn nobody_may_destroy_a_stream() {
    let stream = ledger_stream_name(&td(), &Service::gateway(), 0);
    for user in everyone() {
        let granted = permissions(&td(), &user, &everyone()).unwrap();
        for verb in ["DELETE", "PURGE", "MSG.DELETE", "RESTORE", "SNAPSHOT"] {
            let subject = format!("$JS.API.STREAM.{verb}.{stream}");
            assert!(!granted.publish_allow.iter().any(|p| covers(p, &subject)), "{} {verb}", user.identity);
        }
    }
}

#[test]
fn everyone_hears_their_own_inbox_and_no_other() {
    for user in everyone() {
        let granted = permissions(&td(), &user, &everyone()).unwrap();
        for other in everyone() {
            let inbox = format!("{}.abc.1", inbox_prefix(&other.identity));
            let hears = granted.subscribe_allow.iter().any(|pattern| covers(pattern, &inbox));
            assert_eq!(hears, user == other, "{} on {inbox}", user.identity);
        }
    }
}

#[test]
fn only_the_gateway_sends_to_workers() {
    let subject = "aip.v1.aip_local.sandbox-restaurant.v1.aip_core_v1_action";
    for user in everyone() {
        let granted = permissions(&td(), &user, &everyone()).unwrap();
        let publishes = granted.publish_allow.iter().any(|pattern| covers(pattern, subject));
        assert_eq!(publishes, user.identity == Identity::Gateway, "{}", user.identity);
    }
}

#[test]
fn a_worker_cannot_serve_as_the_gateway() {
    assert!(User::worker("evil", &["gateway"]).is_err());
    assert!(User::worker("evil", &["gateway-ledger"]).is_err());
    assert!(User::worker("evil", &["policy-approval"]).is_err());
}

#[test]
fn identities_read_back() {
    for user in everyone() {
        assert_eq!(user.identity.to_string().parse::<Identity>().unwrap(), user.identity);
    }
    for name in ["", "worker-", "root", "client-A", "worker-x-ledger"] {
        assert!(name.parse::<Identity>().is_err(), "{name:?}");
    }
}

#[test]
fn a_worker_takes_from_its_own_queue_and_only_the_gateway_keeps_it() {
    let stream = queue_stream_name(&td(), &Service::new("sandbox-restaurant").unwrap());
    let other = queue_stream_name(&td(), &Service::new("sandbox-slow").unwrap());
    let taking = [
        format!("$JS.API.CONSUMER.MSG.NEXT.{stream}.v1"),
        format!("$JS.ACK.{stream}.v1.1.7.7.1700000000000000000.0"),
    ];
    let keeping = [
        format!("$JS.API.STREAM.CREATE.{stream}"),
        format!("$JS.API.STREAM.MSG.GET.{stream}"),
        format!("$JS.API.CONSUMER.CREATE.{stream}.v1.aip.v1.x"),
        "aip.v1.aip_local.sandbox-restaurant-queue.v1.aip_core_v1_action".to_owned(),
    ];
    for user in everyone() {
        let granted = permissions(&td(), &user, &everyone()).unwrap();
        let may = |subject: &String| granted.publish_allow.iter().any(|pattern| covers(pattern, subject));
        for subject in &taking {
            assert_eq!(
                may(subject),
                matches!(user.identity, Identity::Worker(_)),
                "{} {subject}",
                user.identity
            );
        }
        for subject in &keeping {
            assert_eq!(may(subject), user.identity == Identity::Gateway, "{} {subject}", user.identity);
        }
        assert!(!may(&format!("$JS.API.CONSUMER.MSG.NEXT.{other}.v1")), "{}", user.identity);
        assert!(!may(&format!("$JS.API.STREAM.DELETE.{stream}")), "{}", user.identity);
    }
}

#[test]
fn a_cancellation_is_heard_outside_the_group_by_its_worker_only() {
    let subject = "aip.v1.aip_local.sandbox-restaurant.v1.aip_core_v1_cancel";
    for user in everyone() {
        let granted = permissions(&td(), &user, &everyone()).unwrap();
        let alone = |pattern: &&String| !pattern.contains(' ') && covers(pattern, subject);
        let hears = granted.subscribe_allow.iter().any(|pattern| alone(&pattern));
        assert_eq!(hears, matches!(user.identity, Identity::Worker(_)), "{}", user.identity);
        let tells = granted.publish_allow.iter().any(|pattern| covers(pattern, subject));
        assert_eq!(tells, user.identity == Identity::Gateway, "{}", user.identity);
    }
}

#[test]
fn only_the_gateway_touches_the_chunk_log_and_nobody_hears_it() {
    let stream = chunk_stream_name(&td(), &Service::gateway());
    let touching = [
        "aip.v1.aip_local.gateway-chunks.v1.act_1".to_owned(),
        format!("$JS.API.STREAM.CREATE.{stream}"),
        format!("$JS.API.STREAM.MSG.GET.{stream}"),
        format!("$JS.API.CONSUMER.CREATE.{stream}.read-1.aip.v1.x"),
        format!("$JS.API.CONSUMER.MSG.NEXT.{stream}.read-1"),
    ];
    for user in everyone() {
        let granted = permissions(&td(), &user, &everyone()).unwrap();
        for subject in &touching {
            let publishes = granted.publish_allow.iter().any(|pattern| covers(pattern, subject));
            assert_eq!(publishes, user.identity == Identity::Gateway, "{} {subject}", user.identity);
            let hears = granted.subscribe_allow.iter().any(|pattern| covers(pattern, subject));
            assert!(!hears, "{} hears {subject}", user.identity);
        }
        for verb in ["DELETE", "PURGE", "MSG.DELETE"] {
            let subject = format!("$JS.API.STREAM.{verb}.{stream}");
            assert!(!granted.publish_allow.iter().any(|p| covers(p, &subject)), "{} {verb}", user.identity);
        }
    }
}

#[test]
fn correlation_streams_are_told_by_the_gateway_and_heard_by_those_who_may() {
    let subject = "aip.v1.aip_local.gateway.v1.stream.corr_1";
    for user in everyone() {
        let granted = permissions(&td(), &user, &everyone()).unwrap();
        let tells = granted.publish_allow.iter().any(|pattern| covers(pattern, subject));
        assert_eq!(tells, user.identity == Identity::Gateway, "{}", user.identity);
        let hears = granted.subscribe_allow.iter().any(|pattern| covers(pattern, subject));
        assert_eq!(hears, user.hears_streams, "{}", user.identity);
    }
}
