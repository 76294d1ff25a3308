//! `aip receipts verify`: is the chain of receipts whole, and where is it not? Works on a file, or asks the gateway.

use std::path::PathBuf;
use std::process::ExitCode;

use aip_wire::ReceiptQueryRequest;
use clap::{Args, Subcommand};
use serde_json::{Value, json};

use crate::output::{self, Failure, because, say};
use crate::profile::Options;

#[derive(Subcommand, Debug)]
pub enum Command {
    /// Verify a chain: every hash, every link, the root
    Verify(Verify),
}

#[derive(Args, Debug)]
pub struct Verify {
    /// The chain's id (an action's id names its chain), unless a file is given
    #[arg(required_unless_present = "file")]
    chain: Option<String>,
    /// A file with a receipt chain as JSON
    #[arg(long, conflicts_with = "chain")]
    file: Option<PathBuf>,
    #[command(flatten)]
    options: Options,
}

pub async fn run(command: Command) -> Result<ExitCode, Failure> {
    let Command::Verify(args) = command;
    let json = args.options.json;
    let chain = chain(&args).await.map_err(|failure| failure.json(json))?;
    let count = chain.get("receipts").and_then(Value::as_array).map_or(0, Vec::len);
    match aip_crypto::receipt::verify_chain(&chain) {
        Ok(_) if json => output::print_json(&json!({"valid": true, "receipts": count}))?,
        Ok(_) => {
            say!("the chain is whole: {count} receipts");
            for receipt in chain.get("receipts").and_then(Value::as_array).into_iter().flatten() {
                let text =
                    |member: &str| receipt.get(member).and_then(Value::as_str).unwrap_or_default().to_owned();
                say!("  {}  {:<18} {}", text("occurred_at"), text("receipt_type"), text("hash"));
            }
        }
        Err(error) if json => {
            output::print_json(&json!({"valid": false, "receipts": count, "message": error.to_string()}))?;
            return Ok(ExitCode::FAILURE);
        }
        Err(error) => return Err(because("the chain is broken", &error)),
    }
    Ok(ExitCode::SUCCESS)
}

async fn chain(args: &Verify) -> Result<Value, Failure> {
    if let Some(file) = &args.file {
        let text = std::fs::read_to_string(file)
            .map_err(|error| because(&format!("can't read {}", file.display()), &error))?;
        let value: Value = serde_json::from_str(&text).map_err(|error| because("not JSON", &error))?;
        // As `GET /aip/v1/receipts/…` answers, or the chain alone.
        return Ok(value.get("receipt_chain").cloned().unwrap_or(value));
    }
    let id = args.chain.clone().unwrap_or_default();
    let chain_id = if id.starts_with("act_") { format!("action:{id}") } else { id };
    let request = ReceiptQueryRequest { chain_id: Some(chain_id), receipt_id: None };
    let client = args.options.client().await?;
    let chain = client.receipts(request).await.map_err(|error| because("no receipts", &error))?;
    serde_json::to_value(chain).map_err(|error| because("can't write JSON", &error))
}
