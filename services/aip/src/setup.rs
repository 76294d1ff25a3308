//! `aip setup`: everything that an installation's processes need before the first of them starts, written into one
//! folder and done once: keys, nkey seeds, the configuration of NATS and of the services. Said again it keeps all keys
//! and writes the configuration anew. It starts nothing.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;

use aip_natsd::{Config, Identities, Listen, UserKey};
use clap::Args as ClapArgs;

use crate::output::{Failure, because, say};
use crate::site::{API_KEY, Gateway, Plaintext, Plan, Site};

#[derive(ClapArgs, Debug)]
pub struct Args {
    /// The folder for keys and configuration
    #[arg(long)]
    dir: PathBuf,
    /// Where the services will keep their data
    #[arg(long)]
    data_dir: PathBuf,
    /// Where the services find NATS
    #[arg(long, default_value = "nats://127.0.0.1:4222")]
    nats_url: String,
    /// Where NATS listens: without TLS yet, so for a network of its own only
    #[arg(long, default_value = "127.0.0.1:4222")]
    nats_bind: SocketAddr,
    /// The port of NATS's monitoring pages
    #[arg(long, default_value_t = 8222)]
    nats_monitor_port: u16,
    /// Where the gateway serves HTTP
    #[arg(long, default_value = "127.0.0.1:8080")]
    http_bind: SocketAddr,
    /// Where the command line finds the gateway
    #[arg(long, default_value = "http://127.0.0.1:8080")]
    http_url: String,
    /// Where the services besides the gateway serve their health pages
    #[arg(long, default_value = "127.0.0.1:9090")]
    health_bind: SocketAddr,
    /// HTTP may be served outside loopback …
    #[arg(long)]
    http_outside_loopback: bool,
    /// … and without TLS: the gateway wants to be told both
    #[arg(long)]
    http_without_tls: bool,
}

pub fn run(args: Args) -> Result<ExitCode, Failure> {
    let site = Site::new(args.dir.clone())?;
    let users = Site::users()?;
    let identities = Identities::ensure(&site.file("nats/keys"), &users)
        .map_err(|error| because("the keys for NATS", &error))?;
    let keyed = users.into_iter().map(|user| {
        let key = identities.public_key(&user.identity)?.to_owned();
        Ok((user, UserKey::Literal(key)))
    });
    let users = keyed.collect::<Result<_, _>>().map_err(|error| nats(&error))?;
    let config = Config {
        server_name: "aip".to_owned(),
        listen: Listen { host: args.nats_bind.ip().to_string(), port: Some(args.nats_bind.port()) },
        monitor_port: Some(args.nats_monitor_port),
        store_dir: args.data_dir.join("nats"),
        run_dir: None,
        trust_domain: site.trust_domain().clone(),
        users,
    };
    site.save("nats/nats-server.conf", &config.render().map_err(|error| nats(&error))?)?;
    let plan = Plan {
        nats_url: args.nats_url,
        http_url: args.http_url,
        gateways: vec![Gateway { name: "gateway".to_owned(), bind: args.http_bind }],
        health_bind: args.health_bind,
        data_dir: args.data_dir,
        plaintext: Plaintext {
            outside_loopback: args.http_outside_loopback,
            without_tls: args.http_without_tls,
        },
    };
    site.write(&plan, |identity| identities.seed_file(identity))?;
    say!("keys and configuration are in {}", site.folder().display());
    say!("the API key is in {}", site.file(API_KEY).display());
    Ok(ExitCode::SUCCESS)
}

/// The server that an image or a person wants to run.
pub async fn nats_server() -> Result<ExitCode, Failure> {
    let binary = aip_natsd::find().await.map_err(|error| because("no nats-server", &error))?;
    say!("{}", binary.path.display());
    Ok(ExitCode::SUCCESS)
}

fn nats(error: &aip_natsd::NatsdError) -> Failure {
    because("the configuration of NATS", error)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::path::Path;

    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: Args,
    }

    fn setup(folder: &Path, more: &[&str]) {
        let line = ["setup", "--dir", folder.to_str().unwrap(), "--data-dir", "/data"];
        run(Line::parse_from(line.iter().chain(more)).args).unwrap();
    }

    fn files(folder: &Path, into: &mut BTreeMap<PathBuf, String>) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                files(&path, into);
            } else {
                into.insert(path.clone(), std::fs::read_to_string(path).unwrap());
            }
        }
    }

    #[test]
    fn said_twice_it_changes_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let (mut first, mut second) = (BTreeMap::new(), BTreeMap::new());
        setup(folder.path(), &[]);
        files(folder.path(), &mut first);
        setup(folder.path(), &[]);
        files(folder.path(), &mut second);
        assert_eq!(first, second);
        assert!(first.len() > 10, "{:?}", first.keys());
    }

    #[test]
    fn the_services_take_what_it_writes() {
        let folder = tempfile::tempdir().unwrap();
        let load = || {
            let file = folder.path().join("gateway.toml");
            aip_gateway::config::Config::load(Some(&file), aip_gateway::config::Flags::default())
        };
        setup(folder.path(), &["--nats-url", "nats://nats:4222"]);
        let gateway = load().unwrap();
        assert_eq!(gateway.nats.url, "nats://nats:4222");
        assert_eq!(gateway.data_dir, Path::new("/data/gateway"));
        assert!(gateway.nats.seed.is_file() && gateway.signing_key.is_file());
        aip_admission::Directory::load(&gateway.directory).unwrap();
        let sandbox = aip_sandbox::Config::load(&folder.path().join("sandbox.toml")).unwrap();
        assert!(sandbox.nats.seed.is_file() && sandbox.signing_key.is_file());
        crate::profile::Profile::load(&folder.path().join("client.toml")).unwrap();
        let nats = std::fs::read_to_string(folder.path().join("nats/nats-server.conf")).unwrap();
        assert!(nats.contains("sync_interval: always") && nats.contains("store_dir: \"/data/nats\""));

        let outside = ["--http-bind", "0.0.0.0:8080", "--http-outside-loopback"];
        setup(folder.path(), &outside);
        assert!(load().unwrap_err().to_string().contains("without_tls"), "half a permission is none");
        setup(folder.path(), &[&outside[..], &["--http-without-tls"]].concat());
        assert_eq!(load().unwrap().http.bind.to_string(), "0.0.0.0:8080");
    }
}
