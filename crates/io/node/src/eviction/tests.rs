//! Thresholds, ranking, limits and admission: tables after the documentation on node-pressure
//! eviction, and properties.

mod limits;
mod pods;
mod thresholds;
