//! Operator verbs: capabilities of the services themselves, `cap:aip:<service>:<verb>`. Their ids are reserved, so that
//! nobody else can offer one and nobody may call one by a pattern that does not speak of them.

/// Every operator verb's id begins so.
pub const VERBS: &str = "cap:aip:";
/// The gateway's.
pub const GATEWAY_VERBS: &str = "cap:aip:gateway:";
/// Takes up a dead letter as a new action.
pub const GATEWAY_REDRIVE: &str = "cap:aip:gateway:redrive";
/// Lets an approval expire now.
pub const POLICY_APPROVAL_EXPIRE: &str = "cap:aip:policy-approval:expire";

/// True for the id of an operator verb, whether or not there is such a verb.
pub fn is_verb(capability_id: &str) -> bool {
    capability_id.starts_with(VERBS)
}
