//! Which nodes a pod may run on: tolerations, spreading, gates.

use k8s_openapi::api::core::v1::{PodSpec, TopologySpreadConstraint};
use rekindle_types::validation::field_error::FieldError;

use super::affinity;
use crate::validation::tolerations::tolerations;
use crate::validation::{ListKeys, Path, invalid_each, items, names, selector};

/// Checks all of it.
pub(super) fn check(spec: &PodSpec, field: &Path) -> Vec<FieldError> {
    let mut errors = tolerations(items(spec.tolerations.as_ref()), &field.child("tolerations"));
    if let Some(affinity) = &spec.affinity {
        errors.extend(affinity::check(affinity, &field.child("affinity")));
    }
    let spread = items(spec.topology_spread_constraints.as_ref());
    errors.extend(spreading(spread, &field.child("topologySpreadConstraints")));
    let mut taken: ListKeys<&str> = ListKeys::new();
    for (index, gate) in items(spec.scheduling_gates.as_ref()).iter().enumerate() {
        let field = field.child("schedulingGates").index(index);
        errors.extend(invalid_each(&field, &gate.name, names::qualified(&gate.name)));
        if taken.add(&gate.name).is_some() {
            errors.push(FieldError::duplicate(field, &gate.name));
        }
    }
    errors
}

fn spreading<'a>(constraints: &'a [TopologySpreadConstraint], field: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    // As upstream, of two equal ones the first is named: so the last one is looked for first.
    let key = |constraint: &'a TopologySpreadConstraint| {
        (constraint.topology_key.as_str(), constraint.when_unsatisfiable.as_str())
    };
    let mut later: ListKeys<(&str, &str)> = ListKeys::new();
    let mut comes_again: Vec<bool> =
        constraints.iter().rev().map(|one| later.add(key(one)).is_some()).collect();
    for (index, constraint) in constraints.iter().enumerate() {
        let field = field.index(index);
        if constraint.max_skew <= 0 {
            errors.push(FieldError::invalid(
                field.child("maxSkew"),
                constraint.max_skew,
                "must be greater than zero",
            ));
        }
        if constraint.topology_key.is_empty() {
            errors.push(FieldError::required(field.child("topologyKey"), "can not be empty"));
        }
        let actions = ["DoNotSchedule", "ScheduleAnyway"];
        let action = constraint.when_unsatisfiable.as_str();
        errors.extend(known(action, &actions, field.child("whenUnsatisfiable")));
        if comes_again.pop() == Some(true) {
            errors.push(FieldError::duplicate(
                field.child("{topologyKey, whenUnsatisfiable}"),
                format!("{{{}, {action}}}", constraint.topology_key),
            ));
        }
        errors.extend(domains_and_policies(constraint, &field));
        let (labels, keys) =
            (constraint.label_selector.as_ref(), items(constraint.match_label_keys.as_ref()));
        errors.extend(affinity::label_keys(keys, labels, &field.child("matchLabelKeys")));
        errors.extend(affinity::said_twice(keys, labels, &field.child("matchLabelKeys")));
        if let Some(labels) = labels {
            errors.extend(selector::check(labels, &field.child("labelSelector")));
        }
    }
    errors
}

fn domains_and_policies(constraint: &TopologySpreadConstraint, field: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if let Some(domains) = constraint.min_domains {
        let field = field.child("minDomains");
        if domains <= 0 {
            errors.push(FieldError::invalid(field.clone(), domains, "must be greater than zero"));
        }
        if constraint.when_unsatisfiable != "DoNotSchedule" {
            errors.push(FieldError::invalid(
                field,
                domains,
                format!(
                    "can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {}",
                    constraint.when_unsatisfiable
                ),
            ));
        }
    }
    for (name, policy) in [
        ("nodeAffinityPolicy", &constraint.node_affinity_policy),
        ("nodeTaintsPolicy", &constraint.node_taints_policy),
    ] {
        if let Some(policy) = policy {
            errors.extend(known(policy, &["Honor", "Ignore"], field.child(name)));
        }
    }
    errors
}

/// Nothing at all is none of the known ones, too.
fn known(value: &str, known: &[&str], field: Path) -> Option<FieldError> {
    (!known.contains(&value)).then(|| FieldError::not_supported(field, value, known))
}
