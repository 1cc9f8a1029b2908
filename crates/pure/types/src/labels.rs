//! Label selectors, as the controllers and the ladder read them from objects, and the labels that
//! every node has.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement};

/// The labels of an object.
pub type Labels = BTreeMap<String, String>;

/// The label by which a node is chosen. Source: the API reference, well-known labels.
pub const HOSTNAME: &str = "kubernetes.io/hostname";

/// The label of a node that says in which zone it is. Source: the same.
pub const ZONE: &str = "topology.kubernetes.io/zone";
/// The label of a node that says in which region it is.
pub const REGION: &str = "topology.kubernetes.io/region";

/// The label of an EndpointSlice that names its Service. Source: the same.
pub const SERVICE_NAME: &str = "kubernetes.io/service-name";

/// The label of an EndpointSlice that says who writes it. Source: the same.
pub const SLICE_MANAGED_BY: &str = "endpointslice.kubernetes.io/managed-by";

/// Its value for the slices of the controller that follows pods. Source: upstream's
/// `pkg/controller/endpointslice`, `controllerName`.
pub const SLICE_CONTROLLER: &str = "endpointslice-controller.k8s.io";

/// The labels that every node has. The architecture is spelt as in names of images: `amd64`.
pub fn default_node_labels(name: &str, architecture: &str) -> Labels {
    let labels = [
        (HOSTNAME, name),
        ("kubernetes.io/os", "linux"),
        ("kubernetes.io/arch", architecture),
        ("beta.kubernetes.io/os", "linux"),
        ("beta.kubernetes.io/arch", architecture),
    ];
    labels.map(|(key, value)| (key.to_owned(), value.to_owned())).into()
}

/// True when the selector matches. An empty selector matches everything, as in the API reference.
pub fn matches(selector: &LabelSelector, labels: Option<&Labels>) -> bool {
    static NONE: Labels = Labels::new();
    let labels = labels.unwrap_or(&NONE);
    selector.match_labels.iter().flatten().all(|(key, value)| labels.get(key) == Some(value))
        && selector.match_expressions.iter().flatten().all(|r| requirement_holds(r, labels))
}

/// True when the selector says nothing.
pub fn is_empty(selector: &LabelSelector) -> bool {
    selector.match_labels.as_ref().is_none_or(BTreeMap::is_empty)
        && selector.match_expressions.as_ref().is_none_or(Vec::is_empty)
}

/// True when the one selects whatever the other selects, since it asks for nothing else.
pub fn covers(wide: &LabelSelector, narrow: &LabelSelector) -> bool {
    requirements(wide).is_subset(&requirements(narrow))
}

/// What a selector asks for: a key, an operator and its values.
fn requirements(selector: &LabelSelector) -> BTreeSet<(&str, &str, BTreeSet<&str>)> {
    let equal = selector.match_labels.iter().flatten();
    let equal = equal.map(|(key, value)| (key.as_str(), "In", BTreeSet::from([value.as_str()])));
    let others = selector.match_expressions.iter().flatten().map(|asked| {
        let values = asked.values.iter().flatten().map(String::as_str).collect();
        (asked.key.as_str(), asked.operator.as_str(), values)
    });
    equal.chain(others).collect()
}

fn requirement_holds(requirement: &LabelSelectorRequirement, labels: &Labels) -> bool {
    let value = labels.get(&requirement.key);
    let listed = value.is_some_and(|v| requirement.values.iter().flatten().any(|w| w == v));
    match requirement.operator.as_str() {
        "In" => listed,
        "NotIn" => !listed,
        "Exists" => value.is_some(),
        "DoesNotExist" => value.is_none(),
        // Validation lets no other operator in; an unknown one selects nothing rather than
        // everything.
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn requirement(key: &str, operator: &str, values: &[&str]) -> LabelSelectorRequirement {
        LabelSelectorRequirement {
            key: key.to_owned(),
            operator: operator.to_owned(),
            values: Some(values.iter().map(|&v| v.to_owned()).collect()),
        }
    }

    #[test]
    fn expressions_hold_as_the_api_reference_says() {
        let labels = Labels::from([("app".to_owned(), "web".to_owned())]);
        for (key, operator, values, expected) in [
            ("app", "In", &["web", "db"][..], true),
            ("app", "In", &["db"], false),
            ("tier", "In", &["web"], false),
            ("app", "NotIn", &["db"], true),
            ("tier", "NotIn", &["db"], true),
            ("app", "Exists", &[], true),
            ("tier", "Exists", &[], false),
            ("tier", "DoesNotExist", &[], true),
            ("app", "Near", &["web"], false),
        ] {
            let selector = LabelSelector {
                match_expressions: Some(vec![requirement(key, operator, values)]),
                ..Default::default()
            };
            assert_eq!(matches(&selector, Some(&labels)), expected, "{key} {operator} {values:?}");
        }
        assert!(matches(&LabelSelector::default(), None));
    }
}
