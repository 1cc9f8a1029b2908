//! `matchLabelKeys` and `mismatchLabelKeys`: the pod's own value of a label becomes part of the
//! selector when the pod is made, so that whoever reads the selector needs to know nothing of them
//! [KEP-3633, KEP-3243].

use k8s_openapi::api::core::v1::{Pod, PodAffinityTerm};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement};
use rekindle_types::labels::Labels;

use crate::validation::{ListKeys, items};

/// Adds what the keys stand for to the selectors. A key that the pod has no label of says nothing.
pub(super) fn merge(pod: &mut Pod) {
    let labels = pod.metadata.labels.clone().unwrap_or_default();
    let Some(spec) = &mut pod.spec else { return };
    for constraint in spec.topology_spread_constraints.iter_mut().flatten() {
        let keys = items(constraint.match_label_keys.as_ref());
        add(&mut constraint.label_selector, keys, "In", &labels);
    }
    let Some(affinity) = &mut spec.affinity else { return };
    if let Some(terms) = &mut affinity.pod_affinity {
        let required = terms.required_during_scheduling_ignored_during_execution.iter_mut();
        required.flatten().for_each(|term| merge_term(term, &labels));
        let preferred = terms.preferred_during_scheduling_ignored_during_execution.iter_mut();
        preferred.flatten().for_each(|term| merge_term(&mut term.pod_affinity_term, &labels));
    }
    if let Some(terms) = &mut affinity.pod_anti_affinity {
        let required = terms.required_during_scheduling_ignored_during_execution.iter_mut();
        required.flatten().for_each(|term| merge_term(term, &labels));
        let preferred = terms.preferred_during_scheduling_ignored_during_execution.iter_mut();
        preferred.flatten().for_each(|term| merge_term(&mut term.pod_affinity_term, &labels));
    }
}

fn merge_term(term: &mut PodAffinityTerm, labels: &Labels) {
    add(&mut term.label_selector, items(term.match_label_keys.as_ref()), "In", labels);
    add(&mut term.label_selector, items(term.mismatch_label_keys.as_ref()), "NotIn", labels);
}

fn add(selector: &mut Option<LabelSelector>, keys: &[String], operator: &str, labels: &Labels) {
    let Some(selector) = selector else { return };
    if keys.is_empty() {
        return;
    }
    let asked = selector.match_expressions.iter().flatten().filter_map(|asked| {
        let values = asked.values.as_deref()?;
        let [value] = values else { return None };
        (asked.operator == operator).then(|| (asked.key.clone(), value.clone()))
    });
    // A copy of a pod that was made before has them already.
    let mut known: ListKeys<(String, String)> = asked.collect();
    for key in keys {
        let Some(value) = labels.get(key) else { continue };
        let requirement = LabelSelectorRequirement {
            key: key.clone(),
            operator: operator.to_owned(),
            values: Some(vec![value.clone()]),
        };
        let expressions = selector.match_expressions.get_or_insert_default();
        if known.add((key.clone(), value.clone())).is_none() {
            expressions.push(requirement);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn merged(term: &Value, constraint: &Value) -> (Value, Value) {
        let mut pod: Pod = serde_json::from_value(json!({
            "metadata": {"labels": {"app": "web", "pod-template-hash": "abc"}},
            "spec": {
                "containers": [],
                "affinity": {"podAntiAffinity": {
                    "requiredDuringSchedulingIgnoredDuringExecution": [term]}},
                "topologySpreadConstraints": [constraint],
            },
        }))
        .unwrap();
        merge(&mut pod);
        merge(&mut pod);
        let pod = serde_json::to_value(pod).unwrap();
        let affinity = &pod["spec"]["affinity"]["podAntiAffinity"];
        (
            affinity["requiredDuringSchedulingIgnoredDuringExecution"][0]["labelSelector"].clone(),
            pod["spec"]["topologySpreadConstraints"][0]["labelSelector"].clone(),
        )
    }

    #[test]
    fn the_pods_own_values_become_part_of_the_selectors_once() {
        let selector = json!({"matchLabels": {"app": "web"}});
        let (term, constraint) = merged(
            &json!({"topologyKey": "zone", "labelSelector": selector,
                "matchLabelKeys": ["pod-template-hash", "absent"], "mismatchLabelKeys": ["app"]}),
            &json!({"topologyKey": "zone", "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule",
                "labelSelector": selector, "matchLabelKeys": ["pod-template-hash"]}),
        );
        let hash = json!({"key": "pod-template-hash", "operator": "In", "values": ["abc"]});
        let app = json!({"key": "app", "operator": "NotIn", "values": ["web"]});
        assert_eq!(term, json!({"matchLabels": {"app": "web"}, "matchExpressions": [hash, app]}));
        assert_eq!(constraint, json!({"matchLabels": {"app": "web"}, "matchExpressions": [hash]}));
    }
}
