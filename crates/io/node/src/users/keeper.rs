//! The ranges of a node's pods, kept on the disk: a file in the pod's folder, written before there
//! is a sandbox with that range.

use std::sync::{Mutex, MutexGuard, PoisonError};

use k8s_openapi::api::core::v1::Pod;
use rekindle_runtime::{SandboxSnapshot, SandboxUsers, UserRange};
use rekindle_types::{PodRef, PodUid, causes};

use super::ids::UserIdRanges;
use super::ranges::Ranges;
use crate::durable::{self, read_json, write_json};
use crate::layout::{NodeDirs, PodDirs};

/// Why a pod gets no users of its own.
#[derive(Debug, thiserror::Error)]
pub(crate) enum UsersError {
    /// All ranges are other pods'.
    #[error("hostUsers is false, and all of the node's ranges of user ids are given to other pods")]
    NoneFree,
    /// It could not be written down.
    #[error("keep the pod's range of user ids: {0}")]
    Keep(String),
}

/// Shared by all pods of the node.
pub(crate) struct PodUsers(Mutex<Ranges>);

impl PodUsers {
    /// Takes up what earlier agents gave: what is on the disk, and what sandboxes have that stand.
    pub(crate) fn restore(ids: UserIdRanges, dirs: &NodeDirs, found: &[SandboxSnapshot]) -> Self {
        let mut ranges = Ranges::new(ids);
        for (pod, range) in found.iter().filter_map(range_of_sandbox) {
            ranges.restore(pod, range);
        }
        for pod in dirs.kept_pods() {
            if let Some(range) = read_json(&dirs.pod_users(&pod)) {
                ranges.restore(pod, range);
            }
        }
        Self(Mutex::new(ranges))
    }

    fn ranges(&self) -> MutexGuard<'_, Ranges> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whose users the pod's sandbox has, every one of them the same.
    pub(crate) fn of(
        &self,
        pod: &Pod,
        name: &PodRef,
        dirs: &PodDirs,
    ) -> Result<SandboxUsers, UsersError> {
        match pod.spec.as_ref().and_then(|spec| spec.host_users) {
            None | Some(true) => return Ok(SandboxUsers::Host),
            Some(false) => {}
        }
        let mut ranges = self.ranges();
        if let Some(range) = ranges.of(&name.uid) {
            return Ok(SandboxUsers::Own(range));
        }
        let range = ranges.take(&name.uid).ok_or(UsersError::NoneFree)?;
        match write_json(&dirs.users(), &range) {
            Ok(()) => Ok(SandboxUsers::Own(range)),
            Err(error) => {
                ranges.release(&name.uid);
                Err(UsersError::Keep(causes(&error)))
            }
        }
    }

    /// The pod has no sandbox any more and gets none.
    pub(crate) fn forget(&self, pod: &PodRef, dirs: &PodDirs) {
        match durable::remove(&dirs.users()) {
            Ok(()) => self.ranges().release(&pod.uid),
            // It stays the pod's: the next agent would take it for that, too.
            Err(error) => {
                tracing::warn!(%pod, %error, "failed to release the user ids of an ended pod")
            }
        }
    }

    /// These pods are gone, and their folders, unless there was a problem with that.
    pub(crate) fn forget_all<'a>(&self, pods: impl Iterator<Item = &'a PodUid>, dirs: &NodeDirs) {
        let mut ranges = self.ranges();
        for pod in pods.filter(|pod| !dirs.pod_root(pod).exists()) {
            ranges.release(pod);
        }
    }
}

fn range_of_sandbox(sandbox: &SandboxSnapshot) -> Option<(PodUid, UserRange)> {
    match sandbox.info.as_ref()?.namespaces.users {
        SandboxUsers::Host => None,
        SandboxUsers::Own(range) => Some((sandbox.key.pod.uid.clone(), range)),
    }
}
