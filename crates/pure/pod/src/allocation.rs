//! The resources of a pod and its containers, apart from the rest of its spec: what is wanted, and
//! what was granted.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Container, Pod, PodSpec, ResourceRequirements};
use rekindle_types::ContainerName;
use rekindle_types::resources::{Amounts, pod_requests};
use serde::{Deserialize, Serialize};

/// Resources of a pod and its containers.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Allocation {
    /// Those of the pod as a whole, if it has any.
    pub pod: Option<ResourceRequirements>,
    /// By container, init containers included.
    pub containers: BTreeMap<ContainerName, ResourceRequirements>,
    /// The `metadata.generation` that asked for them.
    pub generation: i64,
}

impl Allocation {
    /// What the spec asks for.
    pub(crate) fn wanted_by(pod: &Pod) -> Self {
        let spec = pod.spec.as_ref();
        let containers = spec.into_iter().flat_map(all_containers);
        let of = |container: &Container| normal(container.resources.clone().unwrap_or_default());
        Self {
            pod: spec.and_then(|spec| spec.resources.clone()).map(normal),
            containers: containers.map(|c| (ContainerName(c.name.clone()), of(c))).collect(),
            generation: pod.metadata.generation.unwrap_or_default(),
        }
    }

    /// What the spec asks for, which is this one as long as it asks for nothing else.
    pub(crate) fn or_wanted_by(self: &Arc<Self>, pod: &Pod) -> Arc<Self> {
        match Self::wanted_by(pod) {
            wanted if wanted == **self => self.clone(),
            wanted => Arc::new(wanted),
        }
    }

    /// What the API shows to be in force, and what the spec asks for where it shows nothing: the
    /// best that is known without a journal.
    pub(crate) fn shown_by(pod: &Pod) -> Self {
        let mut shown = Self::wanted_by(pod);
        let Some(status) = &pod.status else { return shown };
        let lists = [&status.init_container_statuses, &status.container_statuses];
        for status in lists.into_iter().flatten().flatten() {
            let known = shown.containers.get_mut(&ContainerName(status.name.clone()));
            if let (Some(known), Some(resources)) = (known, &status.resources) {
                let claims = known.claims.take();
                *known = normal(ResourceRequirements { claims, ..resources.clone() });
            }
        }
        if let (Some(known), Some(resources)) = (&mut shown.pod, &status.resources) {
            *known = normal(resources.clone());
        }
        shown
    }

    /// Whether the amounts are the same. The API writes each amount in one
    /// way only.
    pub(crate) fn same_amounts(&self, other: &Self) -> bool {
        self.pod == other.pod && self.containers == other.containers
    }

    /// Those of a container.
    pub(crate) fn of(&self, name: &ContainerName) -> &ResourceRequirements {
        static NONE: ResourceRequirements =
            ResourceRequirements { claims: None, limits: None, requests: None };
        self.containers.get(name).unwrap_or(&NONE)
    }

    /// The pod, whose spec asks for what is wanted, as it would be if it asked for this.
    pub(crate) fn in_place_of(&self, wanted: &Self, pod: &Arc<Pod>) -> Arc<Pod> {
        if self.same_amounts(wanted) {
            return pod.clone();
        }
        let mut pod = Pod::clone(pod);
        if let Some(spec) = &mut pod.spec {
            spec.resources.clone_from(&self.pod);
            let init = spec.init_containers.iter_mut().flatten();
            for container in spec.containers.iter_mut().chain(init) {
                let name = ContainerName(container.name.clone());
                if let Some(own) = self.containers.get(&name) {
                    container.resources = Some(own.clone());
                }
            }
        }
        Arc::new(pod)
    }

    /// What the pod asks for in all, with this.
    pub(crate) fn requests(&self, pod: &Arc<Pod>) -> Amounts {
        let pod = self.in_place_of(&Self::wanted_by(pod), pod);
        pod.spec.as_ref().map(pod_requests).unwrap_or_default()
    }
}

/// An empty list is none.
fn normal(mut resources: ResourceRequirements) -> ResourceRequirements {
    for list in [&mut resources.limits, &mut resources.requests] {
        *list = list.take().filter(|list| !list.is_empty());
    }
    resources
}

fn all_containers(spec: &PodSpec) -> impl Iterator<Item = &Container> {
    spec.init_containers.iter().flatten().chain(&spec.containers)
}
