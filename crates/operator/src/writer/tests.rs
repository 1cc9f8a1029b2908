use std::sync::{Arc, Mutex};

use super::*;

/// Answers everything with a list, as a server does that is asked for an object without a name.
#[derive(Clone, Default)]
struct Lists {
    asked: Arc<Mutex<Vec<String>>>,
}

impl Transport for Lists {
    async fn send(&self, request: Request<Vec<u8>>) -> Answer {
        let asked = format!("{} {}", request.method(), request.uri());
        self.asked.lock().unwrap().push(asked);
        Answer::Object(json!({"kind": "PodList", "items": []}))
    }
}

fn pod(name: &str) -> ObjectId {
    ObjectId::new(Kind::Pod, NamespacedName::new("shop", name))
}

#[test]
fn a_name_that_is_no_segment_of_a_path_has_no_path() {
    for name in ["", ".", "..", "a/b", "../b", "a%2fb", "a?watch=true", "a#b"] {
        assert!(path(&pod(name), "").is_err(), "{name}");
    }
    let expected = "/api/v1/namespaces/shop/pods/web-0/status";
    assert_eq!(path(&pod("web-0"), "/status").as_deref(), Ok(expected));
    let message = path(&pod(""), "").map_err(|error| error.to_string());
    assert_eq!(message, Err("ask for Pod \"shop/\": that is no name of an object".to_owned()));
}

#[test]
fn a_kind_in_namespaces_has_no_path_without_one_and_no_other_kind_has_one_with_it() {
    let id = |kind, namespace: &str| ObjectId::new(kind, NamespacedName::new(namespace, "web"));
    for (kind, namespace, expected) in [
        (Kind::ConfigMap, "shop", Some("/api/v1/namespaces/shop/configmaps")),
        (Kind::ConfigMap, "", None),
        (Kind::ConfigMap, "..", None),
        (Kind::ConfigMap, "a/b", None),
        (Kind::Namespace, "", Some("/api/v1/namespaces")),
        (Kind::Namespace, "shop", None),
        (Kind::StorageClass, "shop", None),
    ] {
        let id = id(kind, namespace);
        assert_eq!(collection(&id).ok().as_deref(), expected, "{id}");
        let object = expected.map(|path| format!("{path}/web"));
        assert_eq!(path(&id, "").ok(), object, "{id}");
    }
}

#[tokio::test]
async fn what_has_no_namespace_is_neither_looked_for_nor_deleted_everywhere() {
    let lists = Lists::default();
    let writer = Writer::new(lists.clone());
    let id = ObjectId::new(Kind::ConfigMap, NamespacedName::new("", "settings"));
    for write in [
        Write::CheckAbsent { id: id.clone(), uid: None },
        Write::CheckEmpty { of: id.clone() },
        Write::DeleteAll { of: id },
    ] {
        let outcome = writer.carry_out(&write).await;
        assert!(
            matches!(&outcome, Outcome::Refused { refusal: Refusal::Other, message } if message.contains("no namespace")),
            "{write:?}: {outcome:?}"
        );
    }
    assert_eq!(*lists.asked.lock().unwrap(), Vec::<String>::new());
}

#[tokio::test]
async fn what_has_no_name_is_not_asked_for() {
    let lists = Lists::default();
    let writer = Writer::new(lists.clone());
    let patch = json!({"metadata": {}});
    for write in [
        Write::CheckAbsent { id: pod(""), uid: None },
        Write::Bind { pod: pod(""), uid: "u".to_owned(), node: "node-1".to_owned() },
        Write::Nominate { pod: pod(""), uid: "u".to_owned(), node: "node-1".to_owned() },
        Write::Patch { id: pod(""), part: Part::Status, patch },
        Write::Update(Object::from(Pod::default())),
    ] {
        let outcome = writer.carry_out(&write).await;
        assert!(
            matches!(&outcome, Outcome::Refused { refusal: Refusal::Other, message } if message.contains("no name")),
            "{write:?}: {outcome:?}"
        );
    }
    assert_eq!(*lists.asked.lock().unwrap(), Vec::<String>::new());
    let named = Write::CheckAbsent { id: pod("web-0"), uid: None };
    writer.carry_out(&named).await;
    assert_eq!(*lists.asked.lock().unwrap(), ["GET /api/v1/namespaces/shop/pods/web-0"]);
}

#[test]
fn a_budgets_refusal_is_told_with_the_causes_that_its_message_leaves_out() {
    let needs = "The disruption budget web needs 2 healthy pods and has 2 currently";
    let blocks = "disruption budget \"web\" lets no pod be evicted";
    for (message, causes, told, refusal) in [
        // as upstream's API answers, which names the budget in the cause alone
        (
            "It would violate it.",
            vec![needs],
            format!("It would violate it. {needs}"),
            Refusal::Budget,
        ),
        (
            &*format!("It would violate it. {needs}"),
            vec![needs],
            format!("It would violate it. {needs}"),
            Refusal::Budget,
        ),
        (
            &*format!("It would violate it. {needs}"),
            vec![needs, blocks],
            format!("It would violate it. {needs}; {blocks}"),
            Refusal::DeadlockedBudget,
        ),
        ("It would violate it.", vec![], "It would violate it.".to_owned(), Refusal::Budget),
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
        let outcome = refused(serde_json::from_value(status).unwrap());
        assert_eq!(outcome, Outcome::Refused { refusal, message: told });
    }
}
