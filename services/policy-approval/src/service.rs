//! What the service answers. The gateway authenticated who asks; here it is judged what they may see and decide.

use std::sync::Arc;

use aip_admission::approval::Governed;
use aip_admission::{Directory, Reader};
use aip_kernel::{Fault, View};
use aip_ledger::{Ledger, Readiness};
use aip_names::{GATEWAY_PRINCIPAL, OwnService};
use aip_service::run::{Parts, RunError};
use aip_service::{Request, Service, Teller, clock, fault};
use aip_wire::trusted::PrincipalRef;
use aip_wire::{ApprovalDecision, ApprovalId, ApprovalRecordView, MessageBody, MessageType, Refusal, codes};
use tokio::sync::watch;

use crate::authority::Authorities;
use crate::machine::{self, Answer, ApprovalState, Command, Decide, Keep, PolicyMachine, Status, load};
use crate::page::Cursors;
use crate::tell::Messenger;
use crate::view;

/// The scope that deciding takes, besides the authority in the rule.
const DECIDE: &str = "approval:decide";

/// The running service. Cheap to clone; all clones are one.
#[derive(Clone)]
pub struct PolicyApproval {
    inner: Arc<Inner>,
}

struct Inner {
    ledger: Ledger<PolicyMachine>,
    directory: Arc<Directory>,
    cursors: Cursors,
}

// === impl PolicyApproval ===

impl PolicyApproval {
    /// Opens the ledger and begins to learn; requests are served once it is ready.
    ///
    /// # Errors
    /// The store can't be used, or the directory is another trust domain's.
    pub fn open(parts: Parts) -> Result<PolicyApproval, RunError> {
        let Parts { bus, key, directory, ledger: config } = parts;
        if directory.trust_domain() != config.trust_domain.as_str() {
            let of = directory.trust_domain();
            return Err(RunError::Own(format!(
                "the directory is of {of}, the service of {}",
                config.trust_domain
            )));
        }
        let own = OwnService::PolicyApproval;
        let teller = Teller::new(bus.clone(), config.trust_domain.clone(), own, Arc::clone(&key))
            .map_err(|error| RunError::Own(error.to_string()))?;
        let messenger = Arc::new(Messenger::new(bus.clone(), config.trust_domain.clone(), teller));
        let performer: Arc<dyn aip_ledger::Performer<PolicyMachine>> = Arc::clone(&messenger) as _;
        let ledger = Ledger::open(PolicyMachine, bus, performer, &config)?;
        messenger.reads(ledger.clone());
        let inner = Inner { ledger, directory, cursors: Cursors::new(&key) };
        Ok(PolicyApproval { inner: Arc::new(inner) })
    }

    pub(crate) fn directory(&self) -> &Directory {
        &self.inner.directory
    }

    pub(crate) fn authorities(&self) -> Arc<dyn Authorities> {
        Arc::clone(&self.inner.directory) as Arc<dyn Authorities>
    }

    pub(crate) fn cursors(&self) -> &Cursors {
        &self.inner.cursors
    }

    /// Reads committed state that is no older than this call, off the async workers.
    pub(crate) async fn fresh<T: Send + 'static>(
        &self,
        read: impl FnOnce(&dyn View<PolicyMachine>) -> Result<T, Fault> + Send + 'static,
    ) -> Result<T, Refusal> {
        let ledger = self.inner.ledger.clone();
        ledger.read(|_| Ok(())).await.map_err(|error| fault::of_ledger(&error))?;
        let found = tokio::task::spawn_blocking(move || ledger.peek(read)).await;
        found.map_err(|_| Refusal::of(codes::SERVICE_INTERNAL))?.map_err(|error| fault::of_ledger(&error))
    }

    async fn decided(&self, command: Command) -> Result<(), Refusal> {
        match self.inner.ledger.decide(command).await.map_err(|error| fault::of_ledger(&error))? {
            Answer::Refused(refusal) => Err(*refusal),
            Answer::Recorded | Answer::Nothing => Ok(()),
        }
    }

    /// What the gateway asks for an action, or takes back.
    async fn asked_by_gateway(
        &self,
        gateway: PrincipalRef,
        asked: ApprovalRecordView,
    ) -> Result<ApprovalRecordView, Refusal> {
        let id = asked.request.id.clone();
        if asked.status == Status::Withdrawn.as_str() {
            let why = "the action has ended".to_owned();
            self.decided(Command::Withdraw { approval: id, why }).await?;
            return Ok(asked);
        }
        let governed = Governed::of_request(&asked.request);
        let governed = governed.ok_or_else(|| Refusal::of(codes::APPROVAL_HASH))?;
        let payload = asked.evidence_payload.ok_or_else(|| Refusal::of(codes::APPROVAL_EVIDENCE_MISSING))?;
        self.decided(Command::Keep(Box::new(Keep { approval: id.clone(), payload }))).await?;
        let tenant = governed.tenant.as_deref();
        let ladder = tenant.map(|tenant| self.directory().escalations(tenant).to_vec()).unwrap_or_default();
        let request = machine::Request { request: asked.request, governed, ladder, gateway };
        self.decided(Command::Request(Box::new(request))).await?;
        self.shown(id).await
    }

    /// An approver's decision (12.4).
    async fn decision(&self, reader: &Reader, said: ApprovalDecision) -> Result<ApprovalRecordView, Refusal> {
        if !reader.caller().scopes().cover(DECIDE) {
            return Err(Refusal::new(codes::POLICY_SCOPE, "", format!("this needs the scope {DECIDE}")));
        }
        let id = said.approval_id.clone();
        let state = {
            let id = id.clone();
            self.fresh(move |view| load(view, &id)).await?
        };
        // what is hidden from the sender is not there
        if !state.is_some_and(|state| self.sees(reader, &state)) {
            return Err(Refusal::of(codes::APPROVAL_NOT_FOUND));
        }
        let by = reader.caller().principal().clone();
        // a decision without a name of its own is the one of its kind that this approver can make here
        let decision_id = said.decision_id.clone().unwrap_or_else(|| format!("{}:{}", said.decision, by.id));
        let decide = Decide { by, decision: said, decision_id, authorities: self.authorities() };
        self.decided(Command::Decide(Box::new(decide))).await?;
        self.shown(id).await
    }

    /// Ends an approval of this tenant before its time. None when there is none.
    pub(crate) async fn expire(
        &self,
        id: ApprovalId,
        tenant: Option<&str>,
    ) -> Result<Option<ApprovalState>, Refusal> {
        let look = || {
            let id = id.clone();
            self.fresh(move |view| load(view, &id))
        };
        if look().await?.is_none_or(|state| state.tenant() != tenant) {
            return Ok(None);
        }
        self.decided(Command::Expire { approval: id.clone(), now: true }).await?;
        look().await
    }

    async fn shown(&self, id: ApprovalId) -> Result<ApprovalRecordView, Refusal> {
        let found = self.fresh(move |view| load(view, &id)).await?;
        let state = found.ok_or_else(|| Refusal::of(codes::APPROVAL_NOT_FOUND))?;
        Ok(view::of(&state, None))
    }
}

impl Service for PolicyApproval {
    const ANSWERS: &'static [MessageType] = &[
        MessageType::ApprovalRecordView,
        MessageType::ApprovalDecision,
        MessageType::ApprovalQueryRequest,
        MessageType::ApprovalListRequest,
        MessageType::ReceiptQueryRequest,
    ];

    async fn answer(&self, request: Request) -> Result<MessageBody, Refusal> {
        let Request { caller, envelope } = request;
        let reader = Reader::new(&caller, self.directory(), clock::now_ms());
        let reader = &reader;
        match envelope.body {
            MessageBody::ApprovalRecordView(asked) if caller.id().as_str() == GATEWAY_PRINCIPAL => {
                let gateway = PrincipalRef::of(caller.principal());
                self.asked_by_gateway(gateway, *asked).await.map(Into::into)
            }
            MessageBody::ApprovalDecision(said) => self.decision(reader, *said).await.map(Into::into),
            MessageBody::ApprovalQueryRequest(asked) => self.query(reader, &asked).await.map(Into::into),
            MessageBody::ApprovalListRequest(asked) => self.list(reader, &asked).await.map(Into::into),
            MessageBody::ReceiptQueryRequest(asked) => {
                let chain = asked.chain_id.as_deref().unwrap_or_default();
                self.receipts(reader, chain).await.map(Into::into)
            }
            _ => Err(Refusal::of(codes::ENVELOPE_NOT_SERVED)),
        }
    }

    fn readiness(&self) -> watch::Receiver<Readiness> {
        self.inner.ledger.readiness()
    }

    async fn drain(&self) {
        self.inner.ledger.drain().await;
    }

    async fn failed(&self) -> String {
        self.inner.ledger.failed().await
    }
}
