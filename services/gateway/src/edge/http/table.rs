//! The routes of the HTTP door as data. Router, query reading and the OpenAPI document all come from this one table; a
//! path that is not here is answered with 404.

use std::sync::LazyLock;

use aip_wire::MessageType;

use super::console::{self, Page};
use aip_wire::codes::{self, Code};
use axum::http::Method;

/// What a route does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    /// Takes any envelope.
    Message,
    /// Takes an action, bare or in an envelope.
    Action,
    /// Takes the wish to cancel the action of the path: its reason, or an envelope.
    Cancel,
    /// Takes a decision about the approval of the path, by whoever the token is of.
    Decide,
    /// A page for people, or a part of one.
    Page(&'static Page),
    /// Asks the request of this type, made of path and query.
    Read(MessageType),
    /// As [`Operation::Read`]; told on as it happens when the client takes server-sent events.
    Follow(MessageType),
    Health,
    Ready,
    Metrics,
    Document,
    /// A path of the protocol that this release does not serve: answered so, never with 404.
    Later(&'static Code),
}

/// How a query parameter is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Text,
    /// `true` or `false`.
    Flag,
    /// Milliseconds within the bound of 16.4.
    Wait,
    /// Rows of a page within the bounds of 16.4.
    Limit,
    /// Texts with commas between them.
    List,
}

/// A query parameter and the member of the request that it becomes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Parameter {
    pub name: &'static str,
    pub member: &'static str,
    pub kind: Kind,
    pub summary: &'static str,
}

/// Groups of beginnings of codes.
type Errors = &'static [&'static [&'static str]];

/// One method of one path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Route {
    pub method: Method,
    /// With `{name}` for what varies; the name is that of the request's member.
    pub path: &'static str,
    pub operation: Operation,
    pub parameters: &'static [Parameter],
    /// Asks for chunks and for no events.
    pub chunks_only: bool,
    /// Which errors it may answer: codes that begin so.
    pub errors: Errors,
    pub summary: &'static str,
}

const fn parameter(name: &'static str, member: &'static str, kind: Kind, summary: &'static str) -> Parameter {
    Parameter { name, member, kind, summary }
}

const TENANT: Parameter =
    parameter("tenant_id", "tenant_id", Kind::Text, "The tenant to look in; a selector, never authority.");
const WAIT: Parameter =
    parameter("wait_ms", "wait_ms", Kind::Wait, "How long to wait for the action to end before answering.");

const STATUS: &[Parameter] = &[
    TENANT,
    parameter("include_result", "include_result", Kind::Flag, "Adds the final result."),
    parameter("include_receipts", "include_receipts", Kind::Flag, "Adds the receipt chain."),
    parameter(
        "include_chunks",
        "include_chunks",
        Kind::Flag,
        "Adds the first chunks, as many as a page holds.",
    ),
    WAIT,
];

const CURSOR: Parameter =
    parameter("cursor", "cursor", Kind::Text, "Where the page before this one ended, as that page says.");
const LIMIT: Parameter = parameter("limit", "limit", Kind::Limit, "Rows of the page; 100 if left out.");
const KINDS: Parameter = parameter("kinds", "kinds", Kind::List, "Keeps events of these kinds.");

const LIST: &[Parameter] = &[
    parameter("state", "state", Kind::Text, "Keeps actions in this state."),
    parameter("capability_id", "capability_id", Kind::Text, "Keeps actions of this capability."),
    parameter("session_id", "session_id", Kind::Text, "Keeps actions of this session."),
    parameter("principal_id", "principal_id", Kind::Text, "Keeps what this principal asked for."),
    TENANT,
    parameter("approval_id", "approval_id", Kind::Text, "Keeps the action that waits for this approval."),
    parameter("transaction_id", "transaction_id", Kind::Text, "Keeps actions of this transaction."),
    CURSOR,
    LIMIT,
    parameter("include_results", "include_results", Kind::Flag, "Adds final results."),
    parameter("include_receipts", "include_receipts", Kind::Flag, "Adds receipt chains."),
];

const ACTION_EVENTS: &[Parameter] = &[
    TENANT,
    CURSOR,
    LIMIT,
    KINDS,
    parameter("include_chunks", "include_chunks", Kind::Flag, "Adds the chunks that the action streams."),
];

const ACTION_CHUNKS: &[Parameter] = &[TENANT, CURSOR, LIMIT];

const EVENTS: &[Parameter] = &[CURSOR, LIMIT, KINDS];

const APPROVALS: &[Parameter] = &[
    parameter("status", "status", Kind::Text, "Keeps approvals that stand so; `pending` is what waits."),
    parameter(
        "approver",
        "approver",
        Kind::Text,
        "Keeps what this principal may decide or decided; `me` for oneself.",
    ),
    parameter("requester", "requester", Kind::Text, "Keeps what this principal asked for."),
    TENANT,
    CURSOR,
    LIMIT,
    parameter(
        "include_action_status",
        "include_action_status",
        Kind::Flag,
        "Taken and without effect: an approval alone shows it.",
    ),
    parameter("include_receipts", "include_receipts", Kind::Flag, "Adds receipt chains."),
];

const APPROVAL: &[Parameter] = &[
    TENANT,
    parameter("include_action_status", "include_action_status", Kind::Flag, "Adds how the action stands."),
    parameter("include_receipts", "include_receipts", Kind::Flag, "Adds the receipt chain."),
    parameter(
        "include_evidence_payload",
        "include_evidence_payload",
        Kind::Flag,
        "Adds the governed input; needs approval:export and approval:sensitive.",
    ),
];

const AUDIT: &[Parameter] = &[
    parameter("action_id", "action_id", Kind::Text, "Keeps what is about this action."),
    parameter("session_id", "session_id", Kind::Text, "Keeps what is about this session."),
    parameter("principal_id", "principal_id", Kind::Text, "Keeps what this principal did, or had done."),
    TENANT,
    parameter("transaction_id", "transaction_id", Kind::Text, "Keeps what is about this transaction."),
    parameter("from", "from", Kind::Text, "The earliest time, itself included."),
    parameter("to", "to", Kind::Text, "The latest time, itself included."),
    CURSOR,
    LIMIT,
    parameter("include_receipts", "include_receipts", Kind::Flag, "Adds receipt chains; needs audit:export."),
    parameter("export", "export", Kind::Flag, "To take the events away as evidence; needs audit:export."),
];

const RESULT: &[Parameter] = &[
    TENANT,
    WAIT,
    parameter("include_receipt", "include_receipt", Kind::Flag, "Adds the reference of the receipt."),
    parameter(
        "include_terminal_events",
        "include_terminal_events",
        Kind::Flag,
        "Taken and without effect: a result has no member for events.",
    ),
];

const MANIFEST: &[Parameter] = &[
    parameter("capability_id", "capability_ids", Kind::List, "Keeps these capabilities."),
    parameter("resource_kind", "resource_kinds", Kind::List, "Keeps resources of these kinds."),
    parameter("profile", "profiles", Kind::List, "Keeps what has a binding to one of these profiles."),
    parameter("risk", "risk", Kind::List, "Keeps capabilities of these risk levels."),
    parameter(
        "side_effect",
        "side_effects",
        Kind::List,
        "Keeps capabilities with one of these side effects.",
    ),
    parameter(
        "requires_approval",
        "requires_approval",
        Kind::Flag,
        "Keeps what does, or does not, ask a person.",
    ),
    parameter("supports_streaming", "supports_streaming", Kind::Flag, "Keeps what can, or cannot, stream."),
    parameter(
        "supports_transactions",
        "supports_transactions",
        Kind::Flag,
        "Keeps what does, or does not, take part in transactions.",
    ),
];

/// Errors that any answer may be.
const ANY: &[&str] = &["aip.query.invalid"];
/// Of what asks who the sender is.
const GUARDED: &[&str] = &["aip.auth.", "aip.policy.", "aip.service.", "aip.http.rate_limited"];
/// Of what takes a body.
const POSTED: &[&str] = &[
    "aip.http.media_type_unsupported",
    "aip.http.payload_too_large",
    "aip.http.body_",
    "aip.json.",
    "aip.limit.",
    "aip.envelope.",
];
/// Of invoking a capability.
const INVOKED: &[&str] = &[
    "aip.stream.correlation_in_use",
    "aip.capability.",
    "aip.unsupported.",
    "aip.action.",
    "aip.idempotency.",
    "aip.worker.",
    "aip.credential.",
];
/// Of cancelling.
const CANCELLED: &[&str] = &["aip.action.not_found", "aip.unsupported.session"];
/// Of registering one.
const REGISTERED: &[&str] = &["aip.manifest.", "aip.schema.", "aip.approval.policy_invalid"];
/// Of reading.
const READ: &[&str] = &["aip.query.", "aip.limit.", "aip.envelope.rule_violated"];
const ACTION_READ: &[&str] = &["aip.action.", "aip.stream.chunks_gone", "aip.stream.log_unavailable"];
const RECEIPT_READ: &[&str] = &["aip.receipt."];
/// Of approvals.
const APPROVAL_READ: &[&str] = &["aip.approval.not_found"];
const DECIDED: &[&str] = &["aip.approval.", "aip.limit.approval_decisions"];
/// Of live streams, as their last frame.
const FOLLOWED: &[&str] = &["aip.stream."];

fn read(
    path: &'static str,
    asked: MessageType,
    parameters: &'static [Parameter],
    errors: Errors,
    summary: &'static str,
) -> Route {
    let operation = Operation::Read(asked);
    Route { method: Method::GET, path, operation, parameters, chunks_only: false, errors, summary }
}

fn aside(path: &'static str, operation: Operation, summary: &'static str) -> Route {
    let (method, errors): (_, Errors) = (Method::GET, &[ANY]);
    Route { method, path, operation, parameters: &[], chunks_only: false, errors, summary }
}

fn post(path: &'static str, operation: Operation, errors: Errors, summary: &'static str) -> Route {
    Route { method: Method::POST, path, operation, parameters: &[], chunks_only: false, errors, summary }
}

// === impl Route ===

impl Route {
    /// The registered codes that it may answer.
    pub fn codes(&self) -> impl Iterator<Item = &'static Code> {
        let beginnings: Vec<&str> = self.errors.iter().copied().flatten().copied().collect();
        codes::ALL
            .iter()
            .copied()
            .filter(move |code| beginnings.iter().any(|begin| code.name.starts_with(begin)))
    }
}

/// Every route, those that are served first.
pub fn routes() -> &'static [Route] {
    static ROUTES: LazyLock<Vec<Route>> = LazyLock::new(all);
    &ROUTES
}

fn all() -> Vec<Route> {
    use MessageType::{
        ActionEventsRequest, ActionListRequest, ActionResultRequest, ActionStatusRequest,
        ApprovalListRequest, ApprovalQueryRequest, AuditQueryRequest, EventStreamRequest, ManifestRequest,
        ReceiptQueryRequest,
    };
    let of_action: Errors = &[ANY, GUARDED, READ, ACTION_READ];
    let of_receipt: Errors = &[ANY, GUARDED, READ, RECEIPT_READ];
    let mut routes = vec![
        post(
            "/aip/v1/messages",
            Operation::Message,
            &[ANY, GUARDED, POSTED, INVOKED, REGISTERED, READ, RECEIPT_READ, DECIDED],
            "Send any envelope.",
        ),
        post(
            "/aip/v1/actions",
            Operation::Action,
            &[ANY, GUARDED, POSTED, INVOKED],
            "Invoke a capability and wait for its result.",
        ),
        read("/aip/v1/manifest", ManifestRequest, MANIFEST, &[ANY, GUARDED, READ], "What can be invoked."),
        read("/aip/v1/actions/{action_id}", ActionStatusRequest, STATUS, of_action, "How an action stands."),
        read(
            "/aip/v1/actions/{action_id}/result",
            ActionResultRequest,
            RESULT,
            of_action,
            "An action's result.",
        ),
        read("/aip/v1/actions", ActionListRequest, LIST, of_action, "Actions, the newest first."),
        Route {
            operation: Operation::Follow(ActionEventsRequest),
            errors: &[ANY, GUARDED, READ, ACTION_READ, FOLLOWED],
            ..read(
                "/aip/v1/actions/{action_id}/events",
                ActionEventsRequest,
                ACTION_EVENTS,
                of_action,
                "What happened to an action.",
            )
        },
        Route {
            operation: Operation::Follow(ActionEventsRequest),
            errors: &[ANY, GUARDED, READ, ACTION_READ, FOLLOWED],
            chunks_only: true,
            ..read(
                "/aip/v1/actions/{action_id}/chunks",
                ActionEventsRequest,
                ACTION_CHUNKS,
                of_action,
                "What an action streams.",
            )
        },
        Route {
            operation: Operation::Follow(EventStreamRequest),
            errors: &[ANY, GUARDED, READ, FOLLOWED],
            ..read("/aip/v1/events", EventStreamRequest, EVENTS, &[], "What happened to all visible actions.")
        },
        read("/aip/v1/audit/events", AuditQueryRequest, AUDIT, &[ANY, GUARDED, READ], "Audit events."),
        read("/aip/v1/receipts/{chain_id}", ReceiptQueryRequest, &[], of_receipt, "A chain of receipts."),
        read(
            "/aip/v1/receipts/by-receipt/{receipt_id}",
            ReceiptQueryRequest,
            &[],
            of_receipt,
            "The chain that holds a receipt.",
        ),
        post(
            "/aip/v1/actions/{action_id}/cancel",
            Operation::Cancel,
            &[ANY, GUARDED, POSTED, CANCELLED],
            "Ask to cancel an action. The answer says that the wish is recorded, not that anything stopped.",
        ),
        Route {
            operation: Operation::Follow(ApprovalListRequest),
            errors: &[ANY, GUARDED, READ, FOLLOWED],
            ..read(
                "/aip/v1/approvals",
                ApprovalListRequest,
                APPROVALS,
                &[],
                "Approvals, the newest first. As a stream: those that there are, and then what changes.",
            )
        },
        read(
            "/aip/v1/approvals/{approval_id}",
            ApprovalQueryRequest,
            APPROVAL,
            &[ANY, GUARDED, READ, APPROVAL_READ],
            "How an approval stands.",
        ),
        post(
            "/aip/v1/approvals/{approval_id}/decisions",
            Operation::Decide,
            &[ANY, GUARDED, POSTED, DECIDED],
            "Decide about an approval. The approver is whoever the token is of.",
        ),
        aside("/aip/v1/openapi.json", Operation::Document, "This document."),
        aside("/health", Operation::Health, "Whether the process lives."),
        aside("/ready", Operation::Ready, "Whether it can serve, and why not."),
        aside("/metrics", Operation::Metrics, "Prometheus text."),
    ];
    routes.extend(console::PAGES.iter().map(|page| aside(page.path, Operation::Page(page), "For people.")));
    routes.extend(LATER.iter().map(|(method, path, code)| Route {
        method: method.clone(),
        path,
        operation: Operation::Later(code),
        parameters: &[],
        chunks_only: false,
        errors: &[],
        summary: "Not available in this release.",
    }));
    routes
}

/// Paths of the protocol that later releases serve.
const LATER: &[(Method, &str, &Code)] = &[
    (Method::GET, "/aip/v1/sessions", codes::UNSUPPORTED_SESSION),
    (Method::GET, "/aip/v1/sessions/{session_id}", codes::UNSUPPORTED_SESSION),
    // the verb stands behind a colon in the same segment: {session_id}:close, {session_id}:resume
    (Method::POST, "/aip/v1/sessions/{session_id}", codes::UNSUPPORTED_SESSION),
    (Method::POST, "/aip/v1/sessions/{session_id}/close", codes::UNSUPPORTED_SESSION),
    (Method::POST, "/aip/v1/sessions/{session_id}/resume", codes::UNSUPPORTED_SESSION),
    (Method::GET, "/aip/v1/transactions/{transaction_id}", codes::UNSUPPORTED_TRANSACTION),
    (Method::GET, "/aip/v1/transactions/by-plan/{plan_id}", codes::UNSUPPORTED_TRANSACTION),
    (Method::GET, "/aip/v1/transactions/by-action/{action_id}", codes::UNSUPPORTED_TRANSACTION),
    (Method::GET, "/aip/v1/callback-deliveries", codes::UNSUPPORTED_CALLBACK),
    (Method::GET, "/aip/v1/callback-deliveries/{delivery_id}", codes::UNSUPPORTED_CALLBACK),
    (Method::GET, "/aip/v1/resources", codes::UNSUPPORTED_RESOURCE),
    (Method::GET, "/aip/v1/resources/{resource_id}", codes::UNSUPPORTED_RESOURCE),
    (Method::GET, "/aip/v1/ws", codes::UNSUPPORTED_WEBSOCKET),
];
