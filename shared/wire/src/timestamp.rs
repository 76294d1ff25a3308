//! Points in time on the wire (section 5.2). Compared as instants, emitted in UTC. Reads no clock but in `now`.

use std::borrow::Cow;
use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

/// An RFC 3339 date and time. Any zone offset is read; `Z` is written.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(OffsetDateTime);

/// The text is not an RFC 3339 date and time with a zone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not an RFC 3339 date and time with a zone offset")]
pub struct TimestampError;

/// The last millisecond of the year 9999, the last that RFC 3339 can write.
const LAST_MS: u64 = 253_402_300_799_999;

impl Timestamp {
    pub fn now() -> Timestamp {
        Timestamp(OffsetDateTime::now_utc())
    }

    /// From milliseconds since 1970. What lies beyond the year 9999 becomes its last millisecond.
    pub fn from_ms(ms: u64) -> Timestamp {
        let nanos = i128::from(ms.min(LAST_MS)) * 1_000_000;
        Timestamp(OffsetDateTime::from_unix_timestamp_nanos(nanos).unwrap_or(OffsetDateTime::UNIX_EPOCH))
    }

    /// Milliseconds since 1970, rounded down; zero for earlier times.
    pub fn as_ms(self) -> u64 {
        u64::try_from(self.0.unix_timestamp_nanos().div_euclid(1_000_000)).unwrap_or(0)
    }

    pub fn parse(text: &str) -> Result<Timestamp, TimestampError> {
        let read = OffsetDateTime::parse(text, &Rfc3339).map_err(|_| TimestampError)?;
        // an offset may carry the instant out of the years that can be written again
        let utc = read.checked_to_offset(time::UtcOffset::UTC).ok_or(TimestampError)?;
        if (0..=9999).contains(&utc.year()) { Ok(Timestamp(utc)) } else { Err(TimestampError) }
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.format(&Rfc3339).map_err(|_| fmt::Error)?)
    }
}

impl fmt::Debug for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Serialize for Timestamp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Timestamp {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Timestamp, D::Error> {
        let text = <Cow<'de, str>>::deserialize(deserializer)?;
        Timestamp::parse(&text).map_err(serde::de::Error::custom)
    }
}

impl JsonSchema for Timestamp {
    fn schema_name() -> Cow<'static, str> {
        "Timestamp".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({ "type": "string", "format": "date-time" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offsets_name_the_same_instant() {
        let zulu = Timestamp::parse("2026-07-14T08:30:00Z").unwrap();
        assert_eq!(zulu, Timestamp::parse("2026-07-14T12:30:00+04:00").unwrap());
        assert_eq!(zulu.to_string(), "2026-07-14T08:30:00Z");
        assert_eq!(zulu, Timestamp::parse("2026-07-14t08:30:00z").unwrap());
        assert!(
            Timestamp::parse("2016-12-31T23:59:60Z").unwrap()
                < Timestamp::parse("2017-01-01T00:00:00Z").unwrap()
        );
        assert_eq!(Timestamp::from_ms(zulu.as_ms()), zulu);
        assert_eq!(Timestamp::from_ms(1_784_017_800_125).to_string(), "2026-07-14T08:30:00.125Z");
        assert_eq!(Timestamp::from_ms(u64::MAX).to_string(), "9999-12-31T23:59:59.999Z");
    }

    #[test]
    fn what_is_no_instant_is_refused() {
        for text in [
            "",
            "2026-07-14",
            "2026-07-14T08:30:00",
            "2026-02-30T00:00:00Z",
            "0000-01-01T00:00:00+23:00",
            "now",
        ] {
            assert_eq!(Timestamp::parse(text), Err(TimestampError), "{text}");
        }
        assert_eq!(Timestamp::parse("1969-01-01T00:00:00Z").unwrap().as_ms(), 0);
    }
}
