//! Admission webhooks, where the recorded conversations do not look: what they are asked, what they
//! change, and what becomes of a request when they refuse it, fail, or others write in between.

use std::sync::{Arc, Mutex};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use rekindle_api::admission_session::WebhookQuestion;
use rekindle_api::{ApiRequest, AuditNotes};
use rekindle_kinds::identity::UserInfo;
use rekindle_metrics::Text;
use serde_json::{Value, json};

use crate::definitions::{DEFINITIONS, definition, version};
use crate::harness::{Bench, CONFIG_MAPS, pod};

const GROUP: &str = "/apis/admissionregistration.k8s.io/v1";

/// A webhook for all writes of config maps, with these fields, too.
pub(super) fn webhook(name: &str, more: Value) -> Value {
    let mut webhook = json!({
        "name": format!("{name}.example.org"),
        "clientConfig": {"url": format!("https://{name}.example.org/review")},
        "rules": [{
            "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"],
            "operations": ["*"],
        }],
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
    });
    webhook.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    webhook
}

fn configuration(kind: &str, name: &str, webhooks: Value) -> Value {
    json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": kind,
        "metadata": {"name": name}, "webhooks": webhooks,
    })
}

/// The requests of the reviews that were sent, with the names of the webhooks.
pub(super) type Asked = Arc<Mutex<Vec<(String, Value)>>>;

impl Bench {
    pub(super) fn validating(&mut self, webhooks: Value) {
        let configuration = configuration("ValidatingWebhookConfiguration", "v", webhooks);
        self.create(&format!("{GROUP}/validatingwebhookconfigurations"), configuration);
    }

    pub(super) fn mutating(&mut self, webhooks: Value) {
        let configuration = configuration("MutatingWebhookConfiguration", "m", webhooks);
        self.create(&format!("{GROUP}/mutatingwebhookconfigurations"), configuration);
    }

    /// From now on webhooks say this; their `uid` is filled in.
    pub(super) fn say(
        &mut self,
        mut answer: impl FnMut(&str, &Value) -> Value + Send + Sync + 'static,
    ) -> Asked {
        let asked = Asked::default();
        let all = Arc::clone(&asked);
        self.webhooks = Box::new(move |question: &WebhookQuestion| {
            let review: Value = serde_json::from_slice(&question.body).unwrap();
            let name = question.webhook.split('.').next().unwrap().to_owned();
            let mut response = answer(&name, &review["request"]);
            response["uid"] = review["request"]["uid"].clone();
            all.lock().unwrap().push((name, review["request"].clone()));
            let answered = json!({
                "apiVersion": review["apiVersion"], "kind": review["kind"], "response": response,
            });
            Ok(answered.to_string().into())
        });
        asked
    }
}

pub(super) fn allowed() -> Value {
    json!({"allowed": true})
}

pub(super) fn patched(steps: Value) -> Value {
    json!({
        "allowed": true, "patchType": "JSONPatch", "patch": STANDARD.encode(steps.to_string()),
    })
}

fn names(asked: &Asked) -> Vec<String> {
    asked.lock().unwrap().iter().map(|(name, _)| name.clone()).collect()
}

#[test]
fn a_webhook_counts_from_the_answer_to_its_configuration_until_it_goes() {
    let mut bench = Bench::new();
    let asked = bench.say(|_, _| json!({"allowed": false, "status": {"message": "never"}}));
    assert_eq!(bench.make("a").0, 201);
    bench.validating(json!([webhook("no", json!({}))]));
    let (code, text) = bench.make("b");
    let refused = "admission webhook \"no.example.org\" denied the request: never";
    assert_eq!((code, text), (400, format!("400 : {refused}")));
    bench.call("DELETE", &format!("{GROUP}/validatingwebhookconfigurations/v"), "").ok();
    assert_eq!(bench.make("b").0, 201);
    assert_eq!(names(&asked), ["no"]);
}

#[test]
fn a_webhook_is_asked_with_the_whole_review() {
    let mut bench = Bench::new();
    let asked = bench.say(|_, _| allowed());
    bench.validating(json!([webhook("see", json!({}))]));
    let object = json!({"metadata": {"generateName": "a-"}, "data": {"k": "v"}});
    let made = bench.create(&format!("{CONFIG_MAPS}?fieldManager=me"), object);
    let name = made["metadata"]["name"].as_str().unwrap();
    let path = format!("{CONFIG_MAPS}/{name}");
    bench.patch("merge-patch+json", &path, r#"{"data":{"k":"w"}}"#).ok();
    bench.call("DELETE", &format!("{path}?gracePeriodSeconds=3"), "").ok();
    let asked = asked.lock().unwrap();
    let (made_with, changed_with, deleted_with) = (&asked[0].1, &asked[1].1, &asked[2].1);
    let mut without_version = made.clone();
    without_version["metadata"].as_object_mut().unwrap().remove("resourceVersion");
    assert_eq!(made_with["object"], without_version);
    assert_eq!(made_with["oldObject"], Value::Null);
    let kind = json!({"group": "", "version": "v1", "kind": "ConfigMap"});
    let resource = json!({"group": "", "version": "v1", "resource": "configmaps"});
    for (name, wanted) in [
        ("kind", kind.clone()),
        ("requestKind", kind),
        ("resource", resource.clone()),
        ("requestResource", resource),
        ("namespace", json!("default")),
        ("operation", json!("CREATE")),
        ("dryRun", json!(false)),
        (
            "options",
            json!({"apiVersion": "meta.k8s.io/v1", "kind": "CreateOptions", "fieldManager": "me"}),
        ),
    ] {
        assert_eq!(made_with[name], wanted, "{name}");
    }
    assert_eq!(made_with["userInfo"]["username"], "tester");
    assert_eq!(made_with["name"], made["metadata"]["name"]);
    assert_eq!(changed_with["operation"], "UPDATE");
    assert_eq!(changed_with["oldObject"], made);
    assert_eq!(changed_with["object"]["data"]["k"], "w");
    assert_eq!(deleted_with["operation"], "DELETE");
    assert_eq!(deleted_with["object"], Value::Null);
    assert_eq!(deleted_with["oldObject"]["data"]["k"], "w");
    assert_eq!(deleted_with["options"]["gracePeriodSeconds"], 3);
    let mut uids: Vec<&str> = asked.iter().map(|(_, r)| r["uid"].as_str().unwrap()).collect();
    uids.dedup();
    assert_eq!(uids.len(), 3, "each question has its own");
}

/// What a webhook changes in the version of a request, and how the object is made and looked at.
struct OtherVersion {
    path: &'static str,
    object: Value,
    /// A field that only this version has, and its value there.
    field: (&'static str, Value),
    stored: (&'static str, &'static str),
}

#[test]
fn a_webhook_sees_and_changes_objects_in_the_version_of_the_request() {
    let mut bench = Bench::new();
    let (colour, tail) =
        (json!({"colour": {"type": "string"}}), json!({"tail": {"type": "integer"}}));
    let versions = json!([version("v1", true, colour), version("v2", false, tail)]);
    bench.create(DEFINITIONS, definition(versions));
    let cases = [
        OtherVersion {
            path: "/apis/autoscaling/v1/namespaces/default/horizontalpodautoscalers",
            object: json!({
                "apiVersion": "autoscaling/v1", "kind": "HorizontalPodAutoscaler",
                "spec": {
                    "maxReplicas": 3, "targetCPUUtilizationPercentage": 10,
                    "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
                },
            }),
            field: ("/spec/targetCPUUtilizationPercentage", json!(55)),
            stored: (
                "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers/a",
                "/spec/metrics/0/resource/target/averageUtilization",
            ),
        },
        OtherVersion {
            path: "/apis/events.k8s.io/v1/namespaces/default/events",
            object: json!({
                "apiVersion": "events.k8s.io/v1", "kind": "Event", "type": "Normal",
                "eventTime": "2026-11-18T11:06:40.000000Z", "action": "Do", "reason": "Done",
                "reportingController": "c", "reportingInstance": "c-1", "note": "before",
                "regarding": {"kind": "Pod", "name": "p", "namespace": "default"},
            }),
            field: ("/note", json!("after")),
            stored: ("/api/v1/namespaces/default/events/a", "/message"),
        },
        OtherVersion {
            path: "/apis/example.org/v2/namespaces/default/kites",
            object: json!({
                "apiVersion": "example.org/v2", "kind": "Kite", "spec": {"tail": 1},
            }),
            field: ("/spec/tail", json!(7)),
            stored: ("/apis/example.org/v2/namespaces/default/kites/a", "/spec/tail"),
        },
    ];
    let all = json!({"rules": [{
        "apiGroups": ["autoscaling", "events.k8s.io", "example.org"], "apiVersions": ["*"],
        "resources": ["*"], "operations": ["*"],
    }]});
    bench.mutating(json!([webhook("change", all)]));
    for OtherVersion { path, mut object, field: (field, value), stored } in cases {
        object["metadata"] = json!({"name": "a", "namespace": "default"});
        let (of_field, changed) = (field.to_owned(), value.clone());
        let asked = bench.say(move |_, _| {
            patched(json!([{"op": "replace", "path": of_field, "value": changed}]))
        });
        let made = bench.create(path, object.clone());
        assert_eq!(made.pointer(field), Some(&value), "{path}");
        assert_eq!(bench.get(stored.0).pointer(stored.1), Some(&value), "{path}");
        let seen = &asked.lock().unwrap()[0].1["object"];
        assert_eq!(seen["apiVersion"], object["apiVersion"]);
        assert_eq!(seen.pointer(field), object.pointer(field), "{path}");
    }
}

/// Events are the same objects in both of their groups.
#[test]
fn a_rule_for_equivalent_requests_holds_in_the_other_group_too() {
    let mut bench = Bench::new();
    let core = |policy: &str| {
        json!({"matchPolicy": policy, "rules": [{
            "apiGroups": [""], "apiVersions": ["v1"], "resources": ["events"],
            "operations": ["CREATE"],
        }]})
    };
    let webhooks = [webhook("equivalent", core("Equivalent")), webhook("exact", core("Exact"))];
    bench.validating(json!(webhooks));
    let asked = bench.say(|_, _| allowed());
    let about = json!({"kind": "Pod", "name": "p", "namespace": "default"});
    let event = json!({
        "metadata": {"name": "a", "namespace": "default"}, "involvedObject": about,
    });
    bench.create("/api/v1/namespaces/default/events", event);
    assert_eq!(names(&asked), ["equivalent", "exact"]);
    let event = json!({
        "metadata": {"name": "b", "namespace": "default"}, "regarding": about, "type": "Normal",
        "eventTime": "2026-11-18T11:06:40.000000Z", "action": "Do", "reason": "Done",
        "reportingController": "c", "reportingInstance": "c-1",
    });
    bench.create("/apis/events.k8s.io/v1/namespaces/default/events", event);
    assert_eq!(names(&asked), ["equivalent", "exact", "equivalent"]);
}

#[test]
fn webhooks_change_objects_one_after_the_other_and_others_check_the_result() {
    let mut bench = Bench::new();
    bench.mutating(json!([
        webhook("first", json!({"reinvocationPolicy": "IfNeeded"})),
        webhook("second", json!({})),
    ]));
    bench.validating(json!([webhook("check", json!({})), webhook("look", json!({}))]));
    let asked = bench.say(|name, request| match name {
        "first" => {
            let seen = request["object"]["data"].as_object().map_or(0, serde_json::Map::len);
            patched(json!([{"op": "add", "path": "/data/first", "value": seen.to_string()}]))
        }
        "second" => patched(json!([
            {"op": "add", "path": "/data/second", "value": "x"},
            {"op": "replace", "path": "/metadata/uid", "value": "mine"},
            {"op": "replace", "path": "/metadata/name", "value": "mine"},
        ])),
        _ => allowed(),
    });
    let body = json!({"metadata": {"name": "a"}, "data": {"k": "v"}});
    let made = bench.create(CONFIG_MAPS, body);
    assert_eq!(made["data"], json!({"k": "v", "first": "3", "second": "x"}));
    assert_eq!(made["metadata"]["name"], "a");
    assert_ne!(made["metadata"]["uid"], "mine");
    assert_eq!(names(&asked), ["first", "second", "first", "check", "look"]);
    for (name, request) in &asked.lock().unwrap()[3..] {
        assert_eq!(request["object"]["data"], made["data"], "{name} sees the final object");
    }
    let managers = made["metadata"]["managedFields"].as_array().unwrap();
    assert_eq!(managers.len(), 1);
}

#[test]
fn a_webhook_may_make_no_invalid_object() {
    let mut bench = Bench::new();
    bench.mutating(json!([webhook("bad", json!({}))]));
    bench.say(|_, _| patched(json!([{"op": "add", "path": "/data", "value": {"a b": "v"}}])));
    let (code, text) = bench.make("a");
    assert_eq!(code, 422, "{text}");
    assert!(text.contains("data[a b]"), "{text}");
    bench.say(|_, _| patched(json!([{"op": "remove", "path": "/data/none"}])));
    assert_eq!(bench.make("a").0, 500);
    bench.say(|_, _| patched(json!([{"op": "add", "path": "/data", "value": "text"}])));
    assert_eq!(bench.make("a").0, 500);
}

#[test]
fn a_webhook_that_fails_counts_as_its_policy_says() {
    let mut bench = Bench::new();
    bench.validating(json!([webhook("gone", json!({}))]));
    let (code, text) = bench.make("a");
    assert_eq!(code, 500);
    assert_eq!(
        text,
        "500 InternalError: Internal error occurred: failed calling webhook \"gone.example.org\": failed to call \
         webhook: Post \"https://gone.example.org/review?timeout=10s\": connection refused"
    );
    bench.webhooks = Box::new(|_| Ok(Bytes::from_static(b"{}")));
    let (_, text) = bench.make("a");
    assert!(
        text.ends_with("received invalid webhook response: webhook response was absent"),
        "{text}"
    );
    bench.call("DELETE", &format!("{GROUP}/validatingwebhookconfigurations/v"), "").ok();
    bench.validating(json!([webhook("gone", json!({"failurePolicy": "Ignore"}))]));
    assert_eq!(bench.make("a").0, 201);
    bench.say(|_, _| json!({"allowed": false}));
    assert_eq!(bench.make("b").0, 400, "a refusal is no failure");
}

#[test]
fn rules_selectors_and_conditions_say_what_a_webhook_is_asked() {
    let mut bench = Bench::new();
    let asked = bench.say(|_, _| allowed());
    let condition =
        |expression: &str| json!({"matchConditions": [{"name": "c", "expression": expression}]});
    bench.validating(json!([
        webhook("labels", json!({"objectSelector": {"matchLabels": {"a": "b"}}})),
        webhook("space", json!({"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "kube-system"}}})),
        webhook("met", condition("object.metadata.name == 'a'")),
        webhook("unmet", condition("request.userInfo.username == 'else'")),
        webhook("broken", json!({
            "failurePolicy": "Ignore",
            "matchConditions": [{"name": "c", "expression": "object.metadata.labels.x == 'y'"}],
        })),
        webhook("none", json!({"rules": []})),
    ]));
    bench.make("a");
    assert_eq!(names(&asked), ["met"]);
    let labelled = json!({"metadata": {"name": "b", "labels": {"a": "b"}}});
    bench.create("/api/v1/namespaces/kube-system/configmaps", labelled);
    assert_eq!(names(&asked), ["met", "labels", "space"]);
    // a wrong configuration can always be taken back
    bench.say(|_, _| json!({"allowed": false}));
    bench.call("DELETE", &format!("{GROUP}/validatingwebhookconfigurations/v"), "").ok();
    let fails = json!({
        "matchConditions": [{"name": "c", "expression": "object.metadata.labels.x == 'y'"}],
    });
    bench.validating(json!([webhook("fails", fails)]));
    let (code, text) = bench.make("c");
    assert_eq!(code, 403, "{text}");
    assert!(text.contains("resulted in error"), "{text}");
}

#[test]
fn warnings_of_webhooks_reach_the_client_whatever_becomes_of_the_request() {
    let mut bench = Bench::new();
    bench.mutating(json!([webhook("change", json!({}))]));
    bench.validating(json!([webhook("check", json!({}))]));
    bench.say(|name, _| json!({"allowed": true, "warnings": [format!("{name} warns")]}));
    let (_, text) = bench.make("a");
    assert!(text.contains("change warns") && text.contains("check warns"), "{text}");
    bench
        .say(|name, _| json!({"allowed": name == "change", "warnings": [format!("{name} warns")]}));
    let (code, text) = bench.make("b");
    assert_eq!(code, 400);
    assert!(text.contains("change warns") && text.contains("check warns"), "{text}");
}

#[test]
fn warnings_about_what_goes_reach_the_client_although_a_later_object_may_not_go() {
    let mut bench = Bench::new();
    bench.make("a");
    bench.make("b");
    bench.mutating(json!([webhook("first", json!({}))]));
    bench.validating(json!([webhook("check", json!({}))]));
    bench.say(|name, request| {
        let object = request["name"].as_str().unwrap();
        let allowed = (name, object) != ("check", "b");
        json!({"allowed": allowed, "warnings": [format!("{name} warns of {object}")]})
    });
    let reply = bench.call("DELETE", CONFIG_MAPS, "");
    assert_eq!(reply.code(), 400);
    let text = reply.text();
    for warning in ["first warns of a", "check warns of a", "first warns of b", "check warns of b"]
    {
        assert!(text.contains(warning), "{warning}: {text}");
    }
}

#[test]
fn a_deletion_is_asked_about_and_cannot_be_changed() {
    let mut bench = Bench::new();
    bench.make("a");
    bench.make("b");
    bench.mutating(json!([webhook("change", json!({}))]));
    bench.validating(json!([webhook("check", json!({}))]));
    let asked = bench.say(|_, request| json!({"allowed": request["name"] != "b"}));
    assert_eq!(bench.call("DELETE", CONFIG_MAPS, "").code(), 400);
    bench.get(&format!("{CONFIG_MAPS}/a"));
    assert_eq!(names(&asked)[..2], ["change", "change"], "both objects are asked about at once");
    bench.say(|_, _| patched(json!([{"op": "add", "path": "/data", "value": {}}])));
    let reply = bench.call("DELETE", &format!("{CONFIG_MAPS}/a"), "");
    assert!(reply.text().contains("attempted to modify the object"), "{}", reply.text());
    bench.say(|_, _| allowed());
    bench.call("DELETE", CONFIG_MAPS, "").ok();
    assert_eq!(bench.call("GET", &format!("{CONFIG_MAPS}/a"), "").code(), 404);
}

#[test]
fn a_deletion_of_many_asks_about_all_of_them() {
    let mut bench = Bench::new();
    for index in 0..150 {
        bench.make(&format!("c-{index}"));
    }
    bench.validating(json!([webhook("check", json!({}))]));
    let asked = bench.say(|_, _| allowed());
    bench.call("DELETE", CONFIG_MAPS, "").ok();
    // the CA bundle of the namespace is one, too
    assert_eq!(asked.lock().unwrap().len(), 151);
}

#[test]
fn a_webhook_is_asked_again_when_another_wrote_in_between() {
    let mut bench = Bench::new();
    bench.make("a");
    bench.validating(json!([webhook("slow", json!({}))]));
    let path = format!("{CONFIG_MAPS}/a");
    let other = bench.request("PATCH", &path, r#"{"data":{"other":"1"}}"#);
    let asked = Asked::default();
    let (api, seen) = (bench.api.clone(), Arc::clone(&asked));
    let mut is_written = false;
    bench.webhooks = Box::new(move |question| {
        let review: Value = serde_json::from_slice(&question.body).unwrap();
        seen.lock().unwrap().push((String::new(), review["request"].clone()));
        if !is_written {
            is_written = true;
            // the other one is allowed at once
            let mut session = rekindle_api::admission_session::AdmissionSession::default();
            while let rekindle_api::RequestOutcome::Webhooks(questions) =
                api.handle_in(&other, &session)
            {
                session.answer(questions.iter().map(allow).collect());
            }
        }
        allow(question)
    });
    let changed = bench.patch("merge-patch+json", &path, r#"{"data":{"mine":"1"}}"#).ok();
    assert_eq!(changed["data"]["other"], "1");
    assert_eq!(changed["data"]["mine"], "1");
    let asked = asked.lock().unwrap();
    assert_eq!(asked.len(), 2);
    assert_eq!(asked[0].1["oldObject"]["data"].get("other"), None);
    assert_eq!(asked[1].1["oldObject"]["data"]["other"], "1", "it allows what is written");
}

fn allow(question: &WebhookQuestion) -> Result<Bytes, String> {
    let review: Value = serde_json::from_slice(&question.body).unwrap();
    let response = json!({"uid": review["request"]["uid"], "allowed": true});
    Ok(json!({
        "apiVersion": review["apiVersion"], "kind": review["kind"], "response": response,
    })
    .to_string()
    .into())
}

#[test]
fn a_webhook_behind_a_service_is_asked_at_a_ready_endpoint() {
    let mut bench = Bench::new();
    let service = json!({"service": {"name": "hook", "namespace": "default", "path": "/a/b"}});
    bench.validating(json!([webhook("in", json!({"clientConfig": service}))]));
    let targets = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&targets);
    bench.webhooks = Box::new(move |question| {
        seen.lock().unwrap().push(question.target.clone());
        Err("refused".to_owned())
    });
    bench.make("a");
    let port = json!({"port": 443, "targetPort": 8443});
    bench.create(
        "/api/v1/namespaces/default/services",
        json!({"metadata": {"name": "hook"}, "spec": {"ports": [port]}}),
    );
    bench.make("a");
    let slice = json!({
        "metadata": {"name": "hook-1", "labels": {"kubernetes.io/service-name": "hook"}},
        "addressType": "IPv4",
        "ports": [{"port": 8443}],
        "endpoints": [
            {"addresses": ["10.1.1.1"], "conditions": {"ready": false}},
            {"addresses": ["10.1.1.2"], "conditions": {"ready": true}},
        ],
    });
    bench.create("/apis/discovery.k8s.io/v1/namespaces/default/endpointslices", slice);
    bench.make("a");
    let targets = targets.lock().unwrap();
    let endpoints: Vec<_> = targets.iter().map(|target| target.endpoint.clone().unwrap()).collect();
    assert_eq!(
        endpoints,
        [
            Err("service \"hook\" not found".to_owned()),
            Err("no endpoints available for service \"hook\"".to_owned()),
            Ok("10.1.1.2:8443".parse().unwrap()),
        ]
    );
    assert_eq!(targets[2].url, "https://hook.default.svc:443/a/b?timeout=10s");
}

#[test]
fn users_of_the_server_itself_are_asked_about_like_all_others() {
    let mut bench = Bench::new();
    bench.validating(json!([webhook("no", json!({}))]));
    bench.say(|_, request| json!({"allowed": request["userInfo"]["username"] != "agent"}));
    let admin = UserInfo::internal("agent");
    assert_eq!(bench.as_user(admin, |bench| bench.make("a").0), 400);
    assert_eq!(bench.make("a").0, 201);
}

#[test]
fn what_webhooks_note_is_for_the_audit_log() {
    let mut bench = Bench::new();
    bench.say(|name, _| match name {
        "change" => {
            let mut answer = patched(json!([{"op": "add", "path": "/data/b", "value": "2"}]));
            answer["auditAnnotations"] = json!({"why": "a b is missing"});
            answer
        }
        _ => json!({"allowed": false, "auditAnnotations": {"why": "never"}}),
    });
    bench.mutating(json!([webhook("change", json!({}))]));
    bench.validating(json!([webhook("no", json!({}))]));
    let object = json!({"metadata": {"name": "a"}, "data": {"k": "v"}}).to_string();
    let notes = Arc::new(AuditNotes::default());
    let request = ApiRequest {
        notes: Some(Arc::clone(&notes)),
        ..bench.request("POST", CONFIG_MAPS, &object)
    };
    assert_eq!(bench.answer(&request).code, 400);
    let annotations: Vec<(String, String)> = notes.annotations().into_iter().collect();
    let pair = |key: &str, value: &str| (key.to_owned(), value.to_owned());
    assert_eq!(
        annotations,
        [
            pair("authorization.k8s.io/decision", "allow"),
            pair("authorization.k8s.io/reason", ""),
            pair("change.example.org/why", "a b is missing"),
            pair("no.example.org/why", "never"),
        ]
    );
}

#[test]
fn what_a_request_chooses_is_the_same_in_each_run() {
    let mut bench = Bench::new();
    let every = json!({"rules": [{
        "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*/*"], "operations": ["*"],
    }]});
    bench.validating(json!([webhook("see", every)]));
    let asked = bench.say(|_, _| allowed());
    let namespaced = "/api/v1/namespaces/default";
    let ports = json!([{"port": 80, "name": "a"}, {"port": 81, "name": "b"}]);
    let pod = json!({
        "metadata": {"generateName": "p-"},
        "spec": {"containers": [{"name": "c", "image": "localhost/demo"}]},
    });
    for (path, object) in [
        (
            "services",
            json!({"metadata": {"generateName": "s-"}, "spec": {"ports": ports, "type": "NodePort"}}),
        ),
        ("pods", pod),
        ("configmaps", json!({"metadata": {"generateName": "c-"}})),
    ] {
        asked.lock().unwrap().clear();
        let made = bench.create(&format!("{namespaced}/{path}"), object);
        let asked = asked.lock().unwrap();
        assert_eq!(asked.len(), 1, "{path}");
        assert_eq!(asked[0].1["object"]["spec"], made["spec"], "{path}");
        assert_eq!(asked[0].1["object"]["metadata"]["uid"], made["metadata"]["uid"]);
    }
    let namespace = json!({"metadata": {"name": "shop"}});
    bench.create("/api/v1/namespaces", namespace);
    assert_eq!(asked.lock().unwrap().last().unwrap().1["namespace"], "shop");
}

#[test]
fn the_second_round_counts_for_those_that_come_later_in_it() {
    let mut bench = Bench::new();
    let again = json!({"reinvocationPolicy": "IfNeeded"});
    let mut late = again.clone();
    late["objectSelector"] = json!({"matchLabels": {"late": "yes"}});
    bench.mutating(json!([
        webhook("late", late),
        webhook("first", again.clone()),
        webhook("second", again),
    ]));
    let asked = bench.say(|name, request| {
        let seen = request["object"]["data"].as_object().unwrap().len();
        let steps = json!([
            {"op": "add", "path": format!("/data/{name}-{seen}"), "value": "x"},
            {"op": "add", "path": "/metadata/labels", "value": {"late": "yes"}},
        ]);
        patched(steps)
    });
    let made = bench.create(CONFIG_MAPS, json!({"metadata": {"name": "a"}, "data": {"k": "v"}}));
    // the one that was not for the object at first is not asked, although its label has come
    assert_eq!(names(&asked), ["first", "second", "first", "second"]);
    let keys: Vec<&String> = made["data"].as_object().unwrap().keys().collect();
    assert_eq!(keys, ["first-1", "first-3", "k", "second-2", "second-4"]);
}

#[test]
fn a_refusal_of_an_apply_is_the_webhooks_whatever_its_code() {
    let mut bench = Bench::new();
    bench.validating(json!([webhook("no", json!({}))]));
    let config = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}});
    let apply = |bench: &mut Bench| {
        let path = format!("{CONFIG_MAPS}/a?fieldManager=me");
        let mut request = bench.request("PATCH", &path, &config.to_string());
        request.content_type = "application/apply-patch+yaml".to_owned();
        String::from_utf8(bench.answer(&request).body.to_vec()).unwrap()
    };
    let exists = json!({"code": 409, "reason": "AlreadyExists", "message": "taken"});
    let asked = bench.say(move |_, _| json!({"allowed": false, "status": exists.clone()}));
    assert!(apply(&mut bench).contains("denied the request: taken"));
    assert_eq!(asked.lock().unwrap().len(), 1);
    bench.say(|_, _| allowed());
    bench.make("a");
    let missing = json!({"code": 404, "reason": "NotFound", "message": "no tenant"});
    let asked = bench.say(move |_, _| json!({"allowed": false, "status": missing.clone()}));
    assert!(apply(&mut bench).contains("denied the request: no tenant"));
    assert_eq!(asked.lock().unwrap().len(), 1);
}

#[test]
fn a_deletion_of_many_asks_about_what_goes_also_while_writes_are_on_their_way() {
    let mut bench = Bench::new();
    bench.make("a");
    bench.validating(json!([webhook("keep", json!({}))]));
    bench.say(|_, _| allowed());
    // it is queued, and not durable yet
    let request = bench.request(
        "PATCH",
        &format!("{CONFIG_MAPS}/a"),
        r#"{"metadata":{"labels":{"keep":"yes"}}}"#,
    );
    assert!(matches!(bench.handle(&request), rekindle_api::RequestOutcome::Write(_)));
    bench.say(|_, request| {
        json!({"allowed": request["oldObject"]["metadata"]["labels"]["keep"] != "yes"})
    });
    assert_eq!(bench.call("DELETE", CONFIG_MAPS, "").code(), 400);
    bench.get(&format!("{CONFIG_MAPS}/a"));
}

#[test]
fn a_webhook_at_a_host_alone_has_the_path_of_its_root() {
    let mut bench = Bench::new();
    let client = json!({"clientConfig": {"url": "https://hook.example.org:8443"}});
    bench.validating(json!([webhook("root", client)]));
    let (_, text) = bench.make("a");
    assert!(text.contains("\"https://hook.example.org:8443/?timeout=10s\""), "{text}");
}

#[test]
fn pod_security_counts_requests_and_not_their_runs() {
    let mut bench = Bench::new();
    let pods = json!({"rules": [{
        "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"], "operations": ["CREATE"],
    }]});
    bench.mutating(json!([webhook("change", pods.clone())]));
    bench.validating(json!([webhook("check", pods)]));
    let asked = bench.say(|_, _| allowed());
    bench.create("/api/v1/namespaces/default/pods", pod("a"));
    assert_eq!(names(&asked), ["change", "check"], "it is handled three times");
    let mut text = Text::default();
    bench.api.write_admission_figures(&mut text);
    let text = text.into_string();
    let of_pods = |line: &&str| {
        line.starts_with("pod_security_evaluations_total{") && line.contains("resource=\"pod\"")
    };
    let counts: Vec<&str> = text.lines().filter(of_pods).collect();
    assert!(matches!(counts.as_slice(), [one] if one.ends_with(" 1")), "{counts:?}");
}
