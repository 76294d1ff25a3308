//! Who is asking, once that is proven. A [`Caller`] can only be made by the gates of this crate.

use aip_wire::trusted::{CONTEXT_VERSION, TrustedCaller};
use aip_wire::{Principal, PrincipalId, Refusal, codes};

pub use aip_wire::trusted::Method;

use crate::directory::Party;
use crate::pattern::Scopes;

/// An authenticated principal, with everything taken from the directory and nothing from the message.
#[derive(Debug, Clone)]
pub struct Caller {
    principal: Principal,
    method: Method,
    scopes: Scopes,
    tenants: Vec<String>,
    until_ms: Option<u64>,
}

// === impl Caller ===

impl Caller {
    pub(crate) fn new(party: &Party, method: Method) -> Caller {
        Caller {
            principal: party.principal.clone(),
            method,
            scopes: party.scopes.clone(),
            tenants: party.tenants.clone(),
            until_ms: None,
        }
    }

    /// Less than the directory gives, for a token that says so.
    pub(crate) fn narrowed_to(mut self, scopes: &Scopes) -> Caller {
        self.scopes = self.scopes.narrowed_to(scopes);
        self
    }

    /// In this tenant only, and only if the caller belongs to it.
    pub(crate) fn within(mut self, tenant: Option<&str>) -> Caller {
        self.tenants.retain(|own| Some(own.as_str()) == tenant);
        self
    }

    /// The proof holds no longer than this.
    pub(crate) fn until(mut self, until_ms: Option<u64>) -> Caller {
        self.until_ms = until_ms;
        self
    }

    pub(crate) fn signed_by(mut self, did: &str) -> Caller {
        self.principal.did = Some(did.to_owned());
        self.method = Method::Signature { did: did.to_owned() };
        self
    }

    /// A caller whom the gateway authenticated. The proof is where the word came from: a subject to which only services of
    /// the system may publish.
    ///
    /// # Errors
    /// `aip.auth.missing` for a form that this release does not know.
    pub fn vouched(word: TrustedCaller) -> Result<Caller, Refusal> {
        let TrustedCaller { version, principal, authentication: method, scopes, tenants, until_ms } = word;
        if version != CONTEXT_VERSION {
            return Err(Refusal::of(codes::AUTH_MISSING));
        }
        Ok(Caller { principal, method, scopes, tenants, until_ms })
    }

    /// The word to another service of the system.
    pub fn vouch(&self) -> TrustedCaller {
        TrustedCaller {
            version: CONTEXT_VERSION,
            principal: self.principal.clone(),
            authentication: self.method.clone(),
            scopes: self.scopes.clone(),
            tenants: self.tenants.clone(),
            until_ms: self.until_ms,
        }
    }

    /// As the directory describes it, with the DID that signed, if one did.
    pub fn principal(&self) -> &Principal {
        &self.principal
    }

    pub fn id(&self) -> &PrincipalId {
        &self.principal.id
    }

    pub fn method(&self) -> &Method {
        &self.method
    }

    /// When the token that proved the caller expires; `None` for one that does not, and for a signature.
    pub fn until_ms(&self) -> Option<u64> {
        self.until_ms
    }

    pub fn scopes(&self) -> &Scopes {
        &self.scopes
    }

    pub fn tenants(&self) -> &[String] {
        &self.tenants
    }

    /// The tenant that a request is for: the one it asks for, if the caller belongs to it, else the caller's first
    /// (22.6). `None` for a caller without tenants.
    ///
    /// # Errors
    /// `aip.policy.tenant_mismatch` for any other tenant, whether or not it exists.
    pub fn tenant(&self, requested: Option<&str>) -> Result<Option<&str>, Refusal> {
        match requested {
            None => Ok(self.tenants.first().map(String::as_str)),
            Some(requested) => match self.tenants.iter().find(|own| *own == requested) {
                Some(own) => Ok(Some(own)),
                None => {
                    Err(Refusal::new(codes::TENANT_MISMATCH, "", "the caller does not belong to this tenant"))
                }
            },
        }
    }
}
