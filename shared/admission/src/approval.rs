//! What has to be approved before it runs, by which policy, and what exactly an approval is for (12.1 to 12.3): the
//! gateway derives it from the capability and the admitted action, so that nobody can have one thing approved and
//! another done.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use aip_crypto::canonical;
use aip_names::limits::{
    APPROVAL_DECISIONS_MAX, APPROVAL_RULE_DEPTH_MAX, APPROVAL_RULE_LEAVES_MAX, APPROVAL_RULE_WIDTH_MAX,
    APPROVAL_TEXT_BYTES_MAX, SCHEMA_DEPTH_MAX,
};
use aip_wire::{
    ApprovalPolicy, ApprovalRequest, ApprovalRule, ApproverSelector, Capability, CapabilityId,
    EvidenceArtifact, EvidenceRequirement, ExternalAccountRef, Refusal, RiskLevel, codes,
};

/// The policy of a tenant that is meant where a selector names none.
pub const TENANT_POLICY_DEFAULT: &str = "default";
/// The annotation in an input schema that marks the governed value, with its unit: `{"unit": "EUR-cent"}`.
pub const GOVERNED_VALUE: &str = "x-aip-governed-value";
/// The kind of the artifact that holds the contract's hash.
const CONTRACT_KIND: &str = "contract";
/// The kind of the artifact whose id is the unit of the governed value.
const GOVERNED_VALUE_KIND: &str = "governed_value";
/// The kind of the artifact that shows the input as far as it may be shown.
pub const SHOWN_INPUT_KIND: &str = "redacted_input";

/// What an approval is for, without who asks and under which id: two of one kind have one hash.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Governed {
    pub capability_id: CapabilityId,
    pub contract_hash: String,
    /// Digest of capability and input together.
    pub input_hash: String,
    pub tenant: Option<String>,
    pub external_account: Option<ExternalAccountRef>,
    pub risk: RiskLevel,
    pub value: Option<GovernedValue>,
}

/// How much is at stake, in the unit that the capability's schema names.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GovernedValue {
    pub amount: u64,
    pub unit: String,
}

// === impl Governed ===

impl Governed {
    /// What a request is for, from the request itself: whoever has it can compute its policy hash.
    pub fn of_request(request: &ApprovalRequest) -> Option<Governed> {
        let artifact = |kind: &str| request.evidence.iter().find(|artifact| artifact.kind == kind);
        let identity = request.identity.as_ref();
        let amount = request.governed_value;
        let value = match (amount, artifact(GOVERNED_VALUE_KIND)) {
            (Some(amount), Some(unit)) => Some(GovernedValue { amount, unit: unit.id.clone() }),
            (None, None) => None,
            _ => return None,
        };
        Some(Governed {
            capability_id: request.capability_id.clone(),
            contract_hash: artifact(CONTRACT_KIND)?.hash.clone()?,
            input_hash: artifact(EvidenceRequirement::InputSnapshot.as_str())?.hash.clone()?,
            tenant: identity.and_then(|identity| identity.tenant.as_ref()).map(|tenant| tenant.id.clone()),
            external_account: identity.and_then(|identity| identity.external_account.clone()),
            risk: request.risk?,
            value,
        })
    }

    /// The artifacts by which a request says what it is for (12.3).
    pub fn artifacts(&self) -> Vec<EvidenceArtifact> {
        let hashed = |kind: &str, hash: &str, redacted| EvidenceArtifact {
            id: kind.to_owned(),
            kind: kind.to_owned(),
            uri: None,
            hash: Some(hash.to_owned()),
            redacted,
        };
        let mut artifacts = vec![
            hashed(EvidenceRequirement::InputSnapshot.as_str(), &self.input_hash, true),
            hashed(CONTRACT_KIND, &self.contract_hash, false),
        ];
        artifacts.extend(self.value.as_ref().map(|value| EvidenceArtifact {
            id: value.unit.clone(),
            kind: GOVERNED_VALUE_KIND.to_owned(),
            uri: None,
            hash: None,
            redacted: false,
        }));
        artifacts
    }

    /// The digest of policy and governed subject together (12.3).
    pub fn policy_hash(&self, policy: &ApprovalPolicy) -> String {
        // what is of our making can be written as JSON
        let governed = serde_json::to_value(self).unwrap_or_default();
        let policy = serde_json::to_value(policy).unwrap_or_default();
        canonical::hash(&serde_json::json!({"governed": governed, "policy": policy}))
    }
}

/// The policy by which an action of this capability has to be approved; none when it need not be. A capability that
/// wants a person and says no more is for its tenant's own policy.
pub fn policy_of(capability: &Capability) -> Option<ApprovalPolicy> {
    let human = capability.requires_human_approval == Some(true);
    let declared = capability.contract.as_ref().and_then(|contract| contract.approval.clone());
    match declared {
        Some(policy) if policy.required || human => Some(ApprovalPolicy { required: true, ..policy }),
        None if human => Some(ApprovalPolicy {
            required: true,
            reason: None,
            approver_selector: ApproverSelector::TenantPolicy {},
            ttl_ms: None,
            evidence_requirements: Vec::new(),
            delegated_authority: None,
            rule: None,
            minimum_distinct_principals: 1,
            separation_of_duties: aip_wire::SeparationOfDuties::default(),
            policy_version: None,
        }),
        _ => None,
    }
}

/// Whether this policy can be met at all, and judged within our bounds.
///
/// # Errors
/// `aip.approval.policy_invalid`, with the place inside the capability.
pub fn check_policy(capability: &Capability) -> Result<(), Refusal> {
    let declared = capability.contract.as_ref().and_then(|contract| contract.approval.as_ref());
    if let Some(policy) = declared {
        let most = u32::try_from(APPROVAL_DECISIONS_MAX).unwrap_or(u32::MAX);
        if policy.minimum_distinct_principals > most {
            return invalid("/contract/approval/minimum_distinct_principals", "more than may decide");
        }
        if let Some(rule) = &policy.rule {
            let mut leaves = 0;
            check_rule(rule, 1, &mut leaves, "/contract/approval/rule")?;
        }
    }
    if annotated(&capability.input_schema).len() > 1 {
        return invalid("/input_schema", "marks more than one governed value");
    }
    Ok(())
}

fn check_rule(rule: &ApprovalRule, depth: usize, leaves: &mut usize, path: &str) -> Result<(), Refusal> {
    let children = match rule {
        ApprovalRule::All { rules, .. } | ApprovalRule::Any { rules } => rules,
        ApprovalRule::Quorum { required, rules, .. } => {
            if *required == 0 || usize::try_from(*required).unwrap_or(usize::MAX) > rules.len() {
                return invalid(path, "a quorum wants at least one of its rules and no more than it has");
            }
            rules
        }
        leaf => {
            *leaves += 1;
            let named = match leaf {
                ApprovalRule::Role { name } | ApprovalRule::Group { name } => name.as_str(),
                ApprovalRule::TenantPolicy { policy_id } => policy_id.as_str(),
                ApprovalRule::ExternalSystem { system } => system.as_str(),
                ApprovalRule::DelegatedAuthority { scope, .. } => scope.as_str(),
                ApprovalRule::Principal { id } => id.as_str(),
                _ => "",
            };
            if named.trim().is_empty() || named.len() > APPROVAL_TEXT_BYTES_MAX {
                return invalid(path, "names nobody, or at too great a length");
            }
            if *leaves > APPROVAL_RULE_LEAVES_MAX {
                return invalid(path, "the rule names too many approvers");
            }
            return Ok(());
        }
    };
    if depth >= APPROVAL_RULE_DEPTH_MAX {
        return invalid(path, "the rule is nested too deeply");
    }
    if children.is_empty() || children.len() > APPROVAL_RULE_WIDTH_MAX {
        return invalid(path, "a composed rule has no rules in it, or too many");
    }
    for (index, child) in children.iter().enumerate() {
        check_rule(child, depth + 1, leaves, &format!("{path}/rules/{index}"))?;
    }
    Ok(())
}

fn invalid<T>(path: &str, message: &str) -> Result<T, Refusal> {
    Err(Refusal::new(codes::APPROVAL_POLICY, path, message))
}

/// The governed value of an input, from the place that the capability's schema marks; none where nothing is marked or
/// the input leaves it out.
///
/// # Errors
/// `aip.action.invalid_input` when what stands there is no whole number.
pub fn governed_value(capability: &Capability, input: &Value) -> Result<Option<GovernedValue>, Refusal> {
    let Some((pointer, unit)) = annotated(&capability.input_schema).into_iter().next() else {
        return Ok(None);
    };
    match input.pointer(&pointer) {
        None | Some(Value::Null) => Ok(None),
        Some(value) => match value.as_u64() {
            Some(amount) => Ok(Some(GovernedValue { amount, unit })),
            None => {
                let path = format!("/body/action/input{pointer}");
                Err(Refusal::new(codes::ACTION_INPUT, path, "the governed value is no whole number"))
            }
        },
    }
}

/// Places in the input that the schema marks, with their units. Only what `properties` name can be marked.
fn annotated(schema: &Value) -> Vec<(String, String)> {
    fn look(schema: &Value, pointer: &str, depth: usize, found: &mut Vec<(String, String)>) {
        if let Some(mark) = schema.get(GOVERNED_VALUE) {
            // an artifact's id is not blank
            let unit = mark.get("unit").and_then(Value::as_str).filter(|unit| !unit.trim().is_empty());
            found.push((pointer.to_owned(), unit.unwrap_or("unit").to_owned()));
        }
        let properties = schema.get("properties").and_then(Value::as_object);
        if depth == SCHEMA_DEPTH_MAX {
            return;
        }
        for (name, below) in properties.into_iter().flatten() {
            let name = name.replace('~', "~0").replace('/', "~1");
            look(below, &format!("{pointer}/{name}"), depth + 1, found);
        }
    }
    let mut found = Vec::new();
    look(schema, "", 0, &mut found);
    found
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn capability(contract: Value, schema: Value) -> Capability {
        let mut capability = json!({
            "id": "cap:bank:transfer", "name": "Transfer", "kind": "tool", "input_schema": schema,
            "contract": {
                "side_effects": ["write"],
                "idempotency": {
                    "requirement": "optional", "collision_behavior": "reject_conflict", "key_scope": "principal",
                },
                "execution": {
                    "supports_sync": true, "supports_async": false, "supports_streaming": false,
                    "supports_cancel": false, "supports_retry": false, "expected_completion": "sync",
                    "retry_safety": "unsafe",
                },
                "data": {"sensitivity": "internal", "contains_pii": false, "redaction_required": false},
            },
        });
        capability["contract"]["approval"] = contract;
        serde_json::from_value(capability).unwrap()
    }

    fn with_rule(rule: Value) -> Capability {
        let policy = json!({"required": true, "approver_selector": {"type": "tenant_policy"}, "rule": rule});
        capability(policy, json!({}))
    }

    #[test]
    fn rules_are_bounded_and_can_be_met() {
        let role = json!({"operator": "role", "name": "finance"});
        check_policy(&with_rule(role.clone())).unwrap();
        check_policy(&with_rule(json!({"operator": "quorum", "required": 2, "rules": [role, role, role]})))
            .unwrap();
        let mut deep = role.clone();
        for _ in 0..APPROVAL_RULE_DEPTH_MAX {
            deep = json!({"operator": "any", "rules": [deep]});
        }
        let wide = vec![role.clone(); APPROVAL_RULE_WIDTH_MAX + 1];
        let eight = json!({"operator": "all", "rules": vec![role.clone(); 8]});
        for bad in [
            deep,
            json!({"operator": "all", "rules": wide}),
            json!({"operator": "any", "rules": []}),
            json!({"operator": "quorum", "required": 0, "rules": [role]}),
            json!({"operator": "quorum", "required": 2, "rules": [role]}),
            json!({"operator": "any", "rules": [eight, eight, role]}),
            json!({"operator": "role", "name": " "}),
        ] {
            assert_eq!(check_policy(&with_rule(bad)).unwrap_err().code, codes::APPROVAL_POLICY);
        }
    }

    #[test]
    fn the_governed_value_is_read_where_the_schema_marks_it() {
        let schema = json!({"properties": {"a": {"properties": {
            "amount": {"type": "integer", "x-aip-governed-value": {"unit": "EUR-cent"}},
        }}}});
        let marked =
            capability(json!({"required": false, "approver_selector": {"type": "tenant_policy"}}), schema);
        let value = |input: Value| governed_value(&marked, &input);
        let cents = GovernedValue { amount: 12_00, unit: "EUR-cent".to_owned() };
        assert_eq!(value(json!({"a": {"amount": 1200}})), Ok(Some(cents)));
        assert_eq!(value(json!({"a": {}})), Ok(None));
        for bad in [json!(-1), json!(1.5), json!("1200")] {
            assert_eq!(value(json!({"a": {"amount": bad}})).unwrap_err().code, codes::ACTION_INPUT);
        }
        assert_eq!(policy_of(&marked), None);
    }

    #[test]
    fn the_hash_is_of_policy_and_subject_and_of_no_single_request() {
        let governed = Governed {
            capability_id: CapabilityId::parse("cap:a").unwrap(),
            contract_hash: "c".to_owned(),
            input_hash: "i".to_owned(),
            tenant: Some("acme".to_owned()),
            external_account: None,
            risk: RiskLevel::High,
            value: None,
        };
        let human = json!({"id": "cap:a", "name": "a", "kind": "tool", "input_schema": {},
            "requires_human_approval": true});
        let policy = policy_of(&serde_json::from_value(human).unwrap()).unwrap();
        let hash = governed.policy_hash(&policy);
        assert_eq!(hash, governed.policy_hash(&policy));
        let stricter = ApprovalPolicy { minimum_distinct_principals: 2, ..policy.clone() };
        assert_ne!(hash, governed.policy_hash(&stricter));
        for other in [
            Governed { input_hash: "j".to_owned(), ..governed.clone() },
            Governed { tenant: Some("beta".to_owned()), ..governed.clone() },
            Governed { contract_hash: "d".to_owned(), ..governed.clone() },
            Governed { risk: RiskLevel::Critical, ..governed.clone() },
        ] {
            assert_ne!(hash, other.policy_hash(&policy));
        }
    }
}
