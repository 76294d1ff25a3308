//! Every fault of the table, once, in the order of a fixed seed.

use std::time::Duration;

use aip_chaos::campaign::{Plan, run};
use aip_chaos::faults::TABLE;

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_lost_or_doubled_whatever_fault_of_the_table_comes() {
    let plan = Plan {
        seed: 1,
        rounds: TABLE.len(),
        lasts: Duration::from_secs(600),
        per_second: 6.0,
        judged_every: 6,
        loud: true,
    };
    let report = run(plan).await;
    println!("{report}");
    assert!(report.wrong.is_empty(), "{report}");
    for fault in TABLE {
        assert!(report.fired.contains_key(fault.name), "{} did not fire: {report}", fault.name);
    }
}
