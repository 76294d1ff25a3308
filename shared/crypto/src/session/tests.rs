use aip_names::limits::{
    SESSION_KEY_LIFETIME_MS, SESSION_KEY_MESSAGES_MAX, SESSION_KEY_OVERLAP_MS, SESSION_WINDOW_MESSAGES,
};
use serde::Deserialize;

use super::keys::{associated_data, derive, nonce};
use super::*;

const SESSION: &str = "sess_0197f3a0c0de70008000000000000001";

#[derive(Deserialize)]
struct Vectors {
    session_id: String,
    epochs: Vec<EpochVector>,
    weak_public_keys: Vec<String>,
}

#[derive(Deserialize)]
struct EpochVector {
    epoch: u32,
    initiator_secret: String,
    initiator_public: String,
    responder_secret: String,
    responder_public: String,
    shared_secret: String,
    key: String,
    messages: Vec<MessageVector>,
}

#[derive(Deserialize)]
struct MessageVector {
    sender: String,
    sequence: u64,
    plaintext: String,
    nonce: String,
    associated_data: String,
    ciphertext: String,
}

fn vectors() -> Vectors {
    serde_json::from_str(include_str!("../../tests/vectors/session.json")).unwrap()
}

fn bytes32(text: &str) -> [u8; 32] {
    hex::decode(text).unwrap().try_into().unwrap()
}

fn pair(now_ms: u64) -> (Session, Session) {
    let (a, b) = (Ephemeral::generate().unwrap(), Ephemeral::generate().unwrap());
    let (a_public, b_public) = (a.public_key(), b.public_key());
    let initiator = Session::establish(Role::Initiator, SESSION, a, &b_public, now_ms).unwrap();
    let responder = Session::establish(Role::Responder, SESSION, b, &a_public, now_ms).unwrap();
    (initiator, responder)
}

fn rekey(initiator: &mut Session, responder: &mut Session, now_ms: u64) {
    let (a, b) = (Ephemeral::generate().unwrap(), Ephemeral::generate().unwrap());
    let (a_public, b_public) = (a.public_key(), b.public_key());
    responder.rekey(b, &a_public, now_ms).unwrap();
    initiator.rekey(a, &b_public, now_ms).unwrap();
}

#[test]
fn agrees_with_the_independent_vectors_both_ways() {
    let vectors = vectors();
    let mut ends: Option<(Session, Session)> = None;
    for epoch in &vectors.epochs {
        let own = |secret: &str| Ephemeral::from_secret(&bytes32(secret));
        let (a_public, b_public) = (bytes32(&epoch.initiator_public), bytes32(&epoch.responder_public));
        let (a, b) = (own(&epoch.initiator_secret), own(&epoch.responder_secret));
        assert_eq!((a.public_key(), b.public_key()), (a_public, b_public));
        let key = derive(&bytes32(&epoch.shared_secret), &vectors.session_id).unwrap();
        assert_eq!(hex::encode(*key), epoch.key);
        let (initiator, responder) = match ends.take() {
            None => {
                let id = &vectors.session_id;
                let initiator = Session::establish(Role::Initiator, id, a, &b_public, 0).unwrap();
                (initiator, Session::establish(Role::Responder, id, b, &a_public, 0).unwrap())
            }
            Some((mut initiator, mut responder)) => {
                initiator.rekey(a, &b_public, 0).unwrap();
                responder.rekey(b, &a_public, 0).unwrap();
                (initiator, responder)
            }
        };
        let (initiator, responder) = ends.insert((initiator, responder));
        assert_eq!(initiator.epoch(), epoch.epoch);
        for message in &epoch.messages {
            let (role, from, to) = match message.sender.as_str() {
                "initiator" => (Role::Initiator, &mut *initiator, &mut *responder),
                _ => (Role::Responder, &mut *responder, &mut *initiator),
            };
            assert_eq!(hex::encode(nonce(role, epoch.epoch, message.sequence)), message.nonce);
            let aad = associated_data(role, epoch.epoch, message.sequence, &vectors.session_id);
            assert_eq!(hex::encode(aad), message.associated_data);
            let sealed = from.seal(message.plaintext.as_bytes(), 0).unwrap();
            assert_eq!(sealed.sequence, message.sequence);
            assert_eq!(hex::encode(&sealed.ciphertext), message.ciphertext);
            assert_eq!(*to.open(&sealed, 0).unwrap(), message.plaintext.as_bytes());
        }
    }
    assert!(vectors.epochs.len() > 1);
}

#[test]
fn public_keys_of_small_order_are_refused() {
    for weak in vectors().weak_public_keys {
        let own = Ephemeral::generate().unwrap();
        let refused = Session::establish(Role::Initiator, SESSION, own, &bytes32(&weak), 0);
        assert_eq!(refused.err(), Some(SessionError::WeakPublicKey));
    }
    let (mut initiator, mut responder) = pair(0);
    let refused = initiator.rekey(Ephemeral::generate().unwrap(), &[0; 32], 0);
    assert_eq!(refused, Err(SessionError::WeakPublicKey));
    let sealed = initiator.seal(b"still the old epoch", 0).unwrap();
    assert!(responder.open(&sealed, 0).is_ok());
}

#[test]
fn a_message_opens_once_and_only_for_the_peer() {
    let (mut initiator, mut responder) = pair(0);
    let sealed = initiator.seal(b"once", 0).unwrap();
    assert_eq!(initiator.open(&sealed, 0), Err(SessionError::NotAuthentic), "reflected");
    assert_eq!(*responder.open(&sealed, 0).unwrap(), b"once");
    assert_eq!(responder.open(&sealed, 0), Err(SessionError::Replayed));
    let (_, mut stranger) = pair(0);
    assert_eq!(stranger.open(&sealed, 0), Err(SessionError::NotAuthentic));
}

#[test]
fn any_changed_bit_is_refused_and_changes_nothing() {
    let (mut initiator, mut responder) = pair(0);
    let sealed = initiator.seal(b"exactly this", 0).unwrap();
    for bit in 0..sealed.ciphertext.len() * 8 {
        let mut changed = sealed.clone();
        changed.ciphertext[bit / 8] ^= 1 << (bit % 8);
        assert_eq!(responder.open(&changed, 0), Err(SessionError::NotAuthentic));
    }
    let moved = Sealed { sequence: SESSION_KEY_MESSAGES_MAX - 1, ..sealed.clone() };
    assert_eq!(responder.open(&moved, 0), Err(SessionError::NotAuthentic));
    let cut = Sealed { ciphertext: sealed.ciphertext[..8].to_vec(), ..sealed.clone() };
    assert_eq!(responder.open(&cut, 0), Err(SessionError::NotAuthentic));
    assert_eq!(*responder.open(&sealed, 0).unwrap(), b"exactly this", "the window did not move");
}

#[test]
fn another_session_id_is_another_key() {
    let (a, b) = (Ephemeral::from_secret(&[1; 32]), Ephemeral::from_secret(&[2; 32]));
    let (a_public, b_public) = (a.public_key(), b.public_key());
    let mut one = Session::establish(Role::Initiator, "sess_1", a, &b_public, 0).unwrap();
    let mut two = Session::establish(Role::Responder, "sess_2", b, &a_public, 0).unwrap();
    assert_eq!(two.open(&one.seal(b"x", 0).unwrap(), 0), Err(SessionError::NotAuthentic));
    let empty = Session::establish(Role::Initiator, "", Ephemeral::generate().unwrap(), &b_public, 0);
    assert_eq!(empty.err(), Some(SessionError::SessionIdEmpty));
}

#[test]
fn late_messages_open_within_the_window_only() {
    let (mut initiator, mut responder) = pair(0);
    let sealed: Vec<_> =
        (0..=SESSION_WINDOW_MESSAGES).map(|n| initiator.seal(&n.to_be_bytes(), 0).unwrap()).collect();
    let (late, newest) = (&sealed[..sealed.len() - 1], &sealed[sealed.len() - 1]);
    assert!(responder.open(newest, 0).is_ok());
    assert_eq!(responder.open(&late[0], 0), Err(SessionError::OutOfWindow));
    for message in late[1..].iter().rev() {
        assert!(responder.open(message, 0).is_ok());
        assert_eq!(responder.open(message, 0), Err(SessionError::Replayed));
    }
    assert_eq!(responder.open(newest, 0), Err(SessionError::Replayed));
}

#[test]
fn a_far_jump_forgets_no_message() {
    let (mut initiator, mut responder) = pair(0);
    let first = initiator.seal(b"0", 0).unwrap();
    responder.open(&first, 0).unwrap();
    initiator.current.skip_to(1_000_000);
    let far = initiator.seal(b"far", 0).unwrap();
    responder.open(&far, 0).unwrap();
    assert_eq!(responder.open(&first, 0), Err(SessionError::OutOfWindow));
    assert_eq!(responder.open(&far, 0), Err(SessionError::Replayed));
}

#[test]
fn no_sequence_is_given_out_twice() {
    let (mut initiator, mut responder) = pair(0);
    assert_eq!(initiator.seal(&vec![0; SESSION_MESSAGE_BYTES_MAX + 1], 0), Err(SessionError::TooLarge));
    let sequences: Vec<_> = (0..3).map(|_| initiator.seal(b"same", 0).unwrap()).collect();
    assert_eq!(sequences.iter().map(|s| s.sequence).collect::<Vec<_>>(), [0, 1, 2]);
    assert_ne!(sequences[0].ciphertext, sequences[1].ciphertext);

    initiator.current.skip_to(SESSION_KEY_MESSAGES_MAX - 1);
    let last = initiator.seal(b"last", 0).unwrap();
    assert!(responder.open(&last, 0).is_ok());
    assert_eq!(initiator.seal(b"one too many", 0), Err(SessionError::Exhausted));
    let beyond = Sealed { sequence: SESSION_KEY_MESSAGES_MAX, ..last };
    assert_eq!(responder.open(&beyond, 0), Err(SessionError::Exhausted));
}

#[test]
fn rekeying_keeps_late_messages_and_then_wipes_the_old_key() {
    let (mut initiator, mut responder) = pair(0);
    let late = [initiator.seal(b"late", 0).unwrap(), initiator.seal(b"too late", 0).unwrap()];
    rekey(&mut initiator, &mut responder, 1000);
    assert_eq!((initiator.epoch(), responder.epoch()), (1, 1));

    let fresh = initiator.seal(b"fresh", 1000).unwrap();
    assert_eq!((fresh.epoch, fresh.sequence), (1, 0), "sequences start again");
    assert!(responder.open(&fresh, 1000).is_ok());
    assert!(responder.open(&late[0], 1000 + SESSION_KEY_OVERLAP_MS - 1).is_ok());
    assert_eq!(responder.open(&late[0], 1000 + SESSION_KEY_OVERLAP_MS - 1), Err(SessionError::Replayed));
    assert_eq!(responder.open(&late[1], 1000 + SESSION_KEY_OVERLAP_MS), Err(SessionError::UnknownEpoch));
    assert!(responder.previous.is_none());

    let unknown = Sealed { epoch: 2, ..fresh };
    assert_eq!(responder.open(&unknown, 1000), Err(SessionError::UnknownEpoch));
    rekey(&mut initiator, &mut responder, 2000);
    rekey(&mut initiator, &mut responder, 2000);
    assert_eq!(responder.open(&late[1], 2000), Err(SessionError::UnknownEpoch), "one old epoch at most");
}

#[test]
fn equal_keys_in_two_epochs_share_no_nonce() {
    let own = |byte| Ephemeral::from_secret(&[byte; 32]);
    let peer = own(2).public_key();
    let mut session = Session::establish(Role::Initiator, SESSION, own(1), &peer, 0).unwrap();
    let before = session.seal(b"same", 0).unwrap();
    session.rekey(own(1), &peer, 0).unwrap();
    let after = session.seal(b"same", 0).unwrap();
    assert_eq!(before.sequence, after.sequence);
    assert_ne!(before.ciphertext, after.ciphertext);
}

#[test]
fn a_key_ends_with_its_lifetime() {
    let born = 5_000;
    let (mut initiator, mut responder) = pair(born);
    assert!(!initiator.needs_rekey(born + SESSION_KEY_LIFETIME_MS / 2 - 1));
    assert!(initiator.needs_rekey(born + SESSION_KEY_LIFETIME_MS / 2));
    let end = born + SESSION_KEY_LIFETIME_MS;
    let late = initiator.seal(b"late", end - 1).unwrap();
    let later = initiator.seal(b"later", end - 1).unwrap();
    assert_eq!(initiator.seal(b"over", end), Err(SessionError::Expired));
    assert!(responder.open(&late, end + SESSION_KEY_OVERLAP_MS - 1).is_ok());
    assert_eq!(responder.open(&later, end + SESSION_KEY_OVERLAP_MS), Err(SessionError::Expired));
}

#[test]
fn either_side_asks_for_a_key_at_half_its_messages() {
    let (mut initiator, mut responder) = pair(0);
    initiator.current.skip_to(SESSION_KEY_MESSAGES_MAX / 2);
    assert!(initiator.needs_rekey(0));
    assert!(!responder.needs_rekey(0));
    responder.open(&initiator.seal(b"half", 0).unwrap(), 0).unwrap();
    assert!(responder.needs_rekey(0));
}
