//! The wall clock, read in one place.

use aip_kernel::Millis;
use aip_wire::Timestamp;

pub fn now_ms() -> Millis {
    Timestamp::now().as_ms()
}
