//! Which objects count as the same one created again: those of one owner, one kind and one place.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use rekindle_types::pods::AnyPod;
use rekindle_types::{Tick, TickDuration};

use super::growing_pause::{AFTER_DAEMON_FAILURES, AFTER_FAILURES, GrowingPause};
use crate::plan::{NewObject, PlannedWrite, WriteOperation};
use crate::{NamespacedName, ResourceKind, ViewObject, daemon_set, endpoints, job, owners, pods};

/// The objects that a controller creates in one place.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct CreationSeries {
    /// The UID of the controller that owns them; else of the object that they are created for,
    /// where the plan tells it; else empty.
    pub(crate) owner: String,
    /// Their kind.
    pub(crate) kind: ResourceKind,
    /// The place: a name, a node, an index; empty where any of them stands for any other.
    pub(crate) place: String,
    pub(super) counted_by: SeriesMeasure,
}

/// By what a series is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum SeriesMeasure {
    /// By the objects that were gone, had failed or had changed hands soon after their creation.
    /// Many of them may be wanted.
    EarlyEnds,
    /// By its creations: one object is wanted, and a second one is a repetition whatever became of
    /// the first.
    Creations,
}

/// Objects that lived longer than this do not count: their controller creates the next one no more
/// often than that.
const EARLY: TickDuration = TickDuration::from_secs(10 * 60);
/// The same of EndpointSlices, which come and go with the number of pods.
const EARLY_SLICE: TickDuration = TickDuration::from_secs(60);

/// The kind of a Job in an owner reference.
const JOB: &str = "Job";

impl CreationSeries {
    /// The series of what a step creates; none when it creates nothing.
    pub(crate) fn of_step(step: &PlannedWrite) -> Option<Self> {
        let WriteOperation::Create(manifest) = &step.write else { return None };
        let mut series = match manifest {
            NewObject::Pod(pod) => Self::of_pod(pod.as_ref()),
            NewObject::Object(object) => Self::of_object(object),
        };
        if series.owner.is_empty()
            && let Some(report) = &step.report
        {
            series.owner.clone_from(&report.failure.about.uid);
        }
        Some(series)
    }

    /// The series of an object that is there.
    pub(crate) fn of_object(object: &ViewObject) -> Self {
        match object {
            ViewObject::Pod(pod) => Self::of_pod(pod.as_ref()),
            other => {
                let meta = other.meta();
                let controller = owners::controller_of(meta);
                let has_one_place = matches!(
                    other.kind(),
                    ResourceKind::ReplicaSet | ResourceKind::ControllerRevision
                );
                match controller {
                    Some(owner) if other.kind() == ResourceKind::EndpointSlice => Self::new(
                        &owner.uid,
                        ResourceKind::EndpointSlice,
                        "",
                        SeriesMeasure::EarlyEnds,
                    ),
                    Some(owner) => {
                        let place = if has_one_place { "" } else { name(meta) };
                        Self::new(&owner.uid, other.kind(), place, SeriesMeasure::Creations)
                    }
                    None => Self::unowned(other.kind(), meta),
                }
            }
        }
    }

    fn of_pod(pod: &impl AnyPod) -> Self {
        let meta = pod.metadata();
        let Some(owner) = owners::controller_of(meta) else {
            return Self::unowned(ResourceKind::Pod, meta);
        };
        let place = match owner.kind.as_str() {
            "StatefulSet" => name(meta),
            "DaemonSet" => daemon_set::target(pod).unwrap_or_default(),
            JOB => job::index_text(meta).unwrap_or_default(),
            _ => "",
        };
        Self::new(&owner.uid, ResourceKind::Pod, place, SeriesMeasure::EarlyEnds)
    }

    fn new(owner: &str, kind: ResourceKind, place: &str, counted_by: SeriesMeasure) -> Self {
        Self { owner: owner.to_owned(), kind, place: place.to_owned(), counted_by }
    }

    fn unowned(kind: ResourceKind, meta: &ObjectMeta) -> Self {
        Self::new("", kind, &NamespacedName::from_meta(meta).to_string(), SeriesMeasure::Creations)
    }

    /// True when one object of it is wanted.
    pub(crate) fn is_counted_by_creations(&self) -> bool {
        self.counted_by == SeriesMeasure::Creations
    }
}

/// Why an object no longer counts for its owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EarlyEnd {
    /// It is a pod that failed: refused, evicted, overdue.
    Failed(GrowingPause),
    /// It was deleted, or its owner let it go.
    Lost,
}

/// True while the object counts for its owner, as far as a series is counted by early ends: a pod
/// that has not ended, and what is not being deleted. A failed pod of a Job counts on: the Job has
/// its own pause after failures, which it reads off the failed pods.
pub(crate) fn counts(object: &ViewObject) -> bool {
    let Some(owner) = owners::controller_of(object.meta()) else { return false };
    let is_its = match object {
        ViewObject::Pod(pod) => match pods::phase(pod.as_ref()) {
            "Failed" => owner.kind == JOB,
            "Succeeded" => false,
            _ => true,
        },
        ViewObject::EndpointSlice(slice) => endpoints::is_of_service(slice),
        _ => false,
    };
    is_its && !owners::is_terminating(object.meta())
}

/// What it is to its series that an object counts no longer; none when it had lived for long, or
/// when it was there to end. `after` is the object as it is now; absent when it is gone.
pub(crate) fn early_end(
    before: &ViewObject,
    after: Option<&ViewObject>,
    at: Tick,
) -> Option<EarlyEnd> {
    let owner = owners::controller_of(before.meta())?;
    let phase = match after {
        Some(ViewObject::Pod(pod)) => pods::phase(pod.as_ref()),
        Some(_) | None => "",
    };
    let end = match (owner.kind.as_str(), phase) {
        (JOB, "Succeeded") => return None,
        // upstream counts these however long they ran
        ("DaemonSet", "Failed") => return Some(EarlyEnd::Failed(AFTER_DAEMON_FAILURES)),
        (kind, "Failed") if kind != JOB => EarlyEnd::Failed(AFTER_FAILURES),
        (_, _) => EarlyEnd::Lost,
    };
    let born = before.meta().creation_timestamp.as_ref().map_or(Tick::ZERO, Tick::from);
    let early = match before.kind() {
        ResourceKind::EndpointSlice => EARLY_SLICE,
        _ => EARLY,
    };
    (at.since(born) < early).then_some(end)
}

fn name(meta: &ObjectMeta) -> &str {
    meta.name.as_deref().unwrap_or_default()
}
