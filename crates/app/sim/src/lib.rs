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
mod load;
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

pub use agent::AgentTally;
pub use availability::AvailabilityTotal;
pub use behaviour::{Behaviour, BehaviourRemedy, DefaultBehaviour, ExitRule};
pub use campaign::{Campaign, CampaignFailure, CampaignSummary, FAULTS_END, REST_WITHIN};
pub use entropy::Seeded;
pub use error::SimError;
pub use faults::{
    FaultRates, Faults, InvalidPatch, NodeOperation, NodeReturn, PowerLossSync, WatchRecovery,
    WorldEvent,
};
pub use known_bugs::KnownBug;
pub use leaders::{Fencing, LeaderWorld};
pub use load::PodLoad;
pub use outcome::PolicyOutcome;
pub use report::ScenarioReport;
pub use scenario::{Scenario, ScenarioPolicy};
pub use script::WorldChange;
pub use server::RequestFigures;
pub use timeline::{Outage, Timeline, TimelineSpan};
pub use trace::Trace;
pub use world::{BEGIN, EventRecording, UnknownFieldHandling, World};
pub use written::WriteCounts;
