//! What is asked of any pod, asked of one that is held.

use std::borrow::Cow;
use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Affinity, ContainerRestartRule, PodCondition, Toleration};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::{HeldContainer, HeldPod, HeldPodSpec};
use crate::amounts::Amounts;
use crate::pods::{AnyContainer, AnyPod, AnySpec, GrantedResources, any_pod};

any_pod!(HeldPod, HeldPodSpec, as_deref, node_beside_spec);

fn node_beside_spec(pod: &HeldPod) -> Option<&str> {
    pod.node_name.as_deref()
}

impl AnySpec for HeldPodSpec {
    type Container = HeldContainer;

    fn containers(&self) -> &[HeldContainer] {
        &self.containers
    }

    fn init_containers(&self) -> &[HeldContainer] {
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

    fn limits(&self) -> Cow<'_, Amounts> {
        Cow::Borrowed(&self.limits)
    }

    fn overhead(&self) -> Cow<'_, Amounts> {
        Cow::Borrowed(&self.overhead)
    }

    fn active_deadline_seconds(&self) -> Option<i64> {
        self.active_deadline_seconds
    }

    fn priority_class_name(&self) -> &str {
        self.priority_class_name.as_deref().unwrap_or_default()
    }
}

impl AnyContainer for HeldContainer {
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

    fn limits(&self) -> Cow<'_, Amounts> {
        Cow::Borrowed(&self.limits)
    }
}
