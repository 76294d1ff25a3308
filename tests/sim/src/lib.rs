//! aip-sim
