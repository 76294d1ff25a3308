use clap::{Args, Command};

use super::*;

const FILE: &str = r#"
trust_domain = "aip.local"
replica = "gateway-1"
data_dir = "data"
directory = "/etc/aip/directory.toml"
signing_key = "gateway.key"

[nats]
url = "nats://127.0.0.1:4222"
seed = "gateway.nk"

[http]
bind = "127.0.0.1:8080"
"#;

fn load(text: &str, flags: Flags) -> Result<Config, String> {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("gateway.toml");
    std::fs::write(&path, text).unwrap();
    Config::load(Some(&path), flags).map_err(|error| chain(&error).replace(path.to_str().unwrap(), "FILE"))
}

fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(next) = cause {
        text = format!("{text}: {next}");
        cause = next.source();
    }
    text
}

#[test]
fn a_file_is_enough_and_flags_win_over_it() {
    let plain = load(FILE, Flags::default()).unwrap();
    assert_eq!(plain.http.bind, "127.0.0.1:8080".parse().unwrap());
    assert!(plain.data_dir.is_absolute() && plain.data_dir.ends_with("data"), "{:?}", plain.data_dir);
    assert_eq!(plain.directory, PathBuf::from("/etc/aip/directory.toml"));
    assert_eq!(plain.limits.door.in_flight, limits::DOOR_IN_FLIGHT_MAX);
    let bind = "127.0.0.1:9".parse().unwrap();
    let flags = Flags { http_bind: Some(bind), data_dir: Some("here".into()), ..Flags::default() };
    let flagged = load(FILE, flags).unwrap();
    assert_eq!((flagged.http.bind, flagged.data_dir), (bind, PathBuf::from("here")));
}

#[test]
fn what_is_wrong_is_named_with_its_place() {
    let with = |text: &str| load(&format!("{FILE}{text}"), Flags::default()).unwrap_err();
    for (text, place) in [
        ("[limits]\nhttp_connections = 0", "limits.http_connections must be from 1"),
        ("[limits]\nin_flight = 0", "limits.in_flight must be from 1"),
        ("[limits]\nin_flight_bytes = 10", "limits.in_flight_bytes must be from"),
        ("[limits]\nunheard = 1", "unknown field `unheard`"),
        ("[limits]\ndrain_ms = \"soon\"", "line "),
    ] {
        let error = with(text);
        assert!(error.contains(place), "{text}: {error}");
    }
    let many = FILE.replace("seed = ", "stream_replicas = 6\nseed = ");
    assert!(load(&many, Flags::default()).unwrap_err().contains("nats.stream_replicas must be from 1 to 5"));
    let error = load(&FILE.replace("gateway-1", "a b"), Flags::default()).unwrap_err();
    assert!(error.contains("replica is not a usable name"), "{error}");
    let error = load(&FILE.replace("aip.local", "*"), Flags::default()).unwrap_err();
    assert!(error.contains("trust_domain is not a usable name"), "{error}");
    let gone = Config::load(Some(Path::new("/nowhere/gateway.toml")), Flags::default()).unwrap_err();
    assert!(chain(&gone).contains("/nowhere/gateway.toml"), "{}", chain(&gone));
}

#[test]
fn plaintext_outside_loopback_has_to_be_said_twice() {
    let open = FILE.replace("127.0.0.1:8080", "0.0.0.0:8080");
    for (flags, allowed) in [
        ("", false),
        ("outside_loopback = true", false),
        ("without_tls = true", false),
        ("outside_loopback = true\nwithout_tls = true", true),
    ] {
        assert_eq!(load(&format!("{open}{flags}"), Flags::default()).is_ok(), allowed, "{flags}");
    }
    let bind = Flags { http_bind: Some("0.0.0.0:1".parse().unwrap()), ..Flags::default() };
    assert!(
        load(FILE, bind).unwrap_err().contains("http.outside_loopback"),
        "a flag needs the permission too"
    );
}

#[test]
fn what_is_missing_says_where_to_set_it() {
    let command = Flags::augment_args(Command::new("gateway"));
    let places: Vec<&str> = FILE.lines().filter_map(|line| Some(line.split_once(" = ")?.0)).collect();
    assert_eq!(places.len(), command.get_arguments().count(), "each flag has a line in the file");
    for place in places {
        let without: String = FILE
            .lines()
            .filter(|line| !line.starts_with(&format!("{place} ")))
            .map(|line| format!("{line}\n"))
            .collect();
        let error = load(&without, Flags::default()).unwrap_err();
        let named = command.get_arguments().any(|argument| {
            let variable = argument.get_env().unwrap().to_str().unwrap();
            let flag = format!("--{}", argument.get_long().unwrap());
            flag.ends_with(&place.replace('_', "-")) && error.contains(&format!("as {variable} or as {flag}"))
        });
        assert!(named, "{place}: {error}");
    }
}
