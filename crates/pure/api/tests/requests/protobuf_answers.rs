//! Answers as protobuf or YAML, for clients that ask for it.

use rekindle_api::outcome::{json_of_protobuf, json_of_yaml};
use rekindle_api::{ApiAnswer, RequestOutcome};
use serde_json::json;

use crate::harness::{Bench, CONFIG_MAPS, config_map};

const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";
const YAML: &str = "application/yaml";

impl Bench {
    fn accepting(&mut self, accept: &str, method: &str, target: &str, body: &str) -> ApiAnswer {
        let mut request = self.request(method, target, body);
        request.accept = accept.to_owned();
        self.answer(&request)
    }
}

/// What the envelope says, and how the object begins.
fn head(body: &[u8]) -> &[u8] {
    assert_eq!(&body[..4], b"k8s\0");
    &body[4..]
}

fn contains(body: &[u8], text: &str) -> bool {
    body.windows(text.len()).any(|window| window == text.as_bytes())
}

#[test]
fn objects_lists_writes_and_errors_are_answered_as_protobuf() {
    let mut bench = Bench::new();
    let body = config_map("a").to_string();
    let made = bench.accepting(PROTOBUF, "POST", CONFIG_MAPS, &body);
    assert_eq!((made.code.as_u16(), made.content_type), (201, PROTOBUF));
    assert!(contains(head(&made.body), "ConfigMap"));
    for (target, wanted) in [
        (format!("{CONFIG_MAPS}/a"), "ConfigMap"),
        (CONFIG_MAPS.to_owned(), "ConfigMapList"),
        (format!("{CONFIG_MAPS}/none"), "configmaps \"none\" not found"),
        ("/api/v1/baskets".to_owned(), "could not find the requested resource"),
    ] {
        let answer = bench.accepting(PROTOBUF, "GET", &target, "");
        assert_eq!(answer.content_type, PROTOBUF, "{target}");
        assert!(contains(head(&answer.body), wanted), "{target}");
    }
    let metadata = format!("{PROTOBUF};as=PartialObjectMetadataList;g=meta.k8s.io;v=v1");
    let partial = bench.accepting(&metadata, "GET", CONFIG_MAPS, "");
    assert!(contains(head(&partial.body), "PartialObjectMetadataList"));
}

#[test]
fn every_answer_in_yaml_says_what_it_says_in_json() {
    let mut bench = Bench::new();
    let body = config_map("a").to_string();
    let made = bench.accepting(YAML, "POST", CONFIG_MAPS, &body);
    assert_eq!((made.code.as_u16(), made.content_type), (201, YAML));
    let object = format!("{CONFIG_MAPS}/a");
    let missing = format!("{CONFIG_MAPS}/none");
    let ladders = "/apis/rekindle.dev/v1alpha1/namespaces/default/restartladders";
    for target in
        [&object, CONFIG_MAPS, &missing, ladders, "/api", "/api/v1", "/apis", "/apis/apps"]
    {
        for form in ["", ";as=Table;v=v1;g=meta.k8s.io"] {
            let json = bench.accepting(&format!("application/json{form}"), "GET", target, "");
            let yaml = bench.accepting(&format!("{YAML}{form}"), "GET", target, "");
            let is_table_of_objects = !form.is_empty() && json.code.is_success();
            if form.is_empty() || is_table_of_objects {
                assert_eq!(yaml.content_type, YAML, "{target}");
                let expected: serde_json::Value = serde_json::from_slice(&json.body).unwrap();
                assert_eq!(json_of_yaml(&yaml.body), Some(expected), "{target}");
            } else {
                // errors are no tables, nor are lists of kinds
                assert_eq!((yaml.code, yaml.content_type), (json.code, "application/json"));
            }
        }
    }
    for (target, code) in [("/version", 406), (&format!("{CONFIG_MAPS}?watch=1"), 406)] {
        let refused = bench.accepting(YAML, "GET", target, "");
        assert_eq!((refused.code.as_u16(), refused.content_type), (code, YAML), "{target}");
    }
}

#[test]
fn the_first_form_that_a_kind_has_is_taken() {
    let mut bench = Bench::new();
    let both = format!("{PROTOBUF},application/json");
    let ladders = "/apis/rekindle.dev/v1alpha1/namespaces/default/restartladders";
    for (accept, target, wanted) in [
        (both.as_str(), CONFIG_MAPS, (200, PROTOBUF)),
        (
            "application/json,application/vnd.kubernetes.protobuf",
            CONFIG_MAPS,
            (200, "application/json"),
        ),
        (both.as_str(), ladders, (200, "application/json")),
        (PROTOBUF, ladders, (406, PROTOBUF)),
        (both.as_str(), "/apis", (200, "application/json")),
    ] {
        let answer = bench.accepting(accept, "GET", target, "");
        assert_eq!((answer.code.as_u16(), answer.content_type), wanted, "{accept} {target}");
    }
}

/// An object is made a message once. That of an earlier version must not be sent.
#[test]
fn a_list_as_protobuf_follows_each_write() {
    const AUTOSCALERS: &str = "horizontalpodautoscalers";
    let autoscaler = json!({
        "apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler",
        "metadata": { "name": "a" },
        "spec": {
            "maxReplicas": 3,
            "scaleTargetRef": { "apiVersion": "apps/v1", "kind": "Deployment", "name": "a" },
        },
    });
    let of_autoscalers =
        |version: &str| format!("/apis/autoscaling/{version}/namespaces/default/{AUTOSCALERS}");
    let mut bench = Bench::new();
    bench.create(CONFIG_MAPS, config_map("a"));
    bench.create(&of_autoscalers("v2"), autoscaler);
    for value in ["first", "second"] {
        let patch = json!({ "metadata": { "labels": { "is": value } } }).to_string();
        // stored in v2, and shown in both: a message is that of one of them
        for list in [CONFIG_MAPS.to_owned(), of_autoscalers("v1"), of_autoscalers("v2")] {
            let target = format!("{list}/a");
            bench.patch("merge-patch+json", &target, &patch).ok();
            for _ in 0..2 {
                let listed = bench.accepting(PROTOBUF, "GET", &list, "");
                let expected = bench.accepting("application/json", "GET", &list, "");
                let expected: serde_json::Value = serde_json::from_slice(&expected.body).unwrap();
                let listed = json_of_protobuf(&listed.body).unwrap();
                assert_eq!(listed["items"][0]["metadata"], expected["items"][0]["metadata"]);
                assert_eq!(listed["kind"], expected["kind"]);
                assert_eq!(listed["apiVersion"], expected["apiVersion"]);
            }
        }
    }
}

#[test]
fn events_of_a_watch_are_frames() {
    let mut bench = Bench::new();
    let mut request = bench.request("GET", &format!("{CONFIG_MAPS}?watch=1&resourceVersion=0"), "");
    request.accept = PROTOBUF.to_owned();
    let RequestOutcome::Watch(mut watch) = bench.handle(&request) else { panic!("no watch") };
    assert_eq!(watch.stream.content_type(), "application/vnd.kubernetes.protobuf;stream=watch");
    while watch.stream.try_next(bench.now).is_some() {}
    bench.create(CONFIG_MAPS, config_map("a"));
    bench
        .patch(
            "merge-patch+json",
            &format!("{CONFIG_MAPS}/a"),
            &json!({"data": {"b": "2"}}).to_string(),
        )
        .ok();
    for wanted in ["ADDED", "MODIFIED"] {
        let frame = watch.stream.try_next(bench.now).unwrap();
        let length = u32::from_be_bytes(frame[..4].try_into().unwrap()) as usize;
        assert_eq!(length, frame.len() - 4);
        assert!(contains(&frame, wanted) && contains(&frame, "k8s\0"), "{frame:?}");
    }
    // a watcher in JSON shares no bytes with it
    let mut lines = bench.watch(&format!("{CONFIG_MAPS}?watch=1&resourceVersion=0"));
    assert!(lines.try_next(bench.now).unwrap().starts_with(b"{\"type\""));
}

#[test]
fn a_definition_comes_and_goes_as_protobuf() {
    const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let given = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "kites.example.org"},
        "spec": {
            "group": "example.org", "scope": "Namespaced",
            "names": {"plural": "kites", "kind": "Kite"},
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {
                    "type": "object",
                    "properties": {"spec": {"type": "object", "properties": {
                        "length": {"type": "integer", "minimum": 1, "default": 3},
                        "tails": {"type": "array", "items": {"type": "string"}},
                        "colours": {
                            "type": "object", "additionalProperties": {"type": "string"},
                        },
                    }}},
                }},
            }],
        },
    });
    let mut bench = Bench::new();
    let dry = format!("{DEFINITIONS}?dryRun=All");
    let shown = bench.accepting("", "POST", &dry, &given.to_string()).body;
    let shown: serde_json::Value = serde_json::from_slice(&shown).unwrap();
    let made = bench.accepting(PROTOBUF, "POST", &dry, &given.to_string());
    assert_eq!((made.code.as_u16(), made.content_type), (201, PROTOBUF));

    let mut request = bench.request("POST", DEFINITIONS, "");
    request.content_type = PROTOBUF.to_owned();
    request.body = made.body;
    let answer = bench.answer(&request);
    assert_eq!(answer.code.as_u16(), 201, "{:?}", answer.body);
    let kept = bench.get(&format!("{DEFINITIONS}/kites.example.org"));
    assert_eq!(kept["spec"], shown["spec"]);
    let list = bench.accepting(PROTOBUF, "GET", DEFINITIONS, "");
    assert_eq!(list.content_type, PROTOBUF);
    assert_eq!(json_of_protobuf(&list.body).unwrap()["items"][0]["spec"], shown["spec"]);

    let kites = "/apis/example.org/v1/namespaces/default/kites";
    let kite = json!({
        "apiVersion": "example.org/v1", "kind": "Kite", "metadata": {"name": "one"}, "spec": {},
    });
    let request = bench.request("POST", kites, &kite.to_string());
    assert_eq!(bench.answer(&request).code.as_u16(), 201);
    assert_eq!(bench.get(&format!("{kites}/one"))["spec"]["length"], 3);
}
