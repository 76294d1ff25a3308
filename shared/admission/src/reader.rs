//! A caller as a reader: what it may see by its own right and by what others granted it (16.3). A question about one
//! thing is answered by [`Reader::may`]; a list looks only into the [`Place`]s that the reader may look into at all,
//! so that what stands elsewhere can't be felt in a count, a cursor or the time an answer takes.

use aip_wire::{PrincipalId, Refusal, codes};

use crate::caller::Caller;
use crate::directory::Directory;
use crate::pattern::{CapabilityPattern, Scopes};
use crate::reads::{Family, may_read};

/// Where things that can be read stand together.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Place {
    /// What this principal did, in any tenant and in none.
    Owner(PrincipalId),
    /// What anybody did in this tenant.
    Tenant(String),
}

/// Something that can be read.
#[derive(Debug, Clone, Copy)]
pub struct Thing<'a> {
    pub owner: &'a PrincipalId,
    pub tenant: Option<&'a str>,
    /// The capability that it is about, if it is about one.
    pub capability_id: Option<&'a str>,
}

/// Who reads. Made anew for each question, and for a live stream again when its authority may have changed.
#[derive(Debug, Clone)]
pub struct Reader {
    caller: Caller,
    lent: Vec<Lent>,
    until_ms: Option<u64>,
}

/// What another principal lets the reader see.
#[derive(Debug, Clone)]
struct Lent {
    owner: PrincipalId,
    tenant: String,
    scopes: Scopes,
    capabilities: Vec<CapabilityPattern>,
}

// === impl Reader ===

impl Reader {
    /// By the directory of the moment. Nobody can lend what they may not see themselves, nor to somebody outside the
    /// tenant.
    pub fn new(caller: &Caller, directory: &Directory, now_ms: u64) -> Reader {
        let mut until_ms = caller.until_ms();
        let mut lent = Vec::new();
        for grant in directory.grants_to(caller.id(), now_ms) {
            let Some(grantor) = directory.party(&grant.principal) else { continue };
            if !(caller.tenants().contains(&grant.tenant) && grantor.tenants.contains(&grant.tenant)) {
                continue;
            }
            until_ms = Some(until_ms.map_or(grant.expires_at_ms, |until| until.min(grant.expires_at_ms)));
            lent.push(Lent {
                owner: grant.principal.clone(),
                tenant: grant.tenant.clone(),
                scopes: grantor.scopes.narrowed_to(&grant.scopes),
                capabilities: grant.capabilities.clone(),
            });
        }
        Reader { caller: caller.clone(), lent, until_ms }
    }

    pub fn caller(&self) -> &Caller {
        &self.caller
    }

    /// When the reader's token or one of the grants to it expires: what it may see has to be judged again then.
    pub fn until_ms(&self) -> Option<u64> {
        self.until_ms
    }

    /// Whether the reader may see this.
    pub fn may(&self, thing: Thing<'_>, family: Family) -> bool {
        self.may_itself(thing, family) || self.is_lent(thing, family)
    }

    /// Whether the reader may see this by its own right, and not by what another lent it.
    pub fn may_itself(&self, thing: Thing<'_>, family: Family) -> bool {
        may_read(&self.caller, thing.owner, thing.tenant, family)
    }

    /// Whether the reader may see anything of the family.
    ///
    /// # Errors
    /// `aip.policy.scope_missing`
    pub fn require(&self, family: Family) -> Result<(), Refusal> {
        if self.has(family) {
            return Ok(());
        }
        Err(Refusal::new(codes::POLICY_SCOPE, "", format!("this needs the scope {}", family.own())))
    }

    /// Where to look for what the reader may see. `tenant` narrows it to one tenant.
    pub fn places(&self, family: Family, tenant: Option<&str>) -> Vec<Place> {
        if !self.has(family) {
            return Vec::new();
        }
        let mut places = vec![Place::Owner(self.caller.id().clone())];
        if self.caller.scopes().cover(family.any()) {
            places.extend(self.caller.tenants().iter().cloned().map(Place::Tenant));
        }
        let lent = self.lent.iter().filter(|lent| lent.scopes.cover(family.own()));
        places.extend(lent.map(|lent| Place::Owner(lent.owner.clone())));
        places.retain(|place| match (place, tenant) {
            (Place::Tenant(own), Some(tenant)) => own == tenant,
            _ => true,
        });
        places.sort();
        places.dedup();
        places
    }

    fn has(&self, family: Family) -> bool {
        self.caller.scopes().cover(family.own()) || self.caller.scopes().cover(family.any())
    }

    /// A token that is narrowed to less than the family lends nothing either.
    fn is_lent(&self, thing: Thing<'_>, family: Family) -> bool {
        let (Some(tenant), Some(capability)) = (thing.tenant, thing.capability_id) else { return false };
        self.has(family)
            && self.lent.iter().any(|lent| {
                lent.owner == *thing.owner
                    && lent.tenant == tenant
                    && lent.scopes.cover(family.own())
                    && lent.capabilities.iter().any(|pattern| pattern.covers(capability))
            })
    }
}

#[cfg(test)]
mod tests;
