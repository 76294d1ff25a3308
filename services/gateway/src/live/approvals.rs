//! Following approvals: the list that a reader asks for, and then each of its approvals as it changes or leaves it. The
//! list is another service's, so it is asked for again whenever that service says that something happened, and from time
//! to time. A reader that comes back is told the whole list again.

use std::collections::BTreeMap;
use std::time::Duration;

use aip_admission::Caller;
use aip_names::limits::{APPROVALS_FOLLOW_MS, APPROVALS_FOLLOWED_MAX, STREAM_FRAMES_MAX, STREAM_STALL_MS};
use aip_names::{OwnService, Subject};
use aip_wire::{
    ApprovalId, ApprovalList, ApprovalListRequest, ApprovalQueryRequest, ApprovalRecordView, ErrorBody,
    MessageBody, ProtocolError, Refusal, Timestamp, codes,
};
use futures_util::StreamExt;
use secrecy::SecretString;
use tokio::sync::{mpsc, oneshot};

use super::{ERROR, MESSAGE};
use crate::approve;
use crate::front::{Frame, Live};
use crate::gateway::Gateway;
use aip_service::clock;

/// Tells one reader.
struct Follower {
    gateway: Gateway,
    bearer: Option<SecretString>,
    request: ApprovalListRequest,
    /// What the reader was told of, and as of when.
    told: BTreeMap<ApprovalId, Timestamp>,
    frames: mpsc::Sender<Frame>,
}

// === impl Gateway ===

impl Gateway {
    pub(super) async fn follow_approvals(
        &self,
        bearer: Option<SecretString>,
        request: ApprovalListRequest,
    ) -> Result<Live, Refusal> {
        let (frames, receiver) = mpsc::channel(STREAM_FRAMES_MAX);
        let (cutter, cut) = oneshot::channel();
        let follower = Follower { gateway: self.clone(), bearer, request, told: BTreeMap::new(), frames };
        // refused before anything is begun
        let (caller, first) = follower.list().await?;
        tokio::spawn(follower.run(caller, first, cutter));
        Ok(Live { frames: receiver, cut })
    }
}

// === impl Follower ===

impl Follower {
    async fn run(mut self, caller: Caller, first: Vec<ApprovalRecordView>, cutter: oneshot::Sender<Frame>) {
        let service = OwnService::PolicyApproval.service();
        let news = Subject::all_events(self.gateway.trust_domain(), &service);
        let mut news = self.gateway.bus().client().subscribe(news).await.ok();
        let (mut caller, mut listed) = (caller, Some(first));
        loop {
            let found = match listed.take() {
                Some(first) => Ok((caller.clone(), first)),
                None => self.list().await,
            };
            let told = match found {
                Ok((reader, found)) => {
                    caller = reader;
                    self.tell(&caller, found).await
                }
                // a service that is away comes back
                Err(refusal) if refusal.code.retryable => Some(true),
                Err(refusal) => {
                    let frame = self.error(&caller, refusal);
                    let _ = self.frames.send_timeout(frame, Duration::from_millis(STREAM_STALL_MS)).await;
                    return;
                }
            };
            match told {
                Some(true) => {}
                Some(false) => return,
                None => {
                    let _ = cutter.send(self.error(&caller, Refusal::of(codes::STREAM_READER_SLOW)));
                    return;
                }
            }
            let happened = async {
                match &mut news {
                    Some(news) => drop(news.next().await),
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = self.frames.closed() => return,
                () = happened => {}
                () = tokio::time::sleep(Duration::from_millis(APPROVALS_FOLLOW_MS)) => {}
            }
        }
    }

    /// The whole list, by what the reader may see now.
    async fn list(&self) -> Result<(Caller, Vec<ApprovalRecordView>), Refusal> {
        let authenticator = self.gateway.authenticator();
        let caller = authenticator.caller(self.bearer.as_ref(), clock::now_ms()).await?;
        let asked = approve::of_token(self.request.clone().into(), &caller);
        let MessageBody::ApprovalListRequest(mut asked) = asked else {
            return Err(Refusal::of(codes::SERVICE_INTERNAL));
        };
        let mut found = Vec::new();
        while found.len() < APPROVALS_FOLLOWED_MAX {
            let body = MessageBody::ApprovalListRequest(asked.clone());
            let answer = self.gateway.ask(OwnService::PolicyApproval, &caller, body).await?;
            let MessageBody::ApprovalList(page) = answer else {
                return Err(Refusal::of(codes::SERVICE_INTERNAL));
            };
            found.extend(page.approvals);
            asked.cursor = page.cursor;
            if asked.cursor.is_none() {
                break;
            }
        }
        Ok((caller, found))
    }

    /// Tells what is new, has changed, or has left the list; the first time also that there is nothing. None when the
    /// reader takes nothing, false when it is gone.
    async fn tell(&mut self, caller: &Caller, found: Vec<ApprovalRecordView>) -> Option<bool> {
        let begins = self.told.is_empty();
        let mut gone = std::mem::take(&mut self.told);
        let mut news = Vec::new();
        for approval in found {
            let before = gone.remove(&approval.request.id);
            self.told.insert(approval.request.id.clone(), approval.updated_at);
            if before != Some(approval.updated_at) {
                news.push(approval);
            }
        }
        for id in gone.into_keys() {
            let asked = ApprovalQueryRequest {
                approval_id: id,
                tenant_id: None,
                include_action_status: false,
                include_receipts: self.request.include_receipts,
                include_evidence_payload: false,
            };
            let answer = self.gateway.ask(OwnService::PolicyApproval, caller, asked.into()).await;
            if let Ok(MessageBody::ApprovalRecordView(left)) = answer {
                news.push(*left);
            }
        }
        if news.is_empty() && !begins {
            return Some(true);
        }
        // one a frame: an envelope has a bound
        let mut lists: Vec<Vec<ApprovalRecordView>> = news.into_iter().map(|one| vec![one]).collect();
        if lists.is_empty() {
            lists.push(Vec::new());
        }
        for approvals in lists {
            let body = ApprovalList { approvals, cursor: None };
            let envelope = self.gateway.voice().tell(caller.principal(), None, body.into());
            let frame = Frame { id: None, name: MESSAGE, envelope };
            match self.frames.send_timeout(frame, Duration::from_millis(STREAM_STALL_MS)).await {
                Ok(()) => {}
                Err(mpsc::error::SendTimeoutError::Timeout(_)) => return None,
                Err(mpsc::error::SendTimeoutError::Closed(_)) => return Some(false),
            }
        }
        Some(true)
    }

    fn error(&self, caller: &Caller, refusal: Refusal) -> Frame {
        let error = ProtocolError::from(refusal);
        let envelope = self.gateway.voice().tell(caller.principal(), None, ErrorBody { error }.into());
        Frame { id: None, name: ERROR, envelope }
    }
}
