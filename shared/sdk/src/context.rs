//! What a handler may rely on while it runs: everything that admission established (section 11.2), a deadline and a
//! token that tells it to stop. Authority comes from here and never from the input.

use std::sync::Arc;
use std::time::Duration;

use aip_names::limits::ACTION_ASYNC_TIMEOUT_MAX_MS;
use aip_wire::trusted::{PrincipalRef, ResolvedCredential, Scopes, TraceContext, TrustedContext};
use aip_wire::{ActionId, ExternalAccountRef, Timestamp};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::chunks::Chunks;

/// The trusted context of one action.
#[derive(Debug, Clone)]
pub struct Context {
    trusted: Arc<TrustedContext>,
    idempotency_key: Option<Arc<str>>,
    deadline: Instant,
    stop: CancellationToken,
    cancelled: CancellationToken,
    begun_before: bool,
    chunks: Chunks,
}

impl Context {
    /// A context as a handler gets it, also for testing one. `stop` tells it to stop.
    pub fn new(trusted: TrustedContext, idempotency_key: Option<&str>, stop: CancellationToken) -> Context {
        let now_ms = Timestamp::now().as_ms();
        let remaining_ms = trusted.deadline_ms.saturating_sub(now_ms).min(ACTION_ASYNC_TIMEOUT_MAX_MS);
        Context {
            trusted: Arc::new(trusted),
            idempotency_key: idempotency_key.map(Arc::from),
            deadline: Instant::now() + Duration::from_millis(remaining_ms),
            stop,
            cancelled: CancellationToken::new(),
            begun_before: false,
            chunks: Chunks::to_nobody(),
        }
    }

    /// The token that says that the action is to be cancelled; whoever cancels it cancels the other one, too.
    #[must_use]
    pub fn cancelled_by(mut self, cancelled: CancellationToken) -> Context {
        self.cancelled = cancelled;
        self
    }

    pub(crate) fn begun_by_an_earlier_life(mut self, begun_before: bool) -> Context {
        self.begun_before = begun_before;
        self
    }

    pub(crate) fn streaming_to(mut self, chunks: Chunks) -> Context {
        self.chunks = chunks;
        self
    }

    /// Who asks, proven by the gateway.
    pub fn principal(&self) -> &PrincipalRef {
        &self.trusted.principal
    }

    /// The tenant whose data this is about. Everything a handler reads or writes belongs to it.
    pub fn tenant(&self) -> Option<&str> {
        self.trusted.tenant.as_deref()
    }

    pub fn scopes(&self) -> &Scopes {
        &self.trusted.scopes
    }

    /// A reference that the tenant's vault resolves; never the secret.
    pub fn credential(&self) -> Option<&ResolvedCredential> {
        self.trusted.credential.as_ref()
    }

    /// The account at a provider that is bound to the tenant.
    pub fn external_account(&self) -> Option<&ExternalAccountRef> {
        self.trusted.external_account.as_ref()
    }

    pub fn action_id(&self) -> &ActionId {
        &self.trusted.action_id
    }

    /// Counts dispatches of this action from 1.
    pub fn attempt(&self) -> u32 {
        self.trusted.attempt
    }

    /// True when an earlier life of this worker began the action and did not come to its end: what that life did
    /// may have been done.
    pub fn begun_before(&self) -> bool {
        self.begun_before
    }

    /// The requester's key, when it gave one: the same intent has the same key, also under another action id.
    pub fn idempotency_key(&self) -> Option<&str> {
        self.idempotency_key.as_deref()
    }

    /// What a provider that takes idempotency keys is given: the same for every attempt at this action, and never for
    /// two actions.
    pub fn effect_id(&self) -> &str {
        self.trusted.action_id.as_str()
    }

    /// When the action is over. Never extended.
    pub fn deadline(&self) -> Instant {
        self.deadline
    }

    pub fn remaining(&self) -> Duration {
        self.deadline.saturating_duration_since(Instant::now())
    }

    /// Cancelled at the deadline, when the worker has to stop, when the attempt went to another worker, and when the
    /// action is to be cancelled ([`is_cancelled`](Self::is_cancelled)). A handler that does not return soon after is
    /// left alone, and what it did is reported as not known; only one that is to cancel has until the deadline.
    pub fn stop(&self) -> &CancellationToken {
        &self.stop
    }

    /// Whether somebody asked to cancel the action. It may still be completed; what the handler returns is the end.
    pub fn is_cancelled(&self) -> bool {
        self.cancelled.is_cancelled()
    }

    /// What the handler streams while it works. In a context that was made for a test, and in a synchronous action,
    /// nobody listens.
    pub fn chunks(&self) -> &Chunks {
        &self.chunks
    }

    pub fn trace(&self) -> &TraceContext {
        &self.trusted.trace
    }

    /// The whole of it.
    pub fn trusted(&self) -> &TrustedContext {
        &self.trusted
    }
}
