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
//! in between goes on where it was: every step may be repeated. What starts meanwhile starts with
//! what was granted. Order, conditions, events and messages are the kubelet's
//! (`pkg/kubelet/allocation`, `kuberuntime.doPodResizeAction`). Two differences: what failed is
//! tried again after 1 s doubling to 10 s, and its event is given once for each resize.

mod actuate;
mod allocation;
mod conditions;
mod request;
mod shown;
mod texts;

use std::sync::Arc;

use k8s_openapi::api::core::v1::{Pod, ResourceRequirements};
use rekindle_types::Tick;
use rekindle_types::resources::{DEFERRED, INFEASIBLE, RESIZE_IN_PROGRESS, RESIZE_PENDING};

pub use allocation::Allocation;
pub(crate) use conditions::OWNED;

use crate::backoff::Task;
use crate::journal::{Journal, ResizeStanding, ResourcesRecord};

/// The pod's resources.
#[derive(Debug)]
pub(crate) struct Resize {
    pub(crate) granted: Arc<Allocation>,
    /// The object with what was granted in place of what is wanted.
    pub(crate) granted_pod: Arc<Pod>,
    /// The same one while nothing else is wanted than was granted.
    wanted: Arc<Allocation>,
    /// The request that is open: the node was asked, and has not granted it.
    open_ticket: Option<u64>,
    /// Why the newest request is not granted; of the one before as long as the node has not said.
    refusal: Option<Refusal>,
    /// Counts the requests of this core.
    tickets: u64,
    progress: Progress,
    /// Why the step under way failed the last time.
    error: Option<String>,
}

/// What the node says to a request that it does not grant.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Refusal {
    pub(crate) reason: &'static str,
    pub(crate) message: String,
    pub(crate) generation: i64,
}

/// How far what was granted is in force.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Progress {
    /// All of it is.
    Settled,
    /// The pod's limits are raised, where they rise.
    Raise(Task),
    /// The containers get theirs.
    Containers,
    /// The pod's limits are lowered, where they fall.
    Lower(Task),
}

/// A container's limits being changed.
#[derive(Clone, Debug)]
pub(crate) struct Update {
    task: Task,
    to: ResourceRequirements,
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
            refusal: Refusal::shown_by(pod).filter(|_| !wanted.same_amounts(&granted)),
            granted,
            wanted,
            tickets: 0,
            error: match standing {
                ResizeStanding::Settled => None,
                ResizeStanding::UnderWay => error,
            },
            progress: match standing {
                ResizeStanding::Settled => Progress::Settled,
                ResizeStanding::UnderWay => Progress::Raise(Task::due()),
            },
        }
    }

    pub(crate) fn record(&self) -> ResourcesRecord {
        ResourcesRecord {
            granted: self.granted.clone(),
            standing: match self.progress {
                Progress::Settled => ResizeStanding::Settled,
                Progress::Raise(_) | Progress::Containers | Progress::Lower(_) => {
                    ResizeStanding::UnderWay
                }
            },
        }
    }

    /// The object changed.
    pub(crate) fn observe(&mut self, pod: &Arc<Pod>) {
        self.wanted = self.granted.or_wanted_by(pod);
        self.granted_pod = self.granted.in_place_of(&self.wanted, pod);
    }

    pub(crate) fn refusal(&self) -> Option<&Refusal> {
        self.refusal.as_ref()
    }

    pub(crate) fn is_settled(&self) -> bool {
        self.progress == Progress::Settled
    }

    pub(crate) fn error(&self) -> Option<&str> {
        self.error.as_deref()
    }

    pub(crate) fn deadline(&self) -> Option<Tick> {
        match &self.progress {
            Progress::Raise(task) | Progress::Lower(task) => task.deadline(),
            Progress::Settled | Progress::Containers => None,
        }
    }
}

impl Refusal {
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
