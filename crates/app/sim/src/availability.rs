//! How many of the pods that are wanted serve: Ready in the API, on a node that is connected. Kept
//! up to date change by change, so that a world of many pods costs nothing while nothing happens.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use rekindle_controllers::{NamespacedName, ObjectId, ResourceKind, ViewObject, owners};
use rekindle_types::held::HeldPod;
use rekindle_types::pods::is_ready;

/// The account.
#[derive(Debug, Default)]
pub(crate) struct AvailabilityAccount {
    /// By the UID of the Deployment, ReplicaSet, ReplicationController, StatefulSet or DaemonSet,
    /// or by namespace/name of a naked pod: that stays wanted when it is lost.
    workloads: BTreeMap<String, ServingCount>,
    /// From the UID of a ReplicaSet to that of its Deployment.
    parents: BTreeMap<String, String>,
    pods: BTreeMap<String, CountedPod>,
    /// Naked pods that are not wanted any more, by their UIDs.
    given_up: BTreeSet<String>,
    cut_off: BTreeSet<String>,
    total: AvailabilityTotal,
}

/// What is wanted, and what is missing of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AvailabilityTotal {
    /// Pods that workloads ask for. Those of Jobs do not count: they are to end.
    pub wanted: u64,
    /// Those of them that do not serve.
    pub missing: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct ServingCount {
    wanted: u64,
    serving: u64,
}

#[derive(Clone, Debug)]
struct CountedPod {
    workload: String,
    node: String,
    readiness: ServingReadiness,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ServingReadiness {
    Ready,
    NotReady,
}

impl ServingCount {
    const fn missing(self) -> u64 {
        self.wanted.saturating_sub(self.serving)
    }
}

impl AvailabilityAccount {
    /// What there is now.
    pub(crate) const fn total(&self) -> AvailabilityTotal {
        self.total
    }

    /// An object is there, or there in another version.
    pub(crate) fn applied(&mut self, object: &ViewObject) {
        let uid = object.uid();
        match object {
            ViewObject::Deployment(found) => {
                self.want(uid, wanted(&found.metadata, found.spec.replicas));
            }
            ViewObject::StatefulSet(found) => {
                self.want(uid, wanted(&found.metadata, found.spec.replicas));
            }
            ViewObject::ReplicationController(found) => {
                let replicas = found.spec.as_ref().and_then(|spec| spec.replicas);
                self.want(uid, wanted(&found.metadata, replicas));
            }
            ViewObject::DaemonSet(found) => {
                // on as many nodes as its controller has found
                let nodes = found.status.as_ref().map(|status| status.desired_number_scheduled);
                self.want(uid, wanted(&found.metadata, Some(nodes.unwrap_or(0))));
            }
            ViewObject::ReplicaSet(found) => match owners::controller_of(&found.metadata) {
                Some(owner) => {
                    self.parents.insert(uid.to_owned(), owner.uid.clone());
                }
                None => self.want(uid, wanted(&found.metadata, found.spec.replicas)),
            },
            ViewObject::Pod(pod) => self.count(uid, pod),
            _ => {}
        }
    }

    /// An object is gone.
    pub(crate) fn deleted(&mut self, object: &ViewObject) {
        let uid = object.uid();
        if let ViewObject::Pod(_) = object {
            self.discount(uid);
        }
        if self.workloads.contains_key(uid) {
            self.want(uid, 0);
        }
    }

    /// Somebody deletes this by hand: a naked pod, or a namespace with all of these, is not wanted
    /// any more.
    pub(crate) fn give_up(&mut self, id: &ObjectId) {
        let given_up = |key: &str| match id.kind {
            ResourceKind::Pod => key == id.name.to_string(),
            ResourceKind::Namespace => {
                key.split_once('/').is_some_and(|(of, _)| of == id.name.name)
            }
            _ => false,
        };
        let keys: Vec<String> =
            self.workloads.keys().filter(|key| given_up(key)).cloned().collect();
        let pods = self.pods.iter().filter(|(_, pod)| given_up(&pod.workload));
        self.given_up.extend(pods.map(|(uid, _)| uid.clone()));
        keys.iter().for_each(|key| self.want(key, 0));
    }

    /// These nodes cannot be reached, all others can.
    pub(crate) fn cut_off(&mut self, nodes: &BTreeSet<String>) {
        let before = std::mem::replace(&mut self.cut_off, nodes.clone());
        let differing: BTreeSet<&String> = before.symmetric_difference(nodes).collect();
        let touched = self.pods.values().filter(|pod| {
            pod.readiness == ServingReadiness::Ready && differing.contains(&pod.node)
        });
        let touched: Vec<(String, bool)> =
            touched.map(|pod| (pod.workload.clone(), nodes.contains(&pod.node))).collect();
        for (workload, lost) in touched {
            self.change(&workload, |workload| match lost {
                true => workload.serving = workload.serving.saturating_sub(1),
                false => workload.serving += 1,
            });
        }
    }

    fn count(&mut self, uid: &str, pod: &HeldPod) {
        let workload = match owners::controller_of(&pod.metadata) {
            Some(owner) => self.parents.get(&owner.uid).unwrap_or(&owner.uid).clone(),
            None => {
                let name = NamespacedName::from_meta(&pod.metadata).to_string();
                if !self.given_up.contains(uid) {
                    self.want(&name, u64::from(is_to_stay(pod)));
                }
                name
            }
        };
        let node = pod.node_name.clone().unwrap_or_default();
        let readiness = match is_ready(pod) && pod.metadata.deletion_timestamp.is_none() {
            true => ServingReadiness::Ready,
            false => ServingReadiness::NotReady,
        };
        let same = self.pods.get(uid);
        if same.is_some_and(|known| known.readiness == readiness && known.node == node) {
            return;
        }
        self.discount(uid);
        let counted = CountedPod { workload, node, readiness };
        if self.serves(&counted) {
            self.change(&counted.workload, |workload| workload.serving += 1);
        }
        self.pods.insert(uid.to_owned(), counted);
    }

    fn discount(&mut self, uid: &str) {
        let Some(counted) = self.pods.remove(uid) else { return };
        if self.serves(&counted) {
            self.change(&counted.workload, |workload| {
                workload.serving = workload.serving.saturating_sub(1);
            });
        }
    }

    fn serves(&self, pod: &CountedPod) -> bool {
        pod.readiness == ServingReadiness::Ready && !self.cut_off.contains(&pod.node)
    }

    fn want(&mut self, uid: &str, wanted: u64) {
        self.change(uid, |workload| workload.wanted = wanted);
    }

    fn change(&mut self, uid: &str, change: impl FnOnce(&mut ServingCount)) {
        let workload = self.workloads.entry(uid.to_owned()).or_default();
        self.total.wanted -= workload.wanted;
        self.total.missing -= workload.missing();
        change(workload);
        self.total.wanted += workload.wanted;
        self.total.missing += workload.missing();
    }
}

/// Nothing is wanted of what is being deleted; one replica is the default.
fn wanted(meta: &ObjectMeta, replicas: Option<i32>) -> u64 {
    match meta.deletion_timestamp {
        Some(_) => 0,
        None => u64::try_from(replicas.unwrap_or(1)).unwrap_or(0),
    }
}

/// A naked pod that is to run for good.
fn is_to_stay(pod: &HeldPod) -> bool {
    let policy = pod.spec.as_ref().and_then(|spec| spec.restart_policy.as_deref());
    policy.unwrap_or("Always") == "Always"
}

#[cfg(test)]
mod tests {
    use rekindle_controllers::ResourceKind;
    use rekindle_reconcile::wire::object_from_json;
    use serde_json::{Value, json};

    use super::*;

    fn object(kind: ResourceKind, value: Value) -> ViewObject {
        object_from_json(kind, value.to_string().as_bytes()).expect("it is one")
    }

    fn deployment(replicas: u64) -> ViewObject {
        let selector = json!({"matchLabels": {"app": "web"}});
        let spec = json!({"replicas": replicas, "selector": selector, "template": {}});
        object(
            ResourceKind::Deployment,
            json!({"metadata": {"name": "web", "uid": "d"}, "spec": spec}),
        )
    }

    fn owned(kind: ResourceKind, uid: &str, owner: (&str, &str), rest: Value) -> ViewObject {
        let owner = json!([{
            "apiVersion": "apps/v1", "kind": owner.0, "name": "web", "uid": owner.1, "controller": true,
        }]);
        let mut value = json!({"metadata": {"name": uid, "uid": uid, "ownerReferences": owner}});
        for (field, content) in rest.as_object().expect("an object") {
            value[field] = content.clone();
        }
        object(kind, value)
    }

    fn pod(uid: &str, node: &str, ready: &str) -> ViewObject {
        let rest = json!({
            "spec": {"nodeName": node, "containers": []},
            "status": {"conditions": [{"type": "Ready", "status": ready}]},
        });
        owned(ResourceKind::Pod, uid, ("ReplicaSet", "r"), rest)
    }

    #[test]
    fn a_deployment_s_pods_are_counted_through_its_replica_sets_and_by_what_can_be_reached() {
        let mut account = AvailabilityAccount::default();
        account.applied(&deployment(2));
        let set = json!({"spec": {"replicas": 2, "selector": {}}});
        account.applied(&owned(ResourceKind::ReplicaSet, "r", ("Deployment", "d"), set));
        assert_eq!(account.total(), AvailabilityTotal { wanted: 2, missing: 2 });
        account.applied(&pod("a", "one", "True"));
        account.applied(&pod("b", "two", "True"));
        account.applied(&pod("b", "two", "True"));
        assert_eq!(account.total(), AvailabilityTotal { wanted: 2, missing: 0 });
        account.cut_off(&BTreeSet::from(["two".to_owned()]));
        assert_eq!(account.total(), AvailabilityTotal { wanted: 2, missing: 1 });
        account.applied(&pod("b", "two", "False"));
        account.cut_off(&BTreeSet::new());
        assert_eq!(account.total(), AvailabilityTotal { wanted: 2, missing: 1 });
        account.deleted(&pod("a", "one", "True"));
        account.applied(&deployment(1));
        assert_eq!(account.total(), AvailabilityTotal { wanted: 1, missing: 1 });
        account.deleted(&deployment(1));
        assert_eq!(account.total(), AvailabilityTotal { wanted: 0, missing: 0 });
    }

    #[test]
    fn what_a_daemon_set_and_a_replication_controller_want_is_counted() {
        let mut account = AvailabilityAccount::default();
        let meta = json!({"name": "a", "uid": "d"});
        let spec = json!({"selector": {}, "template": {}});
        let status = json!({
            "desiredNumberScheduled": 3, "currentNumberScheduled": 0, "numberMisscheduled": 0,
            "numberReady": 0,
        });
        let set = |status: &Value| {
            object(
                ResourceKind::DaemonSet,
                json!({"metadata": meta, "spec": spec, "status": status}),
            )
        };
        account.applied(&set(&Value::Null));
        assert_eq!(account.total(), AvailabilityTotal::default());
        account.applied(&set(&status));
        account.applied(&owned(
            ResourceKind::Pod,
            "p",
            ("DaemonSet", "d"),
            json!({
                "spec": {"nodeName": "one", "containers": []},
                "status": {"conditions": [{"type": "Ready", "status": "True"}]},
            }),
        ));
        assert_eq!(account.total(), AvailabilityTotal { wanted: 3, missing: 2 });
        let meta = json!({"name": "b", "uid": "r"});
        let controller = json!({"metadata": meta, "spec": {"replicas": 4}});
        account.applied(&object(ResourceKind::ReplicationController, controller));
        assert_eq!(account.total(), AvailabilityTotal { wanted: 7, missing: 6 });
    }

    #[test]
    fn a_naked_pod_is_wanted_when_it_is_to_stay() {
        let mut account = AvailabilityAccount::default();
        let naked = |uid: &str, policy: &str| {
            let spec = json!({"containers": [], "restartPolicy": policy});
            let meta = json!({"name": uid, "namespace": "default", "uid": uid});
            object(ResourceKind::Pod, json!({"metadata": meta, "spec": spec}))
        };
        account.applied(&naked("stays", "Always"));
        account.applied(&naked("ends", "Never"));
        assert_eq!(account.total(), AvailabilityTotal { wanted: 1, missing: 1 });
        account.deleted(&naked("stays", "Always"));
        assert_eq!(account.total(), AvailabilityTotal { wanted: 1, missing: 1 }, "it was lost");
        account.applied(&naked("stays", "Always"));
        let id = |kind, namespace, name| ObjectId::new(kind, NamespacedName::new(namespace, name));
        account.give_up(&id(ResourceKind::Pod, "default", "ends"));
        account.give_up(&id(ResourceKind::Namespace, "", "stays"));
        assert_eq!(account.total(), AvailabilityTotal { wanted: 1, missing: 1 });
        account.give_up(&id(ResourceKind::Pod, "default", "stays"));
        account.applied(&naked("stays", "Always"));
        assert_eq!(
            account.total(),
            AvailabilityTotal::default(),
            "it ends, and is not wanted any more"
        );
        account.applied(&naked("other", "Always"));
        assert_eq!(account.total(), AvailabilityTotal { wanted: 1, missing: 1 });
        account.give_up(&id(ResourceKind::Namespace, "", "default"));
        assert_eq!(account.total(), AvailabilityTotal::default());
    }
}
