//! What is held of a pod's spec: what placement, workloads and the ladder ask about.
//!
//! In the API's type a container takes up 2.3 KiB and a volume 3.2, as each has a place for all
//! that may be said of it. Here each has one for what is asked.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{
    self, Affinity, ContainerPort, ContainerRestartRule, PersistentVolumeClaimTemplate,
    PodSchedulingGate, Toleration, TopologySpreadConstraint,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::ObjectJson;
use crate::amounts::{Amounts, limits, requests};
use crate::digest::fold;
use crate::owners::controller_of;
use crate::revisions::{RevisionMark, mark_of};
use crate::service_account;

/// The spec of a pod; fields without a comment are those of the API. Which node it is bound to is
/// said beside it, by the pod.
#[derive(Clone, Debug, Default, PartialEq)]
#[expect(missing_docs, reason = "the API reference of PodSpec has them")]
pub struct HeldPodSpec {
    pub active_deadline_seconds: Option<i64>,
    pub affinity: Option<Box<Affinity>>,
    pub containers: Arc<[HeldContainer]>,
    /// Their names.
    pub ephemeral_containers: Box<[String]>,
    pub host_network: Option<bool>,
    pub hostname: Option<String>,
    pub init_containers: Arc<[HeldContainer]>,
    /// `resources.limits`: what the pod as a whole may use.
    pub limits: Amounts,
    pub node_selector: BTreeMap<String, String>,
    pub overhead: Amounts,
    pub preemption_policy: Option<String>,
    pub priority: Option<i32>,
    pub priority_class_name: Option<Box<str>>,
    /// `resources.requests`: what the pod as a whole asks for.
    pub requests: Amounts,
    pub restart_policy: Option<String>,
    /// What its containers run, where that is the mark of its revision.
    pub runs: Option<SpecDigests>,
    pub scheduler_name: Option<String>,
    pub scheduling_gates: Box<[PodSchedulingGate]>,
    pub subdomain: Option<String>,
    pub termination_grace_period_seconds: Option<i64>,
    pub tolerations: Arc<[Toleration]>,
    pub topology_spread_constraints: Box<[TopologySpreadConstraint]>,
    /// Those that count for its place.
    pub volumes: Box<[HeldVolume]>,
    /// All of it as JSON, where it is kept.
    whole: Option<Box<[u8]>>,
}

/// A container or init container; fields without a comment are those of the API.
#[derive(Clone, Debug, Default, PartialEq)]
#[expect(missing_docs, reason = "the API reference of Container has them")]
pub struct HeldContainer {
    pub image: Option<String>,
    /// `resources.limits`.
    pub limits: Amounts,
    pub name: String,
    /// Those that have a name or a port of the node.
    pub ports: Box<[ContainerPort]>,
    /// `resources.requests`.
    pub requests: Amounts,
    pub restart_policy: Option<String>,
    pub restart_policy_rules: Box<[ContainerRestartRule]>,
}

/// A volume that counts for its pod's place.
#[derive(Clone, Debug, PartialEq)]
pub struct HeldVolume {
    /// What it is called in the pod.
    pub name: String,
    /// Where it is from.
    pub source: HeldVolumeSource,
}

/// Where a volume is from.
#[derive(Clone, Debug, PartialEq)]
pub enum HeldVolumeSource {
    /// The claim of this name.
    Claim(String),
    /// A claim of the pod's own, made after this.
    Ephemeral(Option<Box<PersistentVolumeClaimTemplate>>),
    /// The image of this reference.
    Image(Option<String>),
    /// The node's disk: what is in it is lost when the pod moves.
    Disk,
}

/// Digests of what the containers of a pod run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpecDigests {
    /// All that the spec says of them.
    pub all: u32,
    /// The same without how much of the node they may use, which is changed of single pods while
    /// they run.
    pub without_resources: u32,
}

impl HeldPodSpec {
    /// Every field is named, so that a new one of the API is decided about. All of it is kept of a
    /// pod without a controller: nobody else could create it again.
    pub(super) fn new(spec: &v1::PodSpec, pod: &ObjectMeta) -> Self {
        let v1::PodSpec {
            active_deadline_seconds,
            affinity,
            containers,
            ephemeral_containers,
            host_network,
            hostname,
            init_containers,
            node_selector,
            overhead,
            preemption_policy,
            priority,
            priority_class_name,
            resources,
            restart_policy,
            scheduler_name,
            scheduling_gates,
            subdomain,
            termination_grace_period_seconds,
            tolerations,
            topology_spread_constraints,
            volumes,
            // beside the spec
            node_name: _,
            // of the node, or of the API, alone
            automount_service_account_token: _,
            dns_config: _,
            dns_policy: _,
            enable_service_links: _,
            eviction_responders: _,
            host_aliases: _,
            host_ipc: _,
            host_pid: _,
            host_users: _,
            hostname_override: _,
            image_pull_secrets: _,
            os: _,
            readiness_gates: _,
            resource_claims: _,
            runtime_class_name: _,
            scheduling_group: _,
            security_context: _,
            service_account: _,
            service_account_name: _,
            set_hostname_as_fqdn: _,
            share_process_namespace: _,
        } = spec;
        Self {
            active_deadline_seconds: *active_deadline_seconds,
            affinity: affinity.clone().map(Box::new),
            containers: containers.iter().map(HeldContainer::from).collect(),
            ephemeral_containers: list(ephemeral_containers).map(|one| one.name.clone()).collect(),
            host_network: *host_network,
            hostname: hostname.clone(),
            init_containers: list(init_containers).map(HeldContainer::from).collect(),
            limits: limits(resources.as_ref()),
            node_selector: node_selector.clone().unwrap_or_default(),
            overhead: Amounts::read(overhead.as_ref()),
            preemption_policy: preemption_policy.clone(),
            priority: *priority,
            priority_class_name: priority_class_name.as_deref().map(Box::from),
            requests: requests(resources.as_ref()),
            restart_policy: restart_policy.clone(),
            runs: (mark_of(pod) == RevisionMark::Containers).then(|| runs(spec)),
            scheduler_name: scheduler_name.clone(),
            scheduling_gates: list(scheduling_gates).cloned().collect(),
            subdomain: subdomain.clone(),
            termination_grace_period_seconds: *termination_grace_period_seconds,
            tolerations: list(tolerations).cloned().collect(),
            topology_spread_constraints: list(topology_spread_constraints).cloned().collect(),
            volumes: list(volumes).filter_map(HeldVolume::from_volume).collect(),
            whole: controller_of(pod).is_none().then(|| written(spec)),
        }
    }

    /// Takes the parts of another pod's spec in place of its own where they are alike.
    pub(super) fn share_parts(&mut self, other: &Self) {
        share(&mut self.containers, &other.containers);
        share(&mut self.init_containers, &other.init_containers);
        share(&mut self.tolerations, &other.tolerations);
    }

    /// All of it, where that is kept.
    pub(super) fn whole(&self) -> Option<v1::PodSpec> {
        let text = self.whole.as_deref()?;
        Some(v1::PodSpec::from_json(text).expect("the text was written from a PodSpec"))
    }
}

/// All of a spec; the node stands beside it.
fn written(spec: &v1::PodSpec) -> Box<[u8]> {
    let spec = v1::PodSpec { node_name: None, ..spec.clone() };
    spec.to_json().into_boxed_slice()
}

fn runs(spec: &v1::PodSpec) -> SpecDigests {
    let mut all: Vec<v1::Container> =
        list(&spec.init_containers).chain(&spec.containers).cloned().collect();
    for container in &mut all {
        if let Some(mounts) = &mut container.volume_mounts {
            // the API server mounts it from a volume with a name that is made up for each pod
            mounts.retain(|mount| mount.mount_path != service_account::MOUNT_PATH);
        }
        container.volume_mounts.take_if(|mounts| mounts.is_empty());
    }
    let digest = |containers: &[v1::Container]| {
        let texts: Vec<Vec<u8>> = containers.iter().map(ObjectJson::to_json).collect();
        fold(&String::from_utf8_lossy(&texts.join(&b'\n')))
    };
    let whole = digest(&all);
    all.iter_mut().for_each(|container| container.resources = None);
    SpecDigests { all: whole, without_resources: digest(&all) }
}

fn share<T: PartialEq>(own: &mut Arc<[T]>, other: &Arc<[T]>) {
    if own == other {
        own.clone_from(other);
    }
}

impl From<&v1::Container> for HeldContainer {
    /// Every field is named, so that a new one of the API is decided about.
    fn from(container: &v1::Container) -> Self {
        let v1::Container {
            image,
            name,
            ports,
            resources,
            restart_policy,
            restart_policy_rules,
            // of the node alone
            args: _,
            command: _,
            env: _,
            env_from: _,
            image_pull_policy: _,
            lifecycle: _,
            liveness_probe: _,
            readiness_probe: _,
            resize_policy: _,
            security_context: _,
            startup_probe: _,
            stdin: _,
            stdin_once: _,
            termination_message_path: _,
            termination_message_policy: _,
            tty: _,
            volume_devices: _,
            volume_mounts: _,
            working_dir: _,
        } = container;
        let is_asked_about =
            |port: &&ContainerPort| port.name.is_some() || port.host_port.is_some();
        Self {
            image: image.clone(),
            limits: limits(resources.as_ref()),
            name: name.clone(),
            ports: list(ports).filter(is_asked_about).cloned().collect(),
            requests: requests(resources.as_ref()),
            restart_policy: restart_policy.clone(),
            restart_policy_rules: list(restart_policy_rules).cloned().collect(),
        }
    }
}

impl HeldVolume {
    /// None for one that does not count for its pod's place: it can be had anywhere.
    fn from_volume(volume: &v1::Volume) -> Option<Self> {
        let source = if let Some(claim) = &volume.persistent_volume_claim {
            HeldVolumeSource::Claim(claim.claim_name.clone())
        } else if let Some(ephemeral) = &volume.ephemeral {
            HeldVolumeSource::Ephemeral(ephemeral.volume_claim_template.clone().map(Box::new))
        } else if let Some(image) = &volume.image {
            HeldVolumeSource::Image(image.reference.clone())
        } else if volume.host_path.is_some() || volume.empty_dir.as_ref().is_some_and(is_on_disk) {
            HeldVolumeSource::Disk
        } else {
            return None;
        };
        Some(Self { name: volume.name.clone(), source })
    }
}

fn is_on_disk(empty: &v1::EmptyDirVolumeSource) -> bool {
    empty.medium.as_deref() != Some("Memory")
}

fn list<T>(list: &Option<Vec<T>>) -> impl Iterator<Item = &T> {
    list.iter().flatten()
}
