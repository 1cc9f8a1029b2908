//! What another server says that it serves: its APIResourceList, and its index of OpenAPI
//! documents.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Value, json};

/// What a server serves of its group version.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ServerDiscovery {
    /// As aggregated discovery (apidiscovery.k8s.io/v2) shows it.
    resources: Vec<Value>,
    /// The hash of its OpenAPI v3 document; none when it has no such document.
    openapi_hash: Option<String>,
}

/// APIResourceList (`v1`).
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ResourceList {
    kind: String,
    group_version: String,
    #[serde(default)]
    resources: Vec<ListedResource>,
}

/// APIResource (`v1`).
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[derive(Default)]
struct ListedResource {
    name: String,
    singular_name: String,
    namespaced: bool,
    group: String,
    version: String,
    kind: String,
    verbs: Vec<String>,
    short_names: Vec<String>,
    categories: Vec<String>,
}

/// The index of OpenAPI v3.
#[derive(Deserialize)]
struct OpenApiIndex {
    paths: BTreeMap<String, IndexedDocument>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct IndexedDocument {
    #[serde(rename = "serverRelativeURL")]
    server_relative_url: String,
}

impl ServerDiscovery {
    /// Reads the answer to the path of a group version.
    ///
    /// # Errors
    /// It is no list of its resources.
    pub fn parse(group_version: &str, list: &[u8]) -> Result<Self, String> {
        let list: ResourceList = serde_json::from_slice(list)
            .map_err(|error| format!("the answer is no APIResourceList: {error}"))?;
        if list.kind != "APIResourceList" {
            return Err(format!("the answer is of kind {:?}, not APIResourceList", list.kind));
        }
        if list.group_version != group_version {
            let found = list.group_version;
            return Err(format!("the answer is about {found:?}, not {group_version:?}"));
        }
        Ok(Self { resources: aggregated(group_version, &list.resources), openapi_hash: None })
    }

    /// The same with the hash of its document in an index of OpenAPI v3. An index that cannot be
    /// read has none.
    pub fn with_openapi_index(self, group_version: &str, index: &[u8]) -> Self {
        let index = serde_json::from_slice::<OpenApiIndex>(index).ok();
        let document = index.and_then(|mut index| index.paths.remove(&path(group_version)));
        let hash = document.map(|document| {
            let (_, hash) = document.server_relative_url.split_once("hash=").unwrap_or_default();
            let end = hash.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(hash.len());
            hash[..end].to_owned()
        });
        Self { openapi_hash: hash, ..self }
    }

    /// Its resources, as aggregated discovery shows them.
    pub(crate) fn resources(&self) -> &[Value] {
        &self.resources
    }

    /// The hash of its OpenAPI v3 document; none without a document, empty without a hash.
    pub(crate) fn openapi_hash(&self) -> Option<&str> {
        self.openapi_hash.as_deref()
    }
}

fn path(group_version: &str) -> String {
    format!("apis/{group_version}")
}

/// The resources, each with its subresources. A subresource without its resource, as adapters of
/// custom metrics list them, gets one without verbs, as upstream.
fn aggregated(group_version: &str, listed: &[ListedResource]) -> Vec<Value> {
    let mut resources: Vec<Value> = Vec::new();
    let (subresources, main): (Vec<_>, Vec<_>) =
        listed.iter().partition(|resource| resource.name.contains('/'));
    for resource in main {
        let mut value = json!({
            "resource": resource.name,
            "responseKind": resource.response_kind(group_version),
            "scope": resource.scope(),
            "singularResource": resource.singular_name,
            "verbs": resource.verbs,
        });
        for (name, values) in
            [("shortNames", &resource.short_names), ("categories", &resource.categories)]
        {
            if !values.is_empty() {
                value[name] = json!(values);
            }
        }
        resources.push(value);
    }
    let mut places: BTreeMap<String, usize> = BTreeMap::new();
    for (at, resource) in resources.iter().enumerate() {
        places.insert(resource["resource"].as_str().unwrap_or_default().to_owned(), at);
    }
    for subresource in subresources {
        let (resource, name) = subresource.name.split_once('/').unwrap_or_default();
        let at = *places.entry(resource.to_owned()).or_insert_with(|| {
            resources.push(json!({
                "resource": resource,
                "responseKind": {"group": "", "version": "", "kind": ""},
                "scope": subresource.scope(),
                "singularResource": "",
                "verbs": [],
            }));
            resources.len() - 1
        });
        let value = json!({
            "subresource": name,
            "responseKind": subresource.response_kind(group_version),
            "verbs": subresource.verbs,
        });
        match &mut resources[at]["subresources"] {
            Value::Array(all) => all.push(value),
            none => *none = json!([value]),
        }
    }
    resources
}

impl ListedResource {
    fn scope(&self) -> &'static str {
        if self.namespaced { "Namespaced" } else { "Cluster" }
    }

    /// Where it says no group and version, they are those of the list.
    fn response_kind(&self, group_version: &str) -> Value {
        let (group, version) = group_version.split_once('/').unwrap_or(("", group_version));
        let or = |own: &str, listed: &str| if own.is_empty() { listed } else { own }.to_owned();
        let group =
            if self.version.is_empty() { or(&self.group, group) } else { self.group.clone() };
        json!({"group": group, "version": or(&self.version, version), "kind": self.kind})
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIST: &str = r#"{"kind": "APIResourceList", "groupVersion": "boats.example/v1", "resources": [
        {"name": "sails", "singularName": "sail", "namespaced": true, "kind": "Sail",
         "verbs": ["get", "list"], "shortNames": ["sl"]},
        {"name": "sails/scale", "namespaced": true, "group": "autoscaling", "version": "v1",
         "kind": "Scale", "verbs": ["get"]},
        {"name": "pods/waves", "namespaced": true, "kind": "Wave", "verbs": ["get"]}
    ]}"#;

    #[test]
    fn a_list_of_resources_becomes_aggregated_discovery() {
        let found = ServerDiscovery::parse("boats.example/v1", LIST.as_bytes()).unwrap();
        let own = |kind: &str| json!({"group": "boats.example", "version": "v1", "kind": kind});
        assert_eq!(
            Value::from(found.resources().to_vec()),
            json!([
                {
                    "resource": "sails", "responseKind": own("Sail"), "scope": "Namespaced",
                    "singularResource": "sail", "verbs": ["get", "list"], "shortNames": ["sl"],
                    "subresources": [{
                        "subresource": "scale", "verbs": ["get"],
                        "responseKind": {"group": "autoscaling", "version": "v1", "kind": "Scale"},
                    }],
                },
                {
                    "resource": "pods", "scope": "Namespaced", "singularResource": "", "verbs": [],
                    "responseKind": {"group": "", "version": "", "kind": ""},
                    "subresources": [
                        {"subresource": "waves", "verbs": ["get"], "responseKind": own("Wave")},
                    ],
                },
            ])
        );
    }

    #[test]
    fn a_server_that_says_something_else_is_not_believed() {
        for (group_version, list, expected) in [
            ("boats.example/v2", LIST, "is about \"boats.example/v1\""),
            ("a/v1", "{\"kind\": \"Status\", \"groupVersion\": \"\"}", "is of kind \"Status\""),
            ("a/v1", "<html>", "is no APIResourceList"),
        ] {
            let error = ServerDiscovery::parse(group_version, list.as_bytes()).unwrap_err();
            assert!(error.contains(expected), "{error}");
        }
    }

    #[test]
    fn the_hash_of_a_document_is_read_from_the_index() {
        let url = |url: &str| json!({"paths": {"apis/a/v1": {"serverRelativeURL": url}}});
        for (index, expected) in [
            (url("/openapi/v3/apis/a/v1?hash=0AF").to_string(), Some("0AF")),
            (url("/openapi/v3/apis/a/v1?hash=0A\"F").to_string(), Some("0A")),
            (url("/openapi/v3/apis/a/v1").to_string(), Some("")),
            (json!({"paths": {}}).to_string(), None),
            ("nothing".to_owned(), None),
        ] {
            let found = ServerDiscovery::default().with_openapi_index("a/v1", index.as_bytes());
            assert_eq!(found.openapi_hash(), expected, "{index}");
        }
    }
}
