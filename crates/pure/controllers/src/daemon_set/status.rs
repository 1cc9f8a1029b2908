//! A DaemonSet's status.

use std::sync::Arc;

use k8s_openapi::api::apps::v1::{DaemonSet, DaemonSetStatus};

use super::DaemonSetSync;
use super::places::{DaemonNodes, NodeFit};
use crate::plan::WriteOperation;
use crate::{ClusterView, ViewObject, WritePlan};

impl DaemonSetSync<'_> {
    /// The status as the pods are: of each node that should have one, the oldest counts.
    pub(super) fn count(&mut self, places: &DaemonNodes<'_>) -> DaemonSetStatus {
        let (mut current, mut misplaced, mut ready, mut updated, mut available) = (0, 0, 0, 0, 0);
        for place in &places.all {
            let Some(daemon) = place.pods.first() else { continue };
            match place.fit {
                NodeFit::Wanted => {
                    current += 1;
                    ready += i32::from(daemon.is_ready());
                    available += i32::from(self.is_available(daemon));
                    updated += i32::from(daemon.is_updated);
                }
                NodeFit::Tolerated | NodeFit::Unfit => misplaced += 1,
                NodeFit::Gone => {}
            }
        }
        let desired = i32::try_from(places.wanted).unwrap_or(i32::MAX);
        let shown = |count: i32| Some(count).filter(|count| *count != 0);
        let before = self.set.status.as_ref();
        DaemonSetStatus {
            current_number_scheduled: current,
            number_misscheduled: misplaced,
            desired_number_scheduled: desired,
            number_ready: ready,
            observed_generation: self.set.metadata.generation,
            updated_number_scheduled: shown(updated),
            number_available: shown(available),
            number_unavailable: shown(desired - available),
            collision_count: before.and_then(|status| status.collision_count),
            conditions: before.and_then(|status| status.conditions.clone()),
        }
    }
}

/// Adds the write of the status if it changed. Not while pods are being made or deleted, whose
/// answers bring us here again; but when such writes were refused or are held back, it goes first.
pub(super) fn update(
    view: &ClusterView,
    status: DaemonSetStatus,
    set: &Arc<DaemonSet>,
    plan: &mut WritePlan,
) {
    let is_failing = view.is_hindered(&ViewObject::DaemonSet(set.clone()));
    if set.status.as_ref() == Some(&status) || (!plan.batches.is_empty() && !is_failing) {
        return;
    }
    let mut updated = set.as_ref().clone();
    updated.status = Some(status);
    plan.batches.insert(0, vec![WriteOperation::UpdateStatus(updated.into()).into()]);
}
