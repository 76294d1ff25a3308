//! What must hold whatever happened. Each question returns what is wrong, in sentences; nothing wrong is an empty list.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};

use aip_names::limits::ASYNC_ATTEMPTS_MAX;
use aip_sdk::{Client, ClientError};
use aip_wire::{ActionId, ActionLifecycleState, ActionStatus, ReceiptQueryRequest, Timestamp, codes};
use futures_util::StreamExt;
use futures_util::future::join_all;
use serde_json::Value;

use crate::client::Tenant;
use crate::fleet::Fleet;
use crate::journal::{End, Entry, Told};
use crate::load::{BOOKING, TRANSFER};
use crate::member::Member;
use crate::provider::{Line, What};
use crate::site;
use crate::stores;
use crate::worker::{NAP, NOTE, PAY};

/// Questions asked at the same time.
const ASKED_AT_ONCE: usize = 8;
/// Sentences that are told of one question.
const WRONG_MAX: usize = 20;
const TRIES_AT_REST: usize = 5;
/// No attempt is begun so shortly before a deadline.
const LATE_MS: i64 = 500;
/// What clients are not told, or not for sure: so many in a short campaign, and of a hundred actions in a long one.
const FEW: usize = 6;
const FEW_PERCENT: usize = 1;

/// How an action stands now.
#[derive(Debug, Clone)]
pub struct Stand {
    pub state: ActionLifecycleState,
    pub end: Option<End>,
    /// How long before its deadline it ended, in milliseconds.
    pub early_ms: i64,
    /// Its attempts were used up.
    pub spent: bool,
}

/// Where each action stands; none for one that nobody knows.
pub type Stands = HashMap<ActionId, Option<Stand>>;

type Entries = [(ActionId, Entry)];

// === impl Stand ===

impl Stand {
    fn of(status: &ActionStatus) -> Stand {
        let retry = status.retry.clone().unwrap_or_default();
        let until = retry["until"].as_str().and_then(|until| Timestamp::parse(until).ok());
        let early = |until: Timestamp, ended: Timestamp| until.as_ms() as i64 - ended.as_ms() as i64;
        Stand {
            state: status.state,
            end: status.result.as_ref().map(End::of),
            early_ms: until.zip(status.completed_at).map_or(0, |(until, ended)| early(until, ended)),
            spent: retry["attempt"].as_u64() >= Some(u64::from(ASYNC_ATTEMPTS_MAX)),
        }
    }
}

/// Asks one gateway after the other for every action.
///
/// # Errors
/// A question had no answer.
pub async fn stands(tenants: &[Arc<Tenant>], entries: &Entries) -> Result<Stands, String> {
    let questions = entries.iter().enumerate().map(|(i, (id, entry))| {
        let readers = &tenants[entry.tenant].reader;
        async move { stand(&readers[i % readers.len()], id).await.map(|stand| (id.clone(), stand)) }
    });
    let answers: Vec<_> =
        futures_util::stream::iter(questions).buffer_unordered(ASKED_AT_ONCE).collect().await;
    answers.into_iter().collect()
}

async fn stand(client: &Client, id: &ActionId) -> Result<Option<Stand>, String> {
    match client.status(id, None).await {
        Ok(status) => Ok(Some(Stand::of(&status))),
        Err(ClientError::Refused { error }) if error.code == codes::ACTION_NOT_FOUND.name => Ok(None),
        Err(error) => Err(format!("{id} can't be asked for: {error}")),
    }
}

/// Waits until every action that was taken has ended, and returns how all stand.
///
/// # Errors
/// The last question had no answer.
pub async fn ended(tenants: &[Arc<Tenant>], entries: &Entries, within: Duration) -> Result<Stands, String> {
    let until = Instant::now() + within;
    loop {
        let stands = stands(tenants, entries).await;
        let whole = stands
            .as_ref()
            .is_ok_and(|stands| stands.values().flatten().all(|stand| stand.state.is_terminal()));
        if whole || Instant::now() > until {
            return stands;
        }
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
}

/// No acknowledged action is lost, every one that was taken ends, and what was told stays so.
pub fn kept(entries: &Entries, stands: &Stands) -> Vec<String> {
    let mut wrong = Vec::new();
    for (id, entry) in entries {
        let Entry { capability, told, .. } = entry;
        let own = stands.get(id).cloned().flatten();
        let place = entry.stands_for.as_ref().unwrap_or(id);
        // an answer of another's whose own time is not over is judged later
        let stand = stands.get(place);
        if let Some(Stand { state, .. }) = &own
            && !state.is_terminal()
        {
            wrong.push(format!("{capability} {id} has not ended: {state:?} ({told:?})"));
        }
        match (told, stand) {
            (Told::Taken | Told::Ended(_), Some(None)) => {
                wrong.push(format!("{capability} {id} (as {place}) is lost: {told:?}"));
            }
            (Told::Ended(end), Some(Some(Stand { end: now, .. }))) if Some(end) != now.as_ref() => {
                wrong.push(format!("{capability} {id} (as {place}) ended as {end:?} and is now {now:?}"));
            }
            (Told::Refused(code), _) => {
                let known = if own.is_some() { " and yet taken" } else { "" };
                wrong.push(format!("{capability} {id} was refused{known}: {code}"));
            }
            _ => {}
        }
        let first = entry.stands_for.as_ref().and_then(|other| entries.iter().find(|(id, _)| id == other));
        if let Some((other, first)) = first
            && (first.tenant, &first.key) != (entry.tenant, &entry.key)
        {
            wrong.push(format!("{id} was answered by {other}, which is not its own"));
        }
    }
    told_of(wrong)
}

/// What may be repeated ends without a known outcome only where there was no time, or no attempt, left to repeat it, or
/// somebody cancelled it; and a client that asks until its deadline is told something. Both are few.
pub fn known(entries: &Entries, stands: &Stands) -> Vec<String> {
    let mut wrong = Vec::new();
    let (mut repeatable, mut uncertain, mut untold) = (0, 0, 0);
    for (id, entry) in entries.iter().filter(|(_, entry)| entry.stands_for.is_none()) {
        untold += usize::from(entry.told == Told::Nothing);
        if !matches!(entry.capability, NAP | NOTE | BOOKING) {
            continue;
        }
        repeatable += 1;
        let Some(stand) = stands.get(id).cloned().flatten() else { continue };
        let Some(end) = stand.end.filter(|end| end.uncertain) else { continue };
        uncertain += 1;
        let late = stand.early_ms <= LATE_MS;
        if !(late || stand.spent || entry.cancelled || end.code != codes::ACTION_UNCERTAIN.name) {
            let Entry { capability, .. } = entry;
            let early = stand.early_ms;
            wrong.push(format!(
                "{capability} {id} could be repeated, and {early} ms early nothing is known of it: {end:?}"
            ));
        }
    }
    for (what, count, of) in
        [("uncertain", uncertain, repeatable), ("told nothing in their time", untold, entries.len())]
    {
        if count > FEW + of * FEW_PERCENT / 100 {
            wrong.push(format!("{count} of {of} actions are {what}"));
        }
    }
    told_of(wrong)
}

/// Nothing that is not repeatable was started twice. The same key is the same intent, whatever its actions are called;
/// both tenants use the same keys, so each has a payment of its own.
pub fn payments(lines: &[Line]) -> Vec<String> {
    let mut payments: BTreeMap<(&str, Option<&str>), [usize; 2]> = BTreeMap::new();
    for line in lines.iter().filter(|line| line.capability == PAY) {
        let place = usize::from(line.what == What::Done);
        payments.entry((&line.tenant, line.key.as_deref())).or_default()[place] += 1;
    }
    let twice = payments.into_iter().filter(|(_, [begun, done])| *begun > 1 || done > begun);
    told_of(
        twice
            .map(|((tenant, key), [begun, done])| {
                format!("payment {key:?} of {tenant} was started {begun} times and done {done} times")
            })
            .collect(),
    )
}

/// What is complete was done and what is known not to be done was not: at the bank, whose replicas share a provider.
pub fn bank(lines: &[Line], entries: &Entries, stands: &Stands) -> Vec<String> {
    let owner: HashMap<&str, &Entry> = entries.iter().map(|(id, entry)| (id.as_str(), entry)).collect();
    let mut wrong = Vec::new();
    let mut done: HashMap<&str, usize> = HashMap::new();
    let mut notes: HashMap<(&str, &str), usize> = HashMap::new();
    for line in lines {
        let tenant =
            owner.get(line.action.as_str()).map(|entry| site::tenant_id(site::TENANTS[entry.tenant]));
        if tenant.as_deref() != Some(&line.tenant) {
            wrong.push(format!("{} was worked on for {}, and is of {tenant:?}", line.action, line.tenant));
        }
        if line.what == What::Done {
            *done.entry(&line.action).or_default() += 1;
            let key = line.key.as_deref().filter(|_| line.capability == NOTE);
            key.into_iter().for_each(|key| *notes.entry((&line.tenant, key)).or_default() += 1);
        }
    }
    for (id, entry) in entries.iter().filter(|(_, entry)| entry.stands_for.is_none()) {
        let Some(end) = stands.get(id).cloned().flatten().and_then(|stand| stand.end) else { continue };
        let tenant = site::tenant_id(site::TENANTS[entry.tenant]);
        let was = match (entry.capability, &entry.key) {
            (PAY | NAP, _) => done.get(id.as_str()),
            // by itself: another action of the same key may have done it since
            (NOTE, _) if end.says_not_done() => done.get(id.as_str()),
            (NOTE, Some(key)) => notes.get(&(tenant.as_str(), key.as_str())),
            _ => continue,
        };
        wrong.extend(effect(id, entry, &end, was.copied().unwrap_or(0)));
    }
    told_of(wrong)
}

/// The same at the sandbox's providers, which keep stores of their own and have to be stopped.
///
/// # Panics
/// A store can't be read.
pub fn sandbox(fleet: &Fleet, entries: &Entries, stands: &Stands) -> Vec<String> {
    let mut wrong = Vec::new();
    for (worker, capability) in [(0, TRANSFER), (1, BOOKING)] {
        let service = ["sandbox-accounts", "sandbox-restaurant"][worker];
        let path = fleet.workers[worker].folder.join(format!("{service}.redb"));
        let effects = stores::effects(&path).expect("a provider's store");
        for tenant in site::TENANTS.map(site::tenant_id) {
            let named = effects.actions.iter().filter(|(of, _)| *of == tenant).count() as u64;
            let counted = effects.counts.get(&(tenant.clone(), capability.to_owned())).copied().unwrap_or(0);
            if named != counted {
                wrong.push(format!("{capability} of {tenant}: {counted} effects of {named} actions"));
            }
        }
        for (id, entry) in entries {
            let Some(end) = stands.get(id).cloned().flatten().and_then(|stand| stand.end) else { continue };
            if entry.capability == capability && entry.stands_for.is_none() {
                let name = (site::tenant_id(site::TENANTS[entry.tenant]), id.to_string());
                wrong.extend(effect(id, entry, &end, usize::from(effects.actions.contains(&name))));
            }
        }
    }
    told_of(wrong)
}

/// Whether an action's effects fit its end.
fn effect(id: &ActionId, entry: &Entry, end: &End, was: usize) -> Option<String> {
    let fits = match entry.capability {
        _ if end.is_completed() => was >= 1,
        _ if end.uncertain => true,
        // may be repeated, so a worker's failure says nothing of earlier attempts; that none had it does
        NAP | NOTE | BOOKING => was == 0 || !end.says_not_done(),
        _ => was == 0,
    };
    let once = was <= 1 || entry.capability == NAP;
    (!fits || !once).then(|| format!("{} {id} ended as {end:?} and was done {was} times", entry.capability))
}

/// Every replica's store is what its log says, and all are the same to the byte. Nobody may be asking them for anything;
/// they are stopped for it.
pub async fn replicas(fleet: &mut Fleet) -> Vec<String> {
    for _ in 0..TRIES_AT_REST {
        fleet.rest().await;
        let verified = join_all(fleet.gateways.iter().map(|gateway| verified(fleet, gateway))).await;
        let verified: Vec<Value> = match verified.into_iter().collect() {
            Ok(verified) => verified,
            Err(error) => return vec![error],
        };
        let unclean = |said: &&Value| said["stopped"] != 0 || said["orphans"] != 0;
        if let Some(said) = verified.iter().find(unclean) {
            return vec![format!("stopped entities or orphans: {said}")];
        }
        let same = |member: &str| verified.iter().all(|said| said[member] == verified[0][member]);
        if same("position") {
            return match same("digest") {
                true => Vec::new(),
                false => vec![format!("replicas disagree: {verified:?}")],
            };
        }
        // one recorded something while the others were stopping: they learn of it in their next life
        fleet.wake().await;
    }
    vec!["replicas do not come to rest at one place of the log".to_owned()]
}

async fn verified(fleet: &Fleet, gateway: &Member) -> Result<Value, String> {
    let config = gateway.config.display().to_string();
    let output = fleet.aip(&["ledger", "verify", "--config", &config, "--json"]).await;
    match output.status.success() {
        true => {
            let said: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
            Ok(said["verified"].clone())
        }
        false => Err(format!("{}: {}", gateway.name, String::from_utf8_lossy(&output.stderr))),
    }
}

/// The receipts of some actions add up.
pub async fn receipts(
    tenants: &[Arc<Tenant>],
    entries: &Entries,
    stands: &Stands,
    many: usize,
) -> Vec<String> {
    let mut wrong = Vec::new();
    let taken = entries.iter().filter(|(id, _)| stands.get(id).is_some_and(Option::is_some));
    for (i, (id, entry)) in taken.take(many).enumerate() {
        let readers = &tenants[entry.tenant].reader;
        let request = ReceiptQueryRequest { chain_id: Some(format!("action:{id}")), receipt_id: None };
        match readers[i % readers.len()].receipts(request).await {
            Ok(chain) => {
                let chain = serde_json::to_value(chain).unwrap_or_default();
                if let Err(error) = aip_crypto::receipt::verify_chain(&chain) {
                    wrong.push(format!("the receipts of {id} do not add up: {error}"));
                }
            }
            Err(error) => wrong.push(format!("no receipts of {id}: {error}")),
        }
    }
    wrong
}

fn told_of(mut wrong: Vec<String>) -> Vec<String> {
    let more = wrong.len().saturating_sub(WRONG_MAX);
    wrong.truncate(WRONG_MAX);
    if more > 0 {
        wrong.push(format!("and {more} more"));
    }
    wrong
}
