//! The pods that each controller manages, with what is counted of them. Who counts a thousand pods
//! whenever one of them changes looks at a few words of each here, which stand side by side, and
//! not at the pods, which are all over memory.

use std::collections::BTreeMap;
use std::sync::Arc;

use rekindle_types::held::Pod;
use rekindle_types::labels::Labels;
use rekindle_types::{Tick, TickDuration};

use super::objects::remove_from;
use crate::pods::{self, Availability};
use crate::{NamespacedName, owners};

/// A pod that a controller manages.
#[derive(Clone, Debug)]
pub(crate) struct Member {
    /// The pod.
    pub(crate) pod: Arc<Pod>,
    /// Its labels. Most members share theirs, as they are of one template: what is asked of labels
    /// is asked once.
    pub(crate) labels: Arc<Labels>,
    /// Whether it counts.
    pub(crate) standing: Standing,
    readiness: Readiness,
}

/// Whether a pod counts among those that are wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// It does.
    Active,
    /// It is being deleted, and has not ended.
    Terminating,
    /// It has ended.
    Finished,
}

impl Standing {
    pub(crate) fn of(pod: &Pod) -> Self {
        match (pods::is_finished(pod), pods::is_terminating(pod)) {
            (true, _) => Self::Finished,
            (false, true) => Self::Terminating,
            (false, false) => Self::Active,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Readiness {
    Ready,
    NotReady,
}

/// The members of each controller, by its UID.
#[derive(Clone, Debug, Default)]
pub(super) struct Members {
    by_controller: BTreeMap<String, BTreeMap<NamespacedName, Member>>,
}

impl Members {
    /// A pod is there. In another version it was taken out before.
    pub(super) fn insert(&mut self, name: &NamespacedName, pod: &Arc<Pod>) {
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
        members.insert(name.clone(), Member::of(pod, labels));
    }

    /// A pod is gone, or there is another version of it.
    pub(super) fn remove(&mut self, name: &NamespacedName, pod: &Pod) {
        if let Some(controller) = owners::controller_of(&pod.metadata) {
            remove_from(&mut self.by_controller, controller.uid.as_str(), name);
        }
    }

    /// The members of a controller, by their names.
    pub(super) fn of(&self, controller_uid: &str) -> impl Iterator<Item = &Member> {
        self.by_controller.get(controller_uid).into_iter().flat_map(BTreeMap::values)
    }
}

impl Member {
    fn of(pod: &Arc<Pod>, labels: Arc<Labels>) -> Self {
        let standing = Standing::of(pod);
        let readiness = match pods::is_ready(pod) {
            true => Readiness::Ready,
            false => Readiness::NotReady,
        };
        Self { pod: pod.clone(), labels, standing, readiness }
    }

    /// See [`pods::availability`].
    pub(crate) fn availability(&self, min_ready: TickDuration, now: Tick) -> Availability {
        match self.readiness {
            Readiness::NotReady => Availability::NotReady,
            Readiness::Ready if min_ready == TickDuration::ZERO => Availability::Available,
            Readiness::Ready => pods::availability(&self.pod, min_ready, now),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn pod(name: &str, owner: &str, app: &str, status: Value) -> Arc<Pod> {
        let owner = json!({
            "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": owner, "uid": owner, "controller": true,
        });
        let pod = json!({
            "metadata": {"name": name, "labels": {"app": app}, "ownerReferences": [owner]},
            "status": status,
        });
        Arc::new(serde_json::from_value(pod).unwrap())
    }

    fn put(members: &mut Members, before: Option<&Pod>, pod: &Arc<Pod>) {
        let name = NamespacedName::of(&pod.metadata);
        before.into_iter().for_each(|before| members.remove(&name, before));
        members.insert(&name, pod);
    }

    #[test]
    fn a_pod_is_a_member_of_the_controller_that_it_has_now() {
        let mut members = Members::default();
        let first = pod("a", "one", "web", json!({}));
        put(&mut members, None, &first);
        put(&mut members, Some(&first), &pod("a", "two", "web", json!({})));
        assert_eq!(members.of("one").count(), 0);
        assert_eq!(members.of("two").count(), 1);
        members.remove(&NamespacedName::of(&first.metadata), &pod("a", "two", "web", json!({})));
        assert!(members.by_controller.is_empty());
    }

    #[test]
    fn what_is_counted_is_that_of_the_newest_version() {
        let mut members = Members::default();
        let mut before: Option<Arc<Pod>> = None;
        let ready = json!({"conditions": [{"type": "Ready", "status": "True"}]});
        let cases = [
            (json!({}), Standing::Active, Availability::NotReady),
            (ready, Standing::Active, Availability::Available),
            (json!({"phase": "Failed"}), Standing::Finished, Availability::NotReady),
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
        let mut members = Members::default();
        for (name, app) in [("a", "web"), ("b", "web"), ("c", "other")] {
            put(&mut members, None, &pod(name, "one", app, json!({})));
        }
        let [a, b, c] = members.of("one").collect::<Vec<_>>()[..] else { panic!("three") };
        assert!(Arc::ptr_eq(&a.labels, &b.labels));
        assert_eq!(c.labels["app"], "other");
    }
}
