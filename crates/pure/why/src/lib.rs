//! Why did it die: from what the API shows of a pod, a workload or a node to an account that a
//! person reads. Pure: objects, events and log lines come in, an [`Account`] goes out; nothing is
//! asked of anybody and no clock is read.
//!
//! ```text
//!   objects, events, log lines ──► pod │ gone │ workload │ node ──► Account ──┬── its JSON
//!                                      │                                        └── render: text
//!                 container: what ended it, what keeps it from starting (crate `diagnosis`)
//!                 placement: what closes nodes to a pod
//!                 node_size, stranded_volumes: why no node can ever take it
//!                 probe_errors: probes that could not be run
//!                 oom_events: processes that were killed in a container that runs on
//!                 course:    how often it ended, over one pod or many
//!                 history:   what happened in order, repeats folded into one entry
//!                 climb:     what the ladder decided, and what is next
//!                 left:      which pods of a workload are gone and left something
//!                 restarts, with_pod: who ended a container that did not end by itself
//! ```
//!
//! An account says only what it has evidence for. Of the ends of a container the API keeps the
//! number and the last one, so that is what is told: how often it ended, and how it ended last.
#![forbid(unsafe_code)]

mod account;
mod climb;
mod condition;
mod container;
mod course;
mod events;
mod evidence;
mod gone;
mod groups;
mod history;
mod job;
mod left;
mod node;
mod node_size;
mod oom_events;
mod placement;
mod pod;
mod probe_errors;
mod remembered;
mod render;
mod restarts;
mod stranded_volumes;
mod subject;
mod with_pod;
mod words;
mod workload;

pub use account::{
    Account, AccountState, ClosedNodes, ContainerAccount, ExamplePod, HistoryEntry, HistorySource,
    LadderAccount, MemoryAccount, NextEvent, PodGroup,
};
pub use evidence::{GoneEvidence, NodeEvidence, PodEvidence, WorkloadEvidence, WorkloadObjects};
pub use gone::explain_gone;
pub use left::{WorkloadRemains, left_behind};
pub use node::explain_node;
pub use placement::waits_for_node;
pub use pod::explain_pod;
pub use rekindle_diagnosis::Cause;
pub use remembered::asked_for;
pub use render::render;
pub use workload::explain_workload;
