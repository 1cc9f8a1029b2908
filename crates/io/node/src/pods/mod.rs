//! The pods of this node.
//!
//! ```text
//!  API watch ─┐                     ┌► Worker: a loop over PodDriver ─► runtime, network,
//!  PodRestarts┼─► Manager ── inbox ─┤     │    │    │                   volumes
//!  runtime ───┘   (one task)        └► …  │    │    └► Recorder (one task): Events
//!  events                                 │    └► StatusWriter: the pod's status in the API
//!                                         └► the journal, written before the next action
//! ```

mod actions;
mod coalescing_writer;
mod container_tasks;
mod etc_files;
mod inbox;
mod index;
mod journal_file;
mod manager;
mod placement;
mod recorder;
mod recovery;
mod resolver;
mod restarts;
mod room;
mod shown_by;
mod snapshot;
mod spec_change;
mod status_writer;
mod termination_message;
#[cfg(test)]
mod tests;
mod worker;

pub(crate) use index::{PodIndex, PodView};
pub(crate) use manager::{Manager, PodRules};
pub(crate) use recorder::{EventRecorder, node_reference};
pub(crate) use recovery::{delete_object, pod_ref};
pub(crate) use resolver::PodResolverSources;
pub(crate) use restarts::SharedRestartOwners;
pub(crate) use room::NodeRoom;
pub(crate) use snapshot::sandbox_network_ids;
pub(crate) use status_writer::{StatusWriter, answered};
