//! What the ladder decides, from scenarios, statuses and histories of any kind.
#![allow(
    unreachable_pub,
    clippy::disallowed_methods,
    reason = "tests, one of which reads its data; the walk is shared with the benchmark"
)]

mod anew;
mod edited_ledgers;
mod groups;
mod properties;
mod reasons;
mod register;
mod scenarios;
mod statuses;
mod world;
