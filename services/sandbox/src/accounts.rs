//! Accounts with money in them, in minor units: it moves once or not at all, and there is never more or less of it.

use aip_names::limits::SANDBOX_AMOUNT_MINOR_MAX;
use aip_sdk::{ActionError, CapabilitySpec, Context, WorkerBuilder};
use aip_wire::{
    ApprovalPolicy, ApproverSelector, DataSensitivity, EvidenceRequirement, RetrySafety, RiskLevel,
    SeparationOfDuties, SideEffect,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::book::{Book, Draft};

const TRANSFER_CREATE: &str = "cap:accounts:transfer:create";
const PAYOUT_CREATE: &str = "cap:accounts:payout:create";
const REFUND_CREATE: &str = "cap:accounts:refund:create";

const ACCOUNT: &str = "account";
const TRANSFER: &str = "transfer";
const CURRENCY: &str = "EUR";

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Read {
    #[schemars(length(max = 200))]
    account: String,
}

#[derive(Serialize, JsonSchema)]
pub struct Balance {
    account: String,
    currency: String,
    balance_minor: u64,
    /// Transfers and refunds that the tenant has had, on all its accounts.
    effects: u64,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Transfer {
    #[schemars(length(max = 200))]
    from: String,
    #[schemars(length(max = 200))]
    to: String,
    #[schemars(
        range(min = 1, max = SANDBOX_AMOUNT_MINOR_MAX),
        extend("x-aip-governed-value" = serde_json::json!({"unit": "EUR-cent"}))
    )]
    amount_minor: u64,
    #[schemars(length(max = 200), extend("x-aip-redact" = true))]
    memo: Option<String>,
}

/// A transfer that was made.
#[derive(Clone, Serialize, Deserialize, JsonSchema)]
pub struct Made {
    transfer_id: String,
    from: String,
    to: String,
    amount_minor: u64,
    currency: String,
    /// What is left on the account that paid.
    from_balance_minor: u64,
    refunded: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-aip-redact" = true))]
    memo: Option<String>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Refund {
    #[schemars(length(max = 200))]
    transfer_id: String,
}

#[derive(Serialize, Deserialize, JsonSchema)]
pub struct Refunded {
    transfer_id: String,
    amount_minor: u64,
    currency: String,
}

pub fn offer(worker: WorkerBuilder, book: &Book) -> WorkerBuilder {
    let balance = CapabilitySpec::read(
        "cap:accounts:balance:read",
        "Read a balance",
        "Says how much is on an account. The samples are checking, savings and merchant.",
    )
    .data(DataSensitivity::Confidential, false);
    let transfer = CapabilitySpec::write(
        TRANSFER_CREATE,
        "Transfer money",
        "Moves an amount from one account to another.",
        SideEffect::Financial,
        RetrySafety::Unsafe,
    )
    .risk(RiskLevel::High)
    .data(DataSensitivity::Confidential, true);
    let payout = CapabilitySpec::write(
        PAYOUT_CREATE,
        "Pay money out",
        "Moves an amount from one account to another, once an approver has agreed.",
        SideEffect::Financial,
        RetrySafety::Unsafe,
    )
    .risk(RiskLevel::High)
    .data(DataSensitivity::Confidential, true)
    .approval(approved());
    let refund = CapabilitySpec::write(
        REFUND_CREATE,
        "Refund a transfer",
        "Moves a transfer's amount back. A transfer is refunded once.",
        SideEffect::Financial,
        RetrySafety::SafeWithIdempotencyKey,
    )
    .risk(RiskLevel::High);
    let (reading, moving, paying, refunding) = (book.clone(), book.clone(), book.clone(), book.clone());
    worker
        .capability(balance, move |context, input| read(reading.clone(), context, input))
        .capability(transfer, move |context, input| transfer_once(moving.clone(), context, input))
        .capability(payout, move |context, input| transfer_once(paying.clone(), context, input))
        .capability(refund, move |context, input| refund_once(refunding.clone(), context, input))
}

/// Somebody with the role `approver`, who is not the one that asks.
fn approved() -> ApprovalPolicy {
    ApprovalPolicy {
        required: true,
        reason: Some("Money leaves the house".to_owned()),
        approver_selector: ApproverSelector::Role { name: "approver".to_owned() },
        ttl_ms: None,
        evidence_requirements: vec![EvidenceRequirement::InputSnapshot],
        delegated_authority: None,
        rule: None,
        minimum_distinct_principals: 1,
        separation_of_duties: SeparationOfDuties {
            requester_must_differ: true,
            ..SeparationOfDuties::default()
        },
        policy_version: Some("1".to_owned()),
    }
}

pub fn seed(draft: &mut Draft<'_>) -> Result<(), ActionError> {
    for (account, balance_minor) in [("checking", 100_000_u64), ("savings", 250_000), ("merchant", 0)] {
        draft.put(ACCOUNT, account, &balance_minor)?;
    }
    Ok(())
}

pub async fn read(book: Book, context: Context, wanted: Read) -> Result<Balance, ActionError> {
    let mut effects = 0;
    for capability in [TRANSFER_CREATE, REFUND_CREATE] {
        effects += book.effects(&context, capability.to_owned()).await?;
    }
    book.look(&context, move |rows| {
        let balance_minor = rows.get::<u64>(ACCOUNT, &wanted.account)?.ok_or_else(unknown)?;
        Ok(Balance { account: wanted.account, currency: CURRENCY.to_owned(), balance_minor, effects })
    })
    .await
}

pub async fn transfer_once(book: Book, context: Context, wanted: Transfer) -> Result<Made, ActionError> {
    let transfer_id = format!("transfer_{}", context.effect_id().trim_start_matches("act_"));
    if wanted.amount_minor == 0 || wanted.amount_minor > SANDBOX_AMOUNT_MINOR_MAX {
        return Err(ActionError::permanent("sandbox.accounts.amount_invalid", "the amount cannot be moved"));
    }
    book.once(&context, move |draft| {
        let from_balance_minor = shift(draft, &wanted.from, &wanted.to, wanted.amount_minor)?;
        let made = Made {
            transfer_id,
            from: wanted.from,
            to: wanted.to,
            amount_minor: wanted.amount_minor,
            currency: CURRENCY.to_owned(),
            from_balance_minor,
            refunded: false,
            memo: wanted.memo,
        };
        draft.put(TRANSFER, &made.transfer_id, &made)?;
        Ok(made)
    })
    .await
}

pub async fn refund_once(book: Book, context: Context, wanted: Refund) -> Result<Refunded, ActionError> {
    book.once(&context, move |draft| {
        let refused = |code: &str, message: &str| ActionError::permanent(code.to_owned(), message.to_owned());
        let transfer = draft.get::<Made>(TRANSFER, &wanted.transfer_id)?;
        let transfer = transfer
            .ok_or_else(|| refused("sandbox.accounts.transfer_unknown", "there is no such transfer"))?;
        if transfer.refunded {
            return Err(refused("sandbox.accounts.already_refunded", "the transfer was refunded before"));
        }
        shift(draft, &transfer.to, &transfer.from, transfer.amount_minor)?;
        draft.put(TRANSFER, &transfer.transfer_id, &Made { refunded: true, ..transfer.clone() })?;
        Ok(Refunded {
            transfer_id: transfer.transfer_id,
            amount_minor: transfer.amount_minor,
            currency: transfer.currency,
        })
    })
    .await
}

/// Moves money and returns what is left where it came from.
fn shift(draft: &mut Draft<'_>, from: &str, to: &str, amount_minor: u64) -> Result<u64, ActionError> {
    if from == to {
        return Err(ActionError::permanent("sandbox.accounts.same_account", "both accounts are the same"));
    }
    let paying = draft.get::<u64>(ACCOUNT, from)?.ok_or_else(unknown)?;
    let paid = draft.get::<u64>(ACCOUNT, to)?.ok_or_else(unknown)?;
    let Some(left) = paying.checked_sub(amount_minor) else {
        let message = "there is less on the account than should be moved";
        return Err(ActionError::permanent("sandbox.accounts.insufficient_funds", message));
    };
    let Some(full) = paid.checked_add(amount_minor) else {
        return Err(ActionError::permanent(
            "sandbox.accounts.amount_invalid",
            "the account cannot hold that much",
        ));
    };
    draft.put(ACCOUNT, from, &left)?;
    draft.put(ACCOUNT, to, &full)?;
    Ok(left)
}

fn unknown() -> ActionError {
    ActionError::permanent("sandbox.accounts.account_unknown", "there is no such account")
}
