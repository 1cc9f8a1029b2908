//! One look at a Deployment: what there is, what was decided so far, and the plan that comes of it.

use std::cmp::Ordering;
use std::sync::Arc;

use k8s_openapi::api::apps::v1::{Deployment, DeploymentStatus, ReplicaSet};
use rekindle_types::{EventSeverity, Tick};

use super::template::has_template;
use super::{COMPONENT, annotations, fenceposts};
use crate::events::EventNote;
use crate::plan::{PlannedWrite, WriteNotes, WriteOperation};
use crate::{ClusterView, ViewObject, WritePlan, replica_set};

/// The state of one look.
pub(super) struct Rollout<'a> {
    pub(super) view: &'a ClusterView,
    pub(super) deployment: &'a Arc<Deployment>,
    /// The ReplicaSets it owns, oldest first, with the sizes decided so far.
    pub(super) sets: Vec<RolloutReplicaSet>,
    /// Which of `sets` has the Deployment's template.
    pub(super) new: Option<usize>,
    /// The status to be written; conditions may be put into it on the way.
    pub(super) status: DeploymentStatus,
    pub(super) now: Tick,
    /// Writes of this look that may go at the same time, those of edited ReplicaSets aside.
    pub(super) steps: Vec<PlannedWrite>,
    /// Whether one of `steps` changes the Deployment itself: its status then waits for the next
    /// look, for what it would be written over is about to be outdated.
    pub(super) has_deployment_write: bool,
    pub(super) plan: WritePlan,
}

/// A ReplicaSet and what is to become of it.
pub(super) struct RolloutReplicaSet {
    /// As the view has it.
    pub(super) set: Arc<ReplicaSet>,
    /// The size it has after this look.
    pub(super) replicas: i32,
    /// The ReplicaSet as this look writes it; absent when it stays as it is.
    pub(super) edited: Option<ReplicaSet>,
}

impl RolloutReplicaSet {
    fn new(set: Arc<ReplicaSet>) -> Self {
        let replicas = replica_set::wanted(&set);
        Self { set, replicas, edited: None }
    }

    /// Pods it reports as available.
    pub(super) fn available(&self) -> i32 {
        self.set.status.as_ref().and_then(|status| status.available_replicas).unwrap_or(0)
    }

    /// Pods it reports.
    pub(super) fn actual(&self) -> i32 {
        self.set.status.as_ref().map_or(0, |status| status.replicas)
    }

    /// True when its status speaks of its present spec.
    pub(super) fn is_observed(&self) -> bool {
        let observed = self.set.status.as_ref().and_then(|status| status.observed_generation);
        observed.unwrap_or(0) >= self.set.metadata.generation.unwrap_or(0)
    }

    pub(super) fn name(&self) -> &str {
        self.set.metadata.name.as_deref().unwrap_or_default()
    }
}

/// Which is older, then by name.
pub(super) fn age_order(a: &ReplicaSet, b: &ReplicaSet) -> Ordering {
    (&a.metadata.creation_timestamp, &a.metadata.name)
        .cmp(&(&b.metadata.creation_timestamp, &b.metadata.name))
}

impl<'a> Rollout<'a> {
    pub(super) fn new(
        view: &'a ClusterView,
        deployment: &'a Arc<Deployment>,
        sets: Vec<Arc<ReplicaSet>>,
        now: Tick,
    ) -> Self {
        let template = &deployment.spec.template;
        let new = sets.iter().position(|set| has_template(set, template));
        Self {
            view,
            deployment,
            sets: sets.into_iter().map(RolloutReplicaSet::new).collect(),
            new,
            status: deployment.status.clone().unwrap_or_default(),
            now,
            steps: Vec::new(),
            has_deployment_write: false,
            plan: WritePlan::default(),
        }
    }

    /// `spec.replicas`.
    pub(super) fn wanted(&self) -> i32 {
        fenceposts::wanted(self.deployment)
    }

    /// Pods asked of all ReplicaSets together.
    pub(super) fn total(&self) -> i32 {
        self.sets.iter().map(|member| member.replicas).sum()
    }

    /// Pods asked of the old ReplicaSets together.
    pub(super) fn old_total(&self) -> i32 {
        self.old().map(|index| self.sets[index].replicas).sum()
    }

    /// The old ReplicaSets, oldest first.
    pub(super) fn old(&self) -> impl Iterator<Item = usize> + use<> {
        let new = self.new;
        (0..self.sets.len()).filter(move |index| Some(*index) != new)
    }

    /// Gives a ReplicaSet this size. True if it had another one.
    pub(super) fn resize(&mut self, index: usize, replicas: i32) -> bool {
        let deployment = self.deployment;
        let member = &mut self.sets[index];
        let mut set = member.edited.clone().unwrap_or_else(|| member.set.as_ref().clone());
        let annotations_changed = annotations::set_sizes(&mut set, deployment);
        let before = member.replicas;
        if before == replicas && !annotations_changed {
            return false;
        }
        set.spec.replicas = Some(replicas);
        member.replicas = replicas;
        member.edited = Some(set);
        before != replicas
    }

    /// The event about a ReplicaSet's new size.
    pub(super) fn scaling_report(&self, set: &str, from: i32, to: i32) -> WriteNotes {
        let direction = if from < to { "up" } else { "down" };
        let about = ViewObject::Deployment(self.deployment.clone());
        let message = format!("Scaled {direction} replica set {set} from {from} to {to}");
        let success =
            EventNote::new(&about, EventSeverity::Normal, "ScalingReplicaSet", message, COMPONENT);
        let failure = EventNote::new(
            &about,
            EventSeverity::Warning,
            "ScalingReplicaSetFailed",
            format!("Scaling {direction} replica set {set} from {from} to {to}: "),
            COMPONENT,
        );
        WriteNotes::new(success, failure)
    }

    /// The plan of this look.
    pub(super) fn into_plan(mut self) -> WritePlan {
        let mut steps = std::mem::take(&mut self.steps);
        for member in &self.sets {
            let Some(edited) = &member.edited else { continue };
            let before = replica_set::wanted(&member.set);
            let report = (before != member.replicas)
                .then(|| self.scaling_report(member.name(), before, member.replicas));
            steps.push(PlannedWrite {
                write: WriteOperation::Update(edited.clone().into()),
                report,
            });
        }
        if !steps.is_empty() {
            self.plan.batches.insert(0, steps);
        }
        self.plan
    }
}
