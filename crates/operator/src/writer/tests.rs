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

#[tokio::test]
async fn what_has_no_name_is_not_asked_for() {
    let lists = Lists::default();
    let writer = Writer::new(lists.clone());
    let patch = json!({"metadata": {}});
    for write in [
        Write::CheckAbsent { id: pod(""), uid: None },
        Write::Bind { pod: pod(""), uid: "u".to_owned(), node: "node-1".to_owned() },
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
