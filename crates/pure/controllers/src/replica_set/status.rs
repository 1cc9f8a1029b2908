//! A ReplicaSet's status.

use k8s_openapi::api::apps::v1::{ReplicaSetCondition, ReplicaSetStatus};
use rekindle_types::Tick;
use rekindle_types::labels::Labels;

use super::ReplicaOwner;
use super::members::LabelQuestion;
use crate::pods::PodAvailability;
use crate::view::ManagedPod;
use crate::{ClusterView, WriteOperation, WritePlan};

/// The condition that says a pod could not be created or deleted.
pub(crate) const REPLICA_FAILURE: &str = "ReplicaFailure";

/// Adds the write of the status if it changed. Not while pods are being created or deleted: their
/// answers bring us here again. But when such writes were refused or are held back, the status goes
/// first, so that it tells why even if they are again.
pub(super) fn update(
    view: &ClusterView,
    set: &ReplicaOwner,
    active: &[&ManagedPod],
    terminating: usize,
    now: Tick,
    plan: &mut WritePlan,
) {
    let (status, available_from) = calculate(view, set, active, terminating, now);
    if let Some(at) = available_from {
        plan.look_again(at);
    }
    let is_failing = view.is_hindered(&set.about);
    let updated = set.with_status(status);
    if updated == set.about || (!plan.batches.is_empty() && !is_failing) {
        return;
    }
    plan.batches.insert(0, vec![WriteOperation::UpdateStatus(updated).into()]);
}

fn calculate(
    view: &ClusterView,
    set: &ReplicaOwner,
    active: &[&ManagedPod],
    terminating: usize,
    now: Tick,
) -> (ReplicaSetStatus, Option<Tick>) {
    let rs = &set.rs;
    let template = rs.spec.template.as_ref();
    let wanted_labels = template.and_then(|t| t.metadata.as_ref()).and_then(|m| m.labels.as_ref());
    let min_ready = super::min_ready(rs);
    let mut has_all = LabelQuestion::new(|labels: &Labels| {
        wanted_labels.is_none_or(|wanted| wanted.iter().all(|(k, v)| labels.get(k) == Some(v)))
    });
    let (mut labeled, mut ready, mut available) = (0, 0, 0);
    let mut available_from: Option<Tick> = None;
    for member in active {
        labeled += i32::from(has_all.ask(&member.labels));
        match member.availability(min_ready, now) {
            PodAvailability::NotReady => {}
            PodAvailability::Available => {
                ready += 1;
                available += 1;
            }
            PodAvailability::From(at) => {
                ready += 1;
                available_from = Some(available_from.map_or(at, |earlier| earlier.min(at)));
            }
        }
    }
    let status = ReplicaSetStatus {
        replicas: count(active.len()),
        fully_labeled_replicas: non_zero(labeled),
        ready_replicas: non_zero(ready),
        available_replicas: non_zero(available),
        terminating_replicas: Some(count(terminating)),
        observed_generation: rs.metadata.generation,
        conditions: conditions(view, set, now),
    };
    (status, available_from)
}

/// Upstream leaves zero counts out of the encoded status.
const fn non_zero(count: i32) -> Option<i32> {
    if count == 0 { None } else { Some(count) }
}

fn count(of: usize) -> i32 {
    i32::try_from(of).unwrap_or(i32::MAX)
}

/// The conditions with ReplicaFailure as the latest writes went.
fn conditions(
    view: &ClusterView,
    set: &ReplicaOwner,
    now: Tick,
) -> Option<Vec<ReplicaSetCondition>> {
    let current = set.rs.status.as_ref().and_then(|s| s.conditions.clone()).unwrap_or_default();
    let mut conditions: Vec<_> =
        current.iter().filter(|c| c.type_.as_deref() != Some(REPLICA_FAILURE)).cloned().collect();
    if let Some(failure) = view.failure(&set.about.id()) {
        let same = current.iter().find(|c| {
            c.type_.as_deref() == Some(REPLICA_FAILURE)
                && c.reason.as_deref() == Some(failure.reason)
        });
        conditions.push(same.cloned().unwrap_or_else(|| ReplicaSetCondition {
            type_: Some(REPLICA_FAILURE.to_owned()),
            status: Some("True".to_owned()),
            reason: Some(failure.reason.to_owned()),
            message: Some(failure.message.clone()),
            last_transition_time: Some(now.to_time()),
        }));
    }
    Some(conditions).filter(|conditions| !conditions.is_empty())
}
