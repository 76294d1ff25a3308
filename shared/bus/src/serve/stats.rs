//! What one endpoint has done since it started, for `$SRV.STATS`.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use serde_json::{Value, json};

#[derive(Debug)]
pub(super) struct Endpoint {
    name: String,
    subject: String,
    queue_group: String,
    requests: AtomicU64,
    errors: AtomicU64,
    processing_ns: AtomicU64,
    last_error: Mutex<String>,
}

impl Endpoint {
    pub(super) fn new(name: &str, subject: &str, queue_group: &str) -> Self {
        Self {
            name: name.to_owned(),
            subject: subject.to_owned(),
            queue_group: queue_group.to_owned(),
            requests: AtomicU64::new(0),
            errors: AtomicU64::new(0),
            processing_ns: AtomicU64::new(0),
            last_error: Mutex::default(),
        }
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Counts one request that has come to its end.
    pub(super) fn taken(&self, received: Instant, error: Option<&str>) {
        let elapsed_ns = u64::try_from(received.elapsed().as_nanos()).unwrap_or(u64::MAX);
        self.requests.fetch_add(1, Ordering::Relaxed);
        self.processing_ns.fetch_add(elapsed_ns, Ordering::Relaxed);
        if let Some(error) = error {
            self.errors.fetch_add(1, Ordering::Relaxed);
            // the tooling expects a number before the text
            *self.last_error.lock().unwrap_or_else(PoisonError::into_inner) = format!("500:{error}");
        }
    }

    pub(super) fn info(&self) -> Value {
        json!({ "name": self.name, "subject": self.subject, "queue_group": self.queue_group, "metadata": {} })
    }

    pub(super) fn stats(&self) -> Value {
        let requests = self.requests.load(Ordering::Relaxed);
        let processing_ns = self.processing_ns.load(Ordering::Relaxed);
        json!({
            "name": self.name,
            "subject": self.subject,
            "queue_group": self.queue_group,
            "num_requests": requests,
            "num_errors": self.errors.load(Ordering::Relaxed),
            "last_error": *self.last_error.lock().unwrap_or_else(PoisonError::into_inner),
            "processing_time": processing_ns,
            "average_processing_time": processing_ns.checked_div(requests).unwrap_or(0),
        })
    }
}
