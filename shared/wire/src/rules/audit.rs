//! Receipts, audit events and settlement (section 18). Hashes are verified by whoever trusts them, not here.

use aip_names::limits::SETTLEMENT_RECORDS_MAX;

use super::check::{At, nonblank, nonblank_if, page};
use super::{Judged, identity};
use crate::codes;
use crate::types::{AuditEvent, AuditQueryRequest, BatchSettlement, ReceiptChain, ReceiptQueryRequest};

pub(super) fn receipt_chain(chain: &ReceiptChain, at: &At<'_>) -> Judged {
    if chain.receipts.is_empty() {
        return Ok(());
    }
    nonblank(at, "root_hash", chain.root_hash.as_deref().unwrap_or_default())
}

pub(super) fn receipt_query(query: &ReceiptQueryRequest, at: &At<'_>) -> Judged {
    if query.chain_id.is_some() == query.receipt_id.is_some() {
        return Err(at.rule("needs exactly one of chain_id and receipt_id"));
    }
    nonblank_if(at, "chain_id", query.chain_id.as_deref())
}

pub(super) fn event(event: &AuditEvent, at: &At<'_>) -> Judged {
    nonblank(at, "action", &event.action)?;
    identity::identity_if(event.identity.as_ref(), at)
}

pub(super) fn query(query: &AuditQueryRequest, at: &At<'_>) -> Judged {
    nonblank_if(at, "tenant_id", query.tenant_id.as_deref())?;
    page(at, query.limit)?;
    match (query.from, query.to) {
        (Some(from), Some(to)) if from > to => Err(at.member("from").disagree("must not be later than to")),
        _ => Ok(()),
    }
}

pub(super) fn settlement(batch: &BatchSettlement, at: &At<'_>) -> Judged {
    if batch.records.len() > SETTLEMENT_RECORDS_MAX {
        return Err(at
            .member("records")
            .refuse(codes::LIMIT_BATCH_RECORDS, "must not hold more than 1000 records"));
    }
    Ok(())
}
