//! Two tenants see nothing of each other: not in lists, not in feeds, not by asking for what they can't know.

use std::collections::HashMap;
use std::sync::Arc;

use aip_sdk::{Client, ClientError};
use aip_wire::{
    ActionEventsRequest, ActionId, ActionListRequest, AuditQueryRequest, EventStreamRequest,
    ReceiptQueryRequest, codes,
};

use crate::client::Tenant;
use crate::journal::{Entry, Journal, Told};

/// Rows of a page.
const PAGE: u32 = 200;
/// Foreign actions that each tenant asks for.
const FOREIGN_MAX: usize = 5;

/// What each tenant must not see and sees. `pages` bounds how far lists and feeds are read.
pub async fn leaks(tenants: &[Arc<Tenant>], journal: &Journal, pages: usize) -> Vec<String> {
    let mut leaks = Vec::new();
    for (i, tenant) in tenants.iter().enumerate() {
        let client = &tenant.reader[i % tenant.reader.len()];
        let mut seen = Vec::new();
        for read in [listed(client, pages).await, fed(client, pages).await] {
            match read {
                Ok(ids) => seen.extend(ids),
                Err(error) => leaks.push(format!("{} can't read: {error}", tenant.name)),
            }
        }
        // written down before it was sent, so what was seen is in there
        let entries: HashMap<ActionId, Entry> = journal.entries().into_iter().collect();
        for id in seen {
            let owner = entries.get(&id).map(|entry| entry.tenant);
            if owner != Some(tenant.number) {
                leaks.push(format!("{} sees {id} of {owner:?}", tenant.name));
            }
        }
        let known = |entry: &Entry| matches!(entry.told, Told::Taken | Told::Ended(_));
        let foreign = entries.iter().filter(|(_, entry)| entry.tenant != tenant.number && known(entry));
        let guessed = ActionId::generate();
        for id in foreign.map(|(id, _)| id).take(FOREIGN_MAX).chain([&guessed]) {
            leaks.extend(asked(tenant, id).await);
        }
    }
    leaks
}

type Seen = Result<Vec<ActionId>, ClientError>;

async fn listed(client: &Client, pages: usize) -> Seen {
    let mut seen = Vec::new();
    let mut request = ActionListRequest { limit: Some(PAGE), ..ActionListRequest::default() };
    for _ in 0..pages {
        let page = client.actions(request.clone()).await?;
        seen.extend(page.actions.into_iter().map(|status| status.action_id));
        request.cursor = page.cursor;
        if request.cursor.is_none() {
            break;
        }
    }
    Ok(seen)
}

async fn fed(client: &Client, pages: usize) -> Seen {
    let mut seen = Vec::new();
    let mut request = EventStreamRequest { limit: Some(PAGE), ..EventStreamRequest::default() };
    for _ in 0..pages {
        let page = client.events(request.clone()).await?;
        let rows = page.events.len();
        seen.extend(page.events.into_iter().filter_map(|event| event.action_id));
        request.cursor = page.next_cursor;
        if request.cursor.is_none() || rows == 0 {
            break;
        }
    }
    Ok(seen)
}

/// Every way to ask for one action; each has to say that there is none.
async fn asked(tenant: &Tenant, id: &ActionId) -> Vec<String> {
    let client = &tenant.reader[0];
    let events = ActionEventsRequest {
        action_id: id.clone(),
        tenant_id: None,
        cursor: None,
        limit: None,
        kinds: Vec::new(),
        include_chunks: false,
        follow: false,
    };
    let receipts = ReceiptQueryRequest { chain_id: Some(format!("action:{id}")), receipt_id: None };
    let audit = AuditQueryRequest { action_id: Some(id.clone()), ..AuditQueryRequest::default() };
    let audited = match client.audit(audit).await {
        Ok(found) if found.events.is_empty() => Err(codes::ACTION_NOT_FOUND.name.to_owned()),
        other => other.map(drop).map_err(|error| code(&error)),
    };
    let answers = [
        ("status", client.status(id, None).await.map(drop).map_err(|error| code(&error))),
        ("result", client.result(id, None).await.map(drop).map_err(|error| code(&error))),
        ("events", client.action_events(events).await.map(drop).map_err(|error| code(&error))),
        ("receipts", client.receipts(receipts).await.map(drop).map_err(|error| code(&error))),
        ("cancel", tenant.nats.cancel(id, None).await.map(drop).map_err(|error| code(&error))),
        ("audit", audited),
    ];
    let none = [codes::ACTION_NOT_FOUND.name, codes::RECEIPT_NOT_FOUND.name];
    let wrong =
        answers.into_iter().filter(|(_, answer)| !matches!(answer, Err(code) if none.contains(&&**code)));
    wrong.map(|(verb, answer)| format!("{} asks for the {verb} of {id}: {answer:?}", tenant.name)).collect()
}

fn code(error: &ClientError) -> String {
    error.protocol_error().map_or_else(|| error.to_string(), |error| error.code.clone())
}
