//! Step 5, second half: which credential and which account at a provider. Both come from the directory, for the
//! caller's tenant; the message only says which of them it means (22.6).

use aip_wire::{
    CredentialPolicy, CredentialRef, ExternalAccountRef, IdentityContext, Refusal, codes, codes::Code,
};

use crate::context::ResolvedCredential;
use crate::directory::{Credential, CredentialLookup, Directory};
use crate::pattern::Scopes;

#[derive(Debug)]
pub struct Access {
    pub credential: Option<ResolvedCredential>,
    pub external_account: Option<ExternalAccountRef>,
}

const CREDENTIAL: &str = "/body/action/identity/credential_ref";

pub fn resolve(
    claimed: Option<&IdentityContext>,
    tenant: Option<&str>,
    policy: Option<&CredentialPolicy>,
    directory: &Directory,
    now_ms: u64,
) -> Result<Access, Refusal> {
    let wanted = claimed.and_then(|identity| identity.credential_ref.as_ref());
    let credential = match wanted {
        Some(wanted) => Some(find(wanted, tenant, directory)?),
        None if policy.is_some_and(|policy| policy.required) => {
            return refuse(codes::CREDENTIAL_REQUIRED, "", "the capability needs a credential reference");
        }
        None => None,
    };
    let resolved = match (wanted, credential) {
        (Some(wanted), Some(credential)) => Some(judge(wanted, credential, policy, now_ms)?),
        _ => None,
    };
    let account = claimed.and_then(|identity| identity.external_account.as_ref());
    let external_account = account_of(account, credential, tenant, directory)?;
    Ok(Access { credential: resolved, external_account })
}

fn find<'a>(
    wanted: &CredentialRef,
    tenant: Option<&str>,
    directory: &'a Directory,
) -> Result<&'a Credential, Refusal> {
    // a caller without a tenant has no vault; no configured tenant has an empty name
    match directory.credential(tenant.unwrap_or_default(), &wanted.id) {
        CredentialLookup::Found(credential) => Ok(credential),
        CredentialLookup::OtherTenant => {
            refuse(codes::CREDENTIAL_TENANT, "/id", "the credential belongs to another tenant")
        }
        CredentialLookup::Unknown => {
            refuse(codes::CREDENTIAL_UNKNOWN, "/id", "the tenant has no credential of this name")
        }
    }
}

fn judge(
    wanted: &CredentialRef,
    credential: &Credential,
    policy: Option<&CredentialPolicy>,
    now_ms: u64,
) -> Result<ResolvedCredential, Refusal> {
    let accepted = policy.map(|policy| policy.accepted_issuers.as_slice()).unwrap_or_default();
    if wanted.issuer != credential.issuer {
        return refuse(codes::CREDENTIAL_ISSUER, "/issuer", "the credential has another issuer");
    }
    if !accepted.is_empty() && !accepted.contains(&credential.issuer) {
        return refuse(codes::CREDENTIAL_ISSUER, "/issuer", "the capability does not accept this issuer");
    }
    if !wanted.scopes.iter().all(|scope| credential.scopes.cover(scope)) {
        return refuse(
            codes::CREDENTIAL_SCOPE,
            "/scopes",
            "the credential does not have a scope that is asked for",
        );
    }
    // who asks for less gets less
    let scopes = match wanted.scopes.is_empty() {
        true => credential.scopes.clone(),
        false => credential.scopes.narrowed_to(&Scopes::new(wanted.scopes.iter().cloned())),
    };
    let required = policy.map(|policy| policy.required_scopes.as_slice()).unwrap_or_default();
    if !required.iter().all(|scope| scopes.cover(scope)) {
        return refuse(
            codes::CREDENTIAL_SCOPE,
            "/scopes",
            "the capability needs a scope that the credential lacks",
        );
    }
    let expired = credential.expires_at_ms.is_some_and(|expires_at_ms| now_ms >= expires_at_ms);
    let renewable = credential.refreshable && policy.is_some_and(|policy| policy.allow_oauth_refresh);
    if expired && !renewable {
        return refuse(codes::CREDENTIAL_EXPIRED, "/id", "the credential has expired");
    }
    Ok(ResolvedCredential {
        id: credential.id.clone(),
        issuer: credential.issuer.clone(),
        scopes,
        expires_at_ms: credential.expires_at_ms,
    })
}

/// The account that is asked for, which has to be the tenant's and the credential's; else the credential's own.
fn account_of(
    wanted: Option<&ExternalAccountRef>,
    credential: Option<&Credential>,
    tenant: Option<&str>,
    directory: &Directory,
) -> Result<Option<ExternalAccountRef>, Refusal> {
    let of_credential = credential.and_then(|credential| credential.external_account.as_ref());
    let Some(wanted) = wanted else { return Ok(of_credential.cloned()) };
    let bound = tenant.is_some_and(|tenant| directory.account_is_bound(tenant, wanted))
        && of_credential.is_none_or(|account| account == wanted);
    match bound {
        true => Ok(Some(wanted.clone())),
        false => Err(Refusal::new(
            codes::CREDENTIAL_ACCOUNT,
            "/body/action/identity/external_account",
            "the account is not bound to the caller's tenant and credential",
        )),
    }
}

fn refuse<T>(code: &'static Code, below: &str, message: &str) -> Result<T, Refusal> {
    Err(Refusal::new(code, format!("{CREDENTIAL}{below}"), message))
}
