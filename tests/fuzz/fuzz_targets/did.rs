//! Any bytes as a DID, and any 32 bytes as its key: one key has one spelling.
#![no_main]

use aip_crypto::Did;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(text) = std::str::from_utf8(bytes)
        && let Ok(did) = text.parse::<Did>()
    {
        assert_eq!(did.as_str(), text);
        assert_eq!(Did::from_public_key(did.public_key()), Ok(did));
    }
    if let Some(key) = bytes.first_chunk::<32>()
        && let Ok(did) = Did::from_public_key(key)
    {
        assert_eq!(did.public_key(), key);
        assert_eq!(did.as_str().parse(), Ok(did.clone()));
    }
});
