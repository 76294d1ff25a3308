//! Waiting for something to become true. The only place in tests where time passes on purpose.

use std::time::{Duration, Instant};

const POLL: Duration = Duration::from_millis(10);

/// Returns when `condition` holds.
///
/// # Panics
/// It did not within `timeout`.
pub async fn wait_for<C: Future<Output = bool>>(
    what: &str,
    timeout: Duration,
    mut condition: impl FnMut() -> C,
) {
    wait_for_some(what, timeout, || {
        let holds = condition();
        async { holds.await.then_some(()) }
    })
    .await;
}

// the bounds are `FnMut() -> Future`, not `AsyncFnMut`, whose futures cannot be spawned yet
/// Returns the value as soon as `probe` has one.
///
/// # Panics
/// It had none within `timeout`.
pub async fn wait_for_some<T, P: Future<Output = Option<T>>>(
    what: &str,
    timeout: Duration,
    mut probe: impl FnMut() -> P,
) -> T {
    let until = Instant::now() + timeout;
    loop {
        // a probe that hangs must not outlive the wait
        match tokio::time::timeout(until.saturating_duration_since(Instant::now()), probe()).await {
            Ok(Some(value)) => return value,
            Ok(None) if Instant::now() < until => tokio::time::sleep(POLL).await,
            _ => panic!("waited {timeout:?} in vain for {what}"),
        }
    }
}
