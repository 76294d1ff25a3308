//! A ledger in memory with a clock that only the test moves.

use serde_json::{Value, json};

use aip_kernel::{EffectId, EffectMode, Facts, Hash, Memory, ReplicaId, View, WriterId};
use aip_wire::trusted::{PrincipalRef, TrustedContext};
use aip_wire::{
    Action, ActionId, ActionResult, Capability, CapabilityId, Manifest, MessageId, PrincipalId,
    PrincipalKind, ProtocolError, codes,
};

use crate::machine::action::{ActionState, Pinned};
use crate::machine::admit::Admit;
use crate::machine::idempotency::{Collision, Reservation};
use crate::machine::manifest::{self, ManifestState};
use crate::machine::note::ReplayClaim;
use crate::machine::register::RegisterManifest;
use crate::machine::settle::{Outcome, Settle};
use crate::machine::{Answer, Command, Effect, GatewayMachine, State, keys};

pub const START: u64 = 1_760_000_000_000;
pub const TIMEOUT_MS: u64 = 30_000;

pub struct Env {
    pub memory: Memory<GatewayMachine>,
    pub now: u64,
    counter: u128,
}

pub fn actor(id: &str) -> PrincipalRef {
    PrincipalRef { id: PrincipalId::parse(id).unwrap(), kind: PrincipalKind::Service }
}

pub fn capability(id: &str, input: Value) -> Capability {
    let value = json!({"id": id, "name": "a name", "kind": "tool", "input_schema": input});
    serde_json::from_value(value).unwrap()
}

pub fn worker_manifest(capabilities: Vec<Capability>) -> Manifest {
    Manifest {
        capabilities,
        ..serde_json::from_value(json!({
            "manifest_version": "aip-manifest/v1",
            "agent": {"id": "svc:worker", "kind": "service"},
            "profiles": ["aip.native.nats.v1"],
        }))
        .unwrap()
    }
}

pub fn completed(action: &str) -> ActionResult {
    ActionResult::completed(ActionId::opaque(action), json!({"ok": true}))
}

pub fn failed(action: &str, error: ProtocolError) -> ActionResult {
    ActionResult::failed(ActionId::opaque(action), error)
}

/// The context of an action of `svc:client` in `acme`.
pub fn context(action: &Action, contract_hash: &str, deadline_ms: u64) -> TrustedContext {
    let value = json!({
        "version": 1,
        "trust_domain": "aip.test",
        "action_id": action.id,
        "capability_id": action.capability_id,
        "contract_hash": contract_hash,
        "attempt": 1,
        "principal": {"id": "svc:client", "kind": "service"},
        "authentication": {"type": "api_key", "id": "k1"},
        "scopes": ["action:write"],
        "tenant": "acme",
        "deadline_ms": deadline_ms,
        "policy": {"directory": "directory-1", "rule": "principal svc:client: cap:*"},
    });
    TrustedContext::read(&value).unwrap()
}

pub fn worker_error() -> ProtocolError {
    ProtocolError::of(codes::WORKER_FAILED, "it did not work")
}

impl Env {
    /// A gateway with one capability, `cap:book`, registered.
    pub fn new() -> Env {
        let mut env = Env { memory: Memory::new(GatewayMachine), now: START, counter: 1 };
        let manifest = worker_manifest(vec![capability("cap:book", json!({"type": "object"}))]);
        assert_eq!(env.register(manifest), Answer::Registered { added: 1, withdrawn: 0 });
        env
    }

    pub fn facts(&mut self) -> Facts {
        self.counter += 1;
        let writer = WriterId { replica: ReplicaId("r0".into()), life: "1".into() };
        Facts::new(self.now, self.memory.log_time(), writer, self.counter << 70 | self.counter)
    }

    pub fn apply(&mut self, command: Command) -> Answer {
        let facts = self.facts();
        self.memory.decide(&command, &facts).unwrap()
    }

    pub fn registration(&self, manifest: Manifest) -> RegisterManifest {
        let hash = |capability: &Capability| Hash::of(&serde_json::to_vec(capability).unwrap()).to_string();
        let contracts = manifest.capabilities.iter().map(|one| (one.id.clone(), hash(one)));
        RegisterManifest {
            provider: actor("svc:worker"),
            contracts: contracts.collect(),
            manifest,
            service: "sandbox".into(),
            version: "v1".into(),
            withdraw: Vec::new(),
            message_id: MessageId::opaque("msg_manifest"),
            replay: None,
        }
    }

    pub fn register(&mut self, manifest: Manifest) -> Answer {
        let register = self.registration(manifest);
        self.apply(Command::RegisterManifest(Box::new(register)))
    }

    pub fn manifests(&self) -> ManifestState {
        let entity = self.memory.entity(&keys::manifest(&PrincipalId::parse("svc:worker").unwrap())).unwrap();
        match entity.map(|entity| entity.state) {
            Some(State::Manifest(state)) => state,
            other => panic!("no manifest but {other:?}"),
        }
    }

    /// An admission of `cap:book` under its newest contract: a mutation that may not be repeated.
    pub fn admission(&self, id: &str) -> Admit {
        let capability_id = CapabilityId::parse("cap:book").unwrap();
        let row = manifest::newest(&self.memory, &capability_id).unwrap().unwrap();
        let action: Action =
            serde_json::from_value(json!({"id": id, "capability_id": "cap:book", "input": {"people": 2}}))
                .unwrap();
        Admit {
            context: context(&action, &row.key.contract_hash, self.now + TIMEOUT_MS),
            action,
            gateway: actor("svc:gateway"),
            message_id: MessageId::opaque(format!("msg_{id}")),
            correlation_id: Some(aip_wire::CorrelationId::opaque("corr_1")),
            input_hash: "input".into(),
            pinned: Pinned {
                provider: actor("svc:worker"),
                registration_n: row.n,
                contract_hash: row.key.contract_hash,
                service: row.key.service,
                version: row.key.version,
                mutation: true,
                streams: false,
                dispatch: EffectMode::Once,
                cancel: false,
            },
            reservations: Vec::new(),
            approval: None,
            replay: None,
            received_at: self.now,
        }
    }

    pub fn admit(&mut self, admit: Admit) -> Answer {
        self.apply(Command::Admit(Box::new(admit)))
    }

    /// Admits an action of the given kind and leaves it running.
    pub fn running(id: &str, mutation: bool, dispatch: EffectMode) -> Env {
        let mut env = Env::new();
        let mut admit = env.admission(id);
        admit.pinned.mutation = mutation;
        admit.pinned.dispatch = dispatch;
        assert_eq!(env.admit(admit), Answer::Admitted);
        env
    }

    pub fn action(&self, id: &str) -> ActionState {
        match self.memory.entity(&keys::action(id)).unwrap().map(|entity| entity.state) {
            Some(State::Action(state)) => *state,
            other => panic!("no action but {other:?}"),
        }
    }

    pub fn exists(&self, id: &str) -> bool {
        self.memory.entity(&keys::action(id)).unwrap().is_some()
    }

    /// The one pending effect.
    pub fn effect(&self) -> (EffectId, u32, EffectMode) {
        let mut effects = self.memory.effects();
        let (id, effect, mode) = effects.next().unwrap();
        assert!(effects.next().is_none());
        let Effect::Dispatch { attempt } = *effect else { panic!("{effect:?}") };
        (id.clone(), attempt, mode)
    }

    pub fn settle(&mut self, outcome: Outcome) -> Answer {
        let (effect, attempt, _) = self.effect();
        self.apply(Command::Settle(Box::new(Settle { effect, attempt, outcome })))
    }

    /// Fires the timers that are due, as the road would.
    pub fn advance(&mut self, by_ms: u64) {
        use aip_kernel::Machine;
        self.now += by_ms;
        let due: Vec<_> = self.memory.timers().filter(|(_, _, due)| *due <= self.now).collect();
        let commands: Vec<_> =
            due.iter().map(|(entity, name, _)| GatewayMachine.on_timer(entity, name)).collect();
        for command in commands {
            self.apply(command);
        }
    }

    pub fn code(&self, id: &str) -> String {
        self.action(id).result.unwrap().error.unwrap().code
    }
}

pub fn key(name: &str, until: u64) -> Reservation {
    Reservation { claim: format!("idem:{name}"), until, on_collision: Collision::Conflict }
}

pub fn replay(name: &str, until: u64) -> ReplayClaim {
    ReplayClaim { name: format!("replay:{name}"), until }
}
