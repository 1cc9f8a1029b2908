//! What is asked of any pod, asked of one that is held.

use std::borrow::Cow;
use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Affinity, ContainerRestartRule, PodCondition, Toleration};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::{Container, Pod, PodSpec};
use crate::amounts::Amounts;
use crate::pods::{AnyContainer, AnyPod, AnySpec, Granted, any_pod};

any_pod!(Pod, PodSpec, as_deref, node_beside_spec);

fn node_beside_spec(pod: &Pod) -> Option<&str> {
    pod.node_name.as_deref()
}

impl AnySpec for PodSpec {
    type Container = Container;

    fn containers(&self) -> &[Container] {
        &self.containers
    }

    fn init_containers(&self) -> &[Container] {
        &self.init_containers
    }

    fn has_ephemeral(&self, name: &str) -> bool {
        self.ephemeral_containers.iter().any(|ephemeral| ephemeral == name)
    }

    fn node_selector(&self) -> Option<&BTreeMap<String, String>> {
        Some(&self.node_selector)
    }

    fn affinity(&self) -> Option<&Affinity> {
        self.affinity.as_deref()
    }

    fn tolerations(&self) -> &[Toleration] {
        &self.tolerations
    }

    fn requests(&self) -> Cow<'_, Amounts> {
        Cow::Borrowed(&self.requests)
    }

    fn overhead(&self) -> Cow<'_, Amounts> {
        Cow::Borrowed(&self.overhead)
    }
}

impl AnyContainer for Container {
    fn name(&self) -> &str {
        &self.name
    }

    fn restart_policy(&self) -> Option<&str> {
        self.restart_policy.as_deref()
    }

    fn restart_policy_rules(&self) -> &[ContainerRestartRule] {
        &self.restart_policy_rules
    }

    fn requests(&self) -> Cow<'_, Amounts> {
        Cow::Borrowed(&self.requests)
    }
}
