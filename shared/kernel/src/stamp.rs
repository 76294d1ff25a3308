//! Ids that follow from a record, so that every replica, and every later reader, finds the same ones.
//!
//! A stamp has the form of a UUID version 7: the log time, then bits of the record id's digest, and in its last byte
//! the place within the record. Cleared of that byte it is the record's own stamp, under which the audit index holds
//! the record: an id leads back to where it came from without a row of its own.

use crate::{Hash, Millis};

/// Thirty-two lower-case hexadecimal digits.
pub fn stamp(log_time: Millis, record_id: &str, place: u8) -> String {
    let digest = Hash::of(record_id.as_bytes());
    let bits = digest.0.iter().take(16).fold(0_u128, |bits, byte| (bits << 8) | u128::from(*byte));
    let time = u128::from(log_time & 0xffff_ffff_ffff) << 80;
    let version = 0x7_u128 << 76;
    let rand_a = bits & (0xfff << 64);
    let variant = 0x2_u128 << 62;
    let rand_b = bits & 0x3fff_ffff_ffff_ff00;
    format!("{:032x}", time | version | rand_a | variant | rand_b | u128::from(place))
}

/// The stamp of the record that an id was made from; none when it can't be one of ours.
pub fn record_stamp(id: &str, prefix: &str) -> Option<String> {
    let digits = id.strip_prefix(prefix)?;
    let ours = digits.len() == 32 && digits.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    let (record, _place) = if ours { digits.split_at_checked(30)? } else { return None };
    Some(format!("{record}00"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stamp_is_a_uuid_of_version_seven_and_leads_back_to_its_record() {
        let (time, record) = (1_760_000_000_123, "rec_1");
        let digits = stamp(time, record, 3);
        let uuid = uuid::Uuid::parse_str(&digits).unwrap();
        assert_eq!(uuid.get_version_num(), 7);
        assert_eq!(uuid.get_variant(), uuid::Variant::RFC4122);
        assert_eq!(&digits[..12], format!("{time:012x}"));
        assert_eq!(record_stamp(&format!("rcpt_{digits}"), "rcpt_"), Some(stamp(time, record, 0)));
        assert_ne!(stamp(time, record, 0), stamp(time, "rec_2", 0));
    }

    #[test]
    fn foreign_ids_lead_nowhere() {
        for id in ["", "rcpt_", "rcpt_xyz", "act_00000000000000000000000000000000"] {
            assert_eq!(record_stamp(id, "rcpt_"), None, "{id}");
        }
        let upper = format!("rcpt_{}", stamp(1, "r", 0).replace('7', "A"));
        assert_eq!(record_stamp(&upper, "rcpt_"), None);
    }
}
