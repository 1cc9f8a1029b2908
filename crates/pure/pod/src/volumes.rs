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

use crate::action::CoreAction;
use crate::backoff::{RetriedTask, RetryDelays};
use crate::event::{ActionError, ActionOutcome};
use crate::journal::VolumesRecord;
use crate::key::ActionId;
use crate::mounted_volumes::mounted_volumes;
use crate::outbox::{Outbox, PendingAnswer};
use crate::texts;

/// The volumes of the pod.
#[derive(Debug)]
pub(crate) struct PodVolumes {
    stage: VolumesStage,
}

/// How far the volumes are.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum VolumesStage {
    /// They were not made ready in this agent's time.
    Unready(RetriedTask),
    /// Containers may use them.
    Ready,
    /// emptyDir is to be made new.
    Stale(RetriedTask),
    /// It was, or a container was added that mounts something more: the rest is made ready again.
    Remount(RetriedTask),
}

impl PodVolumes {
    /// As an earlier agent left them.
    pub(crate) fn new(record: VolumesRecord) -> Self {
        let stage = match record {
            VolumesRecord::Kept => VolumesStage::Unready(RetriedTask::due()),
            VolumesRecord::RefreshDue => VolumesStage::Stale(RetriedTask::due()),
        };
        Self { stage }
    }

    /// As the journal is to have them.
    pub(crate) fn record(&self) -> VolumesRecord {
        match self.stage {
            VolumesStage::Stale(_) => VolumesRecord::RefreshDue,
            VolumesStage::Unready(_) | VolumesStage::Ready | VolumesStage::Remount(_) => {
                VolumesRecord::Kept
            }
        }
    }

    pub(crate) fn stage(&self) -> VolumesStage {
        self.stage
    }

    pub(crate) fn is_ready(&self) -> bool {
        self.stage == VolumesStage::Ready
    }

    pub(crate) fn let_sandbox_start(&self) -> bool {
        match self.stage {
            VolumesStage::Unready(_) => false,
            VolumesStage::Ready | VolumesStage::Stale(_) | VolumesStage::Remount(_) => true,
        }
    }

    pub(crate) fn deadline(&self) -> Option<Tick> {
        self.task().and_then(RetriedTask::deadline)
    }

    pub(crate) fn is_in_flight(&self) -> bool {
        self.task().is_some_and(RetriedTask::is_in_flight)
    }

    fn task(&self) -> Option<&RetriedTask> {
        match &self.stage {
            VolumesStage::Unready(task)
            | VolumesStage::Stale(task)
            | VolumesStage::Remount(task) => Some(task),
            VolumesStage::Ready => None,
        }
    }

    /// emptyDir is to be made new.
    pub(crate) fn refresh(&mut self) {
        self.stage = VolumesStage::Stale(RetriedTask::due());
    }

    /// A container was created since the refresh fell due, so it was done.
    pub(crate) fn refresh_was_done(&mut self) {
        if let VolumesStage::Stale(_) = self.stage {
            self.stage = VolumesStage::Unready(RetriedTask::due());
        }
    }

    /// The spec has changed from `old` to `new`: what an added container mounts and no other did
    /// before is made ready with the rest. An answer to what was asked for until now is not waited
    /// for.
    pub(crate) fn mount_further(&mut self, old: &Pod, new: &Pod) {
        let names = |pod: &Pod| -> BTreeSet<String> {
            let names = pod.spec.as_ref().map(mounted_volumes).unwrap_or_default();
            names.into_iter().map(str::to_owned).collect()
        };
        if names(new).is_subset(&names(old)) {
            return;
        }
        self.stage = match self.stage {
            VolumesStage::Unready(_) => VolumesStage::Unready(RetriedTask::due()),
            VolumesStage::Ready | VolumesStage::Remount(_) => {
                VolumesStage::Remount(RetriedTask::due())
            }
            VolumesStage::Stale(_) => return, // all is mounted after it
        };
    }

    /// Asks for what is due. A refresh waits while a process may be left: `may_refresh`.
    pub(crate) fn drive(&mut self, now: Tick, may_refresh: bool, outbox: &mut Outbox) {
        let (action, task) = match &mut self.stage {
            VolumesStage::Ready => return,
            VolumesStage::Unready(task) | VolumesStage::Remount(task) => {
                (CoreAction::MountVolumes, task)
            }
            VolumesStage::Stale(task) if may_refresh => (CoreAction::RefreshVolumes, task),
            VolumesStage::Stale(_) => return,
        };
        if task.is_due(now) {
            task.begin(outbox.act(action, PendingAnswer::Volumes));
        }
    }

    pub(crate) fn answered(
        &mut self,
        now: Tick,
        id: ActionId,
        result: Result<ActionOutcome, ActionError>,
        outbox: &mut Outbox,
    ) {
        let (task, next) = match &mut self.stage {
            VolumesStage::Ready => return,
            VolumesStage::Unready(task) | VolumesStage::Remount(task) => {
                (task, VolumesStage::Ready)
            }
            VolumesStage::Stale(task) => (task, VolumesStage::Remount(RetriedTask::due())),
        };
        if !task.is(id) {
            return;
        }
        match result {
            Ok(_) => self.stage = next,
            Err(error) => {
                task.failed(now, RetryDelays::VOLUMES);
                outbox.emit(texts::failed_mount(&error.message));
            }
        }
    }
}
