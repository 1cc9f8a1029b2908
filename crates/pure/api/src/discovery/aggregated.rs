//! Aggregated discovery (apidiscovery.k8s.io/v2): everything in two requests.

use http::StatusCode;
use rekindle_kinds::registry::ResourceScope;
use serde_json::{Value, json};

use super::group_versions::{DiscoveryResource, GroupVersion, VersionResources};
use crate::api_services::listed_api_service::ServedElsewhere;
use crate::outcome::ApiAnswer;

/// The media type in JSON. Clients look for exactly this type in the answer.
pub(crate) const MEDIA_TYPE: &str =
    "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

/// The same in YAML.
pub(crate) const YAML_MEDIA_TYPE: &str =
    "application/yaml;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

/// `/api`.
pub(super) fn core(all: &[GroupVersion]) -> ApiAnswer {
    list(all, |group| group.is_empty())
}

/// `/apis`.
pub(super) fn groups(all: &[GroupVersion]) -> ApiAnswer {
    list(all, |group| !group.is_empty())
}

fn list(all: &[GroupVersion], wanted: impl Fn(&str) -> bool) -> ApiAnswer {
    let mut names: Vec<&str> =
        all.iter().map(|known| known.group.as_ref()).filter(|group| wanted(group)).collect();
    names.dedup();
    let items: Vec<Value> = names
        .into_iter()
        .map(|name| {
            let versions: Vec<Value> =
                all.iter().filter(|known| known.group == name).map(version).collect();
            // the oldest group has no name
            let metadata = if name.is_empty() { json!({}) } else { json!({ "name": name }) };
            json!({"metadata": metadata, "versions": versions})
        })
        .collect();
    let value = json!({
        "kind": "APIGroupDiscoveryList",
        "apiVersion": "apidiscovery.k8s.io/v2",
        "metadata": {},
        "items": items,
    });
    ApiAnswer { content_type: MEDIA_TYPE, ..ApiAnswer::json(StatusCode::OK, value.to_string()) }
}

fn version(known: &GroupVersion) -> Value {
    match &known.resources {
        VersionResources::Here(resources) => {
            let resources: Vec<Value> = resources.iter().map(resource_json).collect();
            json!({"version": known.version, "freshness": "Current", "resources": resources})
        }
        VersionResources::Elsewhere(ServedElsewhere { discovery, is_stale }) => json!({
            "version": known.version,
            "freshness": if *is_stale { "Stale" } else { "Current" },
            "resources": discovery.as_ref().map_or(&[][..], |discovery| discovery.resources()),
        }),
    }
}

fn resource_json(resource: &DiscoveryResource) -> Value {
    let mut value = json!({
        "resource": resource.name,
        "responseKind": kind(resource),
        "scope": match resource.scope {
            ResourceScope::Namespaced => "Namespaced",
            ResourceScope::Cluster => "Cluster",
        },
        "singularResource": resource.singular,
        "verbs": resource.verbs,
    });
    if !resource.short_names.is_empty() {
        value["shortNames"] = json!(resource.short_names);
    }
    if !resource.categories.is_empty() {
        value["categories"] = json!(resource.categories);
    }
    if !resource.subresources.is_empty() {
        let subresources = resource.subresources.iter();
        value["subresources"] = subresources
            .map(|sub| {
                json!({"subresource": sub.name, "responseKind": kind(sub), "verbs": sub.verbs})
            })
            .collect();
    }
    value
}

fn kind(resource: &DiscoveryResource) -> Value {
    let kind = &resource.kind;
    json!({"group": kind.group, "version": kind.version, "kind": kind.kind})
}
