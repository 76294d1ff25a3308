//! Identity contexts (section 8.3), judged only where a message's own rules ask for it.

use super::Judged;
use super::check::{At, no_blank_entry, nonblank, nonempty_if};
use crate::types::IdentityContext;

/// Judges the `identity` member of the object at `at`.
pub(super) fn identity_if(context: Option<&IdentityContext>, at: &At<'_>) -> Judged {
    context.map_or(Ok(()), |context| identity(context, &at.member("identity")))
}

pub(super) fn identity(context: &IdentityContext, at: &At<'_>) -> Judged {
    if let Some(tenant) = &context.tenant {
        nonblank(&at.member("tenant"), "id", &tenant.id)?;
    }
    if let Some(account) = &context.external_account {
        let place = at.member("external_account");
        nonblank(&place, "id", &account.id)?;
        nonblank(&place, "system", &account.system)?;
    }
    if let Some(user) = &context.external_user {
        let place = at.member("external_user");
        nonblank(&place, "id", &user.id)?;
        nonblank(&place, "system", &user.system)?;
    }
    if let Some(credential) = &context.credential_ref {
        let place = at.member("credential_ref");
        nonblank(&place, "id", &credential.id)?;
        nonblank(&place, "issuer", &credential.issuer)?;
        no_blank_entry(&place, "scopes", &credential.scopes)?;
    }
    if let Some(oauth) = &context.oauth {
        let place = at.member("oauth");
        nonblank(&place, "issuer", &oauth.issuer)?;
        no_blank_entry(&place, "scopes", &oauth.scopes)?;
        nonempty_if(&place, "client_id", oauth.client_id.as_deref())?;
    }
    Ok(())
}
