//! What events and actions are matched by.

use rekindle_types::{ContainerAttempt, ContainerName, SandboxAttempt};
use serde::{Deserialize, Serialize};

/// Numbers the actions of one core in one agent process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ActionId(pub u64);

/// Names one start of one container in one sandbox of this pod. An event that carries another one
/// than the current is late and changes nothing.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ContainerStartKey {
    /// The sandbox it was made in.
    pub sandbox: SandboxAttempt,
    /// The container.
    pub name: ContainerName,
    /// Which start.
    pub attempt: ContainerAttempt,
}
