use std::path::Path;
use std::sync::Arc;

use aip_admission::{Authenticator, Directory};
use secrecy::SecretString;
use serde_json::json;
use sha2::{Digest, Sha256};

use super::*;

const NOW: Millis = 1_784_017_800_000;

async fn reader(name: &str) -> Caller {
    let key = |name: &str| hex::encode(Sha256::digest(format!("{name}-token").as_bytes()));
    let text = format!(
        r#"
trust_domain = "aip.test"

[[principal]]
id = "agent:ann"
kind = "agent"
scopes = ["action:read"]
capabilities = ["cap:*"]
api_keys = [{{ id = "a", sha256 = "{}" }}]

[[principal]]
id = "agent:ben"
kind = "agent"
scopes = ["action:read"]
capabilities = ["cap:*"]
api_keys = [{{ id = "b", sha256 = "{}" }}]
"#,
        key("ann"),
        key("ben"),
    );
    let directory = Directory::parse(&text, Path::new("/nowhere")).unwrap();
    let authenticator = Authenticator::new(Arc::new(directory)).unwrap();
    let token = SecretString::from(format!("{name}-token"));
    authenticator.caller(Some(&token), NOW).await.unwrap()
}

fn cursors(seed: u8) -> Cursors {
    Cursors::new(&SigningKey::from_seed(&[seed; 32]))
}

fn code(answer: Result<Mark, Refusal>) -> &'static str {
    answer.unwrap_err().code.name
}

#[tokio::test]
async fn a_cursor_is_understood_by_every_replica_and_only_for_its_query_and_reader() {
    let (ann, ben) = (reader("ann").await, reader("ben").await);
    let query = json!({"state": "running", "limit": 10});
    let question = Question::of(&ann, "action_list", &query).unwrap();
    let mark = Mark::new("0123", 2);
    let cursor = cursors(1).give(&question, mark.clone(), NOW).unwrap();
    // another replica, and another page of the same query
    let next = json!({"state": "running", "limit": 50, "cursor": cursor});
    let again = Question::of(&ann, "action_list", &next).unwrap();
    assert_eq!(cursors(1).take(&again, &cursor, NOW + 1).unwrap(), mark);
    let others = [
        Question::of(&ben, "action_list", &query).unwrap(),
        Question::of(&ann, "action_list", &json!({"state": "queued", "limit": 10})).unwrap(),
        Question::of(&ann, "action_list", &json!({"limit": 10})).unwrap(),
        Question::of(&ann, "event_stream", &query).unwrap(),
    ];
    for other in others {
        assert_eq!(code(cursors(1).take(&other, &cursor, NOW)), codes::QUERY_CURSOR.name);
    }
    assert_eq!(code(cursors(2).take(&question, &cursor, NOW)), codes::QUERY_CURSOR.name);
}

#[tokio::test]
async fn a_cursor_that_was_changed_or_made_up_is_none() {
    let question = Question::of(&reader("ann").await, "action_list", &json!({})).unwrap();
    let cursor = cursors(1).give(&question, Mark::new("0123", 0), NOW).unwrap();
    for at in 0..cursor.len() {
        let other = if cursor.as_bytes()[at] == b'x' { "y" } else { "x" };
        let mut changed = cursor.clone();
        changed.replace_range(at..=at, other);
        assert_eq!(code(cursors(1).take(&question, &changed, NOW)), codes::QUERY_CURSOR.name, "{at}");
    }
    let long = "A".repeat(CURSOR_BYTES_MAX + 1);
    for text in ["", "offset:10", "evt_cursor_7", long.as_str()] {
        assert_eq!(code(cursors(1).take(&question, text, NOW)), codes::QUERY_CURSOR.name);
    }
}

#[tokio::test]
async fn an_expired_cursor_says_so_to_its_reader_only() {
    let (ann, ben) = (reader("ann").await, reader("ben").await);
    let question = |reader| Question::of(reader, "action_list", &json!({})).unwrap();
    let cursor = cursors(1).give(&question(&ann), Mark::new("0123", 0), NOW).unwrap();
    let late = NOW + CURSOR_TTL_MS;
    assert!(cursors(1).take(&question(&ann), &cursor, late - 1).is_ok());
    assert_eq!(code(cursors(1).take(&question(&ann), &cursor, late)), codes::QUERY_CURSOR_EXPIRED.name);
    assert_eq!(code(cursors(1).take(&question(&ben), &cursor, late)), codes::QUERY_CURSOR.name);
}
