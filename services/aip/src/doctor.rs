//! `aip doctor`: looks at each part in the order of the road and says what is wrong and how to mend it.

use std::process::ExitCode;
use std::time::Duration;

use aip_wire::ManifestRequest;
use clap::Args as ClapArgs;
use serde_json::{Value, json};

use crate::output::{self, Failure, say};
use crate::profile::{Options, Profile, Via};

const TIMEOUT: Duration = Duration::from_secs(5);

#[derive(ClapArgs, Debug)]
pub struct Args {
    #[command(flatten)]
    options: Options,
}

/// What a replica says of a message of the ledger that is no record.
const NOT_OURS: &str = "of the ledger can't be applied";

/// One look.
struct Finding {
    part: &'static str,
    good: bool,
    what: String,
    mend: Option<String>,
}

// === impl Finding ===

impl Finding {
    fn good(part: &'static str, what: impl Into<String>) -> Finding {
        Finding { part, good: true, what: what.into(), mend: None }
    }

    fn bad(part: &'static str, what: impl Into<String>, mend: impl Into<String>) -> Finding {
        Finding { part, good: false, what: what.into(), mend: Some(mend.into()) }
    }
}

pub async fn run(args: Args) -> Result<ExitCode, Failure> {
    let mut findings = vec![schemas(), server().await];
    match Profile::load(&args.options.profile) {
        Err(_) => findings.push(Finding::bad(
            "profile",
            format!("{} can't be used", args.options.profile.display()),
            "start `aip dev` in this folder, or name a profile with --profile",
        )),
        Ok(profile) => {
            findings.push(Finding::good("profile", args.options.profile.display().to_string()));
            findings.push(gateway(&profile).await);
            for via in [Via::Nats, Via::Http] {
                findings.push(road(&args.options, via).await);
            }
        }
    }
    let well = findings.iter().all(|finding| finding.good);
    if args.options.json {
        let rows: Vec<Value> = findings
            .iter()
            .map(|finding| json!({"part": finding.part, "good": finding.good, "what": finding.what, "mend": finding.mend}))
            .collect();
        output::print_json(&json!({"well": well, "findings": rows}))?;
    } else {
        for finding in &findings {
            say!("{}  {:<12} {}", if finding.good { "ok " } else { "BAD" }, finding.part, finding.what);
            if let Some(mend) = &finding.mend {
                say!("     {:<12} → {mend}", "");
            }
        }
    }
    Ok(if well { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn schemas() -> Finding {
    match aip_wire::schemas::check() {
        Ok(()) => Finding::good("schemas", "the built-in schemas have their digest"),
        Err(error) => Finding::bad("schemas", error.to_string(), "this program is damaged: install it again"),
    }
}

async fn server() -> Finding {
    match aip_natsd::find().await {
        Ok(binary) => {
            Finding::good("nats-server", format!("{} at {}", binary.version, binary.path.display()))
        }
        Err(error) => Finding::bad(
            "nats-server",
            error.to_string(),
            "install nats-server 2.12 or newer, or set NATS_SERVER_BIN (only `aip dev` needs it)",
        ),
    }
}

async fn gateway(profile: &Profile) -> Finding {
    let Some(http) = &profile.http else {
        return Finding::good("gateway", "the profile names no HTTP address: not looked at");
    };
    let url = format!("{}/ready", http.url);
    let answered = async {
        let client = reqwest::Client::builder().timeout(TIMEOUT).build()?;
        let response = client.get(&url).send().await?;
        Ok::<_, reqwest::Error>((response.status(), response.text().await?))
    };
    match answered.await {
        Err(error) => {
            Finding::bad("gateway", format!("{url}: {error}"), "start it: `aip dev`, or `aip gateway`")
        }
        Ok((status, _)) if status.is_success() => Finding::good("gateway", format!("{} is ready", http.url)),
        Ok((_, text)) => {
            let reason = serde_json::from_str::<Value>(&text)
                .ok()
                .and_then(|body| Some(body.get("reason")?.as_str()?.to_owned()))
                .unwrap_or(text);
            let mend = if reason.contains(NOT_OURS) {
                "somebody else wrote into the ledger's subject, and no replica passes such a message: see that only the \
                 gateway's user may publish there (nats-config), stop the gateways, set the data of the ledger's stream \
                 aside (not the gateways' stores, which have all that was acknowledged), and run `aip ledger recover`"
            } else if reason.contains("ledger") {
                "the ledger and this replica's store disagree, and nothing is served beside the log: bring the log's data \
                 back, or stop the gateways and run `aip ledger recover`"
            } else {
                "it mends itself when NATS is back; look into its log otherwise"
            };
            Finding::bad("gateway", format!("not ready: {reason}"), mend)
        }
    }
}

async fn road(options: &Options, via: Via) -> Finding {
    let part = if via == Via::Nats { "over NATS" } else { "over HTTP" };
    let options = Options { via, ..options.clone() };
    let asked = async {
        let client = options.client().await.map_err(|_| "no connection".to_owned())?;
        client.manifest(ManifestRequest::default()).await.map_err(|error| error.to_string())
    };
    match tokio::time::timeout(TIMEOUT, asked).await {
        Ok(Ok(manifest)) => {
            Finding::good(part, format!("{} capabilities can be called", manifest.capabilities.len()))
        }
        Ok(Err(error)) => Finding::bad(part, error, "see above; keys and addresses are in the profile"),
        Err(_) => Finding::bad(part, "no answer", "see above"),
    }
}
