//! A Deployment's status, and how its progress is judged.

use k8s_openapi::api::apps::v1::{Deployment, DeploymentCondition, DeploymentStatus};
use rekindle_types::{Tick, TickDuration};

use super::conditions::{self, ConditionTruth};
use super::fenceposts;
use super::rollout::Rollout;
use crate::NamespacedName;
use crate::plan::WriteOperation;

/// Upstream's "no deadline".
const NO_DEADLINE: i32 = i32::MAX;

/// `spec.progressDeadlineSeconds` with its default; `None` when there is no deadline.
pub(super) fn progress_deadline(deployment: &Deployment) -> Option<TickDuration> {
    let seconds = deployment.spec.progress_deadline_seconds.unwrap_or(600);
    if seconds == NO_DEADLINE {
        return None;
    }
    Some(TickDuration::of_field(seconds))
}

/// True when every pod is of the new template, and available, and no other is left.
pub(super) fn is_complete(deployment: &Deployment, status: &DeploymentStatus) -> bool {
    let wanted = Some(fenceposts::wanted(deployment));
    Some(status.updated_replicas.unwrap_or(0)) == wanted
        && Some(status.replicas.unwrap_or(0)) == wanted
        && Some(status.available_replicas.unwrap_or(0)) == wanted
        && status.observed_generation >= deployment.metadata.generation
}

/// True when `new` is further than `old`.
fn is_progressing(old: &DeploymentStatus, new: &DeploymentStatus) -> bool {
    let updated = |s: &DeploymentStatus| s.updated_replicas.unwrap_or(0);
    let outdated = |s: &DeploymentStatus| s.replicas.unwrap_or(0) - updated(s);
    updated(new) > updated(old)
        || outdated(new) < outdated(old)
        || new.ready_replicas.unwrap_or(0) > old.ready_replicas.unwrap_or(0)
        || new.available_replicas.unwrap_or(0) > old.available_replicas.unwrap_or(0)
}

/// Zero counts are left out of the encoded status, as upstream's `omitempty` does.
fn non_zero(count: i32) -> Option<i32> {
    if count == 0 { None } else { Some(count) }
}

impl Rollout<'_> {
    /// The counts and condition Available, from what the ReplicaSets report.
    pub(super) fn calculate_status(&self) -> DeploymentStatus {
        let sum = |of: &dyn Fn(&super::rollout::RolloutReplicaSet) -> i32| {
            self.sets.iter().map(of).sum::<i32>()
        };
        let available = sum(&|member| member.available());
        let ready = sum(&|member| {
            member.set.status.as_ref().and_then(|status| status.ready_replicas).unwrap_or(0)
        });
        let terminating = sum(&|member| {
            member.set.status.as_ref().and_then(|status| status.terminating_replicas).unwrap_or(0)
        });
        let updated = self.new.map_or(0, |index| self.sets[index].actual());
        let unavailable = (self.total() - available).max(0);
        let mut status = DeploymentStatus {
            observed_generation: self.deployment.metadata.generation,
            replicas: non_zero(sum(&|member| member.actual())),
            updated_replicas: non_zero(updated),
            ready_replicas: non_zero(ready),
            available_replicas: non_zero(available),
            unavailable_replicas: non_zero(unavailable),
            terminating_replicas: Some(terminating),
            collision_count: self.status.collision_count,
            conditions: self.status.conditions.clone(),
        };
        let minimum = self.wanted() - fenceposts::max_unavailable(self.deployment);
        let (truth, reason, message) = if available >= minimum {
            let text = "Deployment has minimum availability.";
            (ConditionTruth::True, conditions::MINIMUM_AVAILABLE, text)
        } else {
            let text = "Deployment does not have minimum availability.";
            (ConditionTruth::False, conditions::MINIMUM_UNAVAILABLE, text)
        };
        let condition = conditions::new(conditions::AVAILABLE, truth, reason, message, self.now);
        conditions::set(&mut status, condition);
        status
    }

    /// Condition Progressing while paused and when resumed.
    pub(super) fn note_pause(&mut self) {
        if progress_deadline(self.deployment).is_none() {
            return;
        }
        let current = conditions::get(&self.status, conditions::PROGRESSING);
        let reason = current.map(conditions::reason);
        if reason == Some(conditions::TIMED_OUT) {
            return; // it gets another chance only by progress
        }
        let is_paused = self.deployment.spec.paused == Some(true);
        let was_paused = reason == Some(conditions::PAUSED);
        let (reason, message) = match (is_paused, was_paused) {
            (true, false) => (conditions::PAUSED, "Deployment is paused"),
            (false, true) => (conditions::RESUMED, "Deployment is resumed"),
            (true, true) | (false, false) => return,
        };
        let condition = conditions::new(
            conditions::PROGRESSING,
            ConditionTruth::Unknown,
            reason,
            message,
            self.now,
        );
        conditions::set(&mut self.status, condition);
    }

    /// The status without a judgement of progress: while paused, scaling or being deleted.
    pub(super) fn sync_status(&mut self) {
        self.status = self.calculate_status();
        self.write_status();
    }

    /// The status with a judgement of progress.
    pub(super) fn sync_rollout_status(&mut self) {
        let mut status = self.calculate_status();
        match progress_deadline(self.deployment) {
            None => conditions::remove(&mut status, conditions::PROGRESSING),
            Some(deadline) => self.judge_progress(&mut status, deadline),
        }
        match self.replica_failure() {
            Some(failure) => conditions::set(&mut status, failure),
            None => conditions::remove(&mut status, conditions::REPLICA_FAILURE),
        }
        if let Some(at) = self.deadline(&status) {
            self.plan.look_again(at);
        }
        self.status = status;
        self.write_status();
    }

    fn judge_progress(&self, status: &mut DeploymentStatus, deadline: TickDuration) {
        let current = conditions::get(&self.status, conditions::PROGRESSING).cloned();
        let was_complete = status.replicas == status.updated_replicas
            && current.as_ref().map(conditions::reason) == Some(conditions::NEW_SET_AVAILABLE);
        if was_complete {
            return;
        }
        let who = match self.new {
            Some(index) => format!("ReplicaSet \"{}\"", self.sets[index].name()),
            None => {
                format!(
                    "Deployment \"{}\"",
                    NamespacedName::from_meta(&self.deployment.metadata).name
                )
            }
        };
        let new = |truth, reason, what| {
            conditions::new(
                conditions::PROGRESSING,
                truth,
                reason,
                format!("{who} {what}"),
                self.now,
            )
        };
        if is_complete(self.deployment, status) {
            let what = "has successfully progressed.";
            conditions::set(status, new(ConditionTruth::True, conditions::NEW_SET_AVAILABLE, what));
        } else if is_progressing(&self.deployment.status.clone().unwrap_or_default(), status) {
            let mut condition =
                new(ConditionTruth::True, conditions::SET_UPDATED, "is progressing.");
            if let Some(current) =
                current.filter(|current| current.status.as_deref() == Some("True"))
            {
                condition.last_transition_time = current.last_transition_time;
            }
            // Removed first, so that its update time moves with every bit of progress.
            conditions::remove(status, conditions::PROGRESSING);
            conditions::set(status, condition);
        } else if is_timed_out(current.as_ref(), deadline, self.now) {
            let what = "has timed out progressing.";
            conditions::set(status, new(ConditionTruth::False, conditions::TIMED_OUT, what));
        }
    }

    /// When the deadline must be looked at, if nothing happens before.
    fn deadline(&self, status: &DeploymentStatus) -> Option<Tick> {
        let deadline = progress_deadline(self.deployment)?;
        let condition = conditions::get(status, conditions::PROGRESSING)?;
        let reason = conditions::reason(condition);
        if is_complete(self.deployment, status)
            || [conditions::TIMED_OUT, conditions::NEW_SET_AVAILABLE].contains(&reason)
        {
            return None;
        }
        let from = condition.last_update_time.as_ref().map(Tick::from)?;
        // A second more, for the condition's time is cut to whole seconds.
        Some((from + deadline + TickDuration::from_secs(1)).max(self.now))
    }

    /// ReplicaFailure of the new ReplicaSet, or of any.
    fn replica_failure(&self) -> Option<DeploymentCondition> {
        let new = self.new.into_iter();
        new.chain(0..self.sets.len()).find_map(|index| {
            let status = self.sets[index].set.status.as_ref()?;
            let failure = status
                .conditions
                .iter()
                .flatten()
                .find(|c| c.type_.as_deref() == Some(crate::replica_set::REPLICA_FAILURE))?;
            Some(DeploymentCondition {
                type_: Some(conditions::REPLICA_FAILURE.to_owned()),
                status: failure.status.clone(),
                reason: failure.reason.clone(),
                message: failure.message.clone(),
                last_transition_time: failure.last_transition_time.clone(),
                last_update_time: failure
                    .last_transition_time
                    .clone()
                    .or_else(|| Some(self.now.to_time())),
            })
        })
    }

    /// Adds the write of the status, if it differs.
    pub(super) fn write_status(&mut self) {
        let is_news = self.deployment.status.as_ref() != Some(&self.status);
        if is_news && !self.has_deployment_write {
            let write = self.status_write();
            self.plan.then(write);
        }
    }

    /// Adds the write of the status so that it happens whatever becomes of the other writes.
    pub(super) fn write_status_first(&mut self) {
        let write = self.status_write();
        self.steps.insert(0, write.into());
    }

    fn status_write(&self) -> WriteOperation {
        let mut deployment = self.deployment.as_ref().clone();
        deployment.status = Some(self.status.clone());
        WriteOperation::UpdateStatus(deployment.into())
    }
}

/// True when the last progress is longer ago than the deadline.
fn is_timed_out(current: Option<&DeploymentCondition>, deadline: TickDuration, now: Tick) -> bool {
    let Some(current) = current else { return false };
    match conditions::reason(current) {
        conditions::NEW_SET_AVAILABLE => false,
        conditions::TIMED_OUT => true,
        _ => {
            let from = current.last_update_time.as_ref().map_or(now, Tick::from);
            from + deadline < now
        }
    }
}
