//! Who a process is.

use serde::{Deserialize, Serialize};

/// What the first process of a container was given, as `status.containerStatuses[*].user.linux`
/// shows it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ContainerUser {
    /// Its user.
    pub uid: u32,
    /// Its primary group.
    pub gid: u32,
    /// All of its groups, the primary one among them, in ascending order.
    pub groups: Vec<u32>,
}
