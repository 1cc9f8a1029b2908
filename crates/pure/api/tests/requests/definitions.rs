//! Definitions of kinds, where the recorded conversations do not look: several versions, the end of
//! a definition, and what a kill leaves.

use rekindle_store::{Mutation, WritePrecondition};
use serde_json::{Value, json};

use crate::harness::{Bench, events};

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const KITES: &str = "/apis/example.org/v1/namespaces/default/kites";

fn version(name: &str, is_stored: bool, spec: Value) -> Value {
    json!({
        "name": name, "served": true, "storage": is_stored,
        "schema": {"openAPIV3Schema": {
            "type": "object", "properties": {"spec": {"type": "object", "properties": spec}},
        }},
    })
}

fn definition(versions: Value) -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "kites.example.org"},
        "spec": {
            "group": "example.org", "scope": "Namespaced",
            "names": {"plural": "kites", "kind": "Kite"}, "versions": versions,
        },
    })
}

fn of_one_version() -> Value {
    definition(json!([version("v1", true, json!({"colour": {"type": "string"}}))]))
}

fn kite(name: &str) -> Value {
    json!({
        "apiVersion": "example.org/v1", "kind": "Kite",
        "metadata": {"name": name}, "spec": {"colour": "red"},
    })
}

#[test]
fn each_version_shows_the_stored_object_by_its_own_schema() {
    let mut bench = Bench::new();
    let tail = json!({"tail": {"type": "integer", "default": 3}});
    let colour = json!({"colour": {"type": "string"}});
    let versions = json!([version("v1", true, colour), version("v2", false, tail)]);
    bench.create(DEFINITIONS, definition(versions));
    let mut watch = bench.watch("/apis/example.org/v2/namespaces/default/kites?watch=1");
    bench.create(KITES, kite("a"));
    let in_v2 = bench.get("/apis/example.org/v2/namespaces/default/kites/a");
    assert_eq!(
        (&in_v2["apiVersion"], &in_v2["spec"]),
        (&json!("example.org/v2"), &json!({"tail": 3}))
    );
    assert_eq!(events(&mut watch)[0]["object"], in_v2, "a watch shows what a GET does");
    assert_eq!(bench.get(&format!("{KITES}/a"))["spec"], json!({"colour": "red"}));
}

#[test]
fn the_objects_of_a_definition_go_with_it_even_when_no_version_is_served() {
    let mut bench = Bench::new();
    bench.create(DEFINITIONS, of_one_version());
    bench.create(KITES, kite("a"));
    let of_definition = format!("{DEFINITIONS}/kites.example.org");
    let unserved = r#"[{"op": "replace", "path": "/spec/versions/0/served", "value": false}]"#;
    bench.patch("json-patch+json", &of_definition, unserved).ok();
    assert_eq!(bench.call("GET", KITES, "").code(), 404);
    bench.call("DELETE", &of_definition, "").ok();
    assert_eq!(bench.call("GET", &of_definition, "").code(), 404);
    assert_eq!(bench.api.store().count("/kites.example.org/"), 0);
    bench.create(DEFINITIONS, of_one_version());
    assert_eq!(bench.get(KITES)["items"], json!([]), "nothing of the one before");
}

#[test]
fn an_object_that_is_held_keeps_its_definition_and_nothing_new_is_made() {
    let mut bench = Bench::new();
    bench.create(DEFINITIONS, of_one_version());
    let mut held = kite("held");
    held["metadata"]["finalizers"] = json!(["example.org/rest"]);
    bench.create(KITES, held);
    let of_definition = format!("{DEFINITIONS}/kites.example.org");
    let going = bench.call("DELETE", &of_definition, "").ok();
    assert_eq!(
        going["metadata"]["finalizers"],
        json!(["customresourcecleanup.apiextensions.k8s.io"])
    );
    let refused = bench.call("POST", KITES, &kite("b").to_string());
    assert_eq!(refused.code(), 405, "{}", refused.text());
    let free = r#"{"metadata":{"finalizers":null}}"#;
    bench.patch("merge-patch+json", &format!("{KITES}/held"), free).ok();
    assert_eq!(bench.call("GET", &of_definition, "").code(), 404);
}

#[test]
fn names_that_were_not_settled_are_settled_at_the_next_start() {
    let mut bench = Bench::new();
    // as it is when a kill has cut the batch in two
    let mut unsettled = of_one_version();
    unsettled["status"] = json!({"storedVersions": ["v1"]});
    let key = "/customresourcedefinitions.apiextensions.k8s.io/kites.example.org";
    let text = |_| unsettled.to_string().into();
    let put = Mutation::Put(&text);
    let _pending = bench.api.store().write(key, WritePrecondition::Absent, put).unwrap();
    bench.committer.commit_pending().unwrap();
    assert_eq!(bench.call("GET", KITES, "").code(), 404);
    bench.api.bootstrap(bench.now).unwrap();
    bench.committer.commit_pending().unwrap();
    assert_eq!(bench.call("GET", KITES, "").code(), 200);
}

#[test]
fn a_name_that_becomes_free_goes_to_the_definition_that_waited() {
    let mut bench = Bench::new();
    bench.create(DEFINITIONS, of_one_version());
    let mut second = of_one_version();
    second["metadata"]["name"] = json!("dragons.example.org");
    second["spec"]["names"] = json!({"plural": "dragons", "singular": "dragon", "kind": "Kite"});
    bench.create(DEFINITIONS, second);
    let dragons = "/apis/example.org/v1/namespaces/default/dragons";
    assert_eq!(bench.call("GET", dragons, "").code(), 404);
    bench.call("DELETE", &format!("{DEFINITIONS}/kites.example.org"), "").ok();
    assert_eq!(bench.call("GET", dragons, "").code(), 200);
}
