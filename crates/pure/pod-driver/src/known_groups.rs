//! The groups that a node's agent has seen, and what its pods do for them.

use std::collections::BTreeMap;
use std::sync::Arc;

use rekindle_types::v1alpha1::{MemberTurn, PodRestart};

/// Namespace and name.
type GroupKey = (String, String);

/// The PodRestarts with a selector. Before the first list is complete a group that is not here may
/// be there all the same; after it, one that is not here is gone and holds nothing.
#[derive(Clone, Debug, Default)]
pub struct KnownGroups {
    by_name: BTreeMap<GroupKey, Arc<PodRestart>>,
    is_complete: bool,
}

impl KnownGroups {
    /// A group is there, or has changed.
    pub fn see(&mut self, group: Arc<PodRestart>) {
        self.by_name.insert(key_of(&group), group);
    }

    /// A group is gone.
    pub fn forget(&mut self, group: &PodRestart) {
        self.by_name.remove(&key_of(group));
    }

    /// A list of all requests begins.
    pub fn list_begins(&mut self) {
        self.by_name.clear();
        self.is_complete = false;
    }

    /// The list of all requests is complete.
    pub fn list_ends(&mut self) {
        self.is_complete = true;
    }

    /// All that are known.
    pub fn all(&self) -> impl Iterator<Item = &Arc<PodRestart>> {
        self.by_name.values()
    }

    /// What is done with a request now.
    pub fn turn(&self, request: &PodRestart) -> MemberTurn {
        let namespace = request.metadata.namespace.clone().unwrap_or_default();
        let name = request.spec.member_of.clone();
        let group = name.and_then(|name| self.by_name.get(&(namespace, name)));
        let is_of_group = request.spec.member_of.is_some();
        match group {
            None if is_of_group && !self.is_complete => MemberTurn::Wait,
            group => request.member_turn(group.map(Arc::as_ref)),
        }
    }

    /// Whether the request is that of a member of this group.
    pub fn is_member(group: &PodRestart, request: &PodRestart) -> bool {
        request.spec.member_of.is_some()
            && request.spec.member_of == group.metadata.name
            && request.metadata.namespace == group.metadata.namespace
    }
}

fn key_of(group: &PodRestart) -> GroupKey {
    let meta = &group.metadata;
    (meta.namespace.clone().unwrap_or_default(), meta.name.clone().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_group_that_is_not_listed_yet_holds_its_members_and_one_that_is_gone_does_not() {
        let of = |object| -> Arc<PodRestart> { Arc::new(serde_json::from_value(object).unwrap()) };
        let meta = |name: &str| json!({"name": name, "namespace": "shop", "uid": name});
        let group = of(json!({
            "metadata": meta("train"),
            "spec": {"selector": {"matchLabels": {"job": "train"}}},
            "status": {"phase": "Running", "group": {"stage": "Stopping", "members": [
                {"podName": "web", "podUID": "p", "requestUID": "train-0"},
            ]}},
        }));
        let member = of(
            json!({"metadata": meta("train-0"), "spec": {"podName": "web", "memberOf": "train"}}),
        );
        let alone = of(json!({"metadata": meta("other"), "spec": {"podName": "web"}}));
        let mut groups = KnownGroups::default();
        assert_eq!(groups.turn(&alone), MemberTurn::Stop);
        assert_eq!(groups.turn(&member), MemberTurn::Wait);
        groups.see(group.clone());
        groups.list_ends();
        assert_eq!(groups.turn(&member), MemberTurn::Stop);
        assert!(KnownGroups::is_member(&group, &member) && !KnownGroups::is_member(&group, &alone));
        groups.list_begins();
        assert_eq!(groups.turn(&member), MemberTurn::Wait, "the list may have it yet");
        groups.list_ends();
        assert_eq!(groups.turn(&member), MemberTurn::Start, "it was deleted");
    }
}
