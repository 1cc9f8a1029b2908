//! How a decision meets the API, without a client: a write becomes a request, and the answer
//! becomes an outcome.
//!
//! ```text
//!   Write ─► request_for ─► Request ─(driver sends)─► text ───► outcome_of_success ─► Outcome
//!                                                 └─► Status ─► outcome_of_refusal ─┘
//! ```
//! A driver that gets no answer gives
//! [`WriteResult::Unknown`](rekindle_controllers::WriteResult::Unknown).

mod answers;
mod metric_queries;
mod objects;
mod paths;
mod readings;
mod requests;
mod scales;
mod usage;

pub use answers::{
    budget_refusal, is_expected_event_refusal, outcome_of_refusal, outcome_of_success, stored_kind,
};
pub use metric_queries::{metric_request, values_of_success};
pub use objects::object_from_json;
pub use paths::{PathError, collection, path};
pub use readings::{READING_BYTES_MAX, READING_TIMEOUT, reason_of_refusal};
pub use requests::{WriteRequestError, event_requests, request_for};
pub use scales::{scale_of_success, scale_request};
pub use usage::{usage_of_success, usage_request};

#[cfg(test)]
mod tests;
