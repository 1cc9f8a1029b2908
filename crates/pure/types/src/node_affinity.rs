//! `nodeSelector` and the required part of node affinity: which nodes a pod may go to as far as
//! their labels are concerned. Source: API reference of NodeSelector; documentation, "Assigning
//! Pods to Nodes".

use k8s_openapi::api::core::v1::{Node, NodeSelector, NodeSelectorRequirement, NodeSelectorTerm};

use crate::pods::{AnyPod, AnySpec, affinity};

/// A label of a node.
pub fn label<'a>(node: &'a Node, key: &str) -> Option<&'a str> {
    node.metadata.labels.as_ref().and_then(|labels| labels.get(key)).map(String::as_str)
}

/// True when the pod asks anything of its node's labels.
pub fn asks_for_labels(pod: &impl AnyPod) -> bool {
    let selector = pod.spec().and_then(AnySpec::node_selector);
    selector.is_some_and(|selector| !selector.is_empty()) || required(pod).is_some()
}

/// True when the pod may go to the node as far as its labels are concerned.
pub fn matches(pod: &impl AnyPod, node: &Node) -> bool {
    let Some(spec) = pod.spec() else { return true };
    if !spec
        .node_selector()
        .into_iter()
        .flatten()
        .all(|(key, value)| label(node, key) == Some(value))
    {
        return false;
    }
    required(pod)
        .is_none_or(|required| required.node_selector_terms.iter().any(|t| term_matches(t, node)))
}

fn required(pod: &impl AnyPod) -> Option<&NodeSelector> {
    let affinity = affinity(pod)?.node_affinity.as_ref()?;
    affinity.required_during_scheduling_ignored_during_execution.as_ref()
}

/// Terms are alternatives; an empty one matches nothing (API reference).
pub fn term_matches(term: &NodeSelectorTerm, node: &Node) -> bool {
    let expressions = term.match_expressions.as_deref().unwrap_or_default();
    let fields = term.match_fields.as_deref().unwrap_or_default();
    if expressions.is_empty() && fields.is_empty() {
        return false;
    }
    expressions.iter().all(|r| requirement_holds(r, label(node, &r.key)))
        && fields.iter().all(|r| {
            r.key == "metadata.name" && requirement_holds(r, node.metadata.name.as_deref())
        })
}

fn requirement_holds(requirement: &NodeSelectorRequirement, value: Option<&str>) -> bool {
    let values = requirement.values.as_deref().unwrap_or_default();
    let listed = value.is_some_and(|value| values.iter().any(|v| v == value));
    let numbers =
        || -> Option<(i64, i64)> { Some((value?.parse().ok()?, values.first()?.parse().ok()?)) };
    match requirement.operator.as_str() {
        "In" => listed,
        "NotIn" => !listed,
        "Exists" => value.is_some(),
        "DoesNotExist" => value.is_none(),
        "Gt" => numbers().is_some_and(|(has, bound)| has > bound),
        "Lt" => numbers().is_some_and(|(has, bound)| has < bound),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use k8s_openapi::api::core::v1::{Affinity, NodeAffinity, PodSpec};
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

    use k8s_openapi::api::core::v1::Pod;

    use super::*;

    fn node() -> Node {
        let labels = [("disk", "ssd"), ("cores", "8")];
        let labels = labels.map(|(key, value)| (key.to_owned(), value.to_owned()));
        let metadata = ObjectMeta {
            name: Some("a".to_owned()),
            labels: Some(BTreeMap::from(labels)),
            ..ObjectMeta::default()
        };
        Node { metadata, ..Node::default() }
    }

    fn requirement(key: &str, operator: &str, values: &[&str]) -> NodeSelectorRequirement {
        let values = values.iter().map(|value| (*value).to_owned()).collect();
        let (key, operator) = (key.to_owned(), operator.to_owned());
        NodeSelectorRequirement { key, operator, values: Some(values) }
    }

    fn pod(terms: Vec<NodeSelectorTerm>) -> Pod {
        let required = NodeSelector { node_selector_terms: terms };
        let affinity = NodeAffinity {
            required_during_scheduling_ignored_during_execution: Some(required),
            ..NodeAffinity::default()
        };
        let affinity = Affinity { node_affinity: Some(affinity), ..Affinity::default() };
        let spec = PodSpec { affinity: Some(affinity), ..PodSpec::default() };
        Pod { spec: Some(spec), ..Pod::default() }
    }

    #[test]
    fn requirements_hold_as_the_api_reference_says() {
        for (key, operator, values, expected) in [
            ("disk", "In", &["hdd", "ssd"][..], true),
            ("disk", "NotIn", &["ssd"], false),
            ("absent", "NotIn", &["ssd"], true),
            ("disk", "Exists", &[], true),
            ("absent", "DoesNotExist", &[], true),
            ("cores", "Gt", &["4"], true),
            ("cores", "Lt", &["8"], false),
            ("disk", "Gt", &["4"], false),
            ("disk", "Near", &["ssd"], false),
        ] {
            let expressions = Some(vec![requirement(key, operator, values)]);
            let term = NodeSelectorTerm { match_expressions: expressions, match_fields: None };
            let pod = pod(vec![NodeSelectorTerm::default(), term]);
            assert!(asks_for_labels(&pod));
            assert_eq!(matches(&pod, &node()), expected, "{key} {operator} {values:?}");
        }
    }

    #[test]
    fn a_pod_without_a_selector_may_go_anywhere_and_one_with_an_empty_term_nowhere() {
        assert!(matches(&Pod::default(), &node()) && !asks_for_labels(&Pod::default()));
        assert!(!matches(&pod(vec![NodeSelectorTerm::default()]), &node()));
        let fields = Some(vec![requirement("metadata.name", "In", &["a"])]);
        let by_name = NodeSelectorTerm { match_expressions: None, match_fields: fields };
        assert!(matches(&pod(vec![by_name]), &node()));
    }
}
