//! The pod's volumes: made ready once in each agent's time before the sandbox, and made new by a
//! restart that says so.
//!
//! ```text
//!  Unready ─► Ready ─► Stale (RefreshVolumes) ─► Remount (MountVolumes) ─► Ready
//!               └──────── a container is added ────────┘
//! ```
//! A refresh waits until no container runs and no old sandbox may hold one. The sandbox waits for
//! the first mount as in the kubelet, but not for a refresh: both go on at the same time.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::Pod;
use rekindle_types::Tick;
use rekindle_types::mounted_volumes::mounted_volumes;

use crate::action::Action;
use crate::backoff::{RetryDelays, Task};
use crate::core::PodCore;
use crate::event::{ActionError, Outcome};
use crate::key::ActionId;
use crate::outbox::Pending;
use crate::texts;

/// Where the volumes stand.
#[derive(Debug, PartialEq)]
pub(crate) enum Volumes {
    /// They were not made ready in this agent's time.
    Unready(Task),
    /// Containers may use them.
    Ready,
    /// emptyDir is to be made new.
    Stale(Task),
    /// It was, or a container was added that mounts something more: the rest is made ready again.
    Remount(Task),
}

impl Volumes {
    pub(crate) fn is_ready(&self) -> bool {
        match self {
            Self::Ready => true,
            Self::Unready(_) | Self::Stale(_) | Self::Remount(_) => false,
        }
    }

    pub(crate) fn let_sandbox_start(&self) -> bool {
        match self {
            Self::Unready(_) => false,
            Self::Ready | Self::Stale(_) | Self::Remount(_) => true,
        }
    }

    pub(crate) fn deadline(&self) -> Option<Tick> {
        self.task().and_then(Task::deadline)
    }

    pub(crate) fn is_in_flight(&self) -> bool {
        self.task().is_some_and(Task::is_in_flight)
    }

    fn task(&self) -> Option<&Task> {
        match self {
            Self::Unready(task) | Self::Stale(task) | Self::Remount(task) => Some(task),
            Self::Ready => None,
        }
    }
}

impl PodCore {
    /// The spec has changed from `old`: what an added container mounts and nobody did before is
    /// made ready with the rest. An answer to what was asked for until now is not waited for.
    pub(crate) fn mount_further(&mut self, old: &Pod) {
        let names = |pod: &Pod| -> BTreeSet<String> {
            let names = pod.spec.as_ref().map(mounted_volumes).unwrap_or_default();
            names.into_iter().map(str::to_owned).collect()
        };
        if names(&self.pod).is_subset(&names(old)) {
            return;
        }
        self.volumes = match self.volumes {
            Volumes::Unready(_) => Volumes::Unready(Task::due()),
            Volumes::Ready | Volumes::Remount(_) => Volumes::Remount(Task::due()),
            Volumes::Stale(_) => return, // all is mounted after it
        };
        self.moved = true;
    }

    pub(crate) fn drive_volumes(&mut self) {
        let may_refresh = self.no_process_is_left();
        let now = self.now;
        let (action, task) = match &mut self.volumes {
            Volumes::Ready => return,
            Volumes::Unready(task) | Volumes::Remount(task) => (Action::MountVolumes, task),
            Volumes::Stale(task) if may_refresh => (Action::RefreshVolumes, task),
            Volumes::Stale(_) => return,
        };
        if task.is_due(now) {
            task.begin(self.outbox.act(action, Pending::Volumes));
            self.moved = true;
        }
    }

    pub(crate) fn volumes_answered(&mut self, id: ActionId, result: Result<Outcome, ActionError>) {
        let now = self.now;
        let task = match &mut self.volumes {
            Volumes::Ready => return,
            Volumes::Unready(task) | Volumes::Stale(task) | Volumes::Remount(task) => task,
        };
        if !task.is(id) {
            return;
        }
        match result {
            Ok(_) => {
                self.volumes = match self.volumes {
                    Volumes::Unready(_) | Volumes::Remount(_) | Volumes::Ready => Volumes::Ready,
                    Volumes::Stale(_) => Volumes::Remount(Task::due()),
                };
            }
            Err(error) => {
                task.failed(now, RetryDelays::VOLUMES);
                self.emit(texts::failed_mount(&error.message));
            }
        }
    }
}
