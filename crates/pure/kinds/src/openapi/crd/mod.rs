//! Our own kinds as CustomResourceDefinitions, for a cluster whose API server is another one: the
//! schemas that `/openapi/v3` shows, in the structural form that such a server asks for (API
//! reference, "Specifying a structural schema").

mod columns;
mod structural;

use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::schemas;
use crate::registry::{KindEntry, Registry, ResourceScope, Subresource};

/// The definitions of the kinds of a group, by plural name.
pub fn definitions(registry: &Registry, group: &str) -> Vec<Value> {
    let kinds: Vec<&KindEntry> = registry.in_group(group).map(Arc::as_ref).collect();
    let schemas = schemas::schemas_for(&kinds);
    kinds.into_iter().map(|entry| definition(entry, &schemas)).collect()
}

fn definition(entry: &KindEntry, schemas: &Map<String, Value>) -> Value {
    let scope = match entry.scope {
        ResourceScope::Namespaced => "Namespaced",
        ResourceScope::Cluster => "Cluster",
    };
    let schema = structural::schema_named(entry.codec.schema_name().as_ref(), schemas);
    let mut version = json!({
        "name": entry.version,
        "served": true,
        "storage": true,
        "schema": {"openAPIV3Schema": schema},
        "additionalPrinterColumns": columns::printer_columns(&entry.kind),
    });
    if entry.subresources.contains(&Subresource::Status) {
        version["subresources"] = json!({"status": {}});
    }
    if !entry.selectable_fields.is_empty() {
        let fields =
            entry.selectable_fields.iter().map(|path| json!({"jsonPath": format!(".{path}")}));
        version["selectableFields"] = fields.collect();
    }
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": entry.resource()},
        "spec": {
            "group": entry.group,
            "names": {
                "categories": entry.categories,
                "kind": entry.kind,
                "listKind": entry.list_kind,
                "plural": entry.plural,
                "shortNames": entry.short_names,
                "singular": entry.singular,
            },
            "scope": scope,
            "versions": [version],
        },
    })
}

#[cfg(test)]
mod tests;
