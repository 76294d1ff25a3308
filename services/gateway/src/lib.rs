//! aip-gateway
