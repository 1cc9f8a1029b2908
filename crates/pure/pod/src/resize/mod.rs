//! Resources that change while the pod runs (KEP-1287, KEP-5419): wanted → granted → in force.
//!
//! ```text
//!   spec            the node             the journal                            kernel
//!  wanted ── asks ──► granted ── kept ──► Raise ──► Containers ──► Lower ──► Settled
//!    ▲                   │                  │ the pod's    │ in place, or by     │ the pod's
//!    │  Deferred: later  │                  │ limits up    │ a restart           │ limits down
//!    └─ Infeasible: never┘                  └── tried again on failure ──────────┘
//! ```
//! The grant is in the journal before the first limit is changed, so that an agent that was killed
//! in between goes on where it was: every step may be repeated. What starts in between starts with
//! what was granted. Order, conditions, events and messages are the kubelet's
//! (`pkg/kubelet/allocation`, `kuberuntime.doPodResizeAction`). Two differences: what failed is
//! tried again after 1 s doubling to 10 s, and its event is given once for each resize.

mod conditions;
mod request;
mod shown;
mod texts;

use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use rekindle_types::resources::{DEFERRED, INFEASIBLE, RESIZE_IN_PROGRESS, RESIZE_PENDING};
use rekindle_types::{SandboxAttempt, Tick};

pub(crate) use conditions::{OWNED, conditions};

use crate::action::{CoreAction, LimitStep};
use crate::allocation::Allocation;
use crate::backoff::{RetriedTask, RetryDelays};
use crate::event::{ActionError, ActionOutcome};
use crate::journal::{Journal, ResizeStanding, ResourcesRecord};
use crate::key::ActionId;
use crate::outbox::{Outbox, PendingAnswer};

/// The pod's resources.
#[derive(Debug)]
pub(crate) struct Resize {
    granted: Arc<Allocation>,
    /// The object with what was granted in place of what is wanted.
    granted_pod: Arc<Pod>,
    /// The same one while nothing else is wanted than was granted.
    wanted: Arc<Allocation>,
    /// The request that is open: the node was asked, and has not granted it.
    open_ticket: Option<u64>,
    /// Why the newest request is not granted; of the one before as long as the node has not said.
    refusal: Option<ResizeRefusal>,
    /// Counts the requests of this core.
    tickets: u64,
    progress: LimitProgress,
    /// Why the step under way failed the last time.
    error: Option<String>,
}

/// What the node says to a request that it does not grant.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ResizeRefusal {
    pub(crate) reason: &'static str,
    pub(crate) message: String,
    pub(crate) generation: i64,
}

/// How far what was granted is in force.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum LimitProgress {
    /// All of it is.
    Settled,
    /// The pod's limits are raised, where they rise.
    Raise(RetriedTask),
    /// The containers get theirs.
    Containers,
    /// The pod's limits are lowered, where they fall.
    Lower(RetriedTask),
}

impl Resize {
    /// As an earlier agent left it, or as the API shows it when there is no journal.
    pub(crate) fn restore(pod: &Arc<Pod>, journal: &Journal) -> Self {
        let (granted, standing) = match &journal.resources {
            Some(record) => (record.granted.clone(), record.standing),
            None => (Arc::new(Allocation::shown_by(pod)), shown_standing(pod)),
        };
        let wanted = granted.or_wanted_by(pod);
        let error = shown::shown_error(pod, granted.generation);
        Self {
            granted_pod: granted.in_place_of(&wanted, pod),
            open_ticket: None,
            refusal: ResizeRefusal::shown_by(pod).filter(|_| !wanted.same_amounts(&granted)),
            granted,
            wanted,
            tickets: 0,
            error: match standing {
                ResizeStanding::Settled => None,
                ResizeStanding::UnderWay => error,
            },
            progress: match standing {
                ResizeStanding::Settled => LimitProgress::Settled,
                ResizeStanding::UnderWay => LimitProgress::Raise(RetriedTask::due()),
            },
        }
    }

    /// As the journal is to have it.
    pub(crate) fn record(&self) -> ResourcesRecord {
        ResourcesRecord { granted: self.granted.clone(), standing: self.standing() }
    }

    /// Whether the journal has it so.
    pub(crate) fn is_recorded(&self, record: Option<&ResourcesRecord>) -> bool {
        record.is_some_and(|ResourcesRecord { granted, standing }| {
            *standing == self.standing()
                && (Arc::ptr_eq(granted, &self.granted) || **granted == *self.granted)
        })
    }

    fn standing(&self) -> ResizeStanding {
        match self.progress {
            LimitProgress::Settled => ResizeStanding::Settled,
            LimitProgress::Raise(_) | LimitProgress::Containers | LimitProgress::Lower(_) => {
                ResizeStanding::UnderWay
            }
        }
    }

    /// What the node granted.
    pub(crate) fn granted(&self) -> &Arc<Allocation> {
        &self.granted
    }

    /// The object with what was granted in place of what is wanted.
    pub(crate) fn granted_pod(&self) -> &Arc<Pod> {
        &self.granted_pod
    }

    pub(crate) fn progress(&self) -> LimitProgress {
        self.progress
    }

    pub(crate) fn refusal(&self) -> Option<&ResizeRefusal> {
        self.refusal.as_ref()
    }

    pub(crate) fn is_settled(&self) -> bool {
        self.progress == LimitProgress::Settled
    }

    pub(crate) fn error(&self) -> Option<&str> {
        self.error.as_deref()
    }

    pub(crate) fn deadline(&self) -> Option<Tick> {
        match &self.progress {
            LimitProgress::Raise(task) | LimitProgress::Lower(task) => task.deadline(),
            LimitProgress::Settled | LimitProgress::Containers => None,
        }
    }

    /// Has the limits of the pod as a whole changed.
    pub(crate) fn update_sandbox(
        &mut self,
        attempt: SandboxAttempt,
        step: LimitStep,
        outbox: &mut Outbox,
    ) {
        if let LimitProgress::Raise(task) | LimitProgress::Lower(task) = &mut self.progress {
            let action = CoreAction::UpdateSandbox { attempt, step };
            task.begin(outbox.act(action, PendingAnswer::SandboxUpdate));
        }
    }

    /// All containers have what was granted to them.
    pub(crate) fn containers_are_done(&mut self) {
        self.progress = LimitProgress::Lower(RetriedTask::due());
    }

    pub(crate) fn sandbox_update_answered(
        &mut self,
        now: Tick,
        id: ActionId,
        result: Result<ActionOutcome, ActionError>,
        outbox: &mut Outbox,
    ) {
        let (task, next) = match &mut self.progress {
            LimitProgress::Raise(task) => (task, LimitProgress::Containers),
            LimitProgress::Lower(task) => (task, LimitProgress::Settled),
            LimitProgress::Settled | LimitProgress::Containers => return,
        };
        if !task.is(id) {
            return;
        }
        match result {
            Ok(_) => {
                self.progress = next;
                if self.is_settled() {
                    self.error = None;
                    outbox.emit(texts::completed(&self.granted_pod, self.granted.generation));
                }
            }
            Err(error) => {
                task.failed(now, RetryDelays::USUAL);
                self.failed(error, outbox);
            }
        }
    }

    /// A step failed. It is told once for each resize.
    pub(crate) fn failed(&mut self, error: ActionError, outbox: &mut Outbox) {
        if self.error.is_none() {
            let generation = self.granted.generation;
            outbox.emit(texts::failed(&self.granted_pod, generation, &error.message));
        }
        self.error = Some(error.message);
    }
}

impl ResizeRefusal {
    /// What an earlier agent was told.
    fn shown_by(pod: &Pod) -> Option<Self> {
        let mut conditions = pod.status.as_ref()?.conditions.iter().flatten();
        let condition = conditions.find(|condition| condition.type_ == RESIZE_PENDING)?;
        let reason = condition.reason.as_deref()?;
        Some(Self {
            reason: [DEFERRED, INFEASIBLE].into_iter().find(|known| *known == reason)?,
            message: condition.message.clone().unwrap_or_default(),
            generation: condition.observed_generation.unwrap_or_default(),
        })
    }
}

fn shown_standing(pod: &Pod) -> ResizeStanding {
    let mut conditions = pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
    if conditions.any(|condition| condition.type_ == RESIZE_IN_PROGRESS) {
        ResizeStanding::UnderWay
    } else {
        ResizeStanding::Settled
    }
}
