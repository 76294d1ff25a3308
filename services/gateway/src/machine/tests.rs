//! The machine on a ledger in memory: one story a file.

mod admission;
mod again;
mod approvals;
mod dispatch;
mod env;
mod evidence;
mod keys;
mod manifests;
mod queued;
mod random;
mod redrive;
mod streams;
