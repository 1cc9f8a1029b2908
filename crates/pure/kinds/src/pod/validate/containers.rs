//! The lists of containers: what holds among them, and what each list allows.

use k8s_openapi::api::core::v1::{Container, PodSpec};
use rekindle_types::validation::field_error::FieldError;

use super::checked_pod::CheckedPod;
use super::{SpecHolder, container, ephemeral, handlers, one_of_if_set};
use crate::validation::{ListKeys, Path, items, text};

/// Checks regular, init and ephemeral containers.
pub(super) fn all(pod: &CheckedPod<'_>, field: &Path) -> Vec<FieldError> {
    let CheckedPod { spec, holder, .. } = *pod;
    let mut errors = Vec::new();
    let regular = field.child("containers");
    let init = field.child("initContainers");
    if spec.containers.is_empty() {
        errors.push(FieldError::required(&regular, ""));
    }
    let mut names: ListKeys<&str> = ListKeys::new();
    for (index, container) in spec.containers.iter().enumerate() {
        let field = regular.index(index);
        errors.extend(container::common(container, pod, &field));
        errors.extend(unique_name(container, &mut names, &field));
        errors.extend(handlers::validate_handlers(container, spec, &field));
        errors.extend(restart_rules(container, &["Always", "Never", "OnFailure"], &field));
    }
    let all = spec.containers.iter().enumerate();
    errors.extend(host_port_conflicts(all.map(|(index, c)| (c, regular.index(index)))));
    for (index, container) in items(spec.init_containers.as_ref()).iter().enumerate() {
        let field = init.index(index);
        errors.extend(container::common(container, pod, &field));
        errors.extend(unique_name(container, &mut names, &field));
        errors.extend(init_handlers(container, spec, &field));
        errors.extend(restart_rules(container, &["Always", "Never", "OnFailure"], &field));
        // Init containers run one after the other, so each has the ports to itself.
        errors.extend(host_port_conflicts(std::iter::once((container, field))));
    }
    let ephemerals = field.child("ephemeralContainers");
    match holder {
        SpecHolder::Pod => errors.extend(ephemeral::all(pod, &ephemerals)),
        SpecHolder::Template if items(spec.ephemeral_containers.as_ref()).is_empty() => {}
        SpecHolder::Template => {
            errors.extend(ephemeral::all(pod, &ephemerals));
            let detail = "ephemeral containers not allowed in pod template";
            errors.push(FieldError::forbidden(ephemerals, detail));
        }
    }
    errors
}

fn unique_name<'a>(
    container: &'a Container,
    names: &mut ListKeys<&'a str>,
    field: &Path,
) -> Option<FieldError> {
    let fresh = container.name.is_empty() || names.add(&container.name).is_none();
    (!fresh).then(|| FieldError::duplicate(field.child("name"), &container.name))
}

/// Probes and hooks are for what keeps running: regular containers and sidecars.
fn init_handlers(container: &Container, spec: &PodSpec, field: &Path) -> Vec<FieldError> {
    if text(container.restart_policy.as_ref()) == "Always" {
        return handlers::validate_handlers(container, spec, field);
    }
    [
        ("lifecycle", container.lifecycle.is_some()),
        ("resizePolicy", container.resize_policy.is_some()),
        ("livenessProbe", container.liveness_probe.is_some()),
        ("readinessProbe", container.readiness_probe.is_some()),
        ("startupProbe", container.startup_probe.is_some()),
    ]
    .into_iter()
    .filter(|(_, set)| *set)
    .map(|(name, _)| {
        FieldError::forbidden(
            field.child(name),
            "may not be set for init containers without restartPolicy=Always",
        )
    })
    .collect()
}

/// A container's own restart policy and its rules (KEP-5307, KEP-5532).
fn restart_rules(container: &Container, policies: &[&str], field: &Path) -> Vec<FieldError> {
    const RULES_MAX: usize = 20;
    const CODES_MAX: usize = 255;
    let mut errors = Vec::new();
    let policy = container.restart_policy.as_ref();
    errors.extend(one_of_if_set(policy, policies, field.child("restartPolicy")));
    let rules = items(container.restart_policy_rules.as_ref());
    let rules_field = field.child("restartPolicyRules");
    if !rules.is_empty() && policy.is_none() {
        errors.push(FieldError::required(
            field.child("restartPolicy"),
            "must specify restartPolicy when restart rules are used",
        ));
    }
    if rules.len() > RULES_MAX {
        errors.push(FieldError::too_many(&rules_field, RULES_MAX));
    }
    for (index, rule) in rules.iter().enumerate() {
        let field = rules_field.index(index);
        if !matches!(rule.action.as_str(), "Restart" | "RestartAllContainers") {
            errors.push(FieldError::not_supported(
                field.child("action"),
                &rule.action,
                &["Restart", "RestartAllContainers"],
            ));
        }
        let Some(codes) = &rule.exit_codes else {
            errors.push(FieldError::required(field.child("exitCodes"), "must be specified"));
            continue;
        };
        let field = field.child("exitCodes");
        if !matches!(codes.operator.as_str(), "In" | "NotIn") {
            errors.push(FieldError::not_supported(
                field.child("operator"),
                &codes.operator,
                &["In", "NotIn"],
            ));
        }
        if items(codes.values.as_ref()).len() > CODES_MAX {
            errors.push(FieldError::too_many(field.child("values"), CODES_MAX));
        }
    }
    errors
}

fn host_port_conflicts<'a>(
    containers: impl Iterator<Item = (&'a Container, Path)>,
) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let mut taken = ListKeys::new();
    for (container, field) in containers {
        for (position, port) in items(container.ports.as_ref()).iter().enumerate() {
            let Some(host_port) = port.host_port.filter(|port| *port != 0) else { continue };
            let protocol = text(port.protocol.as_ref());
            let key = format!("{protocol}/{}/{host_port}", text(port.host_ip.as_ref()));
            if taken.add(key.clone()).is_some() {
                let field = field.child("ports").index(position).child("hostPort");
                errors.push(FieldError::duplicate(field, key));
            }
        }
    }
    errors
}
