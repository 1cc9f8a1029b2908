//! The rules of [`super::ladder_rules`] in the words of a schema: patterns, and expressions of CEL
//! (`x-kubernetes-validations`) for a cluster whose API server is another one. What cannot be said
//! so, the syntax of labels, is in the ladder's condition Accepted.

/// A name as pods have them: RFC 1123 subdomain. Its length is limited beside it.
pub(super) const POD_NAME: &str =
    r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$";

/// A name as containers have them: RFC 1123 label.
pub(super) const CONTAINER_NAME: &str = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$";

/// What looks like a span of time.
pub(super) const SPAN: &str = r"^([0-9]+(h|m|s|ms))+$";
/// How long a span may be. What does not look like one is left to the pattern. CEL counts in
/// nanoseconds and fails beyond 292 years, so no part may have more digits than thirty days have in
/// its unit.
pub(super) const SPAN_RULE: &str = "!self.matches('^([0-9]+(h|m|s|ms))+$') || \
    (self.matches('^(0*([0-9]{1,3}h|[0-9]{1,5}m|[0-9]{1,7}s|[0-9]{1,10}ms))+$') \
    && duration(self) > duration('0s') && duration(self) <= duration('720h'))";
/// What it says.
pub(super) const SPAN_MESSAGE: &str = "must be greater than zero and no more than 720h";

/// A selector that selects something.
pub(super) const SELECTOR_RULE: &str = "(has(self.matchLabels) && size(self.matchLabels) > 0) || \
    (has(self.matchExpressions) && size(self.matchExpressions) > 0)";
/// What it says.
pub(super) const SELECTOR_MESSAGE: &str = "a ladder must say which pods it is for";

/// The same of the pods of a group.
pub(super) const GROUP_SELECTOR_MESSAGE: &str = "a group must say which pods it is for";

/// A request is for one pod or for a group.
pub(super) const TARGET_RULE: &str = "has(self.podName) != has(self.selector)";
/// What it says.
pub(super) const TARGET_MESSAGE: &str = "set either podName or selector";
/// A group has many UIDs.
pub(super) const GROUP_UID_RULE: &str = "!has(self.podUID) || !has(self.selector)";
/// What it says.
pub(super) const GROUP_UID_MESSAGE: &str = "may not be set together with selector";
/// The rungs of groups: a container's own restart and a Deployment's rollback are of no group.
pub(super) const GROUP_RUNG_RULE: &str = "!has(self.selector) || !has(self.rung) || \
    !(self.rung in ['Container', 'Rollback'])";
/// What it says.
pub(super) const GROUP_RUNG_MESSAGE: &str =
    "the pods of a group restart as one on the rungs Containers, Pod, Recreate and Reschedule only";
/// Of the request of a member: it is for one pod, on the same rungs.
pub(super) const MEMBER_RULE: &str = "!has(self.memberOf) || (!has(self.selector) && \
    (!has(self.rung) || !(self.rung in ['Container', 'Rollback'])))";
/// What it says.
pub(super) const MEMBER_MESSAGE: &str =
    "may only be set for one pod, on the rungs Containers, Pod, Recreate and Reschedule";
/// A workload narrows the selector of a group.
pub(super) const WORKLOAD_RULE: &str = "!has(self.workload) || has(self.selector)";
/// What it says.
pub(super) const WORKLOAD_MESSAGE: &str = "may only be set together with selector";

/// A ladder for groups: the pods of one may be of two revisions.
pub(super) const GROUP_ROLLBACK_RULE: &str = "!has(self.scope) || self.scope != 'Group' || \
    self.rungs.all(step, step.rung != 'Rollback')";
/// What it says.
pub(super) const GROUP_ROLLBACK_MESSAGE: &str =
    "the rung Rollback is not for scope Group: use a ladder of scope Pod for it";
/// The same: pods that end as Failed are made again one by one.
pub(super) const GROUP_FAIL_RULE: &str = "!has(self.scope) || self.scope != 'Group' || \
    !has(self.onExhausted) || self.onExhausted != 'Fail'";
/// What it says.
pub(super) const GROUP_FAIL_MESSAGE: &str = "Fail is not for scope Group: use Hold";

/// The order of the rungs. They are at most six and none stands twice, so that each has to be
/// compared with the next; all pairs would be beyond what a server lets an expression cost.
pub(super) const ORDER_RULE: &str = "[0, 1, 2, 3, 4].all(i, i + 1 >= size(self) || \
    {'Container': 0, 'Containers': 1, 'Pod': 2, 'Recreate': 3, 'Reschedule': 4, 'Rollback': 5}[self[i].rung] <= \
    {'Container': 0, 'Containers': 1, 'Pod': 2, 'Recreate': 3, 'Reschedule': 4, 'Rollback': 5}[self[i + 1].rung])";
/// What it says.
pub(super) const ORDER_MESSAGE: &str =
    "the order is Container, Containers, Pod, Recreate, Reschedule, Rollback";

/// Of a rung of a ladder, and of a request whose rung may be left out (Pod): what becomes of
/// emptyDir volumes.
pub(super) const EMPTY_DIRS_RULE: &str =
    "!has(self.emptyDirs) || !has(self.rung) || self.rung == 'Pod'";
/// What it says.
pub(super) const EMPTY_DIRS_MESSAGE: &str = "may only be set on the rung Pod";
/// The same: which container alone is restarted.
pub(super) const CONTAINER_RULE: &str =
    "!has(self.containerName) || (has(self.rung) && self.rung == 'Container')";
/// What it says.
pub(super) const CONTAINER_MESSAGE: &str = "may only be set on the rung Container";
/// The same: how long the node is avoided.
pub(super) const AVOIDANCE_RULE: &str =
    "!has(self.avoidNodeFor) || (has(self.rung) && self.rung == 'Reschedule')";
/// What it says.
pub(super) const AVOIDANCE_MESSAGE: &str = "may only be set on the rung Reschedule";

/// Of the status of a request: which pod it was taken up for.
pub(super) const TAKEN_UP_RULE: &str =
    "!has(oldSelf.podUID) || (has(self.podUID) && self.podUID == oldSelf.podUID)";
/// What it says.
pub(super) const TAKEN_UP_MESSAGE: &str = "the request was taken up for another pod";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::v1alpha1::Rung;

    #[test]
    fn the_order_is_that_of_the_rungs_and_every_neighbour_is_compared() {
        let places = Rung::ALL.iter().enumerate();
        let places: Vec<String> = places.map(|(n, rung)| format!("'{rung}': {n}")).collect();
        assert_eq!(ORDER_RULE.matches(&format!("{{{}}}", places.join(", "))).count(), 2);
        let pairs: Vec<String> = (0..Rung::ALL.len() - 1).map(|n| n.to_string()).collect();
        assert!(ORDER_RULE.starts_with(&format!("[{}].all(", pairs.join(", "))), "{ORDER_RULE}");
        assert!(ORDER_MESSAGE.ends_with(&Rung::ALL.map(Rung::name).join(", ")));
        assert!(Rung::ALL.is_sorted());
    }

    #[test]
    fn the_rule_of_spans_begins_with_their_pattern() {
        assert!(SPAN_RULE.starts_with(&format!("!self.matches('{SPAN}') || ")), "{SPAN_RULE}");
        assert!(!SPAN_RULE.contains('\n') && !ORDER_RULE.contains('\n'));
    }
}
