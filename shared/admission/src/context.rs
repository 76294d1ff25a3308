//! The trusted execution context (11.2), as admission fills it. Its form stands in `aip_wire`, so that a worker reads the
//! same type without depending on this crate.

pub use aip_wire::trusted::{
    Authority, CONTEXT_VERSION, ContextError, IdentityClaims, METADATA_KEY, PolicyResult, PrincipalRef,
    ResolvedCredential, TraceContext, TrustedContext,
};
