//! Discovery in its first form: `/api`, `/apis` and one resource list per group version.

use rekindle_kinds::registry::ResourceScope;
use serde_json::{Value, json};

use super::group_versions::{DiscoveryResource, GroupVersion, VersionResources};
use super::{json, no_page};
use crate::outcome::ApiAnswer;
use crate::status::ApiError;

/// `/`.
pub(super) fn paths(all: &[GroupVersion]) -> ApiAnswer {
    let mut paths = vec!["/api".to_owned(), "/api/v1".to_owned(), "/apis".to_owned()];
    for known in all.iter().filter(|known| !known.group.is_empty()) {
        for path in
            [format!("/apis/{}", known.group), format!("/apis/{}/{}", known.group, known.version)]
        {
            if !paths.contains(&path) {
                paths.push(path);
            }
        }
    }
    let others = [
        "/backup",
        "/healthz",
        "/livez",
        "/metrics",
        "/openapi/v2",
        "/openapi/v3",
        "/readyz",
        "/version",
    ];
    paths.extend(others.map(str::to_owned));
    json(&json!({"paths": paths}))
}

/// `/api`.
pub(super) fn core_versions() -> ApiAnswer {
    json(&json!({
        "kind": "APIVersions",
        "versions": ["v1"],
        "serverAddressByClientCIDRs": [],
    }))
}

/// `/apis`.
pub(super) fn groups(all: &[GroupVersion]) -> ApiAnswer {
    let mut names: Vec<&str> =
        all.iter().map(|known| known.group.as_ref()).filter(|group| !group.is_empty()).collect();
    names.dedup();
    let groups: Vec<Value> = names.into_iter().map(|name| group_json(all, name)).collect();
    json(&json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}))
}

/// `/apis/<group>`.
pub(super) fn group(all: &[GroupVersion], group: &str) -> ApiAnswer {
    if !all.iter().any(|known| known.group == group) {
        return no_page();
    }
    let mut value = group_json(all, group);
    value["kind"] = "APIGroup".into();
    value["apiVersion"] = "v1".into();
    json(&value)
}

fn group_json(all: &[GroupVersion], group: &str) -> Value {
    let versions: Vec<Value> = all
        .iter()
        .filter(|known| known.group == group)
        .map(|known| {
            json!({"groupVersion": format!("{group}/{}", known.version), "version": known.version})
        })
        .collect();
    let preferred = versions.first().cloned().unwrap_or_default();
    json!({"name": group, "versions": versions, "preferredVersion": preferred})
}

/// `/api/v1`, `/apis/<group>/<version>`.
pub(super) fn resources(
    all: &[GroupVersion],
    group: &str,
    version: &str,
) -> Result<ApiAnswer, ApiError> {
    let known = all
        .iter()
        .find(|known| known.group == group && known.version == version)
        .ok_or_else(ApiError::no_such_path)?;
    let mut resources = Vec::new();
    // a group version that is served elsewhere is asked there
    let VersionResources::Here(served) = &known.resources else {
        return Err(ApiError::no_such_path());
    };
    for resource in served {
        resources.push(resource_json(known, resource, resource.name.to_string()));
        for sub in &resource.subresources {
            resources.push(resource_json(known, sub, format!("{}/{}", resource.name, sub.name)));
        }
    }
    let group_version =
        if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") };
    let mut list = json!({
        "kind": "APIResourceList",
        "groupVersion": group_version,
        "resources": resources,
    });
    // the list of the oldest group says no version of its own
    if !group.is_empty() {
        list["apiVersion"] = "v1".into();
    }
    Ok(json(&list))
}

fn resource_json(known: &GroupVersion, resource: &DiscoveryResource, name: String) -> Value {
    let mut value = json!({
        "name": name,
        "singularName": resource.singular,
        "namespaced": resource.scope == ResourceScope::Namespaced,
        "kind": resource.kind.kind,
        "verbs": resource.verbs,
    });
    if !resource.short_names.is_empty() {
        value["shortNames"] = json!(resource.short_names);
    }
    if !resource.categories.is_empty() {
        value["categories"] = json!(resource.categories);
    }
    if let Some(hash) = &resource.storage_version_hash {
        value["storageVersionHash"] = hash.as_str().into();
    }
    let kind = &resource.kind;
    if (&kind.group, &kind.version) != (&known.group, &known.version) {
        value["group"] = kind.group.as_ref().into();
        value["version"] = kind.version.as_ref().into();
    }
    value
}
