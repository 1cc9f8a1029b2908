//! Tables from upstream's documented rules, and properties.

mod calculator;
mod limited;
