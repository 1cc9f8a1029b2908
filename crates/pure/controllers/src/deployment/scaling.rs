//! A change of `spec.replicas` while a rollout is under way or paused: the ReplicaSets grow or
//! shrink in proportion.
//!
//! Source: upstream's `scale` and `GetReplicaSetProportion`.

use std::cmp::Reverse;

use super::fenceposts::{self, RolloutStrategy};
use super::rollout::{Rollout, age_order};
use super::{annotations, rollout::RolloutReplicaSet};

impl Rollout<'_> {
    /// True when an active ReplicaSet was sized for another number of replicas than the Deployment
    /// asks for now.
    pub(super) fn is_scaling_event(&self) -> bool {
        self.sets.iter().filter(|member| member.replicas > 0).any(|member| {
            annotations::number::<i32>(&member.set, annotations::DESIRED)
                .is_some_and(|desired| desired != self.wanted())
        })
    }

    /// Brings the ReplicaSets to the new number.
    pub(super) fn scale(&mut self) {
        let wanted = self.wanted();
        if let Some(index) = self.active_or_latest() {
            self.resize(index, wanted);
            return;
        }
        if self.is_saturated() {
            for index in self.old() {
                if self.sets[index].replicas != 0 {
                    self.resize(index, 0);
                }
            }
            return;
        }
        match fenceposts::strategy(self.deployment) {
            RolloutStrategy::Recreate => {}
            RolloutStrategy::RollingUpdate => self.scale_in_proportion(),
        }
    }

    /// The only active ReplicaSet, or when none is active the newest.
    fn active_or_latest(&self) -> Option<usize> {
        let mut active = (0..self.sets.len()).filter(|index| self.sets[*index].replicas > 0);
        match (active.next(), active.next()) {
            (Some(only), None) => Some(only),
            (Some(_), Some(_)) => None,
            (None, _) => self.new.or_else(|| self.old().last()),
        }
    }

    /// True when the new ReplicaSet has all the pods it should and they are available.
    fn is_saturated(&self) -> bool {
        let Some(member) = self.new.map(|index| &self.sets[index]) else { return false };
        let wanted = self.wanted();
        member.replicas == wanted
            && annotations::number(&member.set, annotations::DESIRED) == Some(wanted)
            && member.available() == wanted
    }

    fn scale_in_proportion(&mut self) {
        let wanted = self.wanted();
        let allowed = if wanted > 0 {
            wanted.saturating_add(fenceposts::max_surge(self.deployment))
        } else {
            0
        };
        let active: Vec<usize> =
            (0..self.sets.len()).filter(|index| self.sets[*index].replicas > 0).collect();
        let to_add = allowed - self.total();
        let active = self.by_size(active, to_add);
        let mut added = 0;
        let mut sizes = Vec::new();
        for index in &active {
            let member = &self.sets[*index];
            let share = self.share(member, to_add, added);
            added += share;
            sizes.push((*index, member.replicas + share));
        }
        for (place, (index, size)) in sizes.into_iter().enumerate() {
            // The largest takes what rounding left over.
            let leftover = if place == 0 { to_add - added } else { 0 };
            self.resize(index, (size + leftover).max(0));
        }
    }

    /// The largest first; of equal ones the newest first when growing, the oldest when shrinking.
    fn by_size(&self, mut active: Vec<usize>, to_add: i32) -> Vec<usize> {
        active.sort_by(|a, b| {
            let (a, b) = (&self.sets[*a], &self.sets[*b]);
            let by_age = age_order(&a.set, &b.set);
            let by_age = if to_add > 0 { by_age.reverse() } else { by_age };
            Reverse(a.replicas).cmp(&Reverse(b.replicas)).then(by_age)
        });
        active
    }

    /// The part of `to_add` that falls to a ReplicaSet, of which `added` is given out already.
    fn share(&self, member: &RolloutReplicaSet, to_add: i32, added: i32) -> i32 {
        if member.replicas == 0 || to_add == 0 || to_add == added {
            return 0;
        }
        let fraction = self.fraction(member);
        let left = to_add - added;
        if to_add > 0 { fraction.min(left) } else { fraction.max(left) }
    }

    fn fraction(&self, member: &RolloutReplicaSet) -> i32 {
        let wanted = self.wanted();
        if wanted == 0 {
            return -member.replicas;
        }
        let max_now = wanted.saturating_add(fenceposts::max_surge(self.deployment));
        let max_before = annotations::number::<i32>(&member.set, annotations::MAX)
            .filter(|max| *max > 0)
            .or(self.deployment.status.as_ref().and_then(|status| status.replicas))
            .filter(|max| *max > 0)
            .unwrap_or(max_now);
        rounded_quotient(i64::from(member.replicas) * i64::from(max_now), i64::from(max_before))
            - member.replicas
    }
}

/// `a / b` for `b > 0`, a half rounded up.
fn rounded_quotient(a: i64, b: i64) -> i32 {
    i32::try_from((2 * a + b).div_euclid(2 * b)).unwrap_or(i32::MAX)
}
