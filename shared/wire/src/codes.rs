//! The registry of error codes (section 25.2): nothing else may be emitted as `ProtocolError.code` by our services.
//! A code never changes its meaning and is never used again for another one; texts may change.

use crate::types::{DataSensitivity, ErrorCategory, ProtocolError};

/// One registered error code.
#[derive(Debug, PartialEq, Eq)]
pub struct Code {
    pub name: &'static str,
    pub meaning: &'static str,
    pub category: ErrorCategory,
    pub http_status: u16,
    /// Whether the same request, sent again unchanged, may succeed; section 19.2 asks for more than this.
    pub retryable: bool,
    /// Who may see message and details.
    pub classification: DataSensitivity,
}

impl std::fmt::Display for Code {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)
    }
}

impl ProtocolError {
    /// An error with a registered code; category and retryability come from the registry.
    pub fn of(code: &'static Code, message: impl Into<String>) -> ProtocolError {
        ProtocolError {
            code: code.name.to_owned(),
            message: message.into(),
            category: code.category,
            retryable: Some(code.retryable),
            retry_after_ms: None,
            details: None,
            source: None,
        }
    }
}

/// The registered code of this name.
pub fn find(name: &str) -> Option<&'static Code> {
    ALL.iter().copied().find(|code| code.name == name)
}

macro_rules! codes {
    ($($name:ident = $text:literal, $category:ident, $status:literal, $retry:ident, $class:ident, $meaning:literal;)+) => {
        $(
            #[doc = $meaning]
            pub const $name: &Code = &Code {
                name: $text,
                meaning: $meaning,
                category: ErrorCategory::$category,
                http_status: $status,
                retryable: codes!(@ $retry),
                classification: DataSensitivity::$class,
            };
        )+

        /// Every code, grouped by family.
        pub const ALL: &[&Code] = &[$($name),+];
    };
    (@ once) => { false };
    (@ retry) => { true };
}

codes! {
    JSON_MALFORMED = "aip.json.malformed", Permanent, 400, once, Public, "the bytes are not one JSON document";
    JSON_UTF8 = "aip.json.invalid_utf8", Permanent, 400, once, Public, "the bytes are not UTF-8";
    JSON_DUPLICATE_MEMBER = "aip.json.duplicate_member", Permanent, 400, once, Public, "an object names a member twice";
    JSON_LONE_SURROGATE = "aip.json.lone_surrogate", Permanent, 400, once, Public, "a string escapes half of a surrogate pair";
    JSON_NUMBER = "aip.json.number_not_exact", Permanent, 400, once, Public, "a number is out of range or more precise than can be kept";

    LIMIT_ENVELOPE_BYTES = "aip.limit.envelope_bytes", Permanent, 413, once, Public, "the envelope is larger than the receiver takes";
    LIMIT_DEPTH = "aip.limit.depth", Permanent, 400, once, Public, "objects and lists are nested too deeply";
    LIMIT_NODES = "aip.limit.nodes", Permanent, 400, once, Public, "the document has too many values";
    LIMIT_STRING_BYTES = "aip.limit.string_bytes", Permanent, 400, once, Public, "a string or member name is too long";
    LIMIT_COLLECTION_ITEMS = "aip.limit.collection_items", Permanent, 400, once, Public, "an object or list has too many members";
    LIMIT_TIMEOUT = "aip.limit.timeout", Permanent, 400, once, Public, "an action asks for more time than any may have";
    LIMIT_PAGE_ROWS = "aip.limit.page_rows", Permanent, 400, once, Public, "a page asks for or holds a number of rows outside 1 to 1000";
    LIMIT_WAIT = "aip.limit.wait", Permanent, 400, once, Public, "a read asks to wait longer than 30 seconds";
    LIMIT_DELEGATION_HOPS = "aip.limit.delegation_hops", Permanent, 400, once, Public, "a delegation chain has more than ten hops";
    LIMIT_BATCH_RECORDS = "aip.limit.batch_records", Permanent, 400, once, Public, "a settlement batch holds too many records";
    LIMIT_ACTION_CHUNKS = "aip.limit.action_chunks", Connector, 502, once, Internal, "an action streamed more chunks than it may";
    LIMIT_CHUNK_BYTES = "aip.limit.chunk_bytes", Connector, 502, once, Internal, "a chunk is larger than a stream takes";
    LIMIT_SCHEMA_BYTES = "aip.limit.schema_bytes", Permanent, 400, once, Public, "a capability schema is too large";
    LIMIT_SCHEMA_DEPTH = "aip.limit.schema_depth", Permanent, 400, once, Public, "a capability schema is nested too deeply";
    LIMIT_SCHEMA_NODES = "aip.limit.schema_nodes", Permanent, 400, once, Public, "a capability schema has too many values, written out or after following its references";
    LIMIT_APPROVAL_DECISIONS = "aip.limit.approval_decisions", Permanent, 409, once, Internal, "an approval has as many decisions as it may";
    LIMIT_REGISTRATIONS = "aip.limit.registrations", Permanent, 400, once, Internal, "a worker has too many registrations beside each other";

    ENVELOPE_VERSION = "aip.envelope.version_unsupported", Permanent, 400, once, Public, "the envelope declares a protocol version other than 1.0";
    ENVELOPE_TYPE = "aip.envelope.message_type_unsupported", Permanent, 400, once, Public, "the message type is not registered";
    ENVELOPE_TYPE_MISMATCH = "aip.envelope.message_type_mismatch", Permanent, 400, once, Public, "message type and body key do not belong together";
    ENVELOPE_SHAPE = "aip.envelope.schema_invalid", Permanent, 400, once, Public, "the message does not have the shape of its schema";
    ENVELOPE_RULE = "aip.envelope.rule_violated", Permanent, 400, once, Public, "a member has a value that the protocol does not allow there";
    ENVELOPE_MEMBERS_DISAGREE = "aip.envelope.members_disagree", Permanent, 400, once, Public, "two members that depend on each other do not fit";
    ENVELOPE_NOT_SERVED = "aip.envelope.message_not_served", Permanent, 400, once, Public, "the message is valid, but this receiver does not answer its type";
    TRANSPORT_FRAME = "aip.transport.frame_invalid", Permanent, 400, once, Public, "the NATS payload is not a TransportMessage";
    TRANSPORT_HEADERS = "aip.transport.headers_mismatch", Permanent, 400, once, Public, "transport headers or subject contradict the envelope";

    AUTH_MISSING = "aip.auth.missing", Auth, 401, once, Public, "the request carries no proof of its sender";
    AUTH_SIGNATURE = "aip.auth.signature_invalid", Auth, 401, once, Public, "the envelope's signature does not verify";
    AUTH_SIGNER = "aip.auth.signer_unknown", Auth, 401, once, Public, "the signing key is bound to no principal here";
    AUTH_CLAIM = "aip.auth.claim_mismatch", Auth, 401, once, Public, "the claimed sender is not the authenticated one";
    AUTH_TOKEN = "aip.auth.token_invalid", Auth, 401, once, Public, "the bearer token or API key is not accepted";
    AUTH_TOKEN_EXPIRED = "aip.auth.token_expired", Auth, 401, once, Public, "the bearer token or API key is no longer valid";
    AUTH_KEYS = "aip.auth.keys_unavailable", Temporary, 503, retry, Public, "the keys of the token's issuer cannot be read now";
    AUTH_REPLAY = "aip.auth.replay", Auth, 409, once, Public, "a message with this id was already taken from this signer";
    AUTH_SKEW = "aip.auth.skew", Auth, 401, once, Public, "the sending time is too far from the receiver's clock";

    POLICY_DENIED = "aip.policy.not_authorized", Policy, 403, once, Internal, "the sender may not do this";
    POLICY_SCOPE = "aip.policy.scope_missing", Policy, 403, once, Internal, "the sender lacks a scope that this needs";
    TENANT_MISMATCH = "aip.policy.tenant_mismatch", Policy, 403, once, Internal, "the tenant named is not the sender's";
    TENANT_REQUIRED = "aip.policy.tenant_required", Policy, 403, once, Internal, "the sender belongs to several tenants and has to name one";

    POLICY_APPROVAL_DENIED = "aip.policy.approval_denied", Policy, 403, once, Internal, "an approver denied the action";
    POLICY_APPROVAL_EXPIRED = "aip.policy.approval_expired", Policy, 403, once, Internal, "nobody approved the action in time";
    POLICY_APPROVAL_REVOKED = "aip.policy.approval_revoked", Policy, 403, once, Internal, "the approval was revoked before the action was dispatched";
    POLICY_APPROVAL_CONSTRAINT = "aip.policy.approval_constraint", Policy, 403, once, Internal, "the action was approved under a constraint that its input does not fulfil";
    POLICY_APPROVAL_MISMATCH = "aip.policy.approval_mismatch", Policy, 403, once, Internal, "the approval that the action brings is not the one that stands for it";

    APPROVAL_NOT_FOUND = "aip.approval.not_found", Permanent, 404, once, Public, "no approval of this id is visible to the reader";
    APPROVAL_NOT_APPROVER = "aip.approval.not_an_approver", Policy, 403, once, Internal, "the sender has no authority to decide this, by the directory of the moment";
    APPROVAL_DUTIES = "aip.approval.separation_of_duties", Policy, 403, once, Internal, "who asked for the action, or performs it, may not decide about it";
    APPROVAL_ENDED = "aip.approval.already_ended", Permanent, 409, once, Internal, "the approval has come to another end";
    APPROVAL_EXPIRED = "aip.approval.expired", Permanent, 409, once, Internal, "the approval has expired; what needs it has to be asked for again";
    APPROVAL_DECIDED = "aip.approval.already_decided", Permanent, 409, once, Internal, "the sender has decided this before, by another decision";
    APPROVAL_DECISION_CONFLICT = "aip.approval.decision_conflict", Permanent, 409, once, Internal, "another decision has this id";
    APPROVAL_HASH = "aip.approval.policy_hash_mismatch", Permanent, 409, once, Internal, "the decision is not for this policy and governed subject";
    APPROVAL_EVIDENCE_MISSING = "aip.approval.evidence_missing", Permanent, 400, once, Internal, "the policy wants evidence that the decision does not bring";
    APPROVAL_EVIDENCE_SECRET = "aip.approval.evidence_secret", Permanent, 400, once, Public, "evidence that holds a secret is not taken";
    APPROVAL_CONSTRAINT = "aip.approval.constraint_unsupported", Permanent, 400, once, Public, "a constraint cannot be enforced";
    APPROVAL_TARGET = "aip.approval.target_unknown", Permanent, 400, once, Internal, "the decision to be revoked is not one of this approval";
    APPROVAL_KIND = "aip.approval.decision_not_taken", Permanent, 400, once, Public, "only time makes an approval expire; nobody decides it";
    APPROVAL_REQUEST_CONFLICT = "aip.approval.request_conflict", Permanent, 409, once, Internal, "another request has this approval's id";
    APPROVAL_POLICY = "aip.approval.policy_invalid", Permanent, 400, once, Public, "an approval policy cannot be met, or is larger than can be judged";
    APPROVAL_CONTRACT_CHANGED = "aip.approval.contract_changed", Permanent, 409, once, Internal, "the capability's contract is not the one that was approved";
    APPROVAL_POLICY_CHANGED = "aip.approval.policy_changed", Permanent, 409, once, Internal, "the approval policy is not the one that was approved under";
    APPROVAL_INPUT_CHANGED = "aip.approval.input_changed", Permanent, 409, once, Internal, "the input is not the one that was approved";
    APPROVAL_IDENTITY_CHANGED = "aip.approval.identity_changed", Permanent, 409, once, Internal, "who asked may not do this any more, or not on the same behalf";
    APPROVAL_TENANT_CHANGED = "aip.approval.tenant_changed", Permanent, 409, once, Internal, "who asked does not belong to the tenant any more";

    CAPABILITY_UNKNOWN = "aip.capability.unknown", Permanent, 404, once, Public, "no capability of this id is visible to the sender";
    CAPABILITY_MODE = "aip.capability.mode_unsupported", Permanent, 400, once, Public, "the capability's contract does not offer this mode";
    CAPABILITY_CONTRACT = "aip.capability.contract_changed", Permanent, 409, once, Internal, "the contract that the action was admitted under is not offered any more";

    UNSUPPORTED_APPROVAL = "aip.unsupported.approval", Permanent, 501, once, Public, "this release does not handle approvals";
    UNSUPPORTED_TRANSACTION = "aip.unsupported.transaction", Permanent, 501, once, Public, "this release does not handle transactions";
    UNSUPPORTED_DELEGATION = "aip.unsupported.delegation", Permanent, 501, once, Public, "this release does not handle delegation";
    UNSUPPORTED_CALLBACK = "aip.unsupported.callback", Permanent, 501, once, Public, "this release does not deliver callbacks";
    UNSUPPORTED_SESSION = "aip.unsupported.session", Permanent, 501, once, Public, "this release does not keep sessions";
    UNSUPPORTED_HANDSHAKE = "aip.unsupported.handshake", Permanent, 501, once, Public, "this release does not negotiate handshakes";
    UNSUPPORTED_FEDERATION = "aip.unsupported.federation", Permanent, 501, once, Public, "this release does not federate";
    UNSUPPORTED_MEMORY = "aip.unsupported.memory", Permanent, 501, once, Public, "this release does not take memory contexts";
    UNSUPPORTED_COMPLIANCE = "aip.unsupported.compliance", Permanent, 501, once, Public, "this release does not take compliance contexts";
    UNSUPPORTED_CONVERSATION = "aip.unsupported.conversation", Permanent, 501, once, Public, "this release does not take conversations";
    UNSUPPORTED_STREAMING = "aip.unsupported.streaming", Permanent, 501, once, Public, "an answer cannot follow what it is about: live streams are served over HTTP";
    UNSUPPORTED_ESCALATION = "aip.unsupported.escalation", Permanent, 501, once, Public, "this release does not handle escalations";
    UNSUPPORTED_RESOURCE = "aip.unsupported.resource", Permanent, 501, once, Public, "this release does not serve resources";
    UNSUPPORTED_ENCRYPTION = "aip.unsupported.encryption", Permanent, 501, once, Public, "this release does not take encrypted sessions";
    UNSUPPORTED_WEBSOCKET = "aip.unsupported.websocket", Permanent, 501, once, Public, "this release does not speak WebSocket";

    ACTION_INPUT = "aip.action.invalid_input", Permanent, 400, once, Internal, "the input does not fit the capability's input schema";
    ACTION_OUTPUT = "aip.action.invalid_output", Connector, 502, once, Internal, "the worker's output does not fit the capability's output schema";
    ACTION_ID_CONFLICT = "aip.action.id_conflict", Permanent, 409, once, Internal, "another action already has this id";
    ACTION_NOT_FOUND = "aip.action.not_found", Permanent, 404, once, Public, "no action of this id is visible to the reader";
    ACTION_NOT_READY = "aip.action.result_not_ready", Temporary, 409, retry, Internal, "the action has not ended yet";
    ACTION_DEADLINE = "aip.action.deadline_expired", Permanent, 504, once, Internal, "the action's time was over before it ended";
    ACTION_CANCELLED = "aip.action.cancelled", Permanent, 409, once, Internal, "the action was cancelled before it ended";
    ACTION_DEAD_LETTERED = "aip.action.dead_lettered", Connector, 502, once, Internal, "every attempt that the action may have came to nothing; it is kept for a person to look at";
    ACTION_NOT_DEAD = "aip.action.not_dead_lettered", Permanent, 409, once, Internal, "only a dead-lettered action can be redriven";
    ACTION_REDRIVEN = "aip.action.already_redriven", Permanent, 409, once, Internal, "the dead letter was redriven already, and that action has not been dead-lettered";
    ACTION_INPUT_GONE = "aip.action.input_not_kept", Permanent, 410, once, Internal, "the input is not kept as it was, so the action cannot be done again";
    ACTION_SUPERSEDED = "aip.action.attempt_superseded", Permanent, 409, once, Internal, "the attempt is not, or no longer, the one that counts; what is said of it changes nothing";
    ACTION_UNCERTAIN = "aip.action.uncertain_outcome", Connector, 502, once, Internal, "the action may or may not have taken effect; it is not tried again";

    IDEMPOTENCY_REQUIRED = "aip.idempotency.key_required", Permanent, 400, once, Public, "the capability needs an idempotency key";
    IDEMPOTENCY_UNSUPPORTED = "aip.idempotency.key_unsupported", Permanent, 400, once, Public, "the capability takes no idempotency key";
    IDEMPOTENCY_SCOPE = "aip.idempotency.scope_unresolved", Permanent, 400, once, Public, "the key is unique for an external account, and the action has none";
    IDEMPOTENCY_CONFLICT = "aip.idempotency.conflict", Permanent, 409, once, Internal, "the key was already used for something else";

    WORKER_TOO_LARGE = "aip.worker.answer_too_large", Connector, 502, once, Internal, "the worker answered more than may pass";
    WORKER_INVALID = "aip.worker.answer_invalid", Connector, 502, once, Internal, "the worker answered something that is no result of this action";
    WORKER_FAILED = "aip.worker.failed", Connector, 502, once, Confidential, "the worker could not finish the action";
    WORKER_SILENT = "aip.worker.no_answer", Connector, 504, retry, Internal, "the worker got the action and did not answer; nothing that matters can have happened";
    WORKER_LOST = "aip.worker.lease_expired", Connector, 504, retry, Internal, "the worker was not heard of for longer than its lease; what it did is not known";
    WORKER_UNAVAILABLE = "aip.worker.unavailable", Connector, 503, retry, Internal, "no worker took the action; it has not been started";

    CREDENTIAL_REQUIRED = "aip.credential.required", Policy, 403, once, Internal, "the capability needs a credential reference";
    CREDENTIAL_UNKNOWN = "aip.credential.unknown", Policy, 403, once, Internal, "the credential reference names nothing here";
    CREDENTIAL_EXPIRED = "aip.credential.expired", Policy, 403, once, Internal, "the credential is no longer valid";
    CREDENTIAL_ISSUER = "aip.credential.issuer_denied", Policy, 403, once, Internal, "the capability does not accept the credential's issuer";
    CREDENTIAL_SCOPE = "aip.credential.scope_missing", Policy, 403, once, Internal, "the credential lacks a scope that the capability needs";
    CREDENTIAL_TENANT = "aip.credential.tenant_mismatch", Policy, 403, once, Internal, "the credential belongs to another tenant";
    CREDENTIAL_ACCOUNT = "aip.credential.account_unknown", Policy, 403, once, Internal, "the external account is not bound to the sender's tenant";

    MANIFEST_NOT_ALLOWED = "aip.manifest.not_allowed", Policy, 403, once, Internal, "the sender may not register this capability or service";
    MANIFEST_HANDLER = "aip.manifest.handler_missing", Permanent, 400, once, Internal, "no handler stands behind what a contract declares";
    MANIFEST_CONFLICT = "aip.manifest.contract_conflict", Permanent, 409, once, Internal, "the capability id already stands with another contract";
    MANIFEST_MALFORMED = "aip.manifest.malformed", Permanent, 400, once, Internal, "the manifest lacks what a registration needs";
    SCHEMA_MALFORMED = "aip.schema.malformed", Permanent, 400, once, Public, "a capability schema is no JSON Schema of draft 2020-12";
    SCHEMA_REFERENCE = "aip.schema.reference_refused", Permanent, 400, once, Public, "a capability schema refers to something outside itself";
    SCHEMA_RECURSIVE = "aip.schema.recursive", Permanent, 400, once, Public, "the references of a capability schema run in a circle";
    SCHEMA_PATTERN = "aip.schema.pattern_refused", Permanent, 400, once, Public, "a pattern cannot be matched in linear time or is too large";

    QUERY_INVALID = "aip.query.invalid", Permanent, 400, once, Public, "a query has an unknown, repeated or malformed parameter";
    QUERY_CURSOR = "aip.query.cursor_invalid", Permanent, 400, once, Public, "the cursor is not one that was given out for this query and reader";
    QUERY_CURSOR_EXPIRED = "aip.query.cursor_expired", Permanent, 410, once, Public, "the cursor was given out too long ago; ask from the beginning";
    STREAM_NOT_STREAMING = "aip.stream.not_streaming", Permanent, 400, once, Internal, "the action is not one that streams";
    STREAM_TAKEN = "aip.stream.sequence_taken", Permanent, 409, once, Internal, "another chunk of the action stands under this sequence number";
    STREAM_NOT_NEXT = "aip.stream.sequence_not_next", Permanent, 409, once, Internal, "the sequence number does not follow the last one, and nothing is known under it";
    STREAM_ENDED = "aip.stream.ended", Permanent, 409, once, Internal, "the action's stream has ended; nothing follows";
    STREAM_CORRELATION = "aip.stream.correlation_in_use", Permanent, 409, once, Public, "another action that runs streams under this correlation id";
    STREAM_CHUNKS_GONE = "aip.stream.chunks_gone", Permanent, 410, once, Public, "chunks that the action streamed are kept no more; those that are still there do not follow what was read";
    STREAM_UNAVAILABLE = "aip.stream.log_unavailable", Temporary, 503, retry, Public, "the log of chunks cannot be used now; actions and their results do not depend on it";
    STREAM_BROKEN = "aip.stream.broken_off", Connector, 502, once, Public, "the action ended and its worker had not ended the stream; the result says how the action ended";
    STREAM_READER_SLOW = "aip.stream.reader_too_slow", Transport, 503, retry, Public, "the reader of a live stream took nothing for too long; it may go on where it was";
    RECEIPT_NOT_FOUND = "aip.receipt.not_found", Permanent, 404, once, Public, "no receipt or chain of this id is visible to the reader";
    RECEIPT_BROKEN = "aip.receipt.chain_broken", Permanent, 400, once, Internal, "a receipt chain does not verify";

    SERVICE_NOT_READY = "aip.service.ledger_not_ready", Temporary, 503, retry, Public, "the ledger is not ready; nothing was decided";
    SERVICE_OVERLOADED = "aip.service.overloaded", Temporary, 503, retry, Public, "too much is waiting; nothing was decided";
    SERVICE_STOPPING = "aip.service.stopping", Temporary, 503, retry, Public, "the service is draining; nothing was decided";
    SERVICE_UNKNOWN = "aip.service.outcome_unknown", Temporary, 503, retry, Public, "it is not known whether the request was taken; ask again with the same id";
    SERVICE_ABSENT = "aip.service.absent", Temporary, 503, retry, Public, "the service that this belongs to is not there; nothing was decided";
    SERVICE_UNREACHED = "aip.service.not_reached", Temporary, 503, retry, Public, "the service that this belongs to cannot be reached; nothing was decided";
    SERVICE_INTERNAL = "aip.service.internal", Permanent, 500, once, Internal, "a fault of ours; the evidence is kept";
    SERVICE_REPLY_TOO_LARGE = "aip.service.reply_too_large", Permanent, 500, once, Public, "the answer is larger than a reply may be; ask for less";

    HTTP_MEDIA_TYPE = "aip.http.media_type_unsupported", Permanent, 415, once, Public, "the content type is not JSON";
    HTTP_METHOD = "aip.http.method_not_allowed", Permanent, 405, once, Public, "the path does not take this method";
    HTTP_ROUTE = "aip.http.route_not_found", Permanent, 404, once, Public, "nothing is served under this path";
    HTTP_PAYLOAD = "aip.http.payload_too_large", Permanent, 413, once, Public, "the request body is larger than the receiver takes";
    HTTP_BODY_TIMEOUT = "aip.http.body_timeout", Transport, 408, retry, Public, "the request body did not arrive in time";
    HTTP_BODY_INCOMPLETE = "aip.http.body_incomplete", Transport, 400, retry, Public, "the request body broke off or was badly framed";
    HTTP_RATE = "aip.http.rate_limited", Temporary, 429, retry, Public, "the sender asks too often";
}
