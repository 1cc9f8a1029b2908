//! Rules in CEL (`x-kubernetes-validations`).
//!
//! The library `cel` parses expressions. Types, estimates of cost, and evaluation with a budget are
//! here: the library has no types from schemas and counts no cost (ADR 0071).

pub(crate) mod authorizer;
mod check;
mod check_calls;
mod check_operators;
pub(crate) mod cost;
pub(crate) mod device_selector;
mod estimate;
mod eval;
mod eval_macros;
mod functions;
mod instantiation;
mod list_sums;
mod messages;
mod names;
mod nesting;
mod operations;
mod parse;
pub(crate) mod policy;
pub(crate) mod rule;
pub(crate) mod run;
pub(crate) mod semver;
mod signatures;
mod text_format;
pub(crate) mod types;
mod value;
mod work;
