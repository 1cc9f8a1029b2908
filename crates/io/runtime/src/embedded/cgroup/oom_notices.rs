//! How the kernel tells that a cgroup's memory is short. Source:
//! Documentation/admin-guide/cgroup-v1/memory.rst, "OOM Control".

use std::fs::{self, File};
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;

use rustix::event::{EventfdFlags, eventfd};

use super::{CgroupError, EngineCgroups, Hierarchies};
use crate::spec::SandboxKey;

impl EngineCgroups {
    /// What becomes readable when the kernel is about to kill in a container's cgroup, and when
    /// that goes away. None in version 2: there a kill takes the whole container.
    pub(crate) fn oom_notices(
        &self,
        key: &SandboxKey,
        slot: &str,
    ) -> Result<Option<OwnedFd>, CgroupError> {
        match &self.hierarchies {
            Hierarchies::V1(trees) => {
                let folder = trees.memory().join(self.pod_path(key)).join(slot);
                v1_oom_event(&folder).map(Some)
            }
            Hierarchies::V2(_) => Ok(None),
        }
    }
}

fn v1_oom_event(folder: &Path) -> Result<OwnedFd, CgroupError> {
    let failed = |error| CgroupError::new("watch the OOM kills of cgroup", folder, error);
    let notices = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)
        .map_err(|errno| failed(errno.into()))?;
    let control = File::open(folder.join("memory.oom_control")).map_err(failed)?;
    let pair = format!("{} {}", notices.as_raw_fd(), control.as_raw_fd());
    fs::write(folder.join("cgroup.event_control"), pair).map_err(failed)?;
    Ok(notices)
}
