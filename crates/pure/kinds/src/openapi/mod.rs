//! OpenAPI v3 documents, one per group version: what `kubectl explain`, `apply`, `diff` and
//! server-side validation read.
//!
//! A document is made when somebody asks for it and belongs to the caller; nothing of it stays in
//! memory here.
//! - kubectl decides by the `fieldValidation` parameter of a kind's PATCH operation whether the
//!   server validates (cli-runtime `query_param_verifier_v3`),
//! - by the content types of that operation whether it may send a strategic merge patch, and then
//!   computes the patch with the merge keys of the schemas (`x-kubernetes-patch-merge-key`),
//! - and explains a resource by the group, version and kind of its GET operation.

pub mod crd;
mod parameters;
mod paths;
mod schemas;
pub mod v2;

use std::sync::Arc;

use serde_json::{Value, json};

use crate::registry::Registry;

/// The document of a group version. A group version without kinds has one without paths.
pub fn document(registry: &Registry, group: &str, version: &str) -> Value {
    let kinds = registry.in_group(group).filter(|entry| entry.version == version);
    let kinds: Vec<_> = kinds.map(Arc::as_ref).collect();
    json!({
        "openapi": "3.0.0",
        "info": {"title": "Rekindle", "version": concat!("v", env!("CARGO_PKG_VERSION"))},
        "paths": paths::paths_of_group(&kinds, group, version),
        "components": {"schemas": schemas::schemas_for(&kinds)},
    })
}

/// A reference to a schema of the same document.
pub fn reference(schema: &str) -> Value {
    json!({"$ref": format!("#/components/schemas/{schema}")})
}

const DELETE_OPTIONS: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions";
const LIST_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ListMeta";
const PATCH: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.Patch";
const RESOURCE_LIST: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.APIResourceList";
const STATUS: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.Status";
const SCALE: &str = "io.k8s.api.autoscaling.v1.Scale";
const TOKEN_REQUEST: &str = "io.k8s.api.authentication.v1.TokenRequest";
const BINDING: &str = "io.k8s.api.core.v1.Binding";
const EVICTION: &str = "io.k8s.api.policy.v1.Eviction";

/// The name of the schema of a list of a kind.
fn list_schema(kind_schema: &str) -> String {
    format!("{kind_schema}List")
}

#[cfg(test)]
mod tests;
