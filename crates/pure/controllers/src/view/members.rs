//! The pods that each controller manages, with what is counted of them. Who counts a thousand pods
//! whenever one of them changes looks at a few words of each here, which stand side by side, and
//! not at the pods, which are all over memory.

use std::collections::BTreeMap;
use std::sync::Arc;

use rekindle_types::held::HeldPod;
use rekindle_types::labels::Labels;
use rekindle_types::{Tick, TickDuration};

use super::objects::remove_from;
use crate::pods::{self, PodAvailability};
use crate::{NamespacedName, owners};

/// A pod that a controller manages.
#[derive(Clone, Debug)]
pub(crate) struct ManagedPod {
    /// The pod.
    pub(crate) pod: Arc<HeldPod>,
    /// Its labels. Most members share theirs, as they are of one template: what is asked of labels
    /// is asked once.
    pub(crate) labels: Arc<Labels>,
    /// Whether it counts.
    pub(crate) standing: PodActivity,
    readiness: MemberReadiness,
}

/// Whether a pod counts among those that are wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PodActivity {
    /// It does.
    Active,
    /// It is being deleted, and has not ended.
    Terminating,
    /// It has ended.
    Finished,
}

impl PodActivity {
    pub(crate) fn from_pod(pod: &HeldPod) -> Self {
        match (pods::is_finished(pod), pods::is_terminating(pod)) {
            (true, _) => Self::Finished,
            (false, true) => Self::Terminating,
            (false, false) => Self::Active,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MemberReadiness {
    Ready,
    NotReady,
}

/// The members of each controller, by its UID.
#[derive(Clone, Debug, Default)]
pub(super) struct ControllerMembers {
    by_controller: BTreeMap<String, BTreeMap<NamespacedName, ManagedPod>>,
}

impl ControllerMembers {
    /// A pod is there. In another version it was taken out before.
    pub(super) fn insert(&mut self, name: &NamespacedName, pod: &Arc<HeldPod>) {
        static NONE: Labels = Labels::new();
        let Some(controller) = owners::controller_of(&pod.metadata) else { return };
        let members = match self.by_controller.get_mut(&controller.uid) {
            Some(members) => members,
            None => self.by_controller.entry(controller.uid.clone()).or_default(),
        };
        let labels = pod.metadata.labels.as_ref().unwrap_or(&NONE);
        let labels = match members.values().next() {
            Some(other) if *other.labels == *labels => other.labels.clone(),
            Some(_) | None => Arc::new(labels.clone()),
        };
        members.insert(name.clone(), ManagedPod::new(pod, labels));
    }

    /// A pod is gone, or there is another version of it.
    pub(super) fn remove(&mut self, name: &NamespacedName, pod: &HeldPod) {
        if let Some(controller) = owners::controller_of(&pod.metadata) {
            remove_from(&mut self.by_controller, controller.uid.as_str(), name);
        }
    }

    /// The members of a controller, by their names.
    pub(super) fn of(&self, controller_uid: &str) -> impl Iterator<Item = &ManagedPod> {
        self.by_controller.get(controller_uid).into_iter().flat_map(BTreeMap::values)
    }
}

impl ManagedPod {
    fn new(pod: &Arc<HeldPod>, labels: Arc<Labels>) -> Self {
        let standing = PodActivity::from_pod(pod);
        let readiness = match pods::is_ready(pod) {
            true => MemberReadiness::Ready,
            false => MemberReadiness::NotReady,
        };
        Self { pod: pod.clone(), labels, standing, readiness }
    }

    /// See [`pods::availability`].
    pub(crate) fn availability(&self, min_ready: TickDuration, now: Tick) -> PodAvailability {
        match self.readiness {
            MemberReadiness::NotReady => PodAvailability::NotReady,
            MemberReadiness::Ready if min_ready == TickDuration::ZERO => PodAvailability::Available,
            MemberReadiness::Ready => pods::availability(&self.pod, min_ready, now),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn pod(name: &str, owner: &str, app: &str, status: Value) -> Arc<HeldPod> {
        let owner = json!({
            "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": owner, "uid": owner, "controller": true,
        });
        let pod = json!({
            "metadata": {"name": name, "labels": {"app": app}, "ownerReferences": [owner]},
            "status": status,
        });
        Arc::new(serde_json::from_value(pod).unwrap())
    }

    fn put(members: &mut ControllerMembers, before: Option<&HeldPod>, pod: &Arc<HeldPod>) {
        let name = NamespacedName::from_meta(&pod.metadata);
        before.into_iter().for_each(|before| members.remove(&name, before));
        members.insert(&name, pod);
    }

    #[test]
    fn a_pod_is_a_member_of_the_controller_that_it_has_now() {
        let mut members = ControllerMembers::default();
        let first = pod("a", "one", "web", json!({}));
        put(&mut members, None, &first);
        put(&mut members, Some(&first), &pod("a", "two", "web", json!({})));
        assert_eq!(members.of("one").count(), 0);
        assert_eq!(members.of("two").count(), 1);
        members.remove(
            &NamespacedName::from_meta(&first.metadata),
            &pod("a", "two", "web", json!({})),
        );
        assert!(members.by_controller.is_empty());
    }

    #[test]
    fn what_is_counted_is_that_of_the_newest_version() {
        let mut members = ControllerMembers::default();
        let mut before: Option<Arc<HeldPod>> = None;
        let ready = json!({"conditions": [{"type": "Ready", "status": "True"}]});
        let cases = [
            (json!({}), PodActivity::Active, PodAvailability::NotReady),
            (ready, PodActivity::Active, PodAvailability::Available),
            (json!({"phase": "Failed"}), PodActivity::Finished, PodAvailability::NotReady),
        ];
        for (status, standing, availability) in cases {
            let next = pod("a", "one", "web", status.clone());
            put(&mut members, before.as_deref(), &next);
            let [member] = members.of("one").collect::<Vec<_>>()[..] else { panic!("{status}") };
            assert_eq!(member.standing, standing, "{status}");
            assert_eq!(member.availability(TickDuration::ZERO, Tick::ZERO), availability);
            before = Some(next);
        }
    }

    #[test]
    fn members_of_one_template_share_their_labels() {
        let mut members = ControllerMembers::default();
        for (name, app) in [("a", "web"), ("b", "web"), ("c", "other")] {
            put(&mut members, None, &pod(name, "one", app, json!({})));
        }
        let [a, b, c] = members.of("one").collect::<Vec<_>>()[..] else { panic!("three") };
        assert!(Arc::ptr_eq(&a.labels, &b.labels));
        assert_eq!(c.labels["app"], "other");
    }
}
