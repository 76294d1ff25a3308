//! Lists, events and audit (16), page by page. Whoever reads on hands a page's cursor back with the same question.

use aip_wire::{
    ActionEvents, ActionEventsRequest, ActionList, ActionListRequest, AuditQueryRequest, AuditQueryResult,
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
