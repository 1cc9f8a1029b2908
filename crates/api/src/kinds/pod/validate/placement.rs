//! Which nodes a pod may run on: tolerations, affinity, spreading.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{
    Affinity, NodeSelectorTerm, PodAffinityTerm, PodSpec, Toleration, TopologySpreadConstraint,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use rekindle_types::taints;

use super::one_of;
use crate::registry::field_error::FieldError;
use crate::validation::{Path, invalid_each, items, names, selector, text};

const EFFECTS: [&str; 3] = [taints::NO_EXECUTE, taints::NO_SCHEDULE, taints::PREFER_NO_SCHEDULE];

/// Checks all of it.
pub(super) fn check(spec: &PodSpec, field: &Path) -> Vec<FieldError> {
    let mut errors = tolerations(items(spec.tolerations.as_ref()), &field.child("tolerations"));
    if let Some(affinity) = &spec.affinity {
        errors.extend(self::affinity(affinity, &field.child("affinity")));
    }
    let spread = items(spec.topology_spread_constraints.as_ref());
    errors.extend(spreading(spread, &field.child("topologySpreadConstraints")));
    let mut taken: BTreeSet<&str> = BTreeSet::new();
    for (index, gate) in items(spec.scheduling_gates.as_ref()).iter().enumerate() {
        let field = field.child("schedulingGates").index(index);
        errors.extend(invalid_each(&field, &gate.name, names::qualified(&gate.name)));
        if !taken.insert(&gate.name) {
            errors.push(FieldError::duplicate(field, &gate.name));
        }
    }
    errors
}

/// Checks tolerations; also those that an update adds.
pub(super) fn tolerations(tolerations: &[Toleration], field: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for (index, toleration) in tolerations.iter().enumerate() {
        let field = field.index(index);
        let key = text(toleration.key.as_ref());
        let operator = text(toleration.operator.as_ref());
        let value = text(toleration.value.as_ref());
        let effect = text(toleration.effect.as_ref());
        if !key.is_empty() {
            errors.extend(invalid_each(&field.child("key"), key, names::qualified(key)));
        } else if operator != "Exists" {
            errors.push(FieldError::invalid(
                field.child("operator"),
                operator,
                "operator must be Exists when `key` is empty, which means \"match all values and all keys\"",
            ));
        }
        if toleration.toleration_seconds.is_some() && effect != taints::NO_EXECUTE {
            errors.push(FieldError::invalid(
                field.child("effect"),
                effect,
                "effect must be 'NoExecute' when `tolerationSeconds` is set",
            ));
        }
        match operator {
            "" | "Equal" => {
                let messages = names::label_value(value);
                errors.extend(invalid_each(&field.child("operator"), value, messages));
            }
            "Exists" if value.is_empty() => {}
            "Exists" => errors.push(FieldError::invalid(
                field.child("operator"),
                value,
                "value must be empty when `operator` is 'Exists'",
            )),
            other => errors.push(FieldError::not_supported(
                field.child("operator"),
                other,
                &["Equal", "Exists"],
            )),
        }
        if !effect.is_empty() && !EFFECTS.contains(&effect) {
            errors.push(FieldError::not_supported(field.child("effect"), effect, &EFFECTS));
        }
    }
    errors
}

fn affinity(affinity: &Affinity, field: &Path) -> Vec<FieldError> {
    const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
    const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";
    let mut errors = Vec::new();
    if let Some(node) = &affinity.node_affinity {
        let field = field.child("nodeAffinity");
        if let Some(required) = &node.required_during_scheduling_ignored_during_execution {
            let field = field.child(REQUIRED).child("nodeSelectorTerms");
            if required.node_selector_terms.is_empty() {
                errors.push(FieldError::required(
                    &field,
                    "must have at least one node selector term",
                ));
            }
            for (index, term) in required.node_selector_terms.iter().enumerate() {
                errors.extend(node_term(term, &field.index(index)));
            }
        }
        let preferred = node.preferred_during_scheduling_ignored_during_execution.as_ref();
        for (index, term) in items(preferred).iter().enumerate() {
            let field = field.child(PREFERRED).index(index);
            errors.extend(weight(term.weight, &field));
            errors.extend(node_term(&term.preference, &field.child("preference")));
        }
    }
    let pod = affinity.pod_affinity.as_ref().map(|pods| {
        (
            items(pods.required_during_scheduling_ignored_during_execution.as_ref()),
            items(pods.preferred_during_scheduling_ignored_during_execution.as_ref()),
        )
    });
    let anti = affinity.pod_anti_affinity.as_ref().map(|pods| {
        (
            items(pods.required_during_scheduling_ignored_during_execution.as_ref()),
            items(pods.preferred_during_scheduling_ignored_during_execution.as_ref()),
        )
    });
    for (name, terms) in [("podAffinity", pod), ("podAntiAffinity", anti)] {
        let Some((required, preferred)) = terms else { continue };
        let field = field.child(name);
        for (index, term) in required.iter().enumerate() {
            errors.extend(pod_term(term, &field.child(REQUIRED).index(index)));
        }
        for (index, term) in preferred.iter().enumerate() {
            let field = field.child(PREFERRED).index(index);
            errors.extend(weight(term.weight, &field));
            errors.extend(pod_term(&term.pod_affinity_term, &field.child("podAffinityTerm")));
        }
    }
    errors
}

fn weight(weight: i32, field: &Path) -> Option<FieldError> {
    (!(1..=100).contains(&weight))
        .then(|| FieldError::invalid(field.child("weight"), weight, "must be in the range 1-100"))
}

fn node_term(term: &NodeSelectorTerm, field: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for (index, requirement) in items(term.match_expressions.as_ref()).iter().enumerate() {
        let field = field.child("matchExpressions").index(index);
        let count = items(requirement.values.as_ref()).len();
        match requirement.operator.as_str() {
            "In" | "NotIn" if count == 0 => errors.push(FieldError::required(
                field.child("values"),
                "must be specified when `operator` is 'In' or 'NotIn'",
            )),
            "Exists" | "DoesNotExist" if count > 0 => errors.push(FieldError::forbidden(
                field.child("values"),
                "may not be specified when `operator` is 'Exists' or 'DoesNotExist'",
            )),
            "Gt" | "Lt" if count != 1 => errors.push(FieldError::required(
                field.child("values"),
                "must be specified single value when `operator` is 'Lt' or 'Gt'",
            )),
            "In" | "NotIn" | "Exists" | "DoesNotExist" | "Gt" | "Lt" => {}
            other => errors.push(FieldError::invalid(
                field.child("operator"),
                other,
                "not a valid selector operator",
            )),
        }
        let key = &requirement.key;
        errors.extend(invalid_each(&field.child("key"), key, names::qualified(key)));
    }
    for (index, requirement) in items(term.match_fields.as_ref()).iter().enumerate() {
        if requirement.key != "metadata.name" {
            errors.push(FieldError::invalid(
                field.child("matchFields").index(index).child("key"),
                &requirement.key,
                "not a valid field selector key",
            ));
        }
    }
    errors
}

fn pod_term(term: &PodAffinityTerm, field: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if let Some(labels) = &term.label_selector {
        errors.extend(selector::check(labels, &field.child("labelSelector")));
    }
    let (same, other) = (&term.match_label_keys, &term.mismatch_label_keys);
    errors.extend(label_keys(same, term.label_selector.as_ref(), &field.child("matchLabelKeys")));
    errors.extend(label_keys(
        other,
        term.label_selector.as_ref(),
        &field.child("mismatchLabelKeys"),
    ));
    for (index, key) in items(same.as_ref()).iter().enumerate() {
        if items(other.as_ref()).contains(key) {
            errors.push(FieldError::invalid(
                field.child("matchLabelKeys").index(index),
                key,
                "exists in both matchLabelKeys and mismatchLabelKeys",
            ));
        }
    }
    let topology = field.child("topologyKey");
    if term.topology_key.is_empty() {
        errors.push(FieldError::required(&topology, "can not be empty"));
    } else {
        let messages = names::qualified(&term.topology_key);
        errors.extend(invalid_each(&topology, &term.topology_key, messages));
    }
    errors
}

/// The keys whose values the pod itself has; they need a selector that they can become part of.
fn label_keys(
    keys: &Option<Vec<String>>,
    selector: Option<&LabelSelector>,
    field: &Path,
) -> Vec<FieldError> {
    let keys = items(keys.as_ref());
    if selector.is_none() && !keys.is_empty() {
        return vec![FieldError::forbidden(
            field.clone(),
            "must not be specified when labelSelector is not set",
        )];
    }
    let mut errors = Vec::new();
    for (index, key) in keys.iter().enumerate() {
        errors.extend(invalid_each(&field.index(index), key, names::qualified(key)));
    }
    errors
}

fn spreading(constraints: &[TopologySpreadConstraint], field: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
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
        errors.extend(one_of(
            Some(&constraint.when_unsatisfiable),
            &["DoNotSchedule", "ScheduleAnyway"],
            field.child("whenUnsatisfiable"),
        ));
        if let Some(labels) = &constraint.label_selector {
            errors.extend(selector::check(labels, &field.child("labelSelector")));
        }
        errors.extend(label_keys(
            &constraint.match_label_keys,
            constraint.label_selector.as_ref(),
            &field.child("matchLabelKeys"),
        ));
        errors.extend(domains_and_policies(constraint, &field));
        let is_double = constraints[..index].iter().any(|other| {
            other.topology_key == constraint.topology_key
                && other.when_unsatisfiable == constraint.when_unsatisfiable
        });
        if is_double {
            errors.push(FieldError::duplicate(
                field.child("{topologyKey, whenUnsatisfiable}"),
                format!("{{{}, {}}}", constraint.topology_key, constraint.when_unsatisfiable),
            ));
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
            errors.extend(one_of(Some(policy), &["Honor", "Ignore"], field.child(name)));
        }
    }
    errors
}
