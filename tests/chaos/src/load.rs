//! Careful clients: each action under one id and one key, sent again, to the next gateway, where section 19.2 allows.
//! Both tenants use the same keys for different things, so that whatever leaks between them collides.

use std::sync::Arc;
use std::time::{Duration, Instant};

use aip_sdk::{CallOptions, Client, ClientError};
use aip_wire::{ActionId, ActionMode, ActionResult};
use rand::{Rng as _, SeedableRng};
use serde_json::{Value, json};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;

use crate::Rng;
use crate::client::Tenant;
use crate::journal::{End, Entry, Journal, Meaning, Told, meaning};
use crate::worker::{NAP, NOTE, PAY};

pub const TRANSFER: &str = "cap:accounts:transfer:create";
pub const BOOKING: &str = "cap:restaurant:booking:create";

/// How long a client lets an action take.
const SYNC: Duration = Duration::from_secs(20);
const ASYNC: Duration = Duration::from_secs(45);
/// How long a client asks for the end of an action after its deadline.
pub const GRACE: Duration = Duration::from_secs(30);
const REST: Duration = Duration::from_millis(250);
/// Actions of one tenant under way.
const IN_FLIGHT_MAX: usize = 48;

/// What one client wants once.
#[derive(Clone)]
struct Wish {
    id: ActionId,
    capability: &'static str,
    input: Value,
    key: Option<String>,
    queued: bool,
    /// After what time it changes its mind.
    cancel: Option<Duration>,
    over_nats: bool,
}

/// The running load of both tenants.
pub struct Load {
    pub journal: Arc<Journal>,
    stop: watch::Sender<bool>,
    tasks: JoinSet<()>,
}

// === impl Load ===

impl Load {
    /// So many actions a second, both tenants together.
    pub fn start(tenants: &[Arc<Tenant>], seed: u64, per_second: f64) -> Load {
        Load::on(Arc::default(), tenants, seed, per_second)
    }

    /// The same, written down in a journal that is there already.
    pub fn on(journal: Arc<Journal>, tenants: &[Arc<Tenant>], seed: u64, per_second: f64) -> Load {
        let (stop, stopped) = watch::channel(false);
        let mut tasks = JoinSet::new();
        let pause = Duration::from_secs_f64(tenants.len() as f64 / per_second);
        for tenant in tenants {
            let (tenant, journal, stopped) = (Arc::clone(tenant), Arc::clone(&journal), stopped.clone());
            tasks.spawn(hammer(tenant, journal, seed, pause, stopped));
        }
        Load { journal, stop, tasks }
    }

    /// Begins nothing more and waits until every client knows, or has given up.
    pub async fn settle(mut self) -> Arc<Journal> {
        self.stop.send_replace(true);
        while let Some(ended) = self.tasks.join_next().await {
            ended.expect("a client that does not panic");
        }
        self.journal
    }
}

async fn hammer(
    tenant: Arc<Tenant>,
    journal: Arc<Journal>,
    seed: u64,
    pause: Duration,
    mut stopped: watch::Receiver<bool>,
) {
    let mut rng = Rng::seed_from_u64(seed.wrapping_mul(31).wrapping_add(tenant.number as u64));
    let room = Arc::new(Semaphore::new(IN_FLIGHT_MAX));
    let mut clients = JoinSet::new();
    let mut last: Option<Wish> = None;
    for count in 0_u32.. {
        tokio::select! {
            _ = stopped.wait_for(|stopped| *stopped) => break,
            () = tokio::time::sleep(pause) => {}
        }
        while clients.try_join_next().is_some() {}
        let Ok(seat) = Arc::clone(&room).try_acquire_owned() else { continue };
        let wish = match last.take() {
            // a client that forgot its action's id: the same intent again
            Some(wish) if rng.random_bool(0.1) => Wish { id: ActionId::generate(), cancel: None, ..wish },
            _ => Wish::any(&mut rng, seed, count),
        };
        last = wish.key.is_some().then(|| wish.clone());
        let (tenant, journal, gateway) = (Arc::clone(&tenant), Arc::clone(&journal), rng.random_range(0..3));
        clients.spawn(async move {
            let _seat = seat;
            wish.pursue(&tenant, &journal, gateway).await;
        });
    }
    clients.join_all().await;
}

// === impl Wish ===

impl Wish {
    fn any(rng: &mut Rng, seed: u64, count: u32) -> Wish {
        let key = Some(format!("{seed}-{count}"));
        let ms = json!({"ms": rng.random_range(0..400)});
        let long = json!({"ms": rng.random_range(0..4_000)});
        let (capability, input, key) = match rng.random_range(0..10) {
            0..2 => (TRANSFER, json!({"from": "savings", "to": "merchant", "amount_minor": 1}), key),
            2..4 => (BOOKING, booking(count), key),
            4..7 => (PAY, ms, key),
            7..9 => (NOTE, ms, key),
            _ => (NAP, long, None),
        };
        let queued = match capability {
            NAP => true,
            PAY | NOTE => rng.random_bool(0.6),
            _ => false,
        };
        let minded = rng.random_bool(if capability == NAP { 0.5 } else { 0.1 });
        let cancel = (queued && minded).then(|| Duration::from_millis(rng.random_range(0..2_000)));
        let over_nats = rng.random_bool(0.4);
        Wish { id: ActionId::generate(), capability, input, key, queued, cancel, over_nats }
    }

    async fn pursue(&self, tenant: &Tenant, journal: &Journal, mut gateway: usize) {
        let deadline = Instant::now() + if self.queued { ASYNC } else { SYNC };
        let entry = Entry {
            tenant: tenant.number,
            capability: self.capability,
            key: self.key.clone(),
            deadline,
            told: Told::Nothing,
            stands_for: None,
            cancelled: false,
        };
        journal.open(&self.id, entry);
        while Instant::now() < deadline {
            let client = if self.over_nats { &tenant.nats } else { &tenant.http[gateway] };
            gateway = (gateway + 1) % tenant.http.len();
            let done = match self.queued {
                true => self.submit(client, tenant, journal, deadline).await,
                false => self.call(client, journal, deadline).await,
            };
            if done {
                return;
            }
            tokio::time::sleep(REST).await;
        }
    }

    fn options(&self, deadline: Instant) -> CallOptions {
        let left = deadline.saturating_duration_since(Instant::now()).max(Duration::from_millis(1));
        CallOptions {
            action_id: Some(self.id.clone()),
            idempotency_key: self.key.clone(),
            timeout_ms: u64::try_from(left.as_millis()).ok(),
            ..CallOptions::default()
        }
    }

    async fn call(&self, client: &Client, journal: &Journal, deadline: Instant) -> bool {
        let options = CallOptions { mode: Some(ActionMode::Sync), ..self.options(deadline) };
        let called = client.call(self.capability, self.input.clone(), options).await;
        self.judge(called, journal)
    }

    /// Writes down an answer; true when it is one.
    fn judge(&self, answered: Result<ActionResult, ClientError>, journal: &Journal) -> bool {
        let told = match answered {
            Ok(result) => Meaning::Told(Told::Ended(End::of(&result)), Some(result.action_id)),
            Err(error) => meaning(&error),
        };
        match told {
            Meaning::Told(told, of) => {
                of.into_iter().for_each(|of| journal.stands_for(&self.id, of));
                journal.told(&self.id, told);
                true
            }
            Meaning::Again => false,
            Meaning::Wrong(why) => {
                journal.wrong(format!("{} {}: {why}", self.capability, self.id));
                true
            }
        }
    }

    async fn submit(&self, client: &Client, tenant: &Tenant, journal: &Journal, deadline: Instant) -> bool {
        let taken = client.submit(self.capability, self.input.clone(), self.options(deadline)).await;
        let ack = match taken {
            Ok(ack) => ack,
            Err(error) => return self.judge(Err(error), journal),
        };
        journal.stands_for(&self.id, ack.action_id.clone());
        journal.told(&self.id, Told::Taken);
        if let Some(after) = self.cancel {
            tokio::time::sleep(after).await;
            journal.cancelled(&self.id);
            // a wish that is lost is no wrong: the action then ends as if nobody had wished
            let _ = client.cancel(&ack.action_id, None).await;
        }
        self.collect(&ack.action_id, tenant, journal, deadline).await;
        true
    }

    /// Asks for the end of an action that was taken, from one gateway after the other.
    async fn collect(&self, id: &ActionId, tenant: &Tenant, journal: &Journal, deadline: Instant) {
        let mut gateway = 0;
        while Instant::now() < deadline + GRACE {
            gateway = (gateway + 1) % tenant.reader.len();
            match tenant.reader[gateway].result(id, Some(2_000)).await {
                Ok(result) => return journal.told(&self.id, Told::Ended(End::of(&result))),
                Err(error) => match meaning(&error) {
                    Meaning::Again => {}
                    Meaning::Told(..) | Meaning::Wrong(_) => {
                        return journal.wrong(format!("{} {id} was taken, then: {error}", self.capability));
                    }
                },
            }
            tokio::time::sleep(REST).await;
        }
    }
}

/// A slot that nothing else of the tenant asks for, so that a second effect would find its table taken.
fn booking(count: u32) -> Value {
    let (restaurant, rest) = (["trattoria-roma", "sushi-kai", "chez-nous"][count as usize % 3], count / 3);
    let (table, rest) = (["t1", "t2", "t3", "t4"][rest as usize % 4], rest / 4);
    let (hour, rest) = (18 + rest % 4, rest / 4);
    let (day, rest) = (1 + rest % 28, rest / 28);
    let (month, year) = (1 + rest % 12, 2027 + rest / 12);
    json!({"restaurant": restaurant, "table": table, "date": format!("{year}-{month:02}-{day:02}"),
           "time": format!("{hour}:00"), "party": 2, "guest_name": "Jordan"})
}
