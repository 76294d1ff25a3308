//! Whether a server is fit to carry our traffic, judged from its greeting on every connect.

use aip_names::limits;

/// The oldest server that knows `persist_mode`.
const OLDEST: (u32, u32) = (2, 12);

/// # Errors
/// A sentence about the first thing that does not fit.
pub(crate) fn judge(version: &str, payload_bytes_max: usize) -> Result<(), String> {
    let mut numbers = version.split('.').map(|part| part.parse::<u32>().ok());
    match (numbers.next().flatten(), numbers.next().flatten()) {
        (Some(major), Some(minor)) if (major, minor) >= OLDEST => {}
        _ => return Err(format!("version {version:?} is older than {}.{}", OLDEST.0, OLDEST.1)),
    }
    let needed = limits::NATS_PAYLOAD_BYTES_MAX;
    if payload_bytes_max < needed {
        return Err(format!("its max_payload is {payload_bytes_max} bytes, {needed} are needed"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_servers_and_small_payloads_are_unfit() {
        let enough = limits::NATS_PAYLOAD_BYTES_MAX;
        assert_eq!(judge("2.12.0", enough), Ok(()));
        assert_eq!(judge("2.15.1", enough + 1), Ok(()));
        assert_eq!(judge("3.0.0", enough), Ok(()));
        assert!(judge("2.11.9", enough).unwrap_err().contains("2.11.9"));
        assert!(judge("2.9.0", enough).is_err() && judge("", enough).is_err());
        assert!(judge("2.15.1", enough - 1).unwrap_err().contains("max_payload"));
    }
}
