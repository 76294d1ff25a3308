//! What a worker's principal has registered: rows of capability, contract and where it is served. Rows of one
//! capability with different contracts stand beside each other; each goes only when it is withdrawn. The state keeps
//! digests; the capabilities themselves stand in the record that a row names.

use std::ops::Bound;

use serde::{Deserialize, Serialize};

use aip_kernel::{Applying, Bug, EntityKey, Fault, Millis, View};
use aip_wire::trusted::PrincipalRef;
use aip_wire::{Capability, CapabilityId, Manifest};

use super::action::Pinned;
use super::{Event, GatewayMachine, State, keys, shelf, stamp};

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ManifestEvent {
    Registered(Box<Registered>),
}

/// A manifest that was taken, and what it changed.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Registered {
    pub manifest: Manifest,
    pub service: String,
    pub version: String,
    pub added: Vec<RowKey>,
    pub withdrawn: Vec<RowKey>,
}

/// What tells rows apart.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct RowKey {
    pub capability_id: CapabilityId,
    /// Digest of all that the capability declares.
    pub contract_hash: String,
    pub service: String,
    pub version: String,
}

/// One registration that stands.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Row {
    pub provider: PrincipalRef,
    pub key: RowKey,
    /// When it came: new actions take the newest.
    pub since: Millis,
    /// The record that holds the capability.
    pub n: u64,
}

#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct ManifestState {
    pub rows: Vec<Row>,
}

// === impl Row ===

impl Row {
    fn sort(&self) -> String {
        let place = format!("{}/{}", self.key.service, self.key.version);
        keys::registration(&self.key.capability_id, self.since, &self.key.contract_hash, &place)
    }
}

// === impl ManifestState ===

impl ManifestState {
    pub fn row(&self, key: &RowKey) -> Option<&Row> {
        self.rows.iter().find(|row| row.key == *key)
    }

    /// True while the contract that an action would be pinned to is registered.
    pub fn stands(&self, capability_id: &CapabilityId, pinned: &Pinned) -> bool {
        self.rows.iter().any(|row| {
            row.key.capability_id == *capability_id
                && row.key.contract_hash == pinned.contract_hash
                && row.key.service == pinned.service
                && row.key.version == pinned.version
        })
    }
}

pub(super) fn apply(
    mut state: ManifestState,
    event: &ManifestEvent,
    applying: &mut Applying<'_, GatewayMachine>,
) -> Result<ManifestState, Bug> {
    let ManifestEvent::Registered(registered) = event;
    for key in &registered.withdrawn {
        let at = state.rows.iter().position(|row| row.key == *key);
        let at = at.ok_or_else(|| Bug("a registration that does not stand was withdrawn".to_owned()))?;
        applying.unindex(keys::INDEX_CAPABILITY, state.rows.remove(at).sort());
    }
    for key in &registered.added {
        let row = Row {
            provider: PrincipalRef::of(&registered.manifest.agent),
            key: key.clone(),
            since: applying.log_time,
            n: applying.header.n,
        };
        applying.index(keys::INDEX_CAPABILITY, row.sort());
        state.rows.push(row);
    }
    shelf::tell(applying, &registered.manifest.agent.id, None);
    applying.index(keys::INDEX_AUDIT, stamp::stamp(applying.log_time, &applying.header.id, 0));
    Ok(state)
}

/// The newest registration of a capability.
///
/// # Errors
/// The store can't answer, or index and entity disagree.
pub fn newest(view: &dyn View<GatewayMachine>, capability_id: &CapabilityId) -> Result<Option<Row>, Fault> {
    Ok(of(view, capability_id, 1)?.into_iter().next())
}

/// The registrations of a capability, the newest first, at most `limit`.
///
/// # Errors
/// The store can't answer, or index and entity disagree.
pub fn of(
    view: &dyn View<GatewayMachine>,
    capability_id: &CapabilityId,
    limit: usize,
) -> Result<Vec<Row>, Fault> {
    let (from, to) = keys::registrations_of(capability_id);
    let found = view.scan(keys::INDEX_CAPABILITY, Bound::Included(&from), Bound::Excluded(&to), limit)?;
    found.into_iter().map(|(index, provider)| indexed(view, &provider, &index.sort)).collect()
}

/// All registrations, by capability id and the newest of each first, at most `limit`.
///
/// # Errors
/// The store can't answer, or index and entity disagree.
pub fn all(view: &dyn View<GatewayMachine>, limit: usize) -> Result<Vec<Row>, Fault> {
    let found = view.scan(keys::INDEX_CAPABILITY, Bound::Unbounded, Bound::Unbounded, limit)?;
    found.into_iter().map(|(index, provider)| indexed(view, &provider, &index.sort)).collect()
}

fn indexed(view: &dyn View<GatewayMachine>, provider: &EntityKey, sort: &str) -> Result<Row, Fault> {
    let row = view.entity(provider)?.and_then(|entity| match entity.state {
        State::Manifest(state) => state.rows.into_iter().find(|row| row.sort() == sort),
        State::Action(_) | State::Message(_) => None,
    });
    row.ok_or_else(|| Fault(format!("the capability index names a row that {provider} does not have")))
}

/// The capability that the provider's record `n` registered.
///
/// # Errors
/// The store can't answer.
pub fn capability(
    view: &dyn View<GatewayMachine>,
    provider: &EntityKey,
    n: u64,
    id: &CapabilityId,
) -> Result<Option<Capability>, Fault> {
    let past = view.history(provider, n, 1)?;
    let events = past.into_iter().flat_map(|(record, _, _)| record.events);
    Ok(events
        .filter_map(|event| match event {
            Event::Manifest(ManifestEvent::Registered(registered)) => Some(registered.manifest.capabilities),
            Event::Action(_) | Event::Message(_) => None,
        })
        .flatten()
        .find(|capability| capability.id == *id))
}
