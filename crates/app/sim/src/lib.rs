//! The simulator: the real API core, controllers, ladder and pod cores in one thread and virtual
//! time, over a fake runtime and a disk in memory. What runs here is what runs in production; only
//! the drivers around it are this crate's.
#![forbid(unsafe_code)]

mod acknowledgements;
mod agent;
mod availability;
mod behaviour;
mod campaign;
mod clocks;
mod disk;
mod entropy;
mod error;
mod faults;
mod generate;
mod html;
mod kinds;
mod known_bugs;
mod leaders;
mod outcome;
mod pace;
mod report;
mod scenario;
mod script;
mod selected;
mod server;
mod spoken;
mod timeline;
mod trace;
mod world;
mod written;

pub use agent::Tally;
pub use availability::Total;
pub use behaviour::{Behaviour, Exits, MendedBy, Unchosen};
pub use campaign::{Campaign, FAULTS_END, Failure, Passed, REST_WITHIN};
pub use entropy::Seeded;
pub use error::SimError;
pub use faults::{Comeback, Deed, Faults, Invalid, NodeDeed, Rates, Relief, Sync};
pub use known_bugs::KnownBug;
pub use leaders::{Fencing, Leaders};
pub use outcome::Outcome;
pub use report::Report;
pub use scenario::{Policy, Scenario};
pub use script::Change;
pub use server::Figures;
pub use timeline::{Outage, Span, Timeline};
pub use trace::Trace;
pub use world::{BEGIN, FieldValidation, Records, World};
pub use written::Written;
