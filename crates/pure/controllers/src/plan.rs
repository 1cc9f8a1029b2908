//! What a reconcile wants done, and how it went.

use k8s_openapi::api::apps::v1::{ControllerRevision, ReplicaSet};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Endpoints, Namespace, PersistentVolumeClaim, Pod};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use rekindle_types::Tick;
use rekindle_types::v1alpha1::{PodRestart, RestartLedger};
use serde_json::Value;

use crate::creation_brake::CreationSeries;
use crate::events::EventNote;
use crate::horizontal_autoscaler::ReplicaRecommendation;
use crate::scheduler::SchedulingAttempt;
use crate::{NamespacedName, ObjectChange, ObjectId, ResourceKind, ViewObject};

/// The answer of a reconcile. Empty when nothing is to be done.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct WritePlan {
    /// Writes in order of the batches. Those of a batch may be carried out at the same time; a
    /// batch is begun only when every write of the one before succeeded.
    pub batches: Vec<Vec<PlannedWrite>>,
    /// Events to record whatever becomes of the writes.
    pub notes: Vec<EventNote>,
    /// When the key must be looked at again although nothing changed. The driver keeps one such
    /// time per key.
    pub again_at: Option<Tick>,
    /// A pod was looked at and fits no node. The driver tells the view at once
    /// ([`ClusterView::remember`](crate::ClusterView::remember)).
    pub unfit: Option<SchedulingAttempt>,
    /// Series whose creations are held back, as `notes` say for the first time. The driver tells
    /// the view at once
    /// ([`ClusterView::creation_pauses_told`](crate::ClusterView::creation_pauses_told)).
    pub paused: Vec<CreationSeries>,
    /// What the metrics of an autoscaler ask for. The driver gives it to the view at once
    /// ([`ClusterView::recommend`](crate::ClusterView::recommend)).
    pub recommendation: Option<ReplicaRecommendation>,
    /// A quota was counted, whether its status changes or not. The driver tells the view at once
    /// ([`ClusterView::quota_counted`](crate::ClusterView::quota_counted)).
    pub counted_quota: Option<NamespacedName>,
}

/// One write and what is said about it.
#[derive(Clone, Debug, PartialEq)]
pub struct PlannedWrite {
    /// What is written.
    pub write: WriteOperation,
    /// The events about its success or failure.
    pub report: Option<WriteNotes>,
}

/// The events about a write.
#[derive(Clone, Debug, PartialEq)]
pub struct WriteNotes {
    /// Recorded when it succeeds, in this order.
    pub success: Vec<EventNote>,
    /// Recorded when the server refuses it; the server's message is appended to this one's.
    pub failure: EventNote,
}

/// One write, or a check that must hold before the next batch.
#[derive(Clone, Debug, PartialEq)]
pub enum WriteOperation {
    /// Create it. A name that is taken already is a refusal, never a double.
    Create(NewObject),
    /// Ask whether it could be created, without creating it (dry run). That its name is taken is no
    /// refusal.
    TryCreate(NewObject),
    /// Replace it, if it still has the resourceVersion that it carries.
    Update(ViewObject),
    /// Replace its status, if it still has the resourceVersion that it carries.
    UpdateStatus(ViewObject),
    /// A JSON merge patch. It carries `metadata.uid`, and `metadata.resourceVersion` where a stale
    /// view could harm.
    Patch {
        /// What is patched.
        id: ObjectId,
        /// Which part.
        part: PatchTarget,
        /// The merge patch.
        patch: Value,
    },
    /// Write how many replicas a workload should have (subresource `scale`).
    Scale(ScaleWrite),
    /// Delete it.
    Delete(DeleteWrite),
    /// Delete everything of a kind in a namespace, in the background.
    DeleteAll {
        /// The kind and the namespace; the name is empty.
        of: ObjectId,
    },
    /// Bind a pod to a node.
    Bind {
        /// The pod.
        pod: ObjectId,
        /// Its UID: another pod of that name is not bound.
        uid: String,
        /// The node.
        node: String,
    },
    /// Say that a pod is expected on a node (`status.nominatedNodeName`), so that nobody else takes
    /// its room there (KEP-5278).
    Nominate {
        /// The pod.
        pod: ObjectId,
        /// Its UID: nothing is said of another pod of that name.
        uid: String,
        /// The node.
        node: String,
    },
    /// Evict a pod (subresource `eviction`, policy/v1): disruption budgets hold. Harmless when it
    /// is evicted already.
    Evict(EvictWrite),
    /// Write a namespace's finalizers (subresource `finalize`).
    Finalize(Box<Namespace>),
    /// Succeeds when the server has no object of this id (with this UID, when given).
    CheckAbsent {
        /// What must not be there.
        id: ObjectId,
        /// Only this one counts.
        uid: Option<String>,
    },
    /// Succeeds when the server has no object of this kind in the namespace.
    CheckEmpty {
        /// The kind and the namespace; the name is empty.
        of: ObjectId,
    },
}

/// What is created: a pod with all that it is to be, of which less is held once it is there.
#[derive(Clone, Debug, PartialEq)]
pub enum NewObject {
    /// A pod.
    Pod(Box<Pod>),
    /// Anything else.
    Object(ViewObject),
}

impl NewObject {
    /// What it will be called.
    pub fn id(&self) -> ObjectId {
        match self {
            Self::Pod(pod) => {
                ObjectId::new(ResourceKind::Pod, NamespacedName::from_meta(&pod.metadata))
            }
            Self::Object(object) => object.id(),
        }
    }
}

impl From<Pod> for NewObject {
    fn from(pod: Pod) -> Self {
        Self::Pod(Box::new(pod))
    }
}

/// Whatever else is created. There is none from any object: a pod that is held is not the whole.
macro_rules! manifest_from {
    ($($kind:ident),*) => {
        $(
            impl From<$kind> for NewObject {
                fn from(object: $kind) -> Self {
                    Self::Object(object.into())
                }
            }
        )*
    };
}

manifest_from!(
    ControllerRevision,
    EndpointSlice,
    Endpoints,
    Job,
    Lease,
    PersistentVolumeClaim,
    PodRestart,
    ReplicaSet,
    RestartLedger
);

/// The part of an object that a patch goes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PatchTarget {
    /// The object itself.
    Whole,
    /// Its status subresource.
    Status,
}

/// A number of replicas with what it must find.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScaleWrite {
    /// The workload.
    pub target: ObjectId,
    /// Its UID: another workload of that name is not scaled.
    pub uid: String,
    /// What it was decided on: one that has changed since is not scaled.
    pub resource_version: String,
    /// How many it should have.
    pub replicas: i32,
    /// How many more that are; negative for less.
    pub change: i32,
    /// The UID of the autoscaler. The change counts in its history.
    pub autoscaler: String,
}

/// A delete with what it must find.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeleteWrite {
    /// What is deleted.
    pub id: ObjectId,
    /// Only the object with this UID.
    pub uid: String,
    /// What becomes of its dependents.
    pub propagation: DependentPolicy,
    /// How much grace it gets.
    pub grace: DeleteGrace,
}

/// An eviction with what it must find.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EvictWrite {
    /// The pod.
    pub pod: ObjectId,
    /// Its UID: another pod of that name is not evicted.
    pub uid: String,
    /// Seconds its containers get to end; absent for the pod's own grace period.
    pub grace_seconds: Option<i64>,
}

/// What becomes of the dependents of a deleted object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DependentPolicy {
    /// As the server's default is (background).
    Default,
    /// They are deleted after it.
    Background,
    /// They are deleted before it.
    Foreground,
    /// They stay.
    Orphan,
}

/// The grace period of a delete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeleteGrace {
    /// The object's own.
    Own,
    /// None: it goes now.
    Now,
}

/// How a write went.
#[derive(Clone, Debug, PartialEq)]
pub enum WriteResult {
    /// Done, and this is the object now.
    Stored(ViewObject),
    /// Done; there is no object to show.
    Done,
    /// The object is gone: deleted just now, or it was absent already.
    Gone,
    /// The server said no.
    Refused {
        /// Of what kind.
        refusal: WriteRefusal,
        /// Its message.
        message: String,
    },
    /// Nobody knows whether it was done: the connection broke.
    Unknown {
        /// What was seen.
        message: String,
    },
}

/// Why the server said no.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteRefusal {
    /// The object changed meanwhile, or a precondition does not hold.
    Conflict,
    /// The name is taken.
    AlreadyExists,
    /// A check found something that should not be there.
    StillThere,
    /// The namespace is being deleted: nothing can be created in it.
    NamespaceTerminating,
    /// A disruption budget allows no eviction now (429).
    Budget,
    /// A disruption budget never allows one, however healthy its pods are (429).
    DeadlockedBudget,
    /// Anything else: invalid, forbidden, …
    Other,
}

/// What the view made of an outcome.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Settlement {
    /// What changed by it; the driver queues the keys that are affected.
    pub changes: Vec<ObjectChange>,
    /// Events to record.
    pub notes: Vec<EventNote>,
    /// Whether the rest of the plan may go on.
    pub verdict: PlanContinuation,
    /// Whether what was written is what is known now.
    pub place: WriteRecency,
}

/// How what was written stands to what is known of the object.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WriteRecency {
    /// It is the newest.
    #[default]
    Newest,
    /// Somebody has written since, and that was seen before the answer. The state in between was
    /// never seen, so the change back may have looked like none: who wrote looks again.
    Overtaken,
}

/// Whether the rest of a plan may go on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PlanContinuation {
    /// It may.
    #[default]
    Continue,
    /// It may not: the key is looked at again after a while.
    Retry,
    /// It may not, and trying again changes nothing until something else does.
    Stop,
}

impl WriteNotes {
    /// One event for either end.
    pub fn new(success: EventNote, failure: EventNote) -> Self {
        Self { success: vec![success], failure }
    }
}

impl WritePlan {
    /// True when nothing is to be written and nothing to be said.
    pub fn is_empty(&self) -> bool {
        self.batches.iter().all(Vec::is_empty) && self.notes.is_empty()
    }

    /// Adds a batch of one write without report.
    pub fn then(&mut self, write: WriteOperation) {
        self.batches.push(vec![PlannedWrite::from(write)]);
    }

    /// Adds a batch; an empty one is left out.
    pub fn then_all(&mut self, batch: Vec<PlannedWrite>) {
        if !batch.is_empty() {
            self.batches.push(batch);
        }
    }

    /// Adds the steps in batches of 1, 2, 4, …: what can never be done costs one refused request
    /// and not hundreds.
    pub fn then_ever_more(&mut self, steps: impl IntoIterator<Item = PlannedWrite>) {
        let mut steps = steps.into_iter().peekable();
        let mut size = 1;
        while steps.peek().is_some() {
            self.batches.push(steps.by_ref().take(size).collect());
            size *= 2;
        }
    }

    /// Asks to be looked at again at `at`, or earlier if that was asked before.
    pub fn look_again(&mut self, at: Tick) {
        self.again_at = Some(self.again_at.map_or(at, |before| before.min(at)));
    }

    /// All writes in order.
    pub fn writes(&self) -> impl Iterator<Item = &WriteOperation> {
        self.batches.iter().flatten().map(|step| &step.write)
    }
}

impl From<WriteOperation> for PlannedWrite {
    fn from(write: WriteOperation) -> Self {
        Self { write, report: None }
    }
}

impl WriteOperation {
    /// A delete of this object with its own grace.
    pub fn delete(object: &ViewObject, propagation: DependentPolicy) -> Self {
        WriteOperation::Delete(DeleteWrite {
            id: object.id(),
            uid: object.uid().to_owned(),
            propagation,
            grace: DeleteGrace::Own,
        })
    }
}
