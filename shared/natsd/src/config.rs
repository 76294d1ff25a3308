//! The text of a nats-server configuration. Limits and permissions come from `aip-names`; nothing is decided here.

use std::fmt::Write;
use std::path::PathBuf;

use aip_names::{Permissions, TrustDomain, User, limits, permissions};

use crate::error::NatsdError;

/// Where a server listens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listen {
    pub host: String,
    /// None lets the system choose a free one.
    pub port: Option<u16>,
}

/// How a user's public key stands in the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UserKey {
    Literal(String),
    /// Name of the environment variable that the server reads it from.
    Environment(String),
}

/// Everything that differs between one server and another.
#[derive(Debug, Clone)]
pub struct Config {
    pub server_name: String,
    pub listen: Listen,
    /// Port of the monitoring pages, on the same host.
    pub monitor_port: Option<u16>,
    pub store_dir: PathBuf,
    /// Where pid, ports and log files go; None leaves them out and logs to standard error.
    pub run_dir: Option<PathBuf>,
    pub trust_domain: TrustDomain,
    pub users: Vec<(User, UserKey)>,
}

impl Config {
    /// # Errors
    /// A user whose permissions cannot be generated.
    pub fn render(&self) -> Result<String, NatsdError> {
        let mut text = String::from("# Generated from the registry of names: do not edit.\n");
        for (user, key) in &self.users {
            if let UserKey::Environment(name) = key {
                line(&mut text, 0, &format!("# {name} must hold the public key of {}", user.identity));
            }
        }
        let port = self.listen.port.map_or_else(|| "-1".to_owned(), |port| port.to_string());
        line(&mut text, 0, &format!("server_name: {}", quoted(&self.server_name)));
        line(&mut text, 0, &format!("listen: {}", quoted(&format!("{}:{port}", self.listen.host))));
        if let Some(port) = self.monitor_port {
            line(&mut text, 0, &format!("http: {}", quoted(&format!("{}:{port}", self.listen.host))));
        }
        if let Some(run_dir) = &self.run_dir {
            let file = |name: &str| quoted(&run_dir.join(name).to_string_lossy());
            line(&mut text, 0, &format!("pid_file: {}", file("nats-server.pid")));
            line(&mut text, 0, &format!("ports_file_dir: {}", quoted(&run_dir.to_string_lossy())));
            line(&mut text, 0, &format!("log_file: {}", file("nats-server.log")));
            line(&mut text, 0, &format!("logfile_size_limit: {}", limits::NATS_LOG_BYTES_MAX));
            line(&mut text, 0, &format!("logfile_max_num: {}", limits::NATS_LOG_FILES_MAX));
        }
        line(&mut text, 0, &format!("max_payload: {}", limits::NATS_PAYLOAD_BYTES_MAX));
        line(&mut text, 0, &format!("max_connections: {}", limits::NATS_CONNECTIONS_MAX));
        line(&mut text, 0, &format!("max_subscriptions: {}", limits::NATS_SUBSCRIPTIONS_MAX));
        line(&mut text, 0, &format!("max_pending: {}", limits::NATS_PENDING_BYTES_MAX));
        text.push_str("\n# the ledger trusts an acknowledgement: fsync comes before it\njetstream {\n");
        line(&mut text, 1, &format!("store_dir: {}", quoted(&self.store_dir.to_string_lossy())));
        line(&mut text, 1, "sync_interval: always");
        text.push_str("}\n\naccounts {\n  AIP {\n    jetstream: enabled\n    users: [\n");
        let everyone: Vec<User> = self.users.iter().map(|(user, _)| user.clone()).collect();
        for (user, key) in &self.users {
            self.render_user(&mut text, user, key, &everyone)?;
        }
        text.push_str("    ]\n  }\n}\n");
        Ok(text)
    }

    fn render_user(
        &self,
        text: &mut String,
        user: &User,
        key: &UserKey,
        everyone: &[User],
    ) -> Result<(), NatsdError> {
        let Permissions { publish_allow, subscribe_allow, responses } =
            permissions(&self.trust_domain, user, everyone)?;
        line(text, 3, &format!("# {}", user.identity));
        line(text, 3, "{");
        match key {
            UserKey::Literal(key) => line(text, 4, &format!("nkey: {key}")),
            UserKey::Environment(name) => line(text, 4, &format!("nkey: ${name}")),
        }
        line(text, 4, "permissions: {");
        render_list(text, "publish", &publish_allow);
        render_list(text, "subscribe", &subscribe_allow);
        if let Some(responses) = responses {
            let (messages, expires) = (responses.messages_max, responses.expires_ms);
            line(text, 5, &format!("allow_responses: {{ max: {messages}, expires: \"{expires}ms\" }}"));
        }
        line(text, 4, "}");
        line(text, 3, "}");
        Ok(())
    }
}

/// An empty allow list would permit everything, so nobody with no subjects of a kind gets one: all is denied.
fn render_list(text: &mut String, verb: &str, allowed: &[String]) {
    if allowed.is_empty() {
        line(text, 5, &format!("{verb}: {{ deny: \">\" }}"));
        return;
    }
    line(text, 5, &format!("{verb}: {{ allow: ["));
    for subject in allowed {
        line(text, 6, &quoted(subject));
    }
    line(text, 5, "] }");
}

fn line(text: &mut String, depth: usize, content: &str) {
    // writing to a String cannot fail
    let _ = writeln!(text, "{:1$}{content}", "", depth * 2);
}

fn quoted(value: &str) -> String {
    format!("\"{}\"", value.replace('\\', "\\\\").replace('"', "\\\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_is_given_everything() {
        let mut text = String::new();
        render_list(&mut text, "publish", &[]);
        assert!(text.contains("deny: \">\""), "{text}");
    }

    #[test]
    fn quotes_cannot_be_left() {
        assert_eq!(quoted(r#"a"b\c"#), r#""a\"b\\c""#);
    }
}
