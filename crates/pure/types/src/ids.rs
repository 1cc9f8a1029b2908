//! Identities. A container attempt is named by (pod UID, sandbox attempt, container, attempt);
//! every runtime action is idempotent by that key, and a late result carries it, so that it can be
//! told from a current one.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The UID of a pod: it stays the same over every restart of the pod in place.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct PodUid(pub String);

/// The name of a container within its pod, unique over init, regular and ephemeral containers.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ContainerName(pub String);

/// Counts the sandboxes of a pod from 0: one more at each whole-pod restart.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct SandboxAttempt(pub u32);

/// Counts the starts of a container from 0: equal to its `restartCount`. Never falls while the
/// pod's UID lives.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct ContainerAttempt(pub u32);

/// Which pod, in words for people and with the UID that makes it one certain pod.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PodRef {
    /// The namespace.
    pub namespace: String,
    /// The name.
    pub name: String,
    /// The UID.
    pub uid: PodUid,
}

impl SandboxAttempt {
    /// The one after this.
    pub const fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

impl ContainerAttempt {
    /// The one after this.
    pub const fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

impl fmt::Display for PodUid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for ContainerName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for SandboxAttempt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for ContainerAttempt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl PodRef {
    /// `name_namespace(uid)`, as the kubelet's messages name a pod.
    pub fn in_full(&self) -> String {
        format!("{}_{}({})", self.name, self.namespace, self.uid)
    }
}

impl fmt::Display for PodRef {
    /// `namespace/name`, as errors and log lines name a pod.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}
