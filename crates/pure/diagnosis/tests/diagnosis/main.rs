//! Which reasons are known, and how each of them is read.
#![allow(clippy::disallowed_methods, reason = "a test reads source files")]

mod known_reasons;
mod readings;
