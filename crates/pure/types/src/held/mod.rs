//! A pod as those hold it who watch ten thousand: what is decided by, and no more.
//!
//! In the API's type each kind of probe, of volume and of environment has its place whether it is
//! used or not: a pod of two containers takes up nearly 20 KiB. Held are its metadata, and of its
//! spec and status what placement, workloads and the ladder ask about. Pods of one template share
//! their spec, as the one thing in which most differ, the node, stands beside it; where they differ
//! in more, they share the rest.
//!
//! A pod without a controller keeps its spec whole: nobody else could create it again.

mod any;
mod spec;
mod status;

use std::sync::Arc;

use k8s_openapi::api::core::v1;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::{Deserialize, Deserializer};

pub use spec::{HeldContainer, HeldPodSpec, HeldVolume, HeldVolumeSource, SpecDigests};
pub use status::{HeldContainerState, HeldContainerStatus, HeldPodStatus};

/// A pod.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HeldPod {
    /// Its metadata, without who wrote which field.
    pub metadata: ObjectMeta,
    /// The node it is bound to.
    pub node_name: Option<String>,
    /// Its spec.
    pub spec: Option<Arc<HeldPodSpec>>,
    /// Its status.
    pub status: Option<HeldPodStatus>,
}

impl HeldPod {
    /// The same, with the spec of `other` in place of its own where they are alike; else with those
    /// parts of it that are.
    pub fn sharing(mut self, other: Option<&Self>) -> Self {
        let others = other.and_then(|other| other.spec.as_ref());
        if let (Some(own), Some(others)) = (&mut self.spec, others)
            && !Arc::ptr_eq(own, others)
        {
            if own == others {
                own.clone_from(others);
            } else if let Some(own) = Arc::get_mut(own) {
                own.share_parts(others);
            }
        }
        self
    }

    /// Whether the specs are alike, wherever both are bound to.
    pub fn has_spec_of(&self, other: &Self) -> bool {
        match (&self.spec, &other.spec) {
            (Some(own), Some(others)) => Arc::ptr_eq(own, others) || own == others,
            (None, None) => true,
            (Some(_), None) | (None, Some(_)) => false,
        }
    }

    /// All of its spec but the node; none of a pod that has a controller, which knows it.
    pub fn whole_spec(&self) -> Option<v1::PodSpec> {
        self.spec.as_ref()?.whole()
    }

    fn new(
        metadata: ObjectMeta,
        spec: Option<&v1::PodSpec>,
        status: Option<HeldPodStatus>,
    ) -> Self {
        let node_name = spec.and_then(|spec| spec.node_name.clone());
        let spec = spec.map(|spec| Arc::new(HeldPodSpec::new(spec, &metadata)));
        Self { metadata: trimmed(metadata), node_name, spec, status }
    }
}

impl From<v1::Pod> for HeldPod {
    fn from(pod: v1::Pod) -> Self {
        Self::new(pod.metadata, pod.spec.as_ref(), pod.status.map(HeldPodStatus::from))
    }
}

impl From<&v1::Pod> for HeldPod {
    fn from(pod: &v1::Pod) -> Self {
        let status = pod.status.clone().map(HeldPodStatus::from);
        Self::new(pod.metadata.clone(), pod.spec.as_ref(), status)
    }
}

impl<'de> Deserialize<'de> for HeldPod {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        v1::Pod::deserialize(from).map(Self::from)
    }
}

/// Who wrote which field is asked of the API alone.
fn trimmed(mut metadata: ObjectMeta) -> ObjectMeta {
    metadata.managed_fields = None;
    metadata.owner_references.iter_mut().for_each(Vec::shrink_to_fit);
    metadata
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn api_pod(name: &str, node: Option<&str>, owner: Option<&str>) -> v1::Pod {
        let owners: Vec<Value> = owner
            .map(|owner| {
                json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": owner,
                    "uid": owner, "controller": true})
            })
            .into_iter()
            .collect();
        serde_json::from_value(json!({
            "metadata": {"name": name, "ownerReferences": owners, "managedFields": [{"manager": "kubectl"}]},
            "spec": {
                "nodeName": node, "priority": 7, "serviceAccountName": "default",
                "containers": [{"name": "app", "image": "app:1", "env": [{"name": "A", "value": "b"}],
                    "resources": {"requests": {"cpu": "1"}}, "ports": [{"name": "http", "containerPort": 80}, {"containerPort": 81}],
                    "volumeMounts": [{"name": format!("token-{name}"), "mountPath": crate::service_account::MOUNT_PATH}]}],
                "volumes": [{"name": format!("token-{name}"), "projected": {}},
                    {"name": "data", "persistentVolumeClaim": {"claimName": "data"}}],
            },
            "status": {"phase": "Running", "containerStatuses": [{"name": "app", "ready": true,
                "restartCount": 3, "image": "app:1", "imageID": "app@sha256:1", "containerID": "x://1"}]},
        }))
        .unwrap()
    }

    #[test]
    fn a_controllers_pod_keeps_what_is_asked_about() {
        let pod = api_pod("a", Some("n1"), Some("web"));
        let held = HeldPod::from(&pod);
        assert_eq!(held, HeldPod::from(pod));
        assert_eq!(held.node_name.as_deref(), Some("n1"));
        let spec = held.spec.as_ref().unwrap();
        let container = &spec.containers[0];
        assert_eq!((container.name.as_str(), container.image.as_deref()), ("app", Some("app:1")));
        assert_eq!(container.requests.get("cpu").millis(), 1000);
        let ports: Vec<_> = container.ports.iter().map(|port| port.container_port).collect();
        assert_eq!((ports, spec.priority), (vec![80], Some(7)));
        let claim = HeldVolumeSource::Claim("data".to_owned());
        assert_eq!(*spec.volumes, [HeldVolume { name: "data".to_owned(), source: claim }]);
        assert_eq!((held.whole_spec(), held.metadata.managed_fields), (None, None));
        let status = &held.status.as_ref().unwrap().container_statuses.as_ref().unwrap()[0];
        assert_eq!((status.restart_count, status.container_id.as_deref()), (3, Some("x://1")));
    }

    #[test]
    fn a_pod_that_nobody_else_could_create_again_keeps_its_spec_whole() {
        let pod = api_pod("a", Some("n1"), None);
        let held = HeldPod::from(&pod);
        let unbound = pod.spec.map(|spec| v1::PodSpec { node_name: None, ..spec });
        assert_eq!(held.whole_spec(), unbound);
        assert_eq!(held.node_name.as_deref(), Some("n1"));
    }

    #[test]
    fn pods_of_a_template_share_its_spec_wherever_they_are() {
        let of = |name: &str, node: &str| HeldPod::from(api_pod(name, Some(node), Some("web")));
        let first = of("a", "n1");
        let second = of("b", "n2").sharing(Some(&first));
        assert!(Arc::ptr_eq(second.spec.as_ref().unwrap(), first.spec.as_ref().unwrap()));
        assert_eq!(second, of("b", "n2"));
        let naked = HeldPod::from(api_pod("c", None, None));
        assert_eq!(naked.clone().sharing(Some(&first)), naked);
    }

    #[test]
    fn a_template_that_no_label_marks_is_known_by_what_its_containers_run() {
        let runs = |change: fn(&mut v1::Container)| {
            let mut pod = api_pod("a", None, Some("web"));
            change(&mut pod.spec.as_mut().unwrap().containers[0]);
            HeldPod::from(pod).spec.unwrap().runs.unwrap()
        };
        let before = runs(|_| {});
        let resized = runs(|container| container.resources = None);
        assert_eq!(resized.without_resources, before.without_resources);
        assert_ne!(resized.all, before.all);
        let edited = runs(|container| container.args = Some(vec!["-v".to_owned()]));
        assert_ne!(edited.without_resources, before.without_resources);
        let mut marked = api_pod("a", None, Some("web"));
        marked.metadata.labels = Some([("pod-template-hash".to_owned(), "5d4f".to_owned())].into());
        assert_eq!(HeldPod::from(marked).spec.unwrap().runs, None);
    }

    #[test]
    fn pods_that_differ_share_the_rest() {
        let of = |hostname: &str| {
            let mut pod = api_pod(hostname, None, Some("db"));
            pod.spec.as_mut().unwrap().hostname = Some(hostname.to_owned());
            HeldPod::from(pod)
        };
        let first = of("db-0");
        let second = of("db-1").sharing(Some(&first));
        assert_eq!(second, of("db-1"));
        let [first, second] = [&first, &second].map(|pod| pod.spec.as_ref().unwrap());
        assert!(!Arc::ptr_eq(first, second) && Arc::ptr_eq(&first.containers, &second.containers));
    }
}
