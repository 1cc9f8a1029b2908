use k8s_openapi::api::core::v1::{Event, Pod};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Status;
use rekindle_controllers::events::EventWrite;
use rekindle_controllers::plan::{EvictWrite, PatchTarget, ScaleWrite};
use rekindle_controllers::{
    NamespacedName, ObjectId, ResourceKind, ViewObject, WriteOperation, WriteRefusal, WriteResult,
};
use rekindle_types::Term;
use serde_json::{Value, json};

use super::*;

fn pod(name: &str) -> ObjectId {
    ObjectId::new(ResourceKind::Pod, NamespacedName::new("shop", name))
}

#[test]
fn a_name_that_is_no_segment_of_a_path_has_no_path() {
    for name in ["", ".", "..", "a/b", "../b", "a%2fb"] {
        assert!(path(&pod(name), "").is_err(), "{name}");
    }
    let expected = "/api/v1/namespaces/shop/pods/web-0/status";
    assert_eq!(path(&pod("web-0"), "/status").as_deref(), Ok(expected));
    let expected = "/api/v1/namespaces/shop/pods/a%20b%3Fwatch%3Dtrue%23";
    assert_eq!(path(&pod("a b?watch=true#"), "").as_deref(), Ok(expected));
    let message = path(&pod(""), "").map_err(|error| error.to_string());
    assert_eq!(message, Err("ask for Pod \"shop/\": that is no name of an object".to_owned()));
}

#[test]
fn a_kind_in_namespaces_has_no_path_without_one_and_no_other_kind_has_one_with_it() {
    let id = |kind, namespace: &str| ObjectId::new(kind, NamespacedName::new(namespace, "web"));
    for (kind, namespace, expected) in [
        (ResourceKind::ConfigMap, "shop", Some("/api/v1/namespaces/shop/configmaps")),
        (ResourceKind::ConfigMap, "", None),
        (ResourceKind::ConfigMap, "..", None),
        (ResourceKind::ConfigMap, "a/b", None),
        (ResourceKind::Namespace, "", Some("/api/v1/namespaces")),
        (ResourceKind::Namespace, "shop", None),
        (ResourceKind::StorageClass, "shop", None),
    ] {
        let id = id(kind, namespace);
        assert_eq!(collection(&id).ok().as_deref(), expected, "{id}");
        let object = expected.map(|path| format!("{path}/web"));
        assert_eq!(path(&id, "").ok(), object, "{id}");
    }
}

/// The method and the path of a write's request.
fn asked(write: &WriteOperation, term: Option<&Term>) -> String {
    let request = request_for(write, term).unwrap();
    format!("{} {}", request.method(), request.uri())
}

/// What becomes of a write of which no request can be made.
fn unasked(write: &WriteOperation) -> WriteResult {
    request_for(write, None).expect_err("there is no request").outcome()
}

#[test]
fn what_has_no_namespace_is_neither_looked_for_nor_deleted_everywhere() {
    let id = ObjectId::new(ResourceKind::ConfigMap, NamespacedName::new("", "settings"));
    for write in [
        WriteOperation::CheckAbsent { id: id.clone(), uid: None },
        WriteOperation::CheckEmpty { of: id.clone() },
        WriteOperation::DeleteAll { of: id },
    ] {
        let outcome = unasked(&write);
        assert!(
            matches!(&outcome, WriteResult::Refused { refusal: WriteRefusal::Other, message } if message.contains("no namespace")),
            "{write:?}: {outcome:?}"
        );
    }
}

#[test]
fn what_has_no_name_is_not_asked_for() {
    let patch = json!({"metadata": {}});
    for write in [
        WriteOperation::CheckAbsent { id: pod(""), uid: None },
        WriteOperation::Bind { pod: pod(""), uid: "u".to_owned(), node: "node-1".to_owned() },
        WriteOperation::Nominate { pod: pod(""), uid: "u".to_owned(), node: "node-1".to_owned() },
        WriteOperation::Patch { id: pod(""), part: PatchTarget::Status, patch },
        WriteOperation::Update(ViewObject::from(Pod::default())),
    ] {
        let outcome = unasked(&write);
        assert!(
            matches!(&outcome, WriteResult::Refused { refusal: WriteRefusal::Other, message } if message.contains("no name")),
            "{write:?}: {outcome:?}"
        );
    }
    let named = WriteOperation::CheckAbsent { id: pod("web-0"), uid: None };
    assert_eq!(asked(&named, None), "GET /api/v1/namespaces/shop/pods/web-0");
}

/// The kind of a definition that is served.
fn custom_kind() -> ResourceKind {
    let definition: CustomResourceDefinition = serde_json::from_value(json!({
        "metadata": {"name": "kites.example.org"},
        "spec": {
            "group": "example.org", "scope": "Namespaced",
            "names": {"plural": "kites", "kind": "Kite"},
            "versions": [{"name": "v1", "served": true, "storage": true}],
        },
        "status": {"conditions": [{"type": "Established", "status": "True"}]},
    }))
    .unwrap();
    match ViewObject::from(definition) {
        ViewObject::CustomResourceDefinition(held) => ResourceKind::Custom(held.kind.unwrap()),
        other => panic!("another object: {}", other.id()),
    }
}

/// A webhook that converts custom objects is asked for none of these.
#[test]
fn of_custom_objects_no_more_is_asked_for_than_their_metadata() {
    let accepted = |write: &WriteOperation| {
        let request = request_for(write, None).unwrap();
        request.headers().get("accept").map(|accept| accept.to_str().unwrap().to_owned())
    };
    let writes = |id: &ObjectId| {
        let patch = json!({"metadata": {"finalizers": null}});
        [
            WriteOperation::CheckAbsent { id: id.clone(), uid: None },
            WriteOperation::Patch { id: id.clone(), part: PatchTarget::Whole, patch },
            WriteOperation::CheckEmpty { of: id.clone() },
            WriteOperation::DeleteAll { of: id.clone() },
        ]
    };
    let kite = ObjectId::new(custom_kind(), NamespacedName::new("shop", "a"));
    let forms: Vec<_> = writes(&kite).iter().map(|write| accepted(write).unwrap()).collect();
    let form = |kind: &str| format!("application/json;as={kind};g=meta.k8s.io;v=v1");
    let (one, all) = (form("PartialObjectMetadata"), form("PartialObjectMetadataList"));
    assert_eq!(forms, [one.clone(), one, all.clone(), all]);
    assert!(writes(&pod("web-0")).iter().all(|write| accepted(write).is_none()));
}

#[test]
fn a_scale_names_the_workload_and_the_version_that_it_was_decided_on() {
    let name = NamespacedName::new("shop", "web");
    let write = WriteOperation::Scale(ScaleWrite {
        target: ObjectId::new(ResourceKind::Deployment, name),
        uid: "u1".to_owned(),
        resource_version: "7".to_owned(),
        replicas: 4,
        change: 3,
        autoscaler: "u2".to_owned(),
    });
    let term: Term = "ns/lease/uid/2".parse().unwrap();
    let path = "/apis/apps/v1/namespaces/shop/deployments/web/scale";
    let expected = format!("PATCH {path}?leaderTerm=ns/lease/uid/2");
    assert_eq!(asked(&write, Some(&term)), expected);
    let body: Value = serde_json::from_slice(request_for(&write, None).unwrap().body()).unwrap();
    let precondition = json!({"uid": "u1", "resourceVersion": "7"});
    assert_eq!(body, json!({"metadata": precondition, "spec": {"replicas": 4}}));
    // the answer is a Scale, and no Deployment
    let scale = json!({"kind": "Scale", "metadata": {"name": "web", "resourceVersion": "8"}});
    assert_eq!(outcome_of_success(&write, scale.to_string().as_bytes()), WriteResult::Done);
}

#[test]
fn a_budgets_refusal_is_told_with_the_causes_that_its_message_leaves_out() {
    let needs = "The disruption budget web needs 2 healthy pods and has 2 currently";
    let evict = EvictWrite { pod: pod("web-0"), uid: "u".to_owned(), grace_seconds: None };
    let eviction = WriteOperation::Evict(evict);
    let blocks = "disruption budget \"web\" lets no pod be evicted";
    for (message, causes, told, refusal) in [
        // as upstream's API answers, which names the budget in the cause alone
        (
            "It would violate it.",
            vec![needs],
            format!("It would violate it. {needs}"),
            WriteRefusal::Budget,
        ),
        (
            &*format!("It would violate it. {needs}"),
            vec![needs],
            format!("It would violate it. {needs}"),
            WriteRefusal::Budget,
        ),
        (
            &*format!("It would violate it. {needs}"),
            vec![needs, blocks],
            format!("It would violate it. {needs}; {blocks}"),
            WriteRefusal::DeadlockedBudget,
        ),
        ("It would violate it.", vec![], "It would violate it.".to_owned(), WriteRefusal::Budget),
    ] {
        let causes: Vec<Value> = causes
            .iter()
            .map(|cause| {
                let reason = if *cause == blocks { "DeadlockedBudget" } else { "DisruptionBudget" };
                json!({"reason": reason, "message": cause, "field": ""})
            })
            .collect();
        let status = json!({"status": "Failure", "message": message, "reason": "TooManyRequests", "code": 429,
            "details": {"causes": causes}});
        let status: Status = serde_json::from_value(status).unwrap();
        let outcome = outcome_of_refusal(&eviction, status);
        assert_eq!(outcome, WriteResult::Refused { refusal, message: told });
    }
}

#[test]
fn a_404_shows_that_an_object_is_absent_only_if_it_names_it() {
    let check = WriteOperation::CheckAbsent { id: pod("web-0"), uid: Some("u".to_owned()) };
    for (details, is_absent) in [
        (json!({"name": "web-0", "kind": "pods"}), true),
        // a path that the server does not serve
        (json!({}), false),
        (Value::Null, false),
        (json!({"name": "shop", "kind": "namespaces"}), false),
    ] {
        let status = json!({"status": "Failure", "message": "could not find it", "reason": "NotFound",
            "code": 404, "details": details});
        let outcome = outcome_of_refusal(&check, serde_json::from_value(status).unwrap());
        let (refusal, message) = (WriteRefusal::Other, "could not find it".to_owned());
        let refused = WriteResult::Refused { refusal, message };
        let expected = if is_absent { WriteResult::Done } else { refused };
        assert_eq!(outcome, expected, "{details}");
    }
}

#[test]
fn a_request_that_changes_something_names_the_term_of_its_leader() {
    let term: Term = "ns/lease/uid/2".parse().unwrap();
    let patch = json!({"metadata": {}});
    let change = WriteOperation::Patch { id: pod("web-0"), part: PatchTarget::Whole, patch };
    let look = WriteOperation::CheckEmpty { of: pod("") };
    let path = "/api/v1/namespaces/shop/pods";
    assert_eq!(
        asked(&change, Some(&term)),
        format!("PATCH {path}/web-0?leaderTerm=ns/lease/uid/2")
    );
    assert_eq!(asked(&change, None), format!("PATCH {path}/web-0"));
    assert_eq!(asked(&look, Some(&term)), format!("GET {path}?limit=1"));
    let mut named = Pod::default();
    named.metadata.namespace = Some("shop".to_owned());
    let trial = WriteOperation::TryCreate(named.into());
    let asked = asked(&trial, Some(&term));
    assert_eq!(asked, format!("POST {path}?dryRun=All&leaderTerm=ns/lease/uid/2"));
}

#[test]
fn a_repeated_event_that_the_api_has_dropped_is_created_again() {
    let mut event = Event::default();
    event.metadata.name = Some("web-0.17".to_owned());
    event.metadata.namespace = Some("shop".to_owned());
    let asked = |write: &EventWrite| -> Vec<String> {
        let requests = event_requests(write, None).unwrap();
        requests.iter().map(|request| format!("{} {}", request.method(), request.uri())).collect()
    };
    let events = "/api/v1/namespaces/shop/events";
    let create = asked(&EventWrite::Create(event.clone().into()));
    assert_eq!(create, [format!("POST {events}")]);
    let repeat = asked(&EventWrite::Repeat(event.into()));
    assert_eq!(repeat, [format!("PATCH {events}/web-0.17"), format!("POST {events}")]);
}
