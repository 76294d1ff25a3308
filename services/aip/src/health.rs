//! `aip health`: one question to one service, for whoever watches it and knows only exit codes. It must never need a
//! key or a file.

use std::process::ExitCode;
use std::time::Duration;

use clap::Args as ClapArgs;

use crate::output::{Failure, because};

const TIMEOUT: Duration = Duration::from_secs(3);

#[derive(ClapArgs, Debug)]
pub struct Args {
    /// What to GET; any answer but success is a no
    #[arg(long, default_value = "http://127.0.0.1:8080/ready")]
    url: String,
}

pub async fn run(args: Args) -> Result<ExitCode, Failure> {
    let client = reqwest::Client::builder().timeout(TIMEOUT).no_proxy().build();
    let client = client.map_err(|error| because("can't set up HTTP", &error))?;
    let response = client.get(&args.url).send().await.map_err(|error| because("no answer", &error))?;
    let status = response.status();
    if status.is_success() {
        return Ok(ExitCode::SUCCESS);
    }
    let text = response.text().await.unwrap_or_default();
    Err(Failure::new(format!("{} says {status}: {text}", args.url)))
}
