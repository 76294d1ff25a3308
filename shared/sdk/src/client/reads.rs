//! Lists, events and audit (16), page by page. Whoever reads on hands a page's cursor back with the same question.

use aip_wire::{
    ActionEvents, ActionEventsRequest, ActionList, ActionListRequest, ApprovalDecision, ApprovalList,
    ApprovalListRequest, ApprovalQueryRequest, ApprovalRecordView, AuditQueryRequest, AuditQueryResult,
    EventStream, EventStreamRequest, MessageBody,
};

use super::{Client, ClientError, unexpected, untrusted};

// === impl Client ===

impl Client {
    /// A page of actions, the newest first.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn actions(&self, request: ActionListRequest) -> Result<ActionList, ClientError> {
        match self.query(request.into(), None).await? {
            MessageBody::ActionList(list) => Ok(*list),
            other => Err(unexpected(&other)),
        }
    }

    /// A page of what happened to an action.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn action_events(&self, request: ActionEventsRequest) -> Result<ActionEvents, ClientError> {
        let id = request.action_id.clone();
        match self.query(request.into(), None).await? {
            MessageBody::ActionEvents(events) if events.action_id == id => Ok(*events),
            MessageBody::ActionEvents(_) => Err(untrusted("the events are of another action")),
            other => Err(unexpected(&other)),
        }
    }

    /// A page of what happened to all actions that the caller may see, in order.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn events(&self, request: EventStreamRequest) -> Result<EventStream, ClientError> {
        match self.query(request.into(), None).await? {
            MessageBody::EventStream(events) => Ok(*events),
            other => Err(unexpected(&other)),
        }
    }

    /// A page of approvals, the newest first.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn approvals(&self, request: ApprovalListRequest) -> Result<ApprovalList, ClientError> {
        match self.query(request.into(), None).await? {
            MessageBody::ApprovalList(list) => Ok(*list),
            other => Err(unexpected(&other)),
        }
    }

    /// One approval.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn approval(&self, request: ApprovalQueryRequest) -> Result<ApprovalRecordView, ClientError> {
        let id = request.approval_id.clone();
        match self.query(request.into(), None).await? {
            MessageBody::ApprovalRecordView(view) if view.request.id == id => Ok(*view),
            MessageBody::ApprovalRecordView(_) => Err(untrusted("the record is of another approval")),
            other => Err(unexpected(&other)),
        }
    }

    /// Decides about an approval (12.4). With a `decision_id` it may be said again until there is an answer: it is taken
    /// once. The answer is how the approval stands now.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn decide(&self, decision: ApprovalDecision) -> Result<ApprovalRecordView, ClientError> {
        let id = decision.approval_id.clone();
        match self.query(decision.into(), None).await? {
            MessageBody::ApprovalRecordView(view) if view.request.id == id => Ok(*view),
            MessageBody::ApprovalRecordView(_) => Err(untrusted("the record is of another approval")),
            other => Err(unexpected(&other)),
        }
    }

    /// A page of audit events, in order.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn audit(&self, request: AuditQueryRequest) -> Result<AuditQueryResult, ClientError> {
        match self.query(request.into(), None).await? {
            MessageBody::AuditQueryResult(result) => Ok(*result),
            other => Err(unexpected(&other)),
        }
    }
}
