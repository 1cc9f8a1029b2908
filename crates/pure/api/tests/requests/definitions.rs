//! Definitions of kinds, where the recorded conversations do not look: several versions, the end of
//! a definition, and what a kill leaves.

use rekindle_api::auth::AuthorizationMode;
use rekindle_api::{Api, ApiParts, RequestOutcome};
use rekindle_store::memory::DiskFault;
use rekindle_store::{Mutation, WritePrecondition};
use serde_json::{Value, json};

use crate::harness::{Bench, Counting, events};

const KEY: &str = "/customresourcedefinitions.apiextensions.k8s.io/kites.example.org";
pub(crate) const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const KITES: &str = "/apis/example.org/v1/namespaces/default/kites";

pub(crate) fn version(name: &str, is_stored: bool, spec: Value) -> Value {
    json!({
        "name": name, "served": true, "storage": is_stored,
        "schema": {"openAPIV3Schema": {
            "type": "object", "properties": {"spec": {"type": "object", "properties": spec}},
        }},
    })
}

pub(crate) fn definition(versions: Value) -> Value {
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

/// Writes behind the back of the API.
fn store(bench: &mut Bench, key: &str, object: &Value) {
    let text = |_| object.to_string().into();
    let expect = match bench.api.store().get(key) {
        Some(stored) => WritePrecondition::Revision(stored.revision),
        None => WritePrecondition::Absent,
    };
    let _pending = bench.api.store().write(key, expect, Mutation::Put(&text)).unwrap();
    bench.committer.commit_pending().unwrap();
}

/// The definition is going and its objects are all there, as it is when a deletion failed halfway.
fn interrupt_deletion(bench: &mut Bench) {
    let mut going = bench.get(&format!("{DEFINITIONS}/kites.example.org"));
    going["metadata"]["deletionTimestamp"] = json!("2026-11-18T11:06:40Z");
    going["metadata"]["deletionGracePeriodSeconds"] = json!(0);
    going["metadata"]["finalizers"] = json!(["customresourcecleanup.apiextensions.k8s.io"]);
    store(bench, KEY, &going);
}

fn is_established(definition: &Value) -> bool {
    let conditions = definition["status"]["conditions"].as_array().unwrap();
    conditions.iter().any(|one| one["type"] == "Established" && one["status"] == "True")
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
    store(&mut bench, KEY, &unsettled);
    assert_eq!(bench.call("GET", KITES, "").code(), 404);
    assert!(bench.api.resume_definitions(bench.now).failures.is_empty());
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

#[test]
fn a_further_deletion_of_a_definition_that_goes_deletes_what_the_first_has_left() {
    for target in [format!("{DEFINITIONS}/kites.example.org"), DEFINITIONS.to_owned()] {
        let mut bench = Bench::new();
        bench.create(DEFINITIONS, of_one_version());
        bench.create(KITES, kite("a"));
        interrupt_deletion(&mut bench);
        bench.call("DELETE", &format!("{target}?dryRun=All"), "").ok();
        assert_eq!(bench.api.store().count("/kites.example.org/"), 1, "it was a question only");
        bench.call("DELETE", &target, "").ok();
        assert_eq!(bench.api.store().count("/kites.example.org/"), 0);
        assert_eq!(bench.call("GET", &format!("{DEFINITIONS}/kites.example.org"), "").code(), 404);
    }
}

#[test]
fn an_object_that_cannot_be_read_stops_no_start_and_keeps_its_definition_only() {
    let mut bench = Bench::new();
    bench.create(DEFINITIONS, of_one_version());
    for name in ["a", "c"] {
        bench.create(KITES, kite(name));
    }
    store(&mut bench, "/kites.example.org/default/b", &json!({"spec": {}}));
    interrupt_deletion(&mut bench);
    bench.api.bootstrap(bench.now).unwrap();
    let resumed = bench.api.resume_definitions(bench.now);
    let failures: Vec<_> =
        resumed.failures.iter().map(|(key, error)| format!("{key}: {error}")).collect();
    assert_eq!(failures.len(), 1, "{failures:?}");
    assert!(failures[0].starts_with(KEY) && failures[0].contains("no metadata"), "{failures:?}");
    bench.committer.commit_pending().unwrap();
    assert_eq!(bench.api.store().count("/kites.example.org/"), 1, "the others went");
    // mended by hand
    store(&mut bench, "/kites.example.org/default/b", &json!({"metadata": {"name": "b"}}));
    bench.call("DELETE", &format!("{DEFINITIONS}/kites.example.org"), "").ok();
    assert_eq!(bench.api.store().count(KEY), 0);
}

#[test]
fn objects_of_a_definition_that_goes_are_removed_without_a_look_at_the_others() {
    let mut bench = Bench::new();
    bench.create(DEFINITIONS, of_one_version());
    for name in ["a", "b", "c"] {
        let mut held = kite(name);
        held["metadata"]["finalizers"] = json!(["example.org/rest"]);
        bench.create(KITES, held);
    }
    store(&mut bench, "/kites.example.org/default/broken", &json!({"spec": {}}));
    interrupt_deletion(&mut bench);
    let is_marked = |bench: &mut Bench, name: &str| {
        let kite = bench.get(&format!("{KITES}/{name}"));
        !kite["metadata"]["deletionTimestamp"].is_null()
    };
    // neither a mark nor a removal goes over all of them, or fails because of one
    bench.call("DELETE", &format!("{KITES}/a"), "").ok();
    let free = r#"{"metadata":{"finalizers":null}}"#;
    bench.patch("merge-patch+json", &format!("{KITES}/a"), free).ok();
    assert_eq!(bench.call("GET", &format!("{KITES}/a"), "").code(), 404);
    assert!(!is_marked(&mut bench, "b") && !is_marked(&mut bench, "c"));
    // with the last of a collection the definition goes
    store(&mut bench, "/kites.example.org/default/broken", &kite("broken"));
    for name in ["b", "c"] {
        bench.patch("merge-patch+json", &format!("{KITES}/{name}"), free).ok();
    }
    bench.call("DELETE", &format!("{KITES}?dryRun=All"), "").ok();
    assert_eq!(bench.api.store().count(KEY), 1);
    bench.call("DELETE", KITES, "").ok();
    assert_eq!(bench.api.store().count("/kites.example.org/"), 0);
    assert_eq!(bench.api.store().count(KEY), 0);
}

#[test]
fn an_object_that_is_held_at_the_end_of_its_definition_keeps_the_fields_of_its_storage_version() {
    let mut bench = Bench::new();
    let colour = json!({"colour": {"type": "string"}});
    let tail = json!({"tail": {"type": "integer"}});
    let versions = json!([version("v1", false, tail), version("v2", true, colour)]);
    bench.create(DEFINITIONS, definition(versions));
    let kites = KITES.replace("/v1/", "/v2/");
    let mut held = kite("a");
    held["apiVersion"] = json!("example.org/v2");
    held["metadata"]["finalizers"] = json!(["example.org/rest"]);
    bench.create(&kites, held);
    bench.call("DELETE", &format!("{DEFINITIONS}/kites.example.org"), "").ok();
    let marked = bench.get(&format!("{kites}/a"));
    assert!(!marked["metadata"]["deletionTimestamp"].is_null());
    assert_eq!(marked["spec"], json!({"colour": "red"}));
}

#[test]
fn a_definition_gets_no_name_of_a_built_in_kind_and_its_end_deletes_none_of_their_objects() {
    let mut bench = Bench::new();
    let ingresses = "/apis/networking.k8s.io/v1/namespaces/default/ingresses";
    let backend = json!({"service": {"name": "web", "port": {"number": 80}}});
    bench.create(
        ingresses,
        json!({
            "apiVersion": "networking.k8s.io/v1", "kind": "Ingress",
            "metadata": {"name": "web"}, "spec": {"defaultBackend": backend},
        }),
    );
    let definition = |group: &str, plural: &str, kind: &str| {
        let mut definition = of_one_version();
        definition["metadata"] = json!({
            "name": format!("{plural}.{group}"),
            "annotations": {"api-approved.kubernetes.io": "unapproved, a test"},
        });
        definition["spec"]["group"] = json!(group);
        definition["spec"]["names"] = json!({"plural": plural, "kind": kind});
        definition
    };
    for (group, plural, kind, reason) in [
        ("networking.k8s.io", "ingresses", "Other", "PluralConflict"),
        ("networking.k8s.io", "others", "Ingress", "ListKindConflict"),
        ("rekindle.dev", "restartladders", "Other", "PluralConflict"),
        ("apiextensions.k8s.io", "customresourcedefinitions", "Other", "PluralConflict"),
        ("authorization.k8s.io", "selfsubjectaccessreviews", "Other", "PluralConflict"),
        ("metrics.k8s.io", "pods", "Other", "PluralConflict"),
    ] {
        let name = format!("{plural}.{group}");
        let written = bench.create(DEFINITIONS, definition(group, plural, kind));
        assert_eq!(written["metadata"]["name"], name);
        let stored = bench.get(&format!("{DEFINITIONS}/{name}"));
        let accepted = stored["status"]["conditions"].as_array().unwrap().iter();
        let reasons: Vec<_> = accepted.map(|one| (&one["type"], &one["reason"])).collect();
        assert!(reasons.contains(&(&json!("NamesAccepted"), &json!(reason))), "{stored}");
        assert!(!is_established(&stored), "{stored}");
        bench.call("DELETE", &format!("{DEFINITIONS}/{name}"), "").ok();
        assert_eq!(bench.call("GET", &format!("{DEFINITIONS}/{name}"), "").code(), 404);
    }
    // as a store may have it
    let mut established = definition("networking.k8s.io", "ingresses", "Other");
    established["spec"]["versions"][0]["name"] = json!("v7");
    established["status"] = json!({
        "acceptedNames": established["spec"]["names"],
        "conditions": [{"type": "Established", "status": "True"}],
    });
    let key = KEY.replace("kites.example.org", "ingresses.networking.k8s.io");
    store(&mut bench, &key, &established);
    assert_eq!(bench.call("GET", "/apis/networking.k8s.io/v7/ingresses", "").code(), 404);
    let ladders = definition("rekindle.dev", "restartladders", "RestartLadder");
    let mut ladders = ladders.clone();
    ladders["status"] = json!({
        "acceptedNames": ladders["spec"]["names"],
        "conditions": [{"type": "Established", "status": "True"}],
    });
    store(&mut bench, &KEY.replace("kites.example.org", "restartladders.rekindle.dev"), &ladders);
    // the next start tells controllers that their objects are watched already
    assert!(bench.api.resume_definitions(bench.now).failures.is_empty());
    bench.committer.commit_pending().unwrap();
    for name in ["ingresses.networking.k8s.io", "restartladders.rekindle.dev"] {
        let settled = bench.get(&format!("{DEFINITIONS}/{name}"));
        assert!(!is_established(&settled), "{settled}");
        let conditions = settled["status"]["conditions"].as_array().unwrap();
        let refused = conditions.iter().find(|one| one["type"] == "NamesAccepted").unwrap();
        assert_eq!(
            (&refused["status"], &settled["status"]["acceptedNames"]["plural"]),
            (&json!("False"), &json!(""))
        );
        assert!(bench.api.resume_definitions(bench.now).pending.is_empty(), "it is settled");
    }
    bench.call("DELETE", &format!("{DEFINITIONS}/ingresses.networking.k8s.io"), "").ok();
    assert_eq!(bench.get(ingresses)["items"].as_array().unwrap().len(), 1);
}

#[test]
fn a_definition_that_gets_the_revision_of_one_that_failed_is_read_anew() {
    let mut bench = Bench::new();
    bench.create(DEFINITIONS, of_one_version());
    bench.create(KITES, kite("a"));
    let with_default = |size: i64| {
        let spec = json!({"size": {"type": "integer", "default": size}});
        json!({"spec": {"versions": [version("v1", true, spec)]}})
    };
    let of_definition = format!("{DEFINITIONS}/kites.example.org");
    let failed = |bench: &mut Bench| {
        let mut request = bench.request("PATCH", &of_definition, &with_default(1).to_string());
        request.content_type = "application/merge-patch+json".to_owned();
        bench.disk.inject(DiskFault::Refused);
        bench.answer(&request).code.as_u16()
    };
    assert_eq!(failed(&mut bench), 500);
    bench.patch("merge-patch+json", &of_definition, &with_default(2).to_string()).ok();
    assert_eq!(bench.get(&format!("{KITES}/a"))["spec"], json!({"size": 2}));
}

#[test]
fn a_field_that_objects_are_selected_by_has_a_path_that_can_be_read() {
    let mut bench = Bench::new();
    let long = "a".repeat(1_000);
    let mut definition = definition(json!([version(
        "v1",
        true,
        json!({
            "colour": {"type": "string"}, long.clone(): {"type": "string"},
        })
    )]));
    let select = |path: &str| json!([{"jsonPath": path}]);
    definition["spec"]["versions"][0]["selectableFields"] = select(&format!(".spec.{long}"));
    let refused = bench.call("POST", DEFINITIONS, &definition.to_string());
    assert_eq!(refused.code(), 422);
    let text = refused.text();
    assert!(text.contains("spec.selectableFields[0].jsonPath: Invalid value"), "{text}");
    definition["spec"]["versions"][0]["selectableFields"] = select(".spec.colour");
    bench.create(DEFINITIONS, definition);
    bench.create(KITES, kite("a"));
    let selected = bench.get(&format!("{KITES}?fieldSelector=spec.colour%3Dred"));
    assert_eq!(selected["items"].as_array().unwrap().len(), 1);
}

#[test]
fn what_versions_have_in_common_is_named_so_and_what_differs_by_version() {
    let wrong = json!({"colour": {"type": "text"}});
    let right = json!({"colour": {"type": "string"}});
    for (second, field) in [
        (&wrong, "spec.validation.openAPIV3Schema.properties[spec].properties[colour].type"),
        (
            &right,
            "spec.versions[0].schema.openAPIV3Schema.properties[spec].properties[colour].type",
        ),
    ] {
        let mut bench = Bench::new();
        let versions =
            json!([version("v1", true, wrong.clone()), version("v2", false, second.clone())]);
        let refused = bench.call("POST", DEFINITIONS, &definition(versions).to_string());
        assert_eq!(refused.code(), 422);
        assert!(refused.text().contains(field), "{}", refused.text());
    }
}

#[test]
fn only_what_lists_kinds_is_heavy_when_there_are_many_definitions() {
    let mut bench = Bench::new();
    for number in 0..51 {
        let mut definition = of_one_version();
        definition["metadata"]["name"] = json!(format!("kites{number}.example.org"));
        let kind = format!("Kite{number}");
        definition["spec"]["names"] = json!({"plural": format!("kites{number}"), "kind": kind});
        bench.create(DEFINITIONS, definition);
    }
    for (path, is_heavy) in [
        ("/", true),
        ("/api", true),
        ("/apis", true),
        ("/apis/example.org/v1", true),
        ("/openapi/v3", true),
        ("/openapi/v3/apis/example.org/v1", true),
        ("/healthz", false),
        ("/readyz/ping", false),
        ("/version", false),
        ("/metrics", false),
    ] {
        assert_eq!(bench.api.is_heavy(&bench.request("GET", path, "")), is_heavy, "{path}");
    }
}

#[test]
fn the_hash_of_an_openapi_document_follows_what_definitions_say_and_nothing_else() {
    let hash = |api: &Api, bench: &Bench| {
        let index = match api.handle(&bench.request("GET", "/openapi/v3", "")) {
            RequestOutcome::Answer(answer) => crate::harness::Reply(answer).ok(),
            _ => panic!("the index is an answer"),
        };
        let url = index["paths"]["apis/example.org/v1"]["serverRelativeURL"].clone();
        url.as_str().unwrap().to_owned()
    };
    let mut bench = Bench::new();
    bench.create(DEFINITIONS, of_one_version());
    let first = hash(&bench.api, &bench);
    let of_definition = format!("{DEFINITIONS}/kites.example.org");
    let label = r#"{"metadata": {"labels": {"a": "b"}}}"#;
    bench.patch("merge-patch+json", &of_definition, label).ok();
    assert_eq!(hash(&bench.api, &bench), first, "a label is not in the document");
    let restarted = Api::new(ApiParts {
        registry: rekindle_kinds::all(),
        store: bench.api.store().clone(),
        entropy: Box::new(Counting::new()),
        authorizer: AuthorizationMode::Rbac,
        ca_bundle: String::new(),
    });
    assert_eq!(hash(&restarted, &bench), first);
    // the same key at the same revision, in another cluster
    let mut other = Bench::new();
    other.create(DEFINITIONS, definition(json!([version("v1", true, json!({}))])));
    let of_other = hash(&other.api, &other);
    assert_ne!(of_other, first);
    let schema = json!({"spec": {"versions": [version("v1", true, json!({}))]}}).to_string();
    bench.patch("merge-patch+json", &of_definition, &schema).ok();
    assert_eq!(hash(&bench.api, &bench), of_other, "the same definition, written otherwise");
}

#[test]
fn objects_of_a_kind_that_is_called_event_do_not_expire() {
    let mut bench = Bench::new();
    let mut definition = of_one_version();
    definition["metadata"]["name"] = json!("events.example.org");
    definition["spec"]["names"] = json!({"plural": "events", "kind": "Event"});
    bench.create(DEFINITIONS, definition);
    let mut event = kite("a");
    event["kind"] = json!("Event");
    bench.create("/apis/example.org/v1/namespaces/default/events", event);
    assert_eq!(bench.api.next_expiry(), None);
}

/// The definition asks for more than it did when the object was made. A write of the status changes
/// nothing else, so it is not refused for that; but the status has to meet its schema.
#[test]
fn a_write_of_the_status_is_validated_by_the_schema_of_the_status_alone() {
    let mut bench = Bench::new();
    let mut v1 = version("v1", true, json!({"colour": {"type": "string"}}));
    v1["subresources"] = json!({"status": {}});
    let schema = &mut v1["schema"]["openAPIV3Schema"];
    let phase = json!({"type": "string", "enum": ["Flying", "Landed"]});
    schema["properties"]["status"] = json!({"type": "object", "properties": {"phase": phase}});
    schema["properties"]["tail"] = json!({"type": "string"});
    bench.create(DEFINITIONS, definition(json!([v1])));
    bench.create(KITES, kite("a"));
    let of_definition = format!("{DEFINITIONS}/kites.example.org");
    let stricter = r#"[{
        "op": "add", "path": "/spec/versions/0/schema/openAPIV3Schema/required", "value": ["tail"]
    }]"#;
    bench.patch("json-patch+json", &of_definition, stricter).ok();
    let of_status = format!("{KITES}/a/status");
    let flying = r#"{
        "metadata": {"labels": {"new": "label"}},
        "spec": {"colour": "blue"}, "status": {"phase": "Flying"}
    }"#;
    let written = bench.patch("merge-patch+json", &of_status, flying).ok();
    assert_eq!(written["status"], json!({"phase": "Flying"}));
    assert_eq!(written["spec"], json!({"colour": "red"}), "as stored");
    assert_eq!(written["metadata"]["labels"], Value::Null, "as stored");
    let lost = r#"{"status": {"phase": "Lost"}}"#;
    let refused = bench.patch("merge-patch+json", &of_status, lost);
    assert_eq!(refused.code(), 422, "{}", refused.text());
    assert!(refused.text().contains("status.phase: Unsupported value"), "{}", refused.text());
    let red = r#"{"spec": {"colour": "green"}}"#;
    let refused = bench.patch("merge-patch+json", &format!("{KITES}/a"), red);
    assert_eq!(refused.code(), 422, "the object itself is asked for all: {}", refused.text());
}

/// As upstream, a path may lead to an entry of a map.
#[test]
fn objects_are_selected_by_what_a_path_of_the_schema_leads_to() {
    let mut bench = Bench::new();
    let map = json!({"type": "object", "additionalProperties": {"type": "string"}});
    let mut v1 = version("v1", true, json!({"marks": map}));
    v1["selectableFields"] = json!([{"jsonPath": ".spec.marks.tail"}]);
    bench.create(DEFINITIONS, definition(json!([v1])));
    for (name, tail) in [("a", "long"), ("b", "short")] {
        let mut marked = kite(name);
        marked["spec"] = json!({"marks": {"tail": tail}});
        bench.create(KITES, marked);
    }
    let found = bench.get(&format!("{KITES}?fieldSelector=spec.marks.tail%3Dlong"));
    assert_eq!(found["items"][0]["metadata"]["name"], "a");
    assert_eq!(found["items"][1], Value::Null);
}
