//! aip-sandbox
