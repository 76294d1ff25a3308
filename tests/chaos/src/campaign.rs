//! A campaign: load by two tenants, one fault after the other, and the judge in between and at the end.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rand::SeedableRng;
use rand::seq::SliceRandom;

use crate::Rng;
use crate::client::Tenant;
use crate::faults::{self, Fault, Hurt, TABLE};
use crate::fleet::Fleet;
use crate::judge;
use crate::load::{GRACE, Load};
use crate::member::Member;
use crate::tenants;

/// How long an action that has to end may take after its deadline, faults included.
const OVERDUE: Duration = Duration::from_secs(60);
/// After a fault something has to be completed within this.
const PROGRESS: Duration = Duration::from_secs(40);
/// Pages of lists and feeds that are looked at in between.
const PAGES: usize = 2;
const PAGES_AT_THE_END: usize = 1_000;

/// What is to be done.
#[derive(Debug, Clone, Copy)]
pub struct Plan {
    pub seed: u64,
    pub rounds: usize,
    /// No round begins after it.
    pub lasts: Duration,
    /// Actions a second, both tenants together.
    pub per_second: f64,
    /// Rounds between two looks of the judge.
    pub judged_every: usize,
    /// Says each round as it goes.
    pub loud: bool,
}

/// What came of it.
#[derive(Debug, Default)]
pub struct Report {
    pub seed: u64,
    pub rounds: usize,
    /// How often each fault fired, and the longest it took until all was well again.
    pub fired: BTreeMap<&'static str, (usize, Duration)>,
    /// Actions by capability and what was told of them.
    pub told: BTreeMap<String, usize>,
    pub took: Duration,
    pub wrong: Vec<String>,
}

// === impl Report ===

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "seed {}: {} rounds in {:.0} s", self.seed, self.rounds, self.took.as_secs_f64())?;
        for (name, (times, healed)) in &self.fired {
            writeln!(f, "  {times:>4} × {name}, well again within {:.1} s", healed.as_secs_f64())?;
        }
        for (what, count) in &self.told {
            writeln!(f, "  {count:>6} {what}")?;
        }
        match self.wrong.is_empty() {
            true => writeln!(f, "everything held"),
            false => self.wrong.iter().try_for_each(|wrong| writeln!(f, "WRONG {wrong}")),
        }
    }
}

/// Runs a plan on a fresh fleet.
///
/// # Panics
/// The system does not come up, or does not come up again after a fault: with its last words.
pub async fn run(plan: Plan) -> Report {
    let begun = Instant::now();
    let mut fleet = Fleet::start().await;
    fleet.gateways.iter().for_each(faults::keep_copy);
    let tenants = Tenant::all(&fleet).await;
    let load = Load::start(&tenants, plan.seed, plan.per_second);
    let mut rng = Rng::seed_from_u64(plan.seed);
    let mut report = Report { seed: plan.seed, ..Report::default() };
    let mut deck: Vec<Fault> = Vec::new();
    while report.rounds < plan.rounds && begun.elapsed() < plan.lasts && report.wrong.is_empty() {
        if deck.is_empty() {
            deck = TABLE.to_vec();
            deck.shuffle(&mut rng);
        }
        let Some(fault) = deck.pop() else { break };
        round(plan, fault.aimed(&fleet, &mut rng), &mut fleet, &load, &mut report).await;
        if report.rounds.is_multiple_of(plan.judged_every) {
            report.wrong.extend(in_between(&fleet, &tenants, &load).await);
        }
    }
    finish(&mut fleet, &tenants, load, &mut report).await;
    report.took = begun.elapsed();
    if !report.wrong.is_empty() {
        futures_util::future::join_all(fleet.members_mut().map(Member::kill)).await;
        report.wrong.push(format!("everything is kept in {}", fleet.keep().display()));
    }
    report
}

async fn round(plan: Plan, hurt: Hurt, fleet: &mut Fleet, load: &Load, report: &mut Report) {
    let (name, lasts) = (hurt.fault.name, hurt.lasts);
    if plan.loud {
        println!("round {}: {name}: {} for {lasts:?}", report.rounds + 1, hurt.name(fleet));
    }
    hurt.begin(fleet).await;
    tokio::time::sleep(lasts).await;
    hurt.end(fleet).await;
    let ended = Instant::now();
    fleet.healed().await;
    let healed = ended.elapsed();
    let before = load.journal.completed();
    aip_testkit::wait_for(&format!("something to be completed after: {name}"), PROGRESS, || async {
        load.journal.completed() > before
    })
    .await;
    let entry = report.fired.entry(name).or_default();
    *entry = (entry.0 + 1, entry.1.max(healed));
    report.rounds += 1;
}

/// What can be judged while the load goes on.
async fn in_between(fleet: &Fleet, tenants: &[Arc<Tenant>], load: &Load) -> Vec<String> {
    let overdue = load.journal.overdue(OVERDUE);
    let mut wrong = load.journal.all_wrong();
    match judge::stands(tenants, &overdue).await {
        Ok(stands) => {
            wrong.extend(judge::kept(&overdue, &stands));
            wrong.extend(judge::receipts(tenants, &overdue, &stands, 5).await);
        }
        Err(error) => wrong.push(error),
    }
    wrong.extend(judge::payments(&fleet.provider().lines().expect("the provider's lines")));
    wrong.extend(tenants::leaks(tenants, &load.journal, PAGES).await);
    wrong
}

/// Ends the load and judges everything.
pub async fn finish(fleet: &mut Fleet, tenants: &[Arc<Tenant>], load: Load, report: &mut Report) {
    let journal = load.settle().await;
    let entries = journal.entries();
    report.told = journal.summary();
    let stands = match judge::ended(tenants, &entries, GRACE).await {
        Ok(stands) => stands,
        Err(error) => return report.wrong.push(error),
    };
    report.wrong.extend(journal.all_wrong());
    report.wrong.extend(judge::kept(&entries, &stands));
    report.wrong.extend(judge::known(&entries, &stands));
    report.wrong.extend(judge::receipts(tenants, &entries, &stands, 50).await);
    report.wrong.extend(tenants::leaks(tenants, &journal, PAGES_AT_THE_END).await);
    report.wrong.extend(judge::replicas(fleet).await);
    for worker in &mut fleet.workers {
        if !worker.stop().await {
            report.wrong.push(format!("{} did not drain", worker.name));
        }
    }
    let lines = fleet.provider().lines().expect("the provider's lines");
    report.wrong.extend(judge::payments(&lines));
    report.wrong.extend(judge::bank(&lines, &entries, &stands));
    report.wrong.extend(judge::sandbox(fleet, &entries, &stands));
    fleet.members_mut().for_each(Member::look);
    report.wrong.extend(fleet.members().flat_map(|member| member.panics.clone()));
}
