//! User ids of the pods that have their own (`hostUsers: false`, KEP-127): each gets a range of the
//! host's that no other pod of the machine has.
//!
//! [`UserIdRanges`] says which ids a node has to give, [`ranges`] who has which of them, and
//! [`PodUsers`] keeps that with the pod's other files on the disk: a pod has the same range in
//! every sandbox, and after a restart of the agent.

mod ids;
mod keeper;
mod ranges;

pub use ids::{UserIdRanges, UserIdsError};
pub(crate) use keeper::PodUsers;
