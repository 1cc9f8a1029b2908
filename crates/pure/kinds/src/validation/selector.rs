//! Label selectors inside objects.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
pub use rekindle_types::labels::is_empty;
pub use rekindle_types::validation::selector::{
    TERMS_MAX, check, check_requirements, format, values_mismatch,
};

use super::items;

/// Whether the labels match. A requirement with an unknown operator matches nothing.
pub fn matches(selector: &LabelSelector, labels: Option<&BTreeMap<String, String>>) -> bool {
    let get = |key: &str| labels.and_then(|labels| labels.get(key));
    selector.match_labels.iter().flatten().all(|(key, value)| get(key) == Some(value))
        && items(selector.match_expressions.as_ref()).iter().all(|requirement| {
            let value = get(&requirement.key);
            let listed =
                || value.is_some_and(|value| items(requirement.values.as_ref()).contains(value));
            match requirement.operator.as_str() {
                "In" => listed(),
                "NotIn" => !listed(),
                "Exists" => value.is_some(),
                "DoesNotExist" => value.is_none(),
                _ => false,
            }
        })
}
