//! Label selectors inside objects.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
pub use rekindle_types::labels::is_empty;
pub use rekindle_types::validation::selector::check;

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

/// The selector as text, as tables show it: `app=web,tier in (a,b)`; `<none>` when empty
/// (apimachinery `FormatLabelSelector`).
pub fn format(selector: &LabelSelector) -> String {
    let mut parts: Vec<(&str, String)> = Vec::new();
    for (key, value) in selector.match_labels.iter().flatten() {
        parts.push((key, format!("{key}={value}")));
    }
    for requirement in items(selector.match_expressions.as_ref()) {
        let key = &requirement.key;
        let mut values = items(requirement.values.as_ref()).to_vec();
        values.sort();
        let values = values.join(",");
        parts.push((
            key,
            match requirement.operator.as_str() {
                "In" => format!("{key} in ({values})"),
                "NotIn" => format!("{key} notin ({values})"),
                "Exists" => key.clone(),
                "DoesNotExist" => format!("!{key}"),
                _ => "<error>".to_owned(),
            },
        ));
    }
    if parts.is_empty() {
        return "<none>".to_owned();
    }
    parts.sort_by(|a, b| a.0.cmp(b.0));
    parts.into_iter().map(|(_, text)| text).collect::<Vec<_>>().join(",")
}
