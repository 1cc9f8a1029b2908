//! Conversion webhooks: objects in other versions than the one that they are stored in, and what a
//! webhook that fails or lies may and may not hold up.

use std::sync::{Arc, Mutex};

use bytes::Bytes;
use proptest::prelude::*;
use rekindle_api::admission_session::WebhookQuestion;
use rekindle_api::{EventStream, RequestOutcome};
use serde_json::{Value, json};

use crate::definitions::DEFINITIONS;
use crate::harness::{Bench, Reply, events};

const OLD: &str = "/apis/example.org/v1alpha1/namespaces/default/sails";
const NEW: &str = "/apis/example.org/v1/namespaces/default/sails";
const METADATA: &str = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
const METADATA_LIST: &str = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";

/// `v1alpha1` has a size (`3x4`), `v1` a width and a height.
fn definition(stored: &str) -> Value {
    let version = |name: &str, spec: Value| {
        json!({
            "name": name, "served": true, "storage": name == stored,
            "subresources": {"status": {}, "scale": {
                "specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas",
            }},
            "schema": {"openAPIV3Schema": {"type": "object", "properties": {
                "spec": {"type": "object", "properties": spec},
                "status": {
                    "type": "object", "properties": {"replicas": {"type": "integer"}},
                },
            }}},
        })
    };
    let number = json!({"type": "integer"});
    let client = json!({"url": "https://sails.example.org/convert"});
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "sails.example.org"},
        "spec": {
            "group": "example.org", "scope": "Namespaced",
            "names": {"plural": "sails", "kind": "Sail"},
            "versions": [
                version("v1alpha1", json!({"size": {"type": "string"}, "replicas": number})),
                version("v1", json!({"width": number, "height": number, "replicas": number})),
            ],
            "conversion": {"strategy": "Webhook", "webhook": {
                "clientConfig": client, "conversionReviewVersions": ["v1"],
            }},
        },
    })
}

fn old(name: &str, size: &str) -> Value {
    json!({
        "apiVersion": "example.org/v1alpha1", "kind": "Sail",
        "metadata": {"name": name}, "spec": {"size": size},
    })
}

fn new(name: &str, width: i64, height: i64) -> Value {
    json!({
        "apiVersion": "example.org/v1", "kind": "Sail",
        "metadata": {"name": name}, "spec": {"width": width, "height": height},
    })
}

/// What an honest webhook makes of an object.
fn convert(mut object: Value, desired: &Value) -> Value {
    if object["apiVersion"] == *desired {
        return object;
    }
    object["apiVersion"] = desired.clone();
    let Some(spec) = object["spec"].as_object_mut() else { return object };
    if let Some(size) = spec.remove("size") {
        let (width, height) = size.as_str().unwrap().split_once('x').unwrap();
        spec.insert("width".to_owned(), width.parse::<i64>().unwrap().into());
        spec.insert("height".to_owned(), height.parse::<i64>().unwrap().into());
    } else if let (Some(width), Some(height)) = (spec.remove("width"), spec.remove("height")) {
        spec.insert("size".to_owned(), format!("{width}x{height}").into());
    }
    object
}

/// The requests of the reviews that were sent.
type Asked = Arc<Mutex<Vec<Value>>>;

fn answered(review: &Value, response: Value) -> Bytes {
    json!({"apiVersion": review["apiVersion"], "kind": review["kind"], "response": response})
        .to_string()
        .into()
}

fn honest(review: &Value) -> Value {
    let request = &review["request"];
    let all = request["objects"].as_array().unwrap().iter();
    let converted: Vec<_> =
        all.map(|object| convert(object.clone(), &request["desiredAPIVersion"])).collect();
    json!({
        "uid": request["uid"], "result": {"status": "Success"}, "convertedObjects": converted,
    })
}

impl Bench {
    fn with_sails(stored: &str) -> (Self, Asked) {
        let mut bench = Self::new();
        let asked = bench.converts();
        bench.create(DEFINITIONS, definition(stored));
        (bench, asked)
    }

    /// From now on there is an honest webhook.
    fn converts(&mut self) -> Asked {
        let asked = Asked::default();
        let all = Arc::clone(&asked);
        self.webhooks = Box::new(move |question: &WebhookQuestion| {
            let review: Value = serde_json::from_slice(&question.body).unwrap();
            all.lock().unwrap().push(review["request"].clone());
            Ok(answered(&review, honest(&review)))
        });
        asked
    }

    /// From now on there is none.
    fn is_dead(&mut self) {
        self.webhooks = Box::new(|_| Err("connection refused".to_owned()));
    }

    /// From now on a webhook answers with a response that is honest but for this change.
    fn lies(&mut self, mut change: impl FnMut(&mut Value) + Send + Sync + 'static) {
        self.webhooks = Box::new(move |question: &WebhookQuestion| {
            let review: Value = serde_json::from_slice(&question.body).unwrap();
            let mut response = honest(&review);
            change(&mut response);
            Ok(answered(&review, response))
        });
    }

    fn in_form(&mut self, method: &str, target: &str, body: &str, accept: &str) -> Reply {
        let mut request = self.request(method, target, body);
        accept.clone_into(&mut request.accept);
        Reply(self.answer(&request))
    }

    /// The events of a watch, after its webhooks were asked.
    fn events(&mut self, stream: &mut EventStream) -> Vec<Value> {
        let mut all = events(stream);
        while !stream.questions().is_empty() {
            let answers = stream.questions().iter().map(&mut self.webhooks).collect();
            stream.answer(answers);
            all.extend(events(stream));
        }
        all
    }

    /// A watch shows so many events, and asks one question at a time before them.
    fn asks_one_after_the_other(&mut self, stream: &mut EventStream, count: usize) {
        let (mut seen, mut rounds) = (events(stream).len(), 0);
        while !stream.questions().is_empty() {
            assert_eq!(stream.questions().len(), 1);
            let answers = stream.questions().iter().map(&mut self.webhooks).collect();
            stream.answer(answers);
            seen += events(stream).len();
            rounds += 1;
        }
        assert_eq!(seen, count);
        assert!(rounds > 1, "one batch held everything");
    }

    fn stored(&self, name: &str) -> Value {
        let key = format!("/sails.example.org/default/{name}");
        serde_json::from_slice(&self.api.store().get(&key).unwrap().value).unwrap()
    }

    /// Makes `v1` the version that objects are stored in.
    fn store_in_v1(&mut self) {
        let changed = json!([
            {"op": "replace", "path": "/spec/versions/0/storage", "value": false},
            {"op": "replace", "path": "/spec/versions/1/storage", "value": true},
        ]);
        let path = format!("{DEFINITIONS}/sails.example.org");
        self.patch("json-patch+json", &path, &changed.to_string()).ok();
    }
}

#[test]
fn each_request_sees_and_writes_objects_in_its_own_version() {
    let (mut bench, asked) = Bench::with_sails("v1");
    let made = bench.create(&format!("{OLD}?fieldManager=me"), old("a", "3x4"));
    assert_eq!(made["apiVersion"], "example.org/v1alpha1");
    assert_eq!(made["spec"], json!({"size": "3x4"}));
    let sent = asked.lock().unwrap()[0].clone();
    assert_eq!(sent["desiredAPIVersion"], "example.org/v1");
    assert_eq!(sent["objects"][0]["metadata"].get("resourceVersion"), None);
    assert_eq!(sent["objects"][0]["metadata"]["uid"], made["metadata"]["uid"]);
    let stored = bench.stored("a");
    assert_eq!(stored["apiVersion"], "example.org/v1");
    assert_eq!(stored["spec"], json!({"width": 3, "height": 4}));
    assert_eq!(bench.get(&format!("{OLD}/a")), made);
    let mut seen = bench.get(&format!("{NEW}/a"));
    assert_eq!(seen["spec"], json!({"width": 3, "height": 4}));
    assert_eq!(seen["metadata"], made["metadata"]);

    seen["spec"]["width"] = 5.into();
    bench.call("PUT", &format!("{NEW}/a?fieldManager=me"), &seen.to_string()).ok();
    let changed =
        bench.patch("merge-patch+json", &format!("{OLD}/a"), r#"{"spec":{"size":"6x4"}}"#);
    assert_eq!(changed.ok()["spec"], json!({"size": "6x4"}));
    assert_eq!(bench.stored("a")["spec"], json!({"width": 6, "height": 4}));
    bench
        .patch("merge-patch+json", &format!("{OLD}/a/status"), r#"{"status":{"replicas":2}}"#)
        .ok();
    let scaled =
        bench.patch("merge-patch+json", &format!("{OLD}/a/scale"), r#"{"spec":{"replicas":7}}"#);
    assert_eq!(scaled.ok()["spec"]["replicas"], 7);
    let seen = bench.get(&format!("{NEW}/a"));
    assert_eq!(seen["spec"], json!({"width": 6, "height": 4, "replicas": 7}));
    assert_eq!(seen["status"], json!({"replicas": 2}));
    assert_eq!(bench.get(&format!("{OLD}/a/scale"))["status"]["replicas"], 2);
    let managers = seen["metadata"]["managedFields"].as_array().unwrap();
    let versions: Vec<_> = managers.iter().map(|one| one["apiVersion"].as_str().unwrap()).collect();
    assert!(versions.contains(&"example.org/v1") && versions.contains(&"example.org/v1alpha1"));
}

#[test]
fn an_apply_keeps_the_version_of_each_manager() {
    let (mut bench, _) = Bench::with_sails("v1");
    let target = |path: &str, manager: &str| format!("{path}/a?fieldManager={manager}");
    bench.patch("apply-patch+yaml", &target(OLD, "one"), &old("a", "3x4").to_string()).ok();
    let two = json!({
        "apiVersion": "example.org/v1", "kind": "Sail", "metadata": {"name": "a"},
        "spec": {"replicas": 2},
    });
    bench.patch("apply-patch+yaml", &target(NEW, "two"), &two.to_string()).ok();
    let again = bench.patch("apply-patch+yaml", &target(OLD, "one"), &old("a", "5x4").to_string());
    assert_eq!(again.ok()["spec"], json!({"size": "5x4", "replicas": 2}));
    let seen = bench.get(&format!("{NEW}/a"));
    assert_eq!(seen["spec"], json!({"width": 5, "height": 4, "replicas": 2}));
    let managers = seen["metadata"]["managedFields"].as_array().unwrap().clone();
    let known: Vec<_> = managers.iter().map(|one| (&one["manager"], &one["apiVersion"])).collect();
    assert!(known.contains(&(&json!("one"), &json!("example.org/v1alpha1"))), "{known:?}");
    assert!(known.contains(&(&json!("two"), &json!("example.org/v1"))), "{known:?}");
}

#[test]
fn a_list_is_one_question_and_what_was_converted_is_kept() {
    let (mut bench, _) = Bench::with_sails("v1");
    for index in 0..5 {
        bench.create(NEW, new(&format!("s-{index}"), index, 1));
    }
    let asked = bench.converts();
    let list = bench.get(OLD);
    let sizes: Vec<_> =
        list["items"].as_array().unwrap().iter().map(|one| one["spec"]["size"].clone()).collect();
    assert_eq!(json!(sizes), json!(["0x1", "1x1", "2x1", "3x1", "4x1"]));
    assert_eq!(asked.lock().unwrap().len(), 1);
    assert_eq!(asked.lock().unwrap()[0]["objects"].as_array().unwrap().len(), 5);
    bench.is_dead();
    assert_eq!(bench.get(OLD)["items"], list["items"], "without the webhook");
    let first = bench.get(&format!("{OLD}?limit=2"));
    assert_eq!(first["items"].as_array().unwrap().len(), 2);
    assert_eq!(bench.get(&format!("{OLD}/s-3"))["spec"]["size"], "3x1");
}

#[test]
fn a_long_list_is_asked_in_parts() {
    let (mut bench, _) = Bench::with_sails("v1");
    for index in 0..1_100 {
        bench.create(NEW, new(&format!("s-{index}"), index, 1));
    }
    let asked = bench.converts();
    assert_eq!(bench.get(OLD)["items"].as_array().unwrap().len(), 1_100);
    let asked = asked.lock().unwrap();
    let sizes: Vec<_> = asked.iter().map(|one| one["objects"].as_array().unwrap().len()).collect();
    assert_eq!(sizes, [500, 500, 100]);
}

/// Nothing of a write that cannot be converted is stored, and the next one happens.
#[test]
fn no_write_happens_whose_object_cannot_be_converted() {
    let (mut bench, _) = Bench::with_sails("v1");
    bench.create(OLD, old("a", "3x4"));
    let before = bench.api.store().revision();
    bench.is_dead();
    let failed = "conversion webhook for example.org/v1alpha1, Kind=Sail failed: Post \
                  \"https://sails.example.org/convert?timeout=30s\": connection refused";
    let made = bench.call("POST", OLD, &old("b", "1x1").to_string());
    assert_eq!(made.text(), format!("500 : {failed}"));
    // the old object was converted before
    let patched =
        bench.patch("merge-patch+json", &format!("{OLD}/a"), r#"{"spec":{"size":"9x9"}}"#);
    assert_eq!(patched.text(), format!("500 : {failed}"));
    let applied = bench.patch(
        "apply-patch+yaml",
        &format!("{OLD}/c?fieldManager=m"),
        &old("c", "1x1").to_string(),
    );
    assert_eq!(applied.text(), format!("500 : {failed}"));
    bench.committer.commit_pending().unwrap();
    assert_eq!(bench.api.store().revision(), before);
    bench.create(NEW, new("b", 1, 1));
    bench.converts();
    let patched =
        bench.patch("merge-patch+json", &format!("{OLD}/a"), r#"{"spec":{"size":"9x9"}}"#);
    assert_eq!(patched.ok()["spec"]["size"], "9x9");
}

/// What only the way back shows is found before the write, too.
#[test]
fn no_write_happens_that_cannot_be_converted_back() {
    let (mut bench, _) = Bench::with_sails("v1");
    let before = bench.api.store().revision();
    bench.webhooks = Box::new(|question: &WebhookQuestion| {
        let review: Value = serde_json::from_slice(&question.body).unwrap();
        match review["request"]["desiredAPIVersion"] == "example.org/v1" {
            true => Ok(answered(&review, honest(&review))),
            false => Err("connection reset".to_owned()),
        }
    });
    let made = bench.call("POST", OLD, &old("b", "1x1").to_string());
    assert!(made.text().contains("for example.org/v1, Kind=Sail failed"), "{}", made.text());
    bench.committer.commit_pending().unwrap();
    assert_eq!(bench.api.store().revision(), before);
}

#[test]
fn a_dry_run_is_converted_and_stores_nothing() {
    let (mut bench, asked) = Bench::with_sails("v1");
    let made = bench.create(&format!("{OLD}?dryRun=All"), old("a", "3x4"));
    assert_eq!(made["spec"], json!({"size": "3x4"}));
    assert_eq!(asked.lock().unwrap().len(), 2);
    assert_eq!(bench.call("GET", &format!("{NEW}/a"), "").code(), 404);
    bench.is_dead();
    assert_eq!(
        bench.call("POST", &format!("{OLD}?dryRun=All"), &old("b", "1x1").to_string()).code(),
        500
    );
}

/// A change of an honest response, and what the client is answered.
type Lie = (fn(&mut Value), &'static str);

#[test]
fn a_webhook_that_lies_is_found_out() {
    let lies: [Lie; 15] = [
        (|r| r["uid"] = "x".into(), " failed: expected response.uid=\"UID\", got \"x\""),
        (
            |r| r["result"] = json!({"status": "Failure", "message": "no sails today"}),
            " failed: no sails today",
        ),
        (|r| r["result"] = json!({}), " failed: response.result.status was '', not 'Success'"),
        (|r| r["convertedObjects"] = json!([]), " returned 0 objects, expected 1"),
        (|r| r["convertedObjects"] = Value::Null, " returned 0 objects, expected 1"),
        (
            |r| {
                let object = r["convertedObjects"][0].clone();
                r["convertedObjects"] = json!([object, object]);
            },
            " returned 2 objects, expected 1",
        ),
        (
            |r| r["convertedObjects"][0]["apiVersion"] = "example.org/v1".into(),
            " returned invalid object at index 0: invalid groupVersion (expected \
             example.org/v1alpha1, received example.org/v1)",
        ),
        (
            |r| r["convertedObjects"][0]["kind"] = "Hull".into(),
            " returned invalid object at index 0: invalid kind (expected Sail, received Hull)",
        ),
        (
            |r| r["convertedObjects"][0] = json!("text"),
            " returned invalid object at index 0: it is no object",
        ),
        (
            |r| r["convertedObjects"][0]["metadata"]["name"] = "b".into(),
            " returned invalid object: must have the same name: a != b",
        ),
        (
            |r| r["convertedObjects"][0]["metadata"]["namespace"] = "b".into(),
            " returned invalid object: must have the same namespace: default != b",
        ),
        (
            |r| r["convertedObjects"][0]["metadata"]["uid"] = "b".into(),
            " returned invalid object: must have the same UID: UID != b",
        ),
        (
            |r| r["convertedObjects"][0]["metadata"]["labels"] = json!({"a b": "c"}),
            " returned invalid metadata: metadata.labels: Invalid value: \"a b\"",
        ),
        (
            |r| r["convertedObjects"][0]["metadata"]["annotations"] = json!({"a": 1}),
            " returned invalid metadata: metadata.annotations[a] must be a string",
        ),
        (
            |r| r["convertedObjects"][0]["metadata"]["labels"] = json!("x"),
            " returned invalid metadata: invalid metadata.labels",
        ),
    ];
    for (lie, says) in lies {
        let (mut bench, _) = Bench::with_sails("v1");
        let made = bench.create(NEW, new("a", 1, 1));
        bench.lies(lie);
        let seen = bench.call("GET", &format!("{OLD}/a"), "");
        let (code, text) = (seen.code(), seen.text());
        let uid = made["metadata"]["uid"].as_str().unwrap();
        // the UID of the review is drawn like that of an object
        let text = text.replace(uid, "UID");
        let text = match text.split_once("response.uid=\"") {
            Some((head, tail)) => format!("{head}response.uid=\"UID{}", &tail[uid.len()..]),
            None => text,
        };
        let wanted = format!("500 : conversion webhook for example.org/v1, Kind=Sail{says}");
        assert!(code == 500 && text.starts_with(&wanted), "{text}\nnot\n{wanted}");
        assert_eq!(bench.get(&format!("{NEW}/a")), made);
    }
}

#[test]
fn answers_that_are_no_reviews_are_refused() {
    let (mut bench, _) = Bench::with_sails("v1");
    bench.create(NEW, new("a", 1, 1));
    let deep = format!("{}1{}", "[".repeat(5_000), "]".repeat(5_000));
    for text in [
        "",
        "<html>",
        "{}",
        r#"{"apiVersion":"v1","kind":"Pod"}"#,
        r#"{"apiVersion":"apiextensions.k8s.io/v1","kind":"ConversionReview"}"#,
        deep.as_str(),
    ] {
        let text = text.to_owned();
        bench.webhooks = Box::new(move |_| Ok(text.clone().into()));
        let seen = bench.call("GET", &format!("{OLD}/a"), "");
        let text = seen.text();
        assert!(
            text.starts_with("500 : conversion webhook for example.org/v1, Kind=Sail"),
            "{text}"
        );
    }
}

#[test]
fn a_webhook_changes_nothing_of_the_metadata_but_labels_and_annotations() {
    let (mut bench, _) = Bench::with_sails("v1");
    let mut made = new("a", 1, 1);
    made["metadata"]["finalizers"] = json!(["example.org/rest"]);
    made["metadata"]["labels"] = json!({"kept": "no"});
    let made = bench.create(NEW, made);
    bench.lies(|response| {
        let metadata = &mut response["convertedObjects"][0]["metadata"];
        metadata["labels"] = json!({"new": "yes"});
        metadata["annotations"] = json!({"was": "v1"});
        metadata["finalizers"] = json!([]);
        metadata["generation"] = 9.into();
        metadata["deletionTimestamp"] = "2026-11-18T11:06:40Z".into();
        metadata.as_object_mut().unwrap().remove("managedFields");
    });
    let mut seen = bench.get(&format!("{OLD}/a"));
    let metadata = seen["metadata"].as_object_mut().unwrap();
    assert_eq!(metadata.remove("annotations"), Some(json!({"was": "v1"})));
    assert_eq!(metadata["labels"], json!({"new": "yes"}));
    metadata.insert("labels".to_owned(), json!({"kept": "no"}));
    assert_eq!(seen["metadata"], made["metadata"]);
    // a list that knows the stored labels comes first: it must not hide the converted ones
    bench.get(&format!("{NEW}?labelSelector=new=yes"));
    let selected = bench.get(&format!("{OLD}?labelSelector=new=yes"));
    assert_eq!(selected["items"].as_array().unwrap().len(), 1, "selected by what clients see");
}

#[test]
fn a_watch_shows_its_state_and_its_changes_in_order_once_they_are_converted() {
    let (mut bench, _) = Bench::with_sails("v1");
    bench.create(NEW, new("a", 1, 1));
    bench.create(NEW, new("b", 2, 2));
    let asked = bench.converts();
    let mut watch = bench.watch(&format!(
        "{OLD}?watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
    ));
    assert!(events(&mut watch).is_empty(), "nothing before the answer");
    assert_eq!(watch.bookmark(), None, "a bookmark would skip what is not sent");
    let text = |event: &Value| {
        let object = &event["object"];
        format!("{} {} {}", event["type"], object["metadata"]["name"], object["spec"]["size"])
    };
    let first = bench.events(&mut watch);
    let mark = "\"BOOKMARK\" null null";
    assert_eq!(
        first.iter().map(text).collect::<Vec<_>>(),
        ["\"ADDED\" \"a\" \"1x1\"", "\"ADDED\" \"b\" \"2x2\"", mark]
    );
    assert_eq!(asked.lock().unwrap().len(), 1, "one question for the state");
    bench.patch("merge-patch+json", &format!("{NEW}/a"), r#"{"spec":{"width":8}}"#).ok();
    bench.create(OLD, old("c", "3x3"));
    bench.call("DELETE", &format!("{NEW}/b"), "").ok();
    let before = asked.lock().unwrap().len();
    let next = bench.events(&mut watch);
    assert_eq!(
        next.iter().map(text).collect::<Vec<_>>(),
        ["\"MODIFIED\" \"a\" \"8x1\"", "\"ADDED\" \"c\" \"3x3\"", "\"DELETED\" \"b\" \"2x2\""]
    );
    let asked = asked.lock().unwrap();
    assert_eq!(asked.len() - before, 1, "one question for all changes that are there");
    let objects = asked.last().unwrap()["objects"].as_array().unwrap();
    assert_eq!(objects.len(), 1, "what the write of c and the state have shown is known");
}

#[test]
fn a_watch_that_cannot_be_converted_ends_with_the_error() {
    let (mut bench, _) = Bench::with_sails("v1");
    let mut watch = bench.watch(&format!("{OLD}?watch=1"));
    let mut other = bench.watch(&format!("{NEW}?watch=1"));
    bench.create(NEW, new("a", 1, 1));
    bench.is_dead();
    let seen = bench.events(&mut watch);
    assert_eq!(seen.len(), 1);
    assert_eq!((&seen[0]["type"], &seen[0]["object"]["code"]), (&json!("ERROR"), &json!(500)));
    let message = seen[0]["object"]["message"].as_str().unwrap();
    assert!(message.starts_with("conversion webhook for example.org/v1, Kind=Sail failed"));
    assert!(watch.is_ended());
    assert_eq!(bench.events(&mut other).len(), 1, "the version that is stored goes on");
}

/// A change of finalizers and owners is written in the version that the object is in.
#[test]
fn metadata_of_an_object_in_an_earlier_version_changes_without_the_webhook() {
    let (mut bench, _) = Bench::with_sails("v1alpha1");
    let mut sail = old("a", "3x4");
    sail["metadata"]["finalizers"] = json!(["example.org/one", "example.org/two"]);
    bench.create(OLD, sail);
    bench.store_in_v1();
    bench.is_dead();
    let patch = r#"{"metadata":{"finalizers":["example.org/two"]}}"#;
    let mut request = bench.request("PATCH", &format!("{NEW}/a"), patch);
    METADATA.clone_into(&mut request.accept);
    let changed = Reply(bench.answer(&request)).ok();
    assert_eq!(changed["metadata"]["finalizers"], json!(["example.org/two"]));
    let stored = bench.stored("a");
    assert_eq!(stored["apiVersion"], "example.org/v1alpha1", "nothing was converted");
    assert_eq!(stored["spec"], json!({"size": "3x4"}));
    let again = Reply(bench.answer(&request)).ok();
    assert_eq!(again, changed, "the same patch writes nothing");
}

/// However many objects there are, few large ones are in memory in another version.
#[test]
fn a_watch_converts_few_large_objects_at_a_time() {
    let (mut bench, _) = Bench::with_sails("v1");
    for index in 0..12 {
        let mut sail = new(&format!("s-{index}"), 1, 1);
        sail["metadata"]["annotations"] = json!({"a": "x".repeat(200 << 10)});
        bench.create(NEW, sail);
    }
    let mut watch = bench.watch(&format!("{OLD}?watch=1"));
    bench.asks_one_after_the_other(&mut watch, 12);
    for index in 0..12 {
        let path = format!("{NEW}/s-{index}");
        bench.patch("merge-patch+json", &path, r#"{"spec":{"width":2}}"#).ok();
    }
    bench.asks_one_after_the_other(&mut watch, 12);
}

/// An object of a version that a watch does not know would lose fields in it.
#[test]
fn a_watch_ends_when_its_definition_changes_and_the_next_one_misses_nothing() {
    let (mut bench, _) = Bench::with_sails("v1");
    bench.create(NEW, new("a", 1, 1));
    let mut watches =
        [bench.watch(&format!("{OLD}?watch=1")), bench.watch(&format!("{NEW}?watch=1"))];
    let seen = watches.each_mut().map(|watch| bench.events(watch));
    let revision = seen[1][0]["object"]["metadata"]["resourceVersion"].as_str().unwrap();

    let path = format!("{DEFINITIONS}/sails.example.org");
    let mut version = bench.get(&path)["spec"]["versions"][1].clone();
    version["name"] = "v2".into();
    let properties = "/schema/openAPIV3Schema/properties/spec/properties";
    version.pointer_mut(properties).unwrap()["colour"] = json!({"type": "string"});
    let changed = json!([
        {"op": "replace", "path": "/spec/versions/1/storage", "value": false},
        {"op": "add", "path": "/spec/versions/-", "value": version},
    ]);
    bench.patch("json-patch+json", &path, &changed.to_string()).ok();
    let mut red = new("red", 2, 2);
    red["apiVersion"] = "example.org/v2".into();
    red["spec"]["colour"] = "red".into();
    let newest = NEW.replace("/v1/", "/v2/");
    bench.create(&newest, red);
    for watch in &mut watches {
        assert_eq!(bench.events(watch), Vec::<Value>::new());
        assert!(watch.is_ended());
    }
    let mut next = bench.watch(&format!("{newest}?watch=1&resourceVersion={revision}"));
    let events = bench.events(&mut next);
    assert_eq!(events.len(), 1);
    assert_eq!(events[0]["object"]["spec"], json!({"width": 2, "height": 2, "colour": "red"}));
}

/// What the status of a definition says changes no object.
#[test]
fn a_watch_outlives_a_change_of_its_definition_that_concerns_no_object() {
    let (mut bench, _) = Bench::with_sails("v1");
    let mut watch = bench.watch(&format!("{OLD}?watch=1"));
    let path = format!("{DEFINITIONS}/sails.example.org");
    let labelled = r#"{"metadata":{"labels":{"a":"b"}}}"#;
    bench.patch("merge-patch+json", &path, labelled).ok();
    bench.create(NEW, new("a", 1, 1));
    assert_eq!(bench.events(&mut watch).len(), 1);
    bench.call("DELETE", &path, "").ok();
    let last = bench.events(&mut watch);
    assert_eq!(last.len(), 1, "the end of its kind is shown");
    assert_eq!(last[0]["type"], "DELETED");
}

#[test]
fn a_watch_ends_when_a_webhook_converts_its_kind_from_now_on() {
    let mut bench = Bench::new();
    bench.converts();
    let mut plain = definition("v1");
    plain["spec"]["conversion"] = json!({"strategy": "None"});
    bench.create(DEFINITIONS, plain);
    let mut watch = bench.watch(&format!("{OLD}?watch=1"));
    let path = format!("{DEFINITIONS}/sails.example.org");
    let conversion = json!({"spec": {"conversion": definition("v1")["spec"]["conversion"]}});
    bench.patch("merge-patch+json", &path, &conversion.to_string()).ok();
    bench.create(NEW, new("a", 3, 4));
    assert_eq!(bench.events(&mut watch), Vec::<Value>::new());
    assert!(watch.is_ended());
}

/// Deletions, finalizers, owners and metadata: what controllers need.
#[test]
fn a_dead_webhook_holds_up_no_deletion_and_no_controller() {
    let (mut bench, _) = Bench::with_sails("v1alpha1");
    for name in ["a", "b", "c", "d"] {
        let mut sail = old(name, "1x1");
        sail["metadata"]["finalizers"] = json!(["example.org/rest"]);
        bench.create(OLD, sail);
    }
    bench.create(OLD, old("e", "1x1"));
    bench.store_in_v1();
    bench.is_dead();
    assert_eq!(bench.call("GET", NEW, "").code(), 500);

    let list = bench.in_form("GET", NEW, "", METADATA_LIST).ok();
    assert_eq!(list["items"].as_array().unwrap().len(), 5);
    let mut request = bench.request("GET", &format!("{NEW}?watch=1"), "");
    METADATA.clone_into(&mut request.accept);
    let RequestOutcome::Watch(mut watch) = bench.api.handle(&request) else { panic!("no watch") };
    assert_eq!(events(&mut watch.stream).len(), 5);

    let gone = bench.call("DELETE", &format!("{NEW}/e"), "").ok();
    assert_eq!((&gone["kind"], &gone["status"]), (&json!("Status"), &json!("Success")));
    let marked = bench.call("DELETE", &format!("{NEW}/a"), "").ok();
    assert_eq!((&marked["kind"], &marked["status"]), (&json!("Status"), &json!("Success")));
    let marked = bench.in_form("DELETE", &format!("{NEW}/b"), "", METADATA).ok();
    assert_eq!(marked["kind"], "PartialObjectMetadata");
    assert!(marked["metadata"]["deletionTimestamp"].is_string());
    let all = bench.in_form("DELETE", NEW, "", METADATA_LIST).ok();
    assert_eq!(all["items"].as_array().unwrap().len(), 4, "also the two that are going");
    let stored = bench.stored("a");
    assert_eq!(stored["apiVersion"], "example.org/v1alpha1", "as it was");
    assert_eq!(stored["spec"], json!({"size": "1x1"}));

    for name in ["a", "b", "c"] {
        let mut request =
            bench.request("PATCH", &format!("{NEW}/{name}"), r#"{"metadata":{"finalizers":null}}"#);
        METADATA.clone_into(&mut request.accept);
        Reply(bench.answer(&request)).ok();
        assert_eq!(bench.call("GET", &format!("{NEW}/{name}"), "").code(), 404);
    }
    let path = format!("{DEFINITIONS}/sails.example.org");
    assert_eq!(bench.call("DELETE", &path, "").code(), 200);
    bench.converts();
    let last = bench.get(&format!("{NEW}/d"));
    assert_eq!(last["spec"], json!({"width": 1, "height": 1}), "the end of its kind kept it whole");
    bench
        .patch("merge-patch+json", &format!("{NEW}/d"), r#"{"metadata":{"finalizers":null}}"#)
        .ok();
    assert_eq!(bench.call("GET", &path, "").code(), 404);
}

#[test]
fn objects_stay_readable_when_another_version_is_stored() {
    let (mut bench, _) = Bench::with_sails("v1alpha1");
    let made = bench.create(OLD, old("a", "3x4"));
    bench.store_in_v1();
    let path = format!("{DEFINITIONS}/sails.example.org");
    assert_eq!(bench.get(&path)["status"]["storedVersions"], json!(["v1alpha1", "v1"]));
    assert_eq!(bench.get(&format!("{OLD}/a")), made);
    let seen = bench.get(&format!("{NEW}/a"));
    assert_eq!(seen["spec"], json!({"width": 3, "height": 4}));
    // a migration writes each object as it is
    let written = bench.call("PUT", &format!("{NEW}/a"), &seen.to_string()).ok();
    assert_ne!(written["metadata"]["resourceVersion"], seen["metadata"]["resourceVersion"]);
    assert_eq!(bench.stored("a")["apiVersion"], "example.org/v1");
    let again = bench.call("PUT", &format!("{NEW}/a"), &written.to_string()).ok();
    assert_eq!(again, written, "and nothing more");
    assert_eq!(bench.get(&format!("{OLD}/a"))["spec"], json!({"size": "3x4"}));
}

/// The schemas of the definition say what is kept of an answer.
#[test]
fn a_changed_definition_asks_anew() {
    let (mut bench, _) = Bench::with_sails("v1");
    bench.create(NEW, new("a", 3, 4));
    bench.lies(|response| response["convertedObjects"][0]["spec"]["area"] = 12.into());
    assert_eq!(bench.get(&format!("{OLD}/a"))["spec"], json!({"size": "3x4"}));
    let place = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/area";
    let added = json!([{"op": "add", "path": place, "value": {"type": "integer"}}]);
    let path = format!("{DEFINITIONS}/sails.example.org");
    bench.patch("json-patch+json", &path, &added.to_string()).ok();
    assert_eq!(bench.get(&format!("{OLD}/a"))["spec"], json!({"size": "3x4", "area": 12}));
}

#[test]
fn webhooks_of_admission_see_the_version_of_the_request_also_of_what_is_deleted() {
    let (mut bench, _) = Bench::with_sails("v1");
    let configuration = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": "v"},
        "webhooks": [{
            "name": "see.example.org",
            "clientConfig": {"url": "https://see.example.org/"},
            "rules": [{
                "apiGroups": ["example.org"], "apiVersions": ["v1alpha1"], "resources": ["sails"],
                "operations": ["*"],
            }],
            "matchPolicy": "Exact", "sideEffects": "None", "admissionReviewVersions": ["v1"],
        }],
    });
    let group = "/apis/admissionregistration.k8s.io/v1";
    bench.create(&format!("{group}/validatingwebhookconfigurations"), configuration);
    let seen = Asked::default();
    let all = Arc::clone(&seen);
    bench.webhooks = Box::new(move |question: &WebhookQuestion| {
        let review: Value = serde_json::from_slice(&question.body).unwrap();
        if review["kind"] == "ConversionReview" {
            return Ok(answered(&review, honest(&review)));
        }
        all.lock().unwrap().push(review["request"].clone());
        Ok(answered(&review, json!({"uid": review["request"]["uid"], "allowed": true})))
    });
    bench.create(OLD, old("a", "3x4"));
    bench.call("DELETE", &format!("{OLD}/a"), "").ok();
    bench.create(NEW, new("a", 1, 1));
    let seen = seen.lock().unwrap();
    assert_eq!(seen.len(), 2);
    assert_eq!(seen[0]["object"]["spec"], json!({"size": "3x4"}));
    assert_eq!(seen[1]["oldObject"]["spec"], json!({"size": "3x4"}));
    assert_eq!(seen[1]["oldObject"]["apiVersion"], "example.org/v1alpha1");
}

#[test]
fn one_version_alone_needs_no_webhook() {
    let mut bench = Bench::new();
    let mut one = definition("v1");
    one["spec"]["versions"].as_array_mut().unwrap().remove(0);
    bench.create(DEFINITIONS, one);
    bench.create(NEW, new("a", 1, 1));
    assert_eq!(bench.get(&format!("{NEW}/a"))["spec"], json!({"width": 1, "height": 1}));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// An object that a client writes in a version is what it reads in it, however it is stored,
    /// and in the other version it says the same.
    #[test]
    fn a_round_trip_through_the_other_version_loses_nothing(
        width in 0..1_000_i64, height in 0..1_000_i64, replicas in proptest::option::of(0..50_i64),
        label in "[a-z]{0,8}", stored_in_v1 in any::<bool>(), writes_v1 in any::<bool>(),
    ) {
        let stored = if stored_in_v1 { "v1" } else { "v1alpha1" };
        let (mut bench, _) = Bench::with_sails(stored);
        let (path, other) = if writes_v1 { (NEW, OLD) } else { (OLD, NEW) };
        let mut object = match writes_v1 {
            true => new("a", width, height),
            false => old("a", &format!("{width}x{height}")),
        };
        object["metadata"]["labels"] = json!({"l": label});
        if let Some(replicas) = replicas {
            object["spec"]["replicas"] = replicas.into();
        }
        let made = bench.create(path, object.clone());
        prop_assert_eq!(&made["spec"], &object["spec"]);
        prop_assert_eq!(&bench.get(&format!("{path}/a")), &made);
        let there = bench.get(&format!("{other}/a"));
        prop_assert_eq!(&there["metadata"], &made["metadata"]);
        let desired = &made["apiVersion"];
        prop_assert_eq!(&convert(there.clone(), desired)["spec"], &made["spec"]);
        // written back from the other version, it is the same
        bench.call("PUT", &format!("{other}/a"), &there.to_string()).ok();
        let back = bench.get(&format!("{path}/a"));
        prop_assert_eq!(&back["spec"], &made["spec"]);
        prop_assert_eq!(&back["metadata"]["generation"], &made["metadata"]["generation"]);
    }
}
