//! A pod as those hold it who watch ten thousand: what is decided by, and no more.
//!
//! In the API's type each kind of probe, of volume and of environment has its place whether it is used or not: a pod of two containers takes
//! up nearly 20 KiB. Held are its metadata, and of its spec and status what placement, workloads and the ladder ask about. Pods of one template
//! share that, as the one thing in which they differ, the node, stands beside it.
//!
//! A pod without a controller keeps its spec whole: nobody else could create it again.

mod status;

use std::sync::Arc;

use k8s_openapi::api::core::v1::{self, Container, PodSpec, Volume};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::owners::controller_of;
pub use status::{ContainerState, ContainerStatus, PodStatus};

/// A pod.
#[derive(Clone, Debug, Default)]
pub struct Pod {
    /// Its metadata.
    pub metadata: ObjectMeta,
    /// The node it is bound to; its spec does not say so here.
    pub node_name: Option<String>,
    /// Its spec, without `nodeName`.
    pub spec: Option<Arc<PodSpec>>,
    /// Its status.
    pub status: Option<PodStatus>,
}

impl Pod {
    /// The same with no more than is asked about. Where its spec is that of `other`, which was made small before, both share one.
    pub fn slim(mut self, other: Option<&Self>) -> Self {
        trim_metadata(&mut self.metadata);
        // one that is small already, as another version of it, need not be made so
        if !self.shares(other)
            && controller_of(&self.metadata).is_some()
            && let Some(spec) = &mut self.spec
        {
            *spec = Arc::new(slim_spec(spec));
            self.shares(other);
        }
        self
    }

    /// Takes the spec of another pod in place of its own, if they are alike.
    fn shares(&mut self, other: Option<&Self>) -> bool {
        let alike = other.filter(|other| self.has_spec_of(other));
        if let Some(other) = alike {
            self.spec.clone_from(&other.spec);
        }
        alike.is_some()
    }

    /// Whether the specs are alike, wherever both are bound to.
    pub fn has_spec_of(&self, other: &Self) -> bool {
        match (&self.spec, &other.spec) {
            (Some(own), Some(others)) => Arc::ptr_eq(own, others) || own == others,
            (None, None) => true,
            (Some(_), None) | (None, Some(_)) => false,
        }
    }

    /// As the API has it, as far as it is held.
    pub fn to_api(&self) -> v1::Pod {
        let spec = self
            .spec
            .as_deref()
            .map(|spec| PodSpec { node_name: self.node_name.clone(), ..spec.clone() });
        let status = self.status.as_ref().map(PodStatus::to_api);
        v1::Pod { metadata: self.metadata.clone(), spec, status }
    }
}

impl PartialEq for Pod {
    fn eq(&self, other: &Self) -> bool {
        let Self { metadata, node_name, spec: _, status } = self;
        *metadata == other.metadata
            && *node_name == other.node_name
            && *status == other.status
            && self.has_spec_of(other)
    }
}

impl From<v1::Pod> for Pod {
    /// With the whole spec.
    fn from(pod: v1::Pod) -> Self {
        let v1::Pod { metadata, mut spec, status } = pod;
        let node_name = spec.as_mut().and_then(|spec| spec.node_name.take());
        Self { metadata, node_name, spec: spec.map(Arc::new), status: status.map(PodStatus::from) }
    }
}

impl From<&v1::Pod> for Pod {
    /// With no more than is asked about; the rest is not copied.
    fn from(pod: &v1::Pod) -> Self {
        let is_controlled = controller_of(&pod.metadata).is_some();
        let spec = pod.spec.as_ref().map(|spec| match is_controlled {
            true => slim_spec(spec),
            false => PodSpec { node_name: None, ..spec.clone() },
        });
        let mut metadata = pod.metadata.clone();
        trim_metadata(&mut metadata);
        let status = pod.status.clone().map(PodStatus::from);
        let node_name = pod.spec.as_ref().and_then(|spec| spec.node_name.clone());
        Self { metadata, node_name, spec: spec.map(Arc::new), status }
    }
}

impl<'de> Deserialize<'de> for Pod {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        v1::Pod::deserialize(from).map(Self::from)
    }
}

impl Serialize for Pod {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        self.to_api().serialize(to)
    }
}

/// Who wrote which field is asked of the API alone.
fn trim_metadata(metadata: &mut ObjectMeta) {
    metadata.managed_fields = None;
    metadata.owner_references.iter_mut().for_each(Vec::shrink_to_fit);
}

/// Every field is named, so that a new one of the API is decided about.
fn slim_spec(spec: &PodSpec) -> PodSpec {
    let slim = |containers: &[Container]| containers.iter().map(slim_container).collect();
    PodSpec {
        active_deadline_seconds: spec.active_deadline_seconds,
        affinity: spec.affinity.clone(),
        containers: slim(&spec.containers),
        // they are few, and whoever asks to restart one is told what it is
        ephemeral_containers: spec.ephemeral_containers.clone(),
        host_network: spec.host_network,
        hostname: spec.hostname.clone(),
        init_containers: spec.init_containers.as_deref().map(slim),
        node_selector: spec.node_selector.clone(),
        overhead: spec.overhead.clone(),
        preemption_policy: spec.preemption_policy.clone(),
        priority: spec.priority,
        priority_class_name: spec.priority_class_name.clone(),
        readiness_gates: spec.readiness_gates.clone(),
        resource_claims: spec.resource_claims.clone(),
        resources: spec.resources.clone(),
        restart_policy: spec.restart_policy.clone(),
        scheduler_name: spec.scheduler_name.clone(),
        scheduling_gates: spec.scheduling_gates.clone(),
        scheduling_group: spec.scheduling_group.clone(),
        subdomain: spec.subdomain.clone(),
        termination_grace_period_seconds: spec.termination_grace_period_seconds,
        tolerations: spec.tolerations.clone(),
        topology_spread_constraints: spec.topology_spread_constraints.clone(),
        volumes: spec.volumes.as_ref().map(|volumes| {
            volumes.iter().filter(|volume| is_asked_about(volume)).cloned().collect()
        }),
        // beside the spec
        node_name: None,
        // of the node, or of the API, alone
        automount_service_account_token: None,
        dns_config: None,
        dns_policy: None,
        enable_service_links: None,
        eviction_responders: None,
        host_aliases: None,
        host_ipc: None,
        host_pid: None,
        host_users: None,
        hostname_override: None,
        image_pull_secrets: None,
        os: None,
        runtime_class_name: None,
        security_context: None,
        service_account: None,
        service_account_name: None,
        set_hostname_as_fqdn: None,
        share_process_namespace: None,
    }
}

fn slim_container(container: &Container) -> Container {
    Container {
        image: container.image.clone(),
        name: container.name.clone(),
        ports: container.ports.clone(),
        resources: container.resources.clone(),
        restart_policy: container.restart_policy.clone(),
        restart_policy_rules: container.restart_policy_rules.clone(),
        // of the node alone
        args: None,
        command: None,
        env: None,
        env_from: None,
        image_pull_policy: None,
        lifecycle: None,
        liveness_probe: None,
        readiness_probe: None,
        resize_policy: None,
        security_context: None,
        startup_probe: None,
        stdin: None,
        stdin_once: None,
        termination_message_path: None,
        termination_message_policy: None,
        tty: None,
        volume_devices: None,
        volume_mounts: None,
        working_dir: None,
    }
}

/// Volumes that count for the pod's place: in a claim, in an image, on the node's disk.
fn is_asked_about(volume: &Volume) -> bool {
    volume.persistent_volume_claim.is_some()
        || volume.ephemeral.is_some()
        || volume.image.is_some()
        || volume.host_path.is_some()
        || volume.empty_dir.is_some()
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
                    "resources": {"requests": {"cpu": "1"}}, "ports": [{"containerPort": 80}],
                    "volumeMounts": [{"name": format!("token-{name}"), "mountPath": "/token"}]}],
                "volumes": [{"name": format!("token-{name}"), "projected": {}},
                    {"name": "data", "persistentVolumeClaim": {"claimName": "data"}}],
            },
            "status": {"phase": "Running", "containerStatuses": [{"name": "app", "ready": true,
                "restartCount": 3, "image": "app:1", "imageID": "app@sha256:1", "containerID": "x://1"}]},
        }))
        .unwrap()
    }

    #[test]
    fn a_whole_pod_is_what_the_api_has() {
        for node in [None, Some("n1")] {
            let pod = api_pod("a", node, Some("web"));
            let held = Pod::from(pod.clone());
            assert_eq!(held.node_name.as_deref(), node);
            assert_eq!(held.spec.as_ref().unwrap().node_name, None);
            assert_eq!(held.to_api().spec, pod.spec);
            let again: Pod = serde_json::from_value(serde_json::to_value(&held).unwrap()).unwrap();
            assert_eq!(again, held);
        }
    }

    #[test]
    fn a_controllers_pod_keeps_what_is_asked_about() {
        let pod = api_pod("a", Some("n1"), Some("web"));
        let slim = Pod::from(pod.clone()).slim(None);
        assert_eq!(slim, Pod::from(&pod));
        assert_eq!(slim, slim.clone().slim(None));
        let spec = slim.spec.as_ref().unwrap();
        let container = &spec.containers[0];
        assert_eq!((container.name.as_str(), container.image.as_deref()), ("app", Some("app:1")));
        assert_eq!((&container.env, &container.volume_mounts), (&None, &None));
        assert!(container.resources.is_some() && container.ports.is_some());
        let volumes: Vec<_> = spec.volumes.iter().flatten().map(|v| v.name.as_str()).collect();
        assert_eq!((volumes, spec.priority), (vec!["data"], Some(7)));
        assert_eq!(slim.metadata.managed_fields, None);
        let status = &slim.status.as_ref().unwrap().container_statuses.as_ref().unwrap()[0];
        assert_eq!((status.restart_count, status.container_id.as_deref()), (3, Some("x://1")));
    }

    #[test]
    fn a_pod_that_nobody_else_could_create_again_keeps_its_spec_whole() {
        let pod = api_pod("a", Some("n1"), None);
        let slim = Pod::from(&pod);
        assert_eq!(slim, Pod::from(pod.clone()).slim(None));
        assert_eq!(slim.to_api().spec, pod.spec);
    }

    #[test]
    fn pods_of_a_template_share_its_spec_wherever_they_are() {
        let of = |name: &str, node: &str| api_pod(name, Some(node), Some("web"));
        let first = Pod::from(&of("a", "n1"));
        let is_shared =
            |pod: &Pod| Arc::ptr_eq(pod.spec.as_ref().unwrap(), first.spec.as_ref().unwrap());
        for second in [Pod::from(&of("b", "n2")), Pod::from(of("b", "n2"))] {
            let shared = second.slim(Some(&first));
            assert!(is_shared(&shared));
            assert_eq!(shared, Pod::from(&of("b", "n2")));
        }
        let naked = Pod::from(api_pod("c", None, None)).slim(Some(&first));
        assert!(!is_shared(&naked) && naked == Pod::from(&api_pod("c", None, None)));
    }
}
