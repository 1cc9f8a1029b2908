//! The rolling update: never more pods than `replicas + maxSurge`, never fewer available than
//! `replicas - maxUnavailable`.

use super::fenceposts;
use super::new_set::NewReplicaSet;
use super::rollout::{Rollout, RolloutReplicaSet};
use super::status;

impl Rollout<'_> {
    /// One step of a rolling update.
    pub(super) fn roll(&mut self) {
        match self.ensure_new_set() {
            NewReplicaSet::InTheMaking | NewReplicaSet::Absent => return,
            NewReplicaSet::Ready => {}
        }
        if !self.scale_up_new() && !self.scale_down_old() {
            let calculated = self.calculate_status();
            if status::is_complete(self.deployment, &calculated) {
                self.clean_up_history();
            }
        }
        self.sync_rollout_status();
    }

    /// How large the new ReplicaSet may be now, if it has `current` pods.
    pub(super) fn room_for_new(&self, current: i32) -> i32 {
        let wanted = self.wanted();
        let max_total = wanted.saturating_add(fenceposts::max_surge(self.deployment));
        let total = self.total();
        if total >= max_total {
            return current;
        }
        current + (max_total - total).min(wanted - current).max(0)
    }

    /// True if the new ReplicaSet has another size now.
    fn scale_up_new(&mut self) -> bool {
        let Some(index) = self.new else { return false };
        let current = self.sets[index].replicas;
        let wanted = self.wanted();
        let target = if current > wanted { wanted } else { self.room_for_new(current) };
        target != current && self.resize(index, target)
    }

    /// True if an old ReplicaSet is smaller now.
    fn scale_down_old(&mut self) -> bool {
        let Some(new) = self.new else { return false };
        // A status that does not speak of the present spec may count pods that are being given up
        // (upstream trusts it, and may fall below the minimum for a moment). It will speak soon,
        // and that brings the next look.
        if self.old_total() == 0 || !self.sets.iter().all(RolloutReplicaSet::is_observed) {
            return false;
        }
        let min_available = self.wanted() - fenceposts::max_unavailable(self.deployment);
        let new_unavailable = self.sets[new].replicas - self.sets[new].available();
        let spare = self.total() - min_available - new_unavailable;
        if spare <= 0 {
            return false;
        }
        let cleaned = self.drop_unhealthy(spare);
        let dropped = self.drop_available(min_available, spare - cleaned);
        cleaned + dropped > 0
    }

    /// Old pods that are not available go first: they serve nobody. The result is how many.
    fn drop_unhealthy(&mut self, at_most: i32) -> i32 {
        let mut dropped = 0;
        for index in self.old() {
            let replicas = self.sets[index].replicas;
            let unhealthy = replicas - self.sets[index].available();
            if dropped >= at_most || replicas == 0 || unhealthy <= 0 {
                continue;
            }
            let count = unhealthy.min(at_most - dropped);
            self.resize(index, replicas - count);
            dropped += count;
        }
        dropped
    }

    /// Then those that are more than must be available. The result is how many.
    ///
    /// A ReplicaSet's status may be older than its spec: pods that it was told to give up still
    /// count as available in it. So no more are counted than it is asked for, and no more are
    /// dropped than were found to spare (upstream drops more when statuses lag).
    fn drop_available(&mut self, min_available: i32, at_most: i32) -> i32 {
        let sets = self.sets.iter();
        let available: i32 = sets.map(|member| member.available().min(member.replicas)).sum();
        let mut left = (available - min_available).min(at_most);
        let mut dropped = 0;
        for index in self.old() {
            let replicas = self.sets[index].replicas;
            if left <= 0 || replicas == 0 {
                continue;
            }
            let count = replicas.min(left);
            self.resize(index, replicas - count);
            left -= count;
            dropped += count;
        }
        dropped
    }
}
