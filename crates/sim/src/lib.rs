//! The simulator: the real API core, controllers, ladder and pod cores in one thread and virtual time, over a fake runtime and a disk
//! in memory. What runs here is what runs in production; only the drivers around it are this crate's.
#![forbid(unsafe_code)]

mod agent;
mod behaviour;
mod entropy;
mod error;
mod report;
mod scenario;
mod server;
mod trace;
mod world;

pub use behaviour::{Behaviour, Exits, MendedBy};
pub use entropy::Seeded;
pub use error::SimError;
pub use report::{Outcome, Report};
pub use scenario::{Policy, Scenario};
pub use server::Figures;
pub use trace::Trace;
pub use world::{BEGIN, World};
