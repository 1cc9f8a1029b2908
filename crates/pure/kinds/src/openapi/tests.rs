//! The documents as kubectl reads them.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::document;
use crate::registry::merge_keys::{ListMerge, SCHEMAS};

fn all_documents() -> Vec<Value> {
    let registry = crate::all();
    let versions = registry.group_versions();
    versions.into_iter().map(|(group, version)| document(&registry, group, version)).collect()
}

/// Calls `visit` with each object of a tree.
fn walk(value: &Value, visit: &mut impl FnMut(&serde_json::Map<String, Value>)) {
    match value {
        Value::Object(map) => {
            visit(map);
            map.values().for_each(|value| walk(value, visit));
        }
        Value::Array(list) => list.iter().for_each(|value| walk(value, visit)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

#[test]
fn every_reference_leads_to_a_schema_of_the_same_document() {
    for document in all_documents() {
        let schemas = document["components"]["schemas"].as_object().unwrap();
        walk(&document, &mut |map| {
            if let Some(Value::String(target)) = map.get("$ref") {
                let name = target.strip_prefix("#/components/schemas/").expect(target);
                assert!(schemas.contains_key(name), "{name}");
                assert_eq!(map.len(), 1, "siblings of a $ref are ignored by OpenAPI 3.0: {map:?}");
            }
        });
    }
}

#[test]
fn kubectl_finds_field_validation_on_every_kinds_patch() {
    // cli-runtime query_param_verifier_v3.go: the first PATCH operation of the kind must have the
    // parameter.
    let registry = crate::all();
    for entry in registry.kinds() {
        let document = document(&registry, &entry.group, &entry.version);
        let paths = document["paths"].as_object().unwrap();
        let patches: Vec<&Value> = paths
            .values()
            .filter_map(|path| path.get("patch"))
            .filter(|patch| {
                let gvk = &patch["x-kubernetes-group-version-kind"];
                gvk["group"] == *entry.group
                    && gvk["version"] == *entry.version
                    && gvk["kind"] == *entry.kind
            })
            .collect();
        assert!(!patches.is_empty(), "{entry:?}");
        for patch in patches {
            let parameters = patch["parameters"].as_array().unwrap();
            assert!(parameters.iter().any(|p| p["name"] == "fieldValidation"), "{entry:?}");
            let strategic = "application/strategic-merge-patch+json";
            assert!(patch["requestBody"]["content"].get(strategic).is_some(), "{entry:?}");
        }
    }
}

#[test]
fn kubectl_explain_finds_each_resource_and_its_schema() {
    let registry = crate::all();
    for entry in registry.kinds() {
        let document = document(&registry, &entry.group, &entry.version);
        let root = match &*entry.group {
            "" => format!("/api/{}", entry.version),
            group => format!("/apis/{group}/{}", entry.version),
        };
        let list = &document["paths"][format!("{root}/{}", entry.plural)]["get"];
        assert_eq!(list["x-kubernetes-group-version-kind"]["kind"], *entry.kind);
        let schema = &document["components"]["schemas"][entry.codec.schema_name().as_ref()];
        assert_eq!(schema["x-kubernetes-group-version-kind"][0]["kind"], *entry.kind);
        assert!(schema["properties"].get("metadata").is_some(), "{entry:?}");
    }
}

#[test]
fn operation_ids_are_unique() {
    let mut seen = BTreeSet::new();
    for document in all_documents() {
        walk(&document["paths"], &mut |map| {
            if let Some(Value::String(id)) = map.get("operationId") {
                assert!(seen.insert(id.clone()), "{id}");
            }
        });
    }
}

#[test]
fn every_merge_key_is_a_field_of_the_schema_it_speaks_of() {
    let documents = all_documents();
    let schema = |name: &str| {
        documents.iter().find_map(|document| document["components"]["schemas"].get(name))
    };
    for (name, fields) in SCHEMAS {
        let parent = schema(name).unwrap_or_else(|| panic!("no schema {name}"));
        for field in *fields {
            let property = &parent["properties"][field.name];
            assert!(property.is_object(), "{name} has no {}", field.name);
            let target = property
                .pointer("/allOf/0/$ref")
                .or_else(|| property.pointer("/$ref"))
                .or_else(|| property.pointer("/items/$ref"))
                .or_else(|| property.pointer("/items/allOf/0/$ref"))
                .and_then(Value::as_str)
                .and_then(|target| target.strip_prefix("#/components/schemas/"));
            if !field.child.is_empty() {
                assert_eq!(target, Some(field.child), "{name}.{}", field.name);
            }
            if let Some(ListMerge::ByKey(key)) = field.list {
                let entry = schema(target.expect(field.name)).expect(field.name);
                let of_apply = property["x-kubernetes-list-map-keys"].as_array();
                let of_apply = of_apply.into_iter().flatten().filter_map(Value::as_str);
                for key in of_apply.chain([key]) {
                    assert!(entry["properties"][key].is_object(), "{name}.{} {key}", field.name);
                }
                assert_eq!(property["x-kubernetes-patch-merge-key"], key);
            }
        }
    }
}

#[test]
fn nothing_is_left_that_only_schemars_knows() {
    for document in all_documents() {
        walk(&document["components"], &mut |map| {
            for keyword in
                ["$defs", "$schema", "const", "anyOf", "nullable", "x-kubernetes-int-or-string"]
            {
                // A schema may have a property of that name, whose value is a schema.
                let left = map.get(keyword).is_some_and(|value| !value.is_object());
                assert!(!left, "{keyword} in {map:?}");
            }
            let many = map.get("type").is_some_and(Value::is_array);
            assert!(!many, "several types in {map:?}");
        });
    }
}

#[test]
fn a_ladders_schema_reads_well() {
    let registry = crate::all();
    let document = document(&registry, "rekindle.dev", "v1alpha1");
    let schema = &document["components"]["schemas"]["dev.rekindle.v1alpha1.LadderRung"];
    expect_test::expect_file!["testdata/ladder_rung.json"]
        .assert_eq(&(serde_json::to_string_pretty(schema).unwrap() + "\n"));
    // kubectl explain finds the values of an enum where the field is, and nowhere else
    let schemas = document["components"]["schemas"].as_object().unwrap();
    assert!(!schemas.contains_key("dev.rekindle.v1alpha1.Rung"));
}

/// As the schemas of a kube-apiserver say.
#[test]
fn marks_say_how_apply_merges() {
    let documents = all_documents();
    let schema = |name: &str| {
        let mut schemas = documents.iter().map(|document| &document["components"]["schemas"]);
        schemas.find_map(|schemas| schemas.get(format!("io.k8s.api.{name}"))).expect(name)
    };
    for (name, field, mark, value) in [
        ("core.v1.PodSpec", "nodeSelector", "map-type", json!("atomic")),
        ("core.v1.PodSpec", "containers", "list-map-keys", json!(["name"])),
        ("core.v1.PodSpec", "tolerations", "list-type", json!("atomic")),
        ("core.v1.PodStatus", "hostIPs", "list-type", json!("atomic")),
        ("core.v1.PodStatus", "hostIPs", "patch-merge-key", json!("ip")),
        ("core.v1.PersistentVolumeSpec", "claimRef", "map-type", json!("granular")),
        ("core.v1.Container", "ports", "list-map-keys", json!(["containerPort", "protocol"])),
        ("core.v1.ServiceSpec", "ports", "list-map-keys", json!(["port", "protocol"])),
        ("batch.v1.UncountedTerminatedPods", "failed", "list-type", json!("set")),
        ("batch.v1.UncountedTerminatedPods", "failed", "patch-strategy", json!(null)),
        ("batch.v1.JobStatus", "conditions", "list-type", json!("atomic")),
        ("batch.v1.JobStatus", "conditions", "list-map-keys", json!(null)),
    ] {
        let property = &schema(name)["properties"][field];
        assert_eq!(property[format!("x-kubernetes-{mark}")], value, "{mark} of {name}.{field}");
    }
    assert_eq!(schema("core.v1.NodeSelector")["x-kubernetes-map-type"], "atomic");
    assert_eq!(schema("core.v1.PodSpec")["x-kubernetes-map-type"], json!(null));
}

#[test]
fn a_default_in_a_schema_may_be_of_any_type() {
    let document = document(&crate::all(), "apiextensions.k8s.io", "v1");
    let name = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSON";
    assert!(document["components"]["schemas"][name]["type"].is_null());
}

#[test]
fn a_field_with_the_name_of_a_keyword_stays() {
    let document = document(&crate::all(), "apiextensions.k8s.io", "v1");
    let name = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps";
    let fields = &document["components"]["schemas"][name]["properties"];
    for field in ["nullable", "title", "x-kubernetes-int-or-string"] {
        assert!(fields[field]["type"].is_string(), "{field}");
    }
}

#[test]
fn no_object_needs_metadata() {
    for document in all_documents() {
        for (name, schema) in document["components"]["schemas"].as_object().unwrap() {
            let required = schema["required"].as_array().into_iter().flatten();
            assert!(required.into_iter().all(|field| field != "metadata"), "{name}");
        }
    }
}

#[test]
fn every_reference_of_version_2_leads_to_a_definition() {
    let (mut definitions, mut paths) = (serde_json::Map::new(), serde_json::Map::new());
    for part in super::v2::parts(&crate::all()) {
        definitions.extend(part.definitions);
        paths.extend(part.paths);
    }
    let mut check = |map: &serde_json::Map<String, Value>| {
        if let Some(Value::String(target)) = map.get("$ref") {
            let name = target.strip_prefix("#/definitions/").expect(target);
            assert!(definitions.contains_key(name), "{name}");
        }
    };
    walk(&Value::Object(definitions.clone()), &mut check);
    walk(&Value::Object(paths.clone()), &mut check);

    let pod = &definitions["io.k8s.api.core.v1.Pod"];
    assert_eq!(pod["properties"]["spec"]["$ref"], "#/definitions/io.k8s.api.core.v1.PodSpec");
    for (name, type_) in [
        ("io.k8s.apimachinery.pkg.util.intstr.IntOrString", "string"),
        ("io.k8s.apimachinery.pkg.api.resource.Quantity", "string"),
    ] {
        assert_eq!(definitions[name]["type"], type_, "{name}");
    }
    let pods = &paths["/api/v1/namespaces/{namespace}/pods"];
    assert_eq!(pods["parameters"][0]["type"], "string");
    let body = pods["post"]["parameters"].as_array().unwrap().last().unwrap();
    assert_eq!(body["schema"]["$ref"], "#/definitions/io.k8s.api.core.v1.Pod");
    let patch = &paths["/api/v1/namespaces/{namespace}/pods/{name}"]["patch"];
    assert!(patch["consumes"].to_string().contains("strategic-merge-patch"), "{patch}");
    assert_eq!(
        pods["get"]["responses"]["200"]["schema"]["$ref"],
        "#/definitions/io.k8s.api.core.v1.PodList"
    );
}

#[test]
fn version_2_says_nothing_of_what_may_be_null_or_anything() {
    let mut schema = serde_json::json!({
        "type": "object", "required": ["a", "b"], "not": {"required": ["c"]},
        "properties": {
            "a": {"type": "object", "nullable": true, "properties": {"x": {"type": "string"}}},
            "b": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
            "not": {"type": "array", "x-kubernetes-list-type": "atomic"},
            "anyOf": {"anyOf": [{"type": "integer"}], "minimum": 1},
        },
    });
    super::v2::convert_schema(&mut schema);
    let wanted = serde_json::json!({
        "type": "object", "required": ["b"],
        "properties": {
            "a": {},
            "b": {"x-kubernetes-preserve-unknown-fields": true},
            "not": {"x-kubernetes-list-type": "atomic"},
            "anyOf": {"minimum": 1},
        },
    });
    assert_eq!(schema, wanted);
}
