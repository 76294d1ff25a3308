//! Any bytes as an envelope. Nothing panics; what is accepted can be written again, as it came and as it was
//! understood, and is then accepted as the same.
#![no_main]

use aip_crypto::{canonical, verify_envelope};
use aip_wire::limits::REFUSAL_TEXT_BYTES_MAX;
use aip_wire::{Refusal, validate};
use libfuzzer_sys::fuzz_target;

/// A cut text ends in an ellipsis of three bytes.
const TEXT_BYTES_MAX: usize = REFUSAL_TEXT_BYTES_MAX + 3;

fuzz_target!(|bytes: &[u8]| {
    let checked = match validate::envelope(bytes) {
        Ok(checked) => checked,
        Err(refusal) => return well_formed(&refusal),
    };
    let _ = verify_envelope(checked.value());

    let canonical = canonical::to_vec(checked.value());
    let again = validate::envelope(&canonical).expect("the canonical form of an accepted envelope");
    assert_eq!(again, checked);

    let emitted = serde_json::to_vec(checked.envelope()).expect("an accepted envelope can be written");
    match validate::envelope(&emitted) {
        Ok(again) => assert_eq!(again.envelope(), checked.envelope()),
        // defaults are written out, which may exceed what the original only just kept
        Err(refusal) => {
            assert!(refusal.code.name.starts_with("aip.limit."), "emitted but refused: {refusal}")
        }
    }
});

fn well_formed(refusal: &Refusal) {
    assert!(refusal.path.is_empty() || refusal.path.starts_with('/'), "{}", refusal.path);
    assert!(!refusal.message.is_empty());
    assert!(refusal.path.len() <= TEXT_BYTES_MAX && refusal.message.len() <= TEXT_BYTES_MAX);
}
