//! Settings that are carried out and still are probably a mistake: the warnings of upstream's
//! `pkg/api/pod/warnings`.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{Container, EnvVar, PodAffinityTerm, PodSpec};
use rekindle_types::sysctls::{self, SysctlNamespace};

use super::profiles::{self, Annotations};
use super::validate::SpecHolder;
use super::{deprecated_keys, overlaps};
use crate::runtime_class::HANDLER;
use crate::storage;
use crate::validation::{ListKeys, Path, items, quantities, text};
use crate::volume_sources::pod_volume;

/// The most advice on one pod, so that a long manifest does not drown its own answer.
const SHOWN_MAX: usize = 48;

/// The most names that one piece of advice lists.
const NAMES_MAX: usize = 8;

/// A pod, or the pods of a template, to look at.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AdvisedPod<'p> {
    pub(crate) holder: SpecHolder,
    pub(crate) annotations: Option<&'p Annotations>,
    pub(crate) annotations_field: &'p Path,
    pub(crate) spec: &'p PodSpec,
    pub(crate) field: &'p Path,
}

/// What a user should look at again, in upstream's order.
pub(super) fn warnings(pod: &AdvisedPod<'_>) -> Vec<String> {
    let (spec, field) = (pod.spec, pod.field);
    let mut warnings = deprecated_keys::of_node_selector(spec.node_selector.as_ref(), field);
    warnings.extend(deprecated_keys::of_node_affinity(spec.affinity.as_ref(), field));
    warnings.extend(spread(spec, field));
    warnings.extend(profiles::forgotten_warnings(pod.annotations, pod.annotations_field));
    warnings.extend(volumes(spec, field));
    warnings.extend(overlaps::files(spec, SHOWN_MAX));
    warnings.extend(repeated_names(spec, field));
    if spec.termination_grace_period_seconds.is_some_and(|seconds| seconds < 0) {
        let field = field.child("terminationGracePeriodSeconds");
        let problem = "must be >= 0; negative values are invalid and will be treated as 1";
        warnings.push(format!("{field}: {problem}"));
    }
    warnings.extend(profiles::seccomp_warning_of_pod(pod));
    let lists = [
        ("initContainers", items(spec.init_containers.as_ref())),
        ("containers", spec.containers.as_slice()),
    ];
    for (name, containers) in lists {
        for (index, container) in containers.iter().enumerate().take(SHOWN_MAX) {
            let field = field.child(name).index(index);
            warnings.extend(profiles::warnings_of_container(pod, container));
            warnings.extend(fractional_bytes(container, &field));
            warnings.extend(hidden_variables(container, &field));
        }
    }
    let left = SHOWN_MAX.saturating_sub(warnings.len());
    warnings.extend(overlaps::ports(spec, field, left));
    warnings.extend(unselective_terms(spec, field));
    warnings.truncate(SHOWN_MAX);
    warnings.extend(unsafe_sysctls(spec, field));
    warnings.extend(runtime_class(spec, field));
    warnings
}

fn spread(spec: &PodSpec, field: &Path) -> Vec<String> {
    let constraints = items(spec.topology_spread_constraints.as_ref()).iter().enumerate();
    let mut warnings = Vec::new();
    for (index, constraint) in constraints {
        let field = field.child("topologySpreadConstraints").index(index);
        let key_field = field.child("topologyKey");
        warnings.extend(deprecated_keys::of_key(&constraint.topology_key, &key_field));
        if constraint.label_selector.is_none() {
            warnings.push(matches_no_pod(&field));
        }
    }
    warnings
}

fn matches_no_pod(field: &Path) -> String {
    let field = field.child("labelSelector");
    format!("{field}: a null labelSelector results in matching no pod")
}

fn volumes(spec: &PodSpec, field: &Path) -> Vec<String> {
    let mut warnings = Vec::new();
    for (index, volume) in items(spec.volumes.as_ref()).iter().enumerate().take(SHOWN_MAX) {
        let field = field.child("volumes").index(index);
        warnings.extend(pod_volume::warnings(volume, &field));
        let claim = volume.ephemeral.as_ref().and_then(|of| of.volume_claim_template.as_ref());
        if let Some(claim) = claim {
            let field = field.child("ephemeral").child("volumeClaimTemplate").child("spec");
            warnings.extend(storage::fractional_sizes(&claim.spec, &field));
        }
    }
    warnings
}

/// Terms of affinity that match no pod.
fn unselective_terms(spec: &PodSpec, field: &Path) -> Vec<String> {
    let Some(affinity) = &spec.affinity else { return Vec::new() };
    let field = field.child("affinity");
    let (near, apart) = (affinity.pod_affinity.as_ref(), affinity.pod_anti_affinity.as_ref());
    let lists = [
        (
            "podAffinity",
            near.and_then(|of| of.required_during_scheduling_ignored_during_execution.as_ref()),
            near.and_then(|of| of.preferred_during_scheduling_ignored_during_execution.as_ref()),
        ),
        (
            "podAntiAffinity",
            apart.and_then(|of| of.required_during_scheduling_ignored_during_execution.as_ref()),
            apart.and_then(|of| of.preferred_during_scheduling_ignored_during_execution.as_ref()),
        ),
    ];
    let mut warnings = Vec::new();
    let matches_none = |term: &PodAffinityTerm| term.label_selector.is_none();
    for (name, required, preferred) in lists {
        let field = field.child(name);
        for (index, _) in items(required).iter().enumerate().filter(|(_, term)| matches_none(term))
        {
            let list = field.child("requiredDuringSchedulingIgnoredDuringExecution");
            warnings.push(matches_no_pod(&list.index(index)));
        }
        let terms = items(preferred).iter().map(|term| &term.pod_affinity_term).enumerate();
        for (index, _) in terms.filter(|(_, term)| matches_none(term)) {
            let list = field.child("preferredDuringSchedulingIgnoredDuringExecution");
            warnings.push(matches_no_pod(&list.index(index).child("podAffinityTerm")));
        }
    }
    warnings
}

fn repeated_names(spec: &PodSpec, field: &Path) -> Vec<String> {
    let mut warnings = Vec::new();
    let aliases = items(spec.host_aliases.as_ref());
    let mut taken: ListKeys<&str> = ListKeys::new();
    for (index, alias) in aliases.iter().enumerate() {
        if taken.add(&alias.ip).is_some() {
            let field = field.child("hostAliases").index(index).child("ip");
            warnings.push(format!("{field}: duplicate ip {:?}", alias.ip));
        }
    }
    let secrets = items(spec.image_pull_secrets.as_ref());
    let mut taken: ListKeys<&str> = ListKeys::new();
    for (index, secret) in secrets.iter().enumerate() {
        let field = field.child("imagePullSecrets").index(index).child("name");
        let is_again = taken.add(&secret.name).is_some();
        if secret.name.is_empty() {
            warnings.push(format!("{field}: invalid empty name \"\""));
        } else if is_again {
            warnings.push(format!("{field}: duplicate name {:?}", secret.name));
        }
    }
    warnings
}

/// What a node refuses unless it is told not to; a controller would make such pods again and again.
fn unsafe_sysctls(spec: &PodSpec, field: &Path) -> Option<String> {
    let given = spec.security_context.as_ref()?.sysctls.as_ref()?;
    let names: BTreeSet<String> = given.iter().map(|s| sysctls::with_dots(&s.name)).collect();
    let is_unsafe =
        |name: &&str| !sysctls::is_safe(name) && sysctls::home(name) != SysctlNamespace::Machine;
    let unsafe_ones: Vec<&str> = names.iter().map(String::as_str).filter(is_unsafe).collect();
    let field = field.child("securityContext").child("sysctls");
    let more = if unsafe_ones.len() > NAMES_MAX { ", ..." } else { "" };
    let shown: Vec<&str> = unsafe_ones.iter().take(NAMES_MAX).copied().collect();
    let list = format!("{}{more}", shown.join(", "));
    (!unsafe_ones.is_empty()).then(|| {
        format!("{field}: nodes refuse the pod unless they allow {list} (rekindle up --allowed-unsafe-sysctls)")
    })
}

/// Of a class with another handler no pod is bound to a node.
fn runtime_class(spec: &PodSpec, field: &Path) -> Option<String> {
    let class = spec.runtime_class_name.as_ref()?;
    let field = field.child("runtimeClassName");
    Some(format!(
        "{field}: pods run only where the RuntimeClass {class:?} has the handler {HANDLER:?}, the embedded runtime"
    ))
}

/// The last of several variables with one name counts; apply may lose the others.
fn hidden_variables<'a>(container: &'a Container, field: &Path) -> Vec<String> {
    let variables = items(container.env.as_ref());
    let mut taken: ListKeys<&str> = ListKeys::new();
    let hides = |variable: &'a EnvVar| {
        let (name, value) = (variable.name.as_str(), text(variable.value.as_ref()));
        // A variable that extends its predecessor is meant so.
        taken.add(name).is_some() && !value.contains(&format!("$({name})"))
    };
    let hiding = variables.iter().map(hides).enumerate().filter(|(_, hides)| *hides);
    hiding
        .map(|(index, _)| {
            let field = field.child("env").index(index);
            let name = &variables[index].name;
            format!("{field}: hides previous definition of {name:?}, which may be dropped when using apply")
        })
        .collect()
}

/// `100m` of memory is a tenth of a byte; `100Mi` was meant.
fn fractional_bytes(container: &Container, field: &Path) -> Vec<String> {
    let Some(resources) = &container.resources else { return Vec::new() };
    let lists = [("limits", &resources.limits), ("requests", &resources.requests)];
    let mut warnings = Vec::new();
    for resource in ["memory", "ephemeral-storage"] {
        for (name, list) in lists {
            let Some(amount) = list.as_ref().and_then(|list| list.get(resource)) else { continue };
            let field = field.child("resources").child(name).key(resource);
            warnings.extend(quantities::fraction_warning(amount, &field));
        }
    }
    warnings
}
