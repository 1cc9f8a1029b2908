//! Whatever happens, in whatever order, with an agent that is killed between any two actions: the
//! world checks each action (numbers, journal, one process a container, nothing below a refresh, no
//! right that the first start did not have), and after the faults the pod comes to its end.
//!
//! The runtime of the world panics when a container is started twice, beside itself, or with a
//! number that is not starts minus one; when a number or an attempt is used that is not in the
//! journal; when emptyDir is refreshed below a process.

mod agent;
mod converging;
mod happenings;
mod nonsense;
mod rest;
mod rights;
mod shapes;
mod verdicts;
#[path = "../world/mod.rs"]
mod world;
