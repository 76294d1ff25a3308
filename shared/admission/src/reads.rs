//! What a caller may see and register. Whatever object id or filter a query brings, this is asked first (16.3).

use aip_names::{limits, operator};
use aip_wire::{Capability, CapabilityId, PrincipalId, Refusal, codes};

use crate::caller::Caller;
use crate::directory::{Directory, Worker};
use crate::policy;

/// What a read is about; its scopes are `<family>:read` for one's own and `<family>:read:any` for all of one's tenants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Family {
    Action,
    Receipt,
    /// Approvals, also to those who may decide them.
    Approval,
    /// The feed of events.
    Event,
    /// Audit events, to look at.
    Audit,
    /// Audit events and receipts, to take away (16.7). Needed on top of [`Family::Audit`].
    AuditExport,
}

// === impl Family ===

impl Family {
    pub(crate) fn own(self) -> &'static str {
        match self {
            Family::Action => "action:read",
            Family::Receipt => "receipt:read",
            Family::Approval => "approval:read",
            Family::Event => "events:read",
            Family::Audit => "audit:read",
            Family::AuditExport => "audit:export",
        }
    }

    pub(crate) fn any(self) -> &'static str {
        match self {
            Family::Action => "action:read:any",
            Family::Receipt => "receipt:read:any",
            Family::Approval => "approval:read:any",
            Family::Event => "events:read:any",
            Family::Audit => "audit:read:any",
            Family::AuditExport => "audit:export:any",
        }
    }
}

/// Whether the caller may see something that `owner` did in `tenant`. Nobody looks into a tenant that they are not in,
/// not even at what they did there before; what happened outside any tenant is its owner's only.
pub fn may_read(caller: &Caller, owner: &PrincipalId, tenant: Option<&str>, family: Family) -> bool {
    let inside = tenant.is_none_or(|tenant| caller.tenants().iter().any(|own| own == tenant));
    let own =
        caller.id() == owner && (caller.scopes().cover(family.own()) || caller.scopes().cover(family.any()));
    let any = tenant.is_some() && caller.scopes().cover(family.any());
    inside && (own || any)
}

/// Whether the caller may ask to cancel what `owner` began in `tenant`: its owner, who may invoke, or who may cancel
/// all of a tenant.
pub fn may_cancel(caller: &Caller, owner: &PrincipalId, tenant: Option<&str>) -> bool {
    let inside = tenant.is_none_or(|tenant| caller.tenants().iter().any(|own| own == tenant));
    let own = caller.id() == owner && caller.scopes().cover(policy::INVOKE_SCOPE);
    let any = tenant.is_some() && caller.scopes().cover(CANCEL_ANY);
    inside && (own || any)
}

const CANCEL_ANY: &str = "action:cancel:any";

/// Whether discovery may show this capability: only what the caller could invoke exists for it (9.8).
pub fn may_discover(caller: &Caller, capability: &Capability, directory: &Directory, now_ms: u64) -> bool {
    policy::may_invoke(caller, capability, directory, now_ms)
}

/// Whether the caller may offer all of these capabilities under this service token.
///
/// # Errors
/// `aip.manifest.not_allowed`, also for a service that belongs to somebody else.
pub fn may_register<'a>(
    caller: &Caller,
    service: &str,
    version: &str,
    capabilities: impl IntoIterator<Item = &'a CapabilityId>,
    directory: &Directory,
) -> Result<(), Refusal> {
    let place = |worker: &&Worker| {
        worker.principal == *caller.id() && worker.service == service && worker.version == version
    };
    let rows: Vec<&Worker> = directory.workers().iter().filter(place).collect();
    if rows.is_empty() {
        let message = "the caller may not register under this service and version";
        return Err(Refusal::new(codes::MANIFEST_NOT_ALLOWED, "", message));
    }
    for (index, id) in capabilities.into_iter().enumerate() {
        let path = format!("/body/manifest/capabilities/{index}/id");
        if id.as_str().len() > limits::ADMISSION_TEXT_BYTES_MAX {
            return Err(Refusal::new(codes::LIMIT_STRING_BYTES, path, "the capability id is too long"));
        }
        // the gateway's own verbs are in its program, and nobody stands in for them
        let own = id.as_str().starts_with(operator::GATEWAY_VERBS);
        if own || !rows.iter().flat_map(|row| &row.capabilities).any(|row| row.covers(id.as_str())) {
            let message = "the caller may not register this capability";
            return Err(Refusal::new(codes::MANIFEST_NOT_ALLOWED, path, message));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
