//! A StatefulSet's status.

use std::sync::Arc;

use k8s_openapi::api::apps::v1::{ControllerRevision, StatefulSet, StatefulSetStatus};

use super::member::{MemberState, StatefulMember};
use super::rolling::{self, StatefulSetStrategy};
use crate::plan::WriteOperation;
use crate::pods::PodAvailability;
use crate::{ClusterView, ViewObject, WritePlan, revisions};

/// The status as the pods are. As upstream, one that is being deleted is ready as long as it is,
/// but of no revision any more.
pub(super) fn count(
    set: &StatefulSet,
    members: &[StatefulMember<'_>],
    current: &ControllerRevision,
    update: &ControllerRevision,
) -> StatefulSetStatus {
    let (mut ready, mut available, mut at_current, mut updated) = (0, 0, 0, 0);
    let (current, update) = (revisions::name(current), revisions::name(update));
    for member in members {
        match member.availability {
            PodAvailability::Available => {
                ready += 1;
                available += 1;
            }
            PodAvailability::From(_) => ready += 1,
            PodAvailability::NotReady => {}
        }
        if member.standing != MemberState::Terminating {
            at_current += i32::from(member.is_current);
            updated += i32::from(member.is_new);
        }
    }
    let replicas = i32::try_from(members.len()).unwrap_or(i32::MAX);
    let wanted = set.spec.replicas.unwrap_or(1);
    let is_complete = [replicas, ready, updated].iter().all(|count| *count == wanted);
    let is_rolled_out = match rolling::strategy(set) {
        StatefulSetStrategy::RollingUpdate { .. } => is_complete,
        StatefulSetStrategy::OnDelete => false,
    };
    let (current, at_current) =
        if is_rolled_out { (update, updated) } else { (current, at_current) };
    let shown = |count: i32| Some(count).filter(|count| *count != 0);
    StatefulSetStatus {
        replicas,
        ready_replicas: shown(ready),
        available_replicas: Some(available),
        current_replicas: shown(at_current),
        updated_replicas: shown(updated),
        current_revision: Some(current.to_owned()),
        update_revision: Some(update.to_owned()),
        collision_count: Some(0),
        observed_generation: set.metadata.generation,
        conditions: set.status.as_ref().and_then(|status| status.conditions.clone()),
    }
}

/// Adds the write of the status if it changed: before all else when the revisions changed, for what
/// is current must be known when the template changes again, and when writes were refused or are
/// held back; else not while pods are being made or deleted, whose answers bring us here again.
pub(super) fn update(
    view: &ClusterView,
    status: &StatefulSetStatus,
    set: &Arc<StatefulSet>,
    plan: &mut WritePlan,
) {
    let before = set.status.as_ref();
    if before == Some(status) {
        return;
    }
    let revisions = |status: &StatefulSetStatus| {
        (status.current_revision.clone(), status.update_revision.clone())
    };
    let is_news = before.map(revisions) != Some(revisions(status));
    let is_failing = view.is_hindered(&ViewObject::StatefulSet(set.clone()));
    if plan.batches.is_empty() || is_news || is_failing {
        let mut updated = set.as_ref().clone();
        updated.status = Some(status.clone());
        plan.batches.insert(0, vec![WriteOperation::UpdateStatus(updated.into()).into()]);
    }
}
