//! `aip approval list|show|decide|watch`: what waits for a decision, and deciding it (12.4).

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::time::Duration;

use aip_names::limits::APPROVALS_FOLLOW_MS;
use aip_sdk::Client;
use aip_wire::{
    ApprovalConstraint, ApprovalDecision, ApprovalDecisionKind, ApprovalId, ApprovalListRequest,
    ApprovalQueryRequest, ApprovalRecordView, EvidenceArtifact, Principal, PrincipalId, RiskLevel, Timestamp,
};
use clap::{Args, Subcommand, ValueEnum};
use serde_json::Value;

use crate::action::told;
use crate::lists::word;
use crate::output::{self, Failure, because, pretty, say};
use crate::profile::{Options, Profile};

/// Approvals asked for at a time.
const PAGE_ROWS: u32 = 100;
/// Approvals that one command decides: a person answers for each of them.
const BATCH_MAX: usize = 100;

#[derive(Subcommand, Debug)]
pub enum Command {
    /// List approvals; without options those that wait for you, the riskiest and oldest first
    List(List),
    /// Show one approval: what it is for, who has agreed, what is missing
    Show(Show),
    /// Approve, deny or revoke
    Decide(Decide),
    /// Show what waits for you as it comes, until you stop it
    Watch(Watch),
}

#[derive(Args, Debug)]
pub struct List {
    /// Only approvals that stand so: pending, approved, denied, expired, revoked, withdrawn, or all
    #[arg(long, default_value = "pending")]
    status: String,
    /// All that you may see, and not only what you may decide
    #[arg(long)]
    all: bool,
    /// Only of this risk or a higher one
    #[arg(long, value_parser = risk)]
    risk: Option<RiskLevel>,
    /// Only what has waited for so many seconds
    #[arg(long, default_value_t = 0)]
    older_s: u64,
    /// Only in this tenant
    #[arg(long)]
    tenant: Option<String>,
    /// Only what this principal asked for
    #[arg(long)]
    requester: Option<String>,
    /// At most so many
    #[arg(long, default_value_t = 100)]
    limit: usize,
    #[command(flatten)]
    options: Options,
}

#[derive(Args, Debug)]
pub struct Show {
    approval_id: String,
    /// With the receipts of everything that was decided
    #[arg(long)]
    receipts: bool,
    /// With the governed input, for whoever may export it
    #[arg(long)]
    evidence: bool,
    #[command(flatten)]
    options: Options,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Verb {
    Approve,
    Deny,
    Revoke,
}

#[derive(Args, Debug)]
pub struct Decide {
    #[arg(value_enum)]
    verb: Verb,
    /// The approvals. Several at a time have to be for the same thing under the same policy
    #[arg(required = true)]
    approval_ids: Vec<String>,
    /// Why, in your words
    #[arg(long)]
    reason: Option<String>,
    /// A condition on the input: FIELD OPERATOR VALUE, as in "amount_minor lte 5000"
    #[arg(long)]
    constraint: Vec<String>,
    /// Evidence: KIND=URI, as in external_ticket=https://tickets.example/1
    #[arg(long)]
    evidence: Vec<String>,
    /// The decision's own id: the same again is the same decision
    #[arg(long)]
    decision_id: Option<String>,
    /// The policy hash that you looked at; else the one that stands is taken
    #[arg(long)]
    policy_hash: Option<String>,
    #[command(flatten)]
    options: Options,
}

#[derive(Args, Debug)]
pub struct Watch {
    #[command(flatten)]
    options: Options,
}

pub async fn run(command: Command) -> Result<ExitCode, Failure> {
    match command {
        Command::List(args) => list(args).await,
        Command::Show(args) => show(args).await,
        Command::Decide(args) => decide(args).await,
        Command::Watch(args) => watch(args).await,
    }
}

async fn list(args: List) -> Result<ExitCode, Failure> {
    let json = args.options.json;
    let client = args.options.client().await?;
    let me = me(&args.options)?.id;
    let requester = args.requester.as_deref().map(PrincipalId::parse).transpose();
    let request = ApprovalListRequest {
        status: (args.status != "all").then(|| args.status.clone()),
        approver: (!args.all).then_some(me),
        requester: requester.map_err(|error| because("the requester's id", &error).json(json))?,
        tenant_id: args.tenant.clone(),
        ..ApprovalListRequest::default()
    };
    let mut found = collect(&client, request, json).await?;
    let before = Timestamp::now().as_ms().saturating_sub(args.older_s.saturating_mul(1_000));
    found.retain(|view| {
        args.risk.is_none_or(|least| of_risk(view) >= least) && view.created_at.as_ms() <= before
    });
    found.sort_by_key(|view| (std::cmp::Reverse(of_risk(view)), view.created_at.as_ms()));
    found.truncate(args.limit);
    if json {
        output::print_json(&found)?;
        return Ok(ExitCode::SUCCESS);
    }
    for view in &found {
        line(view);
    }
    if found.is_empty() {
        say!("none");
    }
    Ok(ExitCode::SUCCESS)
}

fn line(view: &ApprovalRecordView) {
    let request = &view.request;
    say!(
        "{}  {:<9} {:<8} {}  {}  by {}",
        word(&view.created_at),
        view.status,
        word(&of_risk(view)),
        request.id,
        request.capability_id,
        request.requester.id
    );
}

async fn collect(
    client: &Client,
    mut request: ApprovalListRequest,
    json: bool,
) -> Result<Vec<ApprovalRecordView>, Failure> {
    let mut found = Vec::new();
    request.limit = Some(PAGE_ROWS);
    loop {
        let page = client.approvals(request.clone()).await.map_err(|error| told(&error, json))?;
        found.extend(page.approvals);
        request.cursor = page.cursor;
        if request.cursor.is_none() || found.len() >= aip_names::limits::APPROVALS_FOLLOWED_MAX {
            return Ok(found);
        }
    }
}

async fn show(args: Show) -> Result<ExitCode, Failure> {
    let json = args.options.json;
    let client = args.options.client().await?;
    let request = ApprovalQueryRequest {
        include_action_status: true,
        include_receipts: args.receipts || !json,
        include_evidence_payload: args.evidence,
        ..about(&args.approval_id, json)?
    };
    let view = client.approval(request).await.map_err(|error| told(&error, json))?;
    if json {
        output::print_json(&view)?;
        return Ok(ExitCode::SUCCESS);
    }
    let request = &view.request;
    say!("{}  {}", request.id, view.status);
    say!("for       {}  ({})", request.capability_id, request.action_id);
    say!("by        {}", request.requester.id);
    say!("risk      {}", word(&of_risk(&view)));
    if let Some(value) = request.governed_value {
        let unit = request.evidence.iter().find(|artifact| artifact.kind == "governed_value");
        say!("value     {value} {}", unit.map(|unit| unit.id.as_str()).unwrap_or_default());
    }
    say!("reason    {}", request.reason);
    if let Some(until) = &request.expires_at {
        say!("expires   {}", word(until));
    }
    say!("hash      {}", request.policy_hash.as_deref().unwrap_or_default());
    if let Some(shown) = shown(&view) {
        say!("input     {}", pretty(&shown));
    }
    let chain = view.receipt_chain.iter().flat_map(|chain| &chain.receipts);
    for receipt in chain {
        say!("{}  {:<18} {}", word(&receipt.occurred_at), word(&receipt.receipt_type), receipt.actor.id);
    }
    if let Some(status) = &view.action_status {
        say!("action    {}", word(&status.state));
    }
    if let Some(evidence) = &view.evidence_payload {
        say!("evidence  {}", pretty(&evidence.input));
    }
    Ok(ExitCode::SUCCESS)
}

/// The input as far as approvers are shown it.
fn shown(view: &ApprovalRecordView) -> Option<Value> {
    let artifact = view.request.evidence.iter().find(|artifact| artifact.kind == "redacted_input")?;
    let text = artifact.uri.as_deref()?.strip_prefix("data:application/json,")?;
    let text = percent_encoding::percent_decode_str(text).decode_utf8().ok()?;
    serde_json::from_str(&text).ok()
}

async fn decide(args: Decide) -> Result<ExitCode, Failure> {
    let json = args.options.json;
    if args.approval_ids.len() > BATCH_MAX {
        return Err(Failure::new(format!("at most {BATCH_MAX} approvals at a time")).json(json));
    }
    let client = args.options.client().await?;
    let me = me(&args.options)?;
    let mut looked = Vec::new();
    for id in &args.approval_ids {
        let view = client.approval(about(id, json)?).await.map_err(|error| told(&error, json))?;
        looked.push(view);
    }
    one_class(&looked).map_err(|failure| failure.json(json))?;
    let constraints = args.constraint.iter().map(|text| constraint(text)).collect::<Result<Vec<_>, _>>();
    let constraints = constraints.map_err(|failure| failure.json(json))?;
    let evidence = args.evidence.iter().map(|text| evidence(text)).collect::<Result<Vec<_>, _>>();
    let evidence = evidence.map_err(|failure| failure.json(json))?;
    let mut failed = false;
    let mut answers = Vec::new();
    for view in looked {
        let decision =
            ApprovalDecision {
                approval_id: view.request.id.clone(),
                decision: args.verb.into(),
                approver: me.clone(),
                decided_at: Timestamp::now(),
                reason: args.reason.clone(),
                constraints: constraints.clone(),
                evidence: evidence.clone(),
                decision_id: Some(args.decision_id.clone().unwrap_or_else(|| {
                    aip_wire::MessageId::generate().to_string().replace("msg_", "decision_")
                })),
                policy_hash: args.policy_hash.clone().or_else(|| view.request.policy_hash.clone()),
                authority_path: Vec::new(),
                target_decision_id: None,
            };
        match client.decide(decision).await {
            Ok(view) => answers.push(view),
            // the others are decided all the same: each stands for itself
            Err(error) if args.approval_ids.len() > 1 => {
                failed = true;
                output::fail(&told(&error, json));
            }
            Err(error) => return Err(told(&error, json)),
        }
    }
    if json {
        output::print_json(&answers)?;
    } else {
        answers.iter().for_each(line);
    }
    Ok(if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// A batch is for one thing under one policy: whoever says yes to all has looked at one of them.
fn one_class(views: &[ApprovalRecordView]) -> Result<(), Failure> {
    let mut classes: BTreeMap<&str, usize> = BTreeMap::new();
    for view in views {
        *classes.entry(view.request.policy_hash.as_deref().unwrap_or_default()).or_default() += 1;
    }
    if classes.len() <= 1 {
        return Ok(());
    }
    let counted: Vec<String> = classes
        .iter()
        .map(|(hash, count)| format!("{count} of {}", hash.get(..12).unwrap_or(hash)))
        .collect();
    Err(Failure::new(format!("these are not for one thing under one policy: {}", counted.join(", ")))
        .hint("decide each class for itself; `aip approval show` says the hash"))
}

fn constraint(text: &str) -> Result<ApprovalConstraint, Failure> {
    let mut parts = text.splitn(3, ' ');
    let (Some(field), Some(operator), Some(value)) = (parts.next(), parts.next(), parts.next()) else {
        return Err(Failure::new("a constraint is FIELD OPERATOR VALUE, as in \"amount lte 5\""));
    };
    let value = serde_json::from_str(value).unwrap_or_else(|_| Value::from(value));
    Ok(ApprovalConstraint { field: field.to_owned(), operator: operator.to_owned(), value })
}

fn evidence(text: &str) -> Result<EvidenceArtifact, Failure> {
    let Some((kind, uri)) = text.split_once('=') else {
        return Err(Failure::new("evidence is KIND=URI"));
    };
    Ok(EvidenceArtifact {
        id: kind.to_owned(),
        kind: kind.to_owned(),
        uri: Some(uri.to_owned()),
        hash: None,
        redacted: false,
    })
}

/// Polls: what comes late by a moment is not missed.
async fn watch(args: Watch) -> Result<ExitCode, Failure> {
    let json = args.options.json;
    let client = args.options.client().await?;
    let me = me(&args.options)?.id;
    let mut seen: BTreeMap<ApprovalId, Timestamp> = BTreeMap::new();
    output::progress(json, "watching; stop with Ctrl-C");
    loop {
        let request = ApprovalListRequest {
            status: Some("pending".to_owned()),
            approver: Some(me.clone()),
            ..ApprovalListRequest::default()
        };
        let found = collect(&client, request, json).await?;
        let mut now = BTreeMap::new();
        for view in found {
            if seen.get(&view.request.id) != Some(&view.updated_at) {
                if json { output::print_json(&view)? } else { line(&view) }
            }
            now.insert(view.request.id, view.updated_at);
        }
        for gone in seen.keys().filter(|id| !now.contains_key(*id)) {
            let view = client.approval(about(gone.as_str(), json)?).await;
            let view = view.map_err(|error| told(&error, json))?;
            if json { output::print_json(&view)? } else { line(&view) }
        }
        seen = now;
        tokio::select! {
            () = tokio::time::sleep(Duration::from_millis(APPROVALS_FOLLOW_MS)) => {}
            _ = tokio::signal::ctrl_c() => return Ok(ExitCode::SUCCESS),
        }
    }
}

fn about(id: &str, json: bool) -> Result<ApprovalQueryRequest, Failure> {
    let approval_id =
        ApprovalId::parse(id).map_err(|error| because("the approval's id", &error).json(json))?;
    Ok(ApprovalQueryRequest {
        approval_id,
        tenant_id: None,
        include_action_status: false,
        include_receipts: false,
        include_evidence_payload: false,
    })
}

fn me(options: &Options) -> Result<Principal, Failure> {
    let profile = Profile::load(&options.profile).map_err(|failure| failure.json(options.json))?;
    Ok(Principal::new(profile.principal, profile.kind))
}

fn of_risk(view: &ApprovalRecordView) -> RiskLevel {
    view.request.risk.unwrap_or(RiskLevel::Critical)
}

fn risk(text: &str) -> Result<RiskLevel, String> {
    RiskLevel::from_name(text).ok_or_else(|| "low, medium, high or critical".to_owned())
}

impl From<Verb> for ApprovalDecisionKind {
    fn from(verb: Verb) -> ApprovalDecisionKind {
        match verb {
            Verb::Approve => ApprovalDecisionKind::Approved,
            Verb::Deny => ApprovalDecisionKind::Denied,
            Verb::Revoke => ApprovalDecisionKind::Revoked,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn view(hash: &str) -> ApprovalRecordView {
        let human = json!({"id": "human:ann", "kind": "human"});
        serde_json::from_value(json!({
            "request": {
                "id": "appr_1", "action_id": "act_1", "capability_id": "cap:a", "requester": human,
                "subject": human, "approver_selector": {"type": "tenant_policy"}, "reason": "x",
                "policy_hash": hash,
            },
            "status": "pending", "created_at": "2026-07-14T08:30:00Z", "updated_at": "2026-07-14T08:30:00Z",
        }))
        .unwrap()
    }

    #[test]
    fn a_batch_is_of_one_class() {
        assert!(one_class(&[view("a"), view("a")]).is_ok() && one_class(&[]).is_ok());
        assert!(one_class(&[view("a"), view("b")]).is_err());
    }

    #[test]
    fn constraints_are_read_as_they_are_said() {
        let read = constraint("amount lte 50").unwrap();
        assert_eq!((read.field.as_str(), read.operator.as_str(), read.value), ("amount", "lte", json!(50)));
        assert_eq!(constraint("to eq Ann Lee").unwrap().value, json!("Ann Lee"));
        assert!(constraint("amount").is_err());
    }
}
