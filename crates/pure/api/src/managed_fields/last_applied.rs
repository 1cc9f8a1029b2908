//! The annotation of client-side `kubectl apply`. `kubectl apply --server-side` takes over what the
//! annotation says was applied, and the annotation follows what is applied by the server.

use rekindle_kinds::registry::KindEntry;
use rekindle_structured_merge::{FieldSet, OwnershipChange};
use serde_json::Value;

/// The name of the only owner that is treated so.
pub(super) const KUBECTL: &str = "kubectl";

const ANNOTATION: &str = "kubectl.kubernetes.io/last-applied-configuration";

fn annotation(object: &Value) -> Option<&str> {
    let text = object.get("metadata")?.get("annotations")?.get(ANNOTATION)?.as_str()?;
    Some(text).filter(|text| !text.is_empty())
}

/// The fields that were applied by the client and are still as they were: no conflict is about
/// them.
pub(super) fn unchanged_since(
    change: OwnershipChange<'_>,
    entry: &KindEntry,
    live: &Value,
) -> FieldSet {
    let config = annotation(live).and_then(|text| serde_json::from_str::<Value>(text).ok());
    match config {
        Some(config)
            if config.get("apiVersion").and_then(Value::as_str) == Some(&entry.api_version)
                && change.schema.validate(&config).is_empty() =>
        {
            change.unchanged_since(&config, live)
        }
        Some(_) | None => FieldSet::default(),
    }
}

/// Where the annotation is, it says what is applied now.
pub(super) fn follow(object: &mut Value, config: &Value) {
    if annotation(object).is_none() {
        return;
    }
    let mut config = config.clone();
    if let Some(annotations) = config
        .get_mut("metadata")
        .and_then(|metadata| metadata.get_mut("annotations"))
        .and_then(Value::as_object_mut)
    {
        annotations.remove(ANNOTATION);
    }
    object["metadata"]["annotations"][ANNOTATION] = Value::String(go_json(&config));
}

/// JSON as Go's encoder writes it: safe inside HTML, with a line feed at the end.
fn go_json(value: &Value) -> String {
    let mut text = String::new();
    for character in value.to_string().chars() {
        match character {
            '<' => text.push_str("\\u003c"),
            '>' => text.push_str("\\u003e"),
            '&' => text.push_str("\\u0026"),
            '\u{2028}' => text.push_str("\\u2028"),
            '\u{2029}' => text.push_str("\\u2029"),
            other => text.push(other),
        }
    }
    text.push('\n');
    text
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_annotation_follows_only_where_it_is() {
        let config = json!({"data": {"a": "<&>"}});
        let mut object = json!({"metadata": {"annotations": {ANNOTATION: "{}"}}});
        follow(&mut object, &config);
        assert_eq!(annotation(&object), Some("{\"data\":{\"a\":\"\\u003c\\u0026\\u003e\"}}\n"));
        let mut other = json!({"metadata": {}});
        follow(&mut other, &config);
        assert_eq!(other, json!({"metadata": {}}));
    }
}
