//! aip-e2e
