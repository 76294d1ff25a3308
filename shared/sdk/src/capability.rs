//! What a worker offers: a capability's description, and the async function behind it. The schemas come from the
//! function's types, so that what is promised is what is read and answered.

use std::sync::Arc;

use aip_wire::{
    ActionMode, ApprovalPolicy, Capability, CapabilityContract, CapabilityId, CapabilityKind, DataContract,
    DataSensitivity, ExecutionContract, ExpectedCompletionMode, IdempotencyCollisionBehavior,
    IdempotencyContract, IdempotencyKeyScope, IdempotencyRequirement, RetrySafety, RiskLevel,
    ServiceLevelContract, SideEffect, Stability, codes,
};
use futures_util::future::BoxFuture;
use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::context::Context;
use crate::error::ActionError;

#[cfg(test)]
mod tests;

/// How long the gateway keeps an idempotency key, unless a capability says otherwise.
const KEY_TTL_MS: u64 = 86_400_000;

/// A capability as its provider declares it, apart from the schemas.
#[derive(Debug, Clone, PartialEq)]
pub struct CapabilitySpec {
    pub id: String,
    pub name: String,
    pub description: String,
    pub kind: CapabilityKind,
    pub risk: RiskLevel,
    pub contract: CapabilityContract,
}

impl CapabilitySpec {
    /// Something that only looks: safe to run again, no key needed.
    pub fn read(
        id: impl Into<String>,
        name: impl Into<String>,
        description: impl Into<String>,
    ) -> CapabilitySpec {
        let mut spec = CapabilitySpec::write(id, name, description, SideEffect::Read, RetrySafety::Safe);
        spec.risk = RiskLevel::Low;
        spec.contract.idempotency.requirement = IdempotencyRequirement::Optional;
        spec
    }

    /// Something that changes the world: an idempotency key is demanded, unique for the requester.
    pub fn write(
        id: impl Into<String>,
        name: impl Into<String>,
        description: impl Into<String>,
        effect: SideEffect,
        retry_safety: RetrySafety,
    ) -> CapabilitySpec {
        let may_repeat = matches!(retry_safety, RetrySafety::Safe | RetrySafety::SafeWithIdempotencyKey);
        CapabilitySpec {
            id: id.into(),
            name: name.into(),
            description: description.into(),
            kind: CapabilityKind::Tool,
            risk: RiskLevel::Medium,
            contract: CapabilityContract {
                side_effects: vec![effect],
                idempotency: IdempotencyContract {
                    requirement: IdempotencyRequirement::Required,
                    collision_behavior: IdempotencyCollisionBehavior::RevalidateInputHash,
                    key_scope: IdempotencyKeyScope::Principal,
                    ttl_ms: Some(KEY_TTL_MS),
                },
                execution: ExecutionContract {
                    supports_sync: true,
                    supports_async: false,
                    supports_streaming: false,
                    supports_cancel: false,
                    supports_retry: may_repeat,
                    expected_completion: ExpectedCompletionMode::Sync,
                    retry_safety,
                },
                data: DataContract {
                    sensitivity: DataSensitivity::Internal,
                    contains_pii: false,
                    redaction_required: false,
                    residency: None,
                    retention: None,
                },
                credentials: None,
                approval: None,
                sla: None,
                transaction: None,
                compensation: None,
            },
        }
    }

    /// May also be called asynchronously: it waits in a queue, and goes to another worker when one is lost.
    #[must_use]
    pub fn queued(mut self) -> CapabilitySpec {
        self.contract.execution.supports_async = true;
        self.contract.execution.expected_completion = ExpectedCompletionMode::Any;
        self
    }

    /// Streams while it works ([`Context::chunks`]): it may be called in streaming mode, and as [`queued`](Self::queued),
    /// whose chunks may be followed as well.
    #[must_use]
    pub fn streaming(mut self) -> CapabilitySpec {
        self.contract.execution.supports_streaming = true;
        self.queued()
    }

    /// Its function watches [`Context::stop`] and, when asked to cancel, either ends with
    /// [`ActionError::cancelled`] because nothing was or will be done, or goes on to its end.
    #[must_use]
    pub fn cancellable(mut self) -> CapabilitySpec {
        self.contract.execution.supports_cancel = true;
        self
    }

    /// Runs only once whoever this policy names has approved it (12.1).
    #[must_use]
    pub fn approval(mut self, policy: ApprovalPolicy) -> CapabilitySpec {
        self.contract.approval = Some(policy);
        self
    }

    #[must_use]
    pub fn risk(mut self, risk: RiskLevel) -> CapabilitySpec {
        self.risk = risk;
        self
    }

    #[must_use]
    pub fn key(mut self, requirement: IdempotencyRequirement) -> CapabilitySpec {
        self.contract.idempotency.requirement = requirement;
        self
    }

    #[must_use]
    pub fn data(mut self, sensitivity: DataSensitivity, contains_pii: bool) -> CapabilitySpec {
        self.contract.data.sensitivity = sensitivity;
        self.contract.data.contains_pii = contains_pii;
        self
    }

    /// How long it usually takes, and the longest it may, in milliseconds.
    #[must_use]
    pub fn takes(mut self, expected_latency_ms: u64, timeout_ms: u64) -> CapabilitySpec {
        self.contract.sla = Some(ServiceLevelContract {
            expected_latency_ms: Some(expected_latency_ms),
            timeout_ms: Some(timeout_ms),
            async_expected: false,
            max_queue_delay_ms: None,
            availability_target: None,
        });
        self
    }
}

/// Whether something beyond reading is declared: running it twice may do something twice.
pub(crate) fn mutates(contract: &CapabilityContract) -> bool {
    contract.side_effects.iter().any(|effect| *effect != SideEffect::Read)
}

/// Whether an action that was begun and not finished may be run again (13.6, 19.3). The gateway reads contracts the
/// same way.
pub(crate) fn may_run_again(contract: &CapabilityContract, has_key: bool) -> bool {
    let safe = match contract.execution.retry_safety {
        RetrySafety::Safe => true,
        RetrySafety::SafeWithIdempotencyKey => has_key,
        RetrySafety::Unsafe | RetrySafety::Unknown => false,
    };
    !mutates(contract) || (safe && contract.execution.supports_retry)
}

type Run = dyn Fn(Context, Value) -> BoxFuture<'static, Result<Value, ActionError>> + Send + Sync;

/// A described capability and its function, types forgotten.
#[derive(Clone)]
pub(crate) struct Offered {
    pub capability: Capability,
    pub contract: CapabilityContract,
    /// Of the whole capability, as the gateway pins it to an action.
    pub contract_hash: String,
    run: Arc<Run>,
}

/// Why a capability cannot be offered.
#[derive(Debug, thiserror::Error)]
#[error("capability {id:?} cannot be offered: {reason}")]
pub struct SpecError {
    pub id: String,
    pub reason: String,
}

impl Offered {
    pub fn new<In, Out, F, Fut>(spec: CapabilitySpec, function: F) -> Result<Offered, SpecError>
    where
        In: DeserializeOwned + JsonSchema + Send + 'static,
        Out: Serialize + JsonSchema + Send + 'static,
        F: Fn(Context, In) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Out, ActionError>> + Send + 'static,
    {
        let refused = |reason: String| SpecError { id: spec.id.clone(), reason };
        let settings = SchemaSettings::draft2020_12;
        let input_schema = settings().into_generator().into_root_schema_for::<In>().to_value();
        let output_schema =
            settings().for_serialize().into_generator().into_root_schema_for::<Out>().to_value();
        if input_schema.get("type").and_then(Value::as_str) != Some("object") {
            return Err(refused("its input is no object".to_owned()));
        }
        let told =
            |which: &str, refusal: aip_wire::Refusal| refused(format!("its {which} schema: {refusal}"));
        aip_wire::capability_schema::compile(&input_schema).map_err(|error| told("input", error))?;
        aip_wire::capability_schema::compile_output(&output_schema).map_err(|error| told("output", error))?;
        let capability = Capability {
            id: CapabilityId::parse(spec.id.as_str()).map_err(|error| refused(error.to_string()))?,
            name: spec.name,
            kind: spec.kind,
            input_schema,
            output_schema: Some(output_schema),
            description: Some(spec.description).filter(|text| !text.is_empty()),
            risk: Some(spec.risk),
            stability: Some(Stability::Stable),
            cost: None,
            auth: None,
            bindings: Vec::new(),
            requires_human_approval: None,
            contract: Some(spec.contract.clone()),
        };
        let described = serde_json::to_value(&capability).map_err(|error| refused(error.to_string()))?;
        let contract_hash = aip_crypto::canonical::hash(&described);
        let function = Arc::new(function);
        let run: Arc<Run> = Arc::new(move |context, input| {
            let function = Arc::clone(&function);
            Box::pin(async move {
                let input: In = read(input)?;
                written(function(context, input)).await
            })
        });
        Ok(Offered { capability, contract: spec.contract, contract_hash, run })
    }

    pub fn run(&self, context: Context, input: Value) -> BoxFuture<'static, Result<Value, ActionError>> {
        (self.run)(context, input)
    }

    pub fn mutates(&self) -> bool {
        mutates(&self.contract)
    }

    pub fn supports(&self, mode: ActionMode) -> bool {
        match mode {
            ActionMode::Sync => self.contract.execution.supports_sync,
            ActionMode::Async => self.contract.execution.supports_async,
            ActionMode::Streaming => self.contract.execution.supports_streaming,
        }
    }
}

/// Reads the input into the handler's type. The gateway has checked it by the schema of the same type, so little is
/// left to say; the value itself is never repeated.
fn read<In: DeserializeOwned>(input: Value) -> Result<In, ActionError> {
    serde_path_to_error::deserialize(input).map_err(|error| {
        let message = "the input does not fit the handler's type";
        ActionError::registered(codes::ACTION_INPUT, message).detail("path", error.path().to_string())
    })
}

/// Writes what a handler answered as JSON. A type that JSON cannot hold is a bug of the provider, and by then the work
/// is done.
async fn written<Out: Serialize>(
    answering: impl Future<Output = Result<Out, ActionError>>,
) -> Result<Value, ActionError> {
    serde_json::to_value(answering.await?).map_err(|error| {
        let message = format!("the handler's answer is no JSON: {error}");
        ActionError::registered(codes::WORKER_INVALID, message).uncertain_outcome()
    })
}
