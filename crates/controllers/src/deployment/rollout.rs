//! One look at a Deployment: what there is, what was decided so far, and the plan that comes of it.

use std::cmp::Ordering;
use std::sync::Arc;

use k8s_openapi::api::apps::v1::{Deployment, DeploymentStatus, ReplicaSet};
use rekindle_types::Tick;

use super::{COMPONENT, annotations, fenceposts};
use crate::events::{Note, Severity};
use crate::plan::{Report, Step, Write};
use crate::{Object, Plan, View, replica_set};

/// The state of one look.
pub(super) struct Rollout<'a> {
    pub(super) view: &'a View,
    pub(super) deployment: &'a Arc<Deployment>,
    /// The ReplicaSets it owns, oldest first, with the sizes decided so far.
    pub(super) sets: Vec<Member>,
    /// Which of `sets` has the Deployment's template.
    pub(super) new: Option<usize>,
    /// The status to be written; conditions may be put into it on the way.
    pub(super) status: DeploymentStatus,
    pub(super) now: Tick,
    /// Writes of this look that may go at the same time.
    pub(super) steps: Vec<Step>,
    pub(super) plan: Plan,
}

/// A ReplicaSet and what is to become of it.
pub(super) struct Member {
    /// As the view has it.
    pub(super) set: Arc<ReplicaSet>,
    /// The size it has after this look.
    pub(super) replicas: i32,
    /// Whether `set` is in the plan with changes, and not as the view has it.
    pub(super) edited: Option<ReplicaSet>,
}

impl Member {
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

    pub(super) fn name(&self) -> &str {
        self.set.metadata.name.as_deref().unwrap_or_default()
    }
}

/// Which is older, then by name.
pub(super) fn age_order(a: &ReplicaSet, b: &ReplicaSet) -> Ordering {
    (&a.metadata.creation_timestamp, &a.metadata.name)
        .cmp(&(&b.metadata.creation_timestamp, &b.metadata.name))
}

/// Whether a look changed the size of something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scaled {
    Yes,
    No,
}

impl<'a> Rollout<'a> {
    pub(super) fn new(
        view: &'a View,
        deployment: &'a Arc<Deployment>,
        sets: Vec<Arc<ReplicaSet>>,
        now: Tick,
    ) -> Self {
        let template = &deployment.spec.template;
        let new = sets.iter().position(|set| super::new_set::has_template(set, template));
        Self {
            view,
            deployment,
            sets: sets.into_iter().map(Member::new).collect(),
            new,
            status: deployment.status.clone().unwrap_or_default(),
            now,
            steps: Vec::new(),
            plan: Plan::default(),
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

    /// Gives a ReplicaSet another size, and says so.
    pub(super) fn resize(&mut self, index: usize, replicas: i32) -> Scaled {
        let deployment = self.deployment;
        let member = &mut self.sets[index];
        let mut set = member.edited.clone().unwrap_or_else(|| member.set.as_ref().clone());
        let annotations_changed = annotations::set_sizes(&mut set, deployment);
        let before = member.replicas;
        if before == replicas && !annotations_changed {
            return Scaled::No;
        }
        set.spec.replicas = Some(replicas);
        member.replicas = replicas;
        member.edited = Some(set.clone());
        let name = member.name().to_owned();
        let mut step = Step::from(Write::Update(set.into()));
        if before != replicas {
            let direction = if before < replicas { "up" } else { "down" };
            step.report = Some(self.scaling_report(&name, direction, before, replicas));
        }
        self.steps.push(step);
        if before == replicas { Scaled::No } else { Scaled::Yes }
    }

    /// The event about a ReplicaSet's new size.
    pub(super) fn scaling_report(&self, set: &str, direction: &str, from: i32, to: i32) -> Report {
        let about = Object::Deployment(self.deployment.clone());
        let message = format!("Scaled {direction} replica set {set} from {from} to {to}");
        let success =
            Note::new(&about, Severity::Normal, "ScalingReplicaSet", message, COMPONENT);
        let failure = Note::new(
            &about,
            Severity::Warning,
            "ScalingReplicaSetFailed",
            format!("Scaling {direction} replica set {set} from {from} to {to}: "),
            COMPONENT,
        );
        Report { success, failure }
    }

    /// The plan of this look.
    pub(super) fn into_plan(mut self) -> Plan {
        let steps = std::mem::take(&mut self.steps);
        if !steps.is_empty() {
            self.plan.batches.insert(0, steps);
        }
        self.plan
    }
}
