//! The network and the server come and go, and so does every service, in order: under load, with nothing lost.

use std::time::{Duration, Instant};

use aip_chaos::campaign::{Report, finish};
use aip_chaos::client::Tenant;
use aip_chaos::fleet::{Fleet, SOON};
use aip_chaos::journal::Told;
use aip_chaos::load::Load;
use aip_chaos::proxy::Network;
use aip_testkit::wait_for;

const CUTS: usize = 20;
/// How long the server is away; the services' pauses between attempts have reached their longest by then.
const AWAY: Duration = Duration::from_secs(12);
/// Of one processor, for a process that nobody asks for anything.
const IDLE: f64 = 0.15;
const IDLE_FOR: Duration = Duration::from_secs(3);

async fn begun(per_second: f64) -> (Fleet, Vec<std::sync::Arc<Tenant>>, Load) {
    let fleet = Fleet::start().await;
    let tenants = Tenant::all(&fleet).await;
    let load = Load::start(&tenants, 7, per_second);
    (fleet, tenants, load)
}

async fn held(mut fleet: Fleet, tenants: &[std::sync::Arc<Tenant>], load: Load) {
    let mut report = Report::default();
    finish(&mut fleet, tenants, load, &mut report).await;
    assert!(report.wrong.is_empty(), "{report}");
    println!("{report}");
}

/// Seconds of processor time that a process has used.
fn used(pid: i32) -> f64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
    let ticks: u64 = fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap();
    // USER_HZ, which is 100 everywhere
    ticks as f64 / 100.0
}

#[tokio::test(flavor = "multi_thread")]
async fn twenty_cut_connections_lose_nothing_and_leave_nobody_spinning() {
    let (fleet, tenants, load) = begun(10.0).await;
    for _ in 0..CUTS {
        for network in [Network::Cut, Network::Whole] {
            fleet.members().for_each(|member| member.proxy.set(network));
            tokio::time::sleep(Duration::from_millis(400)).await;
        }
    }
    fleet.healed().await;
    let journal = load.settle().await;
    let pids: Vec<i32> = fleet.members().map(|member| member.proc().id()).collect();
    wait_for("every process to be idle again", SOON, || async {
        let (since, before) = (Instant::now(), pids.iter().map(|pid| used(*pid)).collect::<Vec<_>>());
        tokio::time::sleep(IDLE_FOR).await;
        let shares = pids.iter().zip(before).map(|(pid, before)| used(*pid) - before);
        shares.into_iter().all(|share| share / since.elapsed().as_secs_f64() < IDLE)
    })
    .await;
    held(fleet, &tenants, Load::on(journal, &tenants, 8, 10.0)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_service_is_restarted_in_order_and_clients_see_their_results() {
    let (mut fleet, tenants, load) = begun(8.0).await;
    for i in 0..fleet.gateways.len() {
        assert!(fleet.gateways[i].stop().await, "{} did not drain", fleet.gateways[i].name);
        fleet.gateways[i].start().await;
        fleet.healed().await;
    }
    for i in 0..fleet.workers.len() {
        assert!(fleet.workers[i].stop().await, "{} did not drain", fleet.workers[i].name);
        fleet.workers[i].start().await;
        fleet.healed().await;
    }
    let journal = load.settle().await;
    for (id, entry) in journal.entries() {
        let fine = matches!(&entry.told, Told::Ended(end) if end.is_completed() || entry.cancelled);
        assert!(fine, "{} {id} was told {:?}", entry.capability, entry.told);
    }
    held(fleet, &tenants, Load::on(journal, &tenants, 9, 8.0)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn services_outlast_their_server_and_recover_alone() {
    let (mut fleet, tenants, load) = begun(4.0).await;
    fleet.server.kill().await.unwrap();
    for i in 0..fleet.gateways.len() {
        wait_for("a gateway without its server not to be ready", SOON, || async {
            fleet
                .page(i, "/ready")
                .await
                .is_some_and(|(status, text)| status == 503 && text.contains("reason"))
        })
        .await;
    }
    tokio::time::sleep(AWAY).await;
    fleet.server.restart().await.unwrap();
    fleet.healed().await;
    assert!(fleet.members().all(|member| member.lives == 1), "nobody was started again");
    let before = load.journal.completed();
    wait_for("work to go on", SOON, || async { load.journal.completed() > before }).await;
    held(fleet, &tenants, load).await;
}
