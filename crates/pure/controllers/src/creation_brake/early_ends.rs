//! Tells the brake on creations which objects came, ended early, or are asked for in another way
//! (`creation_brake`).

use k8s_openapi::api::core::v1::ReplicationControllerSpec;
use rekindle_types::Tick;

use super::series::{CreationSeries, EarlyEnd, counts, early_end};
use crate::plan::PlannedWrite;
use crate::vacancy::{self, PodVacancy};
use crate::{ClusterView, ViewObject, daemon_set, failed_pods, job, owners, pods};

impl ClusterView {
    /// The user was told that creations of these series are held back (`WritePlan::paused`).
    pub fn creation_pauses_told(&mut self, series: &[CreationSeries]) {
        series.iter().for_each(|series| self.memories_mut().creations.told(series));
    }

    /// True when writes for the object were refused, or creations for it are held back: its status
    /// tells how things stand, and does not wait for answers that do not come.
    pub(crate) fn is_hindered(&self, object: &ViewObject) -> bool {
        self.failure(&object.id()).is_some()
            || self.memories().creations.is_any_paused(object.uid(), self.now())
    }

    /// An object changed, came or went.
    pub(crate) fn note_creations(
        &mut self,
        before: Option<&ViewObject>,
        after: Option<&ViewObject>,
    ) {
        match (before, after) {
            (Some(before), Some(after)) if before.uid() == after.uid() => {
                if self.memories().creations.knows(after.uid()) && asks_anew(before, after) {
                    self.memories_mut().creations.forget(after.uid());
                }
                let is_kept = counts(after) && is_in_same_place(before, after);
                if counts(before) && !is_kept {
                    self.ended_early(before, Some(after));
                }
                if counts(after) && !(is_kept && counts(before)) {
                    self.joined(after);
                }
            }
            (before, after) => {
                if let Some(gone) = before {
                    self.memories_mut().creations.forget(gone.uid());
                    if counts(gone) {
                        self.ended_early(gone, None);
                    }
                }
                match after {
                    Some(new) if counts(new) => self.joined(new),
                    Some(new) => self.found_failed(new),
                    None => {}
                }
            }
        }
    }

    /// A creation was answered with this object.
    pub(crate) fn note_created(&mut self, step: &PlannedWrite, object: &ViewObject) {
        let Some(series) = CreationSeries::of_step(step) else { return };
        let now = self.now();
        let creations = &mut self.memories_mut().creations;
        if series.is_counted_by_creations() {
            creations.created(series, now);
        } else if CreationSeries::of_object(object) != series {
            // what was asked for is not what is there: its owner will not know it
            creations.joined(&series, object.uid(), |_| true);
            creations.ended(series, object.uid(), EarlyEnd::Lost, now);
        }
    }

    fn joined(&mut self, object: &ViewObject) {
        let owner = owners::controller_of(object.meta());
        if owner.is_some_and(|owner| self.memories().creations.knows(&owner.uid)) {
            let born = born(object);
            let series = CreationSeries::of_object(object);
            self.memories_mut().creations.joined(&series, object.uid(), |last| born >= last);
        }
    }

    /// A pod that had failed before it was seen at all: the controllers have started anew since.
    fn found_failed(&mut self, object: &ViewObject) {
        let ViewObject::Pod(pod) = object else { return };
        if pods::phase(pod.as_ref()) != "Failed" || owners::is_terminating(&pod.metadata) {
            return;
        }
        let at = failed_pods::finished_at(pod).min(self.now());
        let Some(end) = early_end(object, Some(object), at) else { return };
        let (born, series) = (born(object), CreationSeries::of_object(object));
        let creations = &mut self.memories_mut().creations;
        creations.joined(&series, object.uid(), |last| born > last);
        creations.ended(series, object.uid(), end, at);
    }

    fn ended_early(&mut self, before: &ViewObject, after: Option<&ViewObject>) {
        let now = self.now();
        let Some(end) = early_end(before, after, now) else { return };
        let owner = owners::controller_of(before.meta());
        let Some(owner) = owner.and_then(|owner| self.by_uid(&owner.uid)) else { return };
        let vacancy = PodVacancy {
            pod_name: before.meta().name.as_deref().unwrap_or_default(),
            node_name: match before {
                ViewObject::Pod(pod) => daemon_set::target(pod.as_ref()),
                _ => None,
            },
        };
        // one that has another place now leaves its own empty
        let has_moved = after.is_some_and(counts);
        if has_moved || vacancy::is_to_be_filled(self, owner, vacancy) {
            let series = CreationSeries::of_object(before);
            self.memories_mut().creations.ended(series, before.uid(), end, now);
        }
    }
}

fn born(object: &ViewObject) -> Tick {
    object.meta().creation_timestamp.as_ref().map_or(Tick::ZERO, Tick::from)
}

/// True when both have the same owner and, in a Job, the same index.
fn is_in_same_place(one: &ViewObject, other: &ViewObject) -> bool {
    let place = |object| {
        let meta = ViewObject::meta(object);
        (owners::controller_of(meta).map(|owner| &owner.uid), job::index_text(meta))
    };
    place(one) == place(other)
}

/// True when an owner wants other objects than before. How many it wants makes no difference.
fn asks_anew(before: &ViewObject, after: &ViewObject) -> bool {
    match (before, after) {
        (ViewObject::ReplicaSet(a), ViewObject::ReplicaSet(b)) => {
            a.spec.template != b.spec.template
        }
        (ViewObject::StatefulSet(a), ViewObject::StatefulSet(b)) => {
            a.spec.template != b.spec.template
        }
        (ViewObject::DaemonSet(a), ViewObject::DaemonSet(b)) => a.spec.template != b.spec.template,
        (ViewObject::Deployment(a), ViewObject::Deployment(b)) => {
            a.spec.template != b.spec.template
        }
        (ViewObject::ReplicationController(a), ViewObject::ReplicationController(b)) => {
            let template = |spec: &Option<ReplicationControllerSpec>| {
                spec.as_ref().and_then(|spec| spec.template.clone())
            };
            template(&a.spec) != template(&b.spec)
        }
        (ViewObject::CronJob(a), ViewObject::CronJob(b)) => a.spec != b.spec,
        (ViewObject::Service(a), ViewObject::Service(b)) => a.spec != b.spec,
        _ => false,
    }
}
