//! What the crate promises: classification by tables, queues by properties.

mod bench;
mod classification;
mod fairness;
mod levels;
mod maintenance;
