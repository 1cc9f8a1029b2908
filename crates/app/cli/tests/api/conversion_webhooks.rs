//! Conversion webhooks with the real kubectl and a real webhook server: users of two versions of a
//! kind, a new storage version, and servers that are gone, slow or wrong.

use std::time::{Duration, Instant};

use rekindle_testkit::Engine;
use serde_json::{Value, json};

use crate::webhook_server::WebhookServer;

const APPLY: [&str; 3] = ["apply", "-f", "-"];
const APPLY_ON_SERVER: [&str; 4] = ["apply", "--server-side", "-f", "-"];

fn definition(stored: &str, client: &Value) -> String {
    let number = json!({"type": "integer"});
    let version = |name: &str, spec: Value, column: &str| {
        json!({
            "name": name, "served": true, "storage": name == stored,
            "additionalPrinterColumns": [
                {"name": "Shown", "type": "string", "jsonPath": format!(".spec.{column}")},
            ],
            "schema": {"openAPIV3Schema": {"type": "object", "properties": {
                "spec": {"type": "object", "properties": spec},
            }}},
        })
    };
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "sails.example.org"},
        "spec": {
            "group": "example.org", "scope": "Namespaced",
            "names": {"plural": "sails", "kind": "Sail"},
            "versions": [
                version("v1alpha1", json!({"size": {"type": "string"}}), "size"),
                version("v1", json!({"width": number, "height": number}), "height"),
            ],
            "conversion": {"strategy": "Webhook", "webhook": {
                "clientConfig": client, "conversionReviewVersions": ["v1", "v1beta1"],
            }},
        },
    })
    .to_string()
}

fn old(name: &str, size: &str) -> String {
    json!({
        "apiVersion": "example.org/v1alpha1", "kind": "Sail",
        "metadata": {"name": name}, "spec": {"size": size},
    })
    .to_string()
}

fn new(name: &str, width: i64, height: i64) -> String {
    json!({
        "apiVersion": "example.org/v1", "kind": "Sail",
        "metadata": {"name": name}, "spec": {"width": width, "height": height},
    })
    .to_string()
}

/// A watch of the new version that the server ends after so many seconds.
fn watch(seconds: u32) -> String {
    format!("/apis/example.org/v1/namespaces/default/sails?watch=1&timeoutSeconds={seconds}")
}

fn spec(engine: &Engine, version: &str, name: &str) -> Value {
    engine.get(&format!("sails.{version}.example.org/{name}"))["spec"].clone()
}

#[test]
fn two_versions_are_used_side_by_side_also_after_a_kill_and_with_a_new_storage_version() {
    let server = WebhookServer::start();
    let mut engine = Engine::start();
    let service = server.behind_service(&engine);
    engine.apply(&definition("v1alpha1", &service("/convert")));
    engine.apply(&old("by-old", "3x4"));
    engine.kubectl_with(&APPLY_ON_SERVER, &new("by-new", 5, 6));
    assert_eq!(spec(&engine, "v1", "by-old"), json!({"width": 3, "height": 4}));
    assert_eq!(spec(&engine, "v1alpha1", "by-new"), json!({"size": "5x6"}));
    let table = engine.kubectl(&["get", "sails.v1alpha1.example.org"]);
    assert!(table.contains("3x4") && table.contains("5x6"), "{table}");

    engine.apply(&definition("v1", &service("/convert")));
    let stored = &engine.get("crd/sails.example.org")["status"]["storedVersions"];
    assert_eq!(stored, &json!(["v1alpha1", "v1"]));
    engine.kill();
    engine.launch(&[]);
    let events = engine.kubectl(&["get", "--raw", &watch(2)]);
    let widths: Vec<Value> = events
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap())
        .map(|event| event["object"]["spec"]["width"].clone())
        .collect();
    assert_eq!(widths, [5, 3], "{events}");
    engine.apply(&old("by-old", "7x4"));
    assert_eq!(spec(&engine, "v1", "by-old"), json!({"width": 7, "height": 4}));
    engine.kubectl_with(&APPLY_ON_SERVER, &new("by-new", 5, 9));
    assert_eq!(spec(&engine, "v1alpha1", "by-new"), json!({"size": "5x9"}));
    let path = ["wait", "--for=jsonpath={.spec.size}=5x9", "sails.v1alpha1.example.org/by-new"];
    engine.kubectl(&[&path[..], &["--timeout=30s"]].concat());
}

#[test]
fn a_webhook_that_fails_stops_its_version_alone_and_no_deletion() {
    let server = WebhookServer::start();
    let engine = Engine::start();
    engine.apply(&definition("v1alpha1", &server.at("/convert")));
    engine.kubectl(&["create", "namespace", "sea"]);
    let in_sea = |name: &str| {
        let mut sail: Value = serde_json::from_str(&old(name, "1x1")).unwrap();
        sail["metadata"]["namespace"] = "sea".into();
        sail.to_string()
    };
    for name in ["a", "b"] {
        engine.apply(&old(name, "1x1"));
        engine.apply(&in_sea(name));
    }
    // an object that the collector takes with its owner
    let owner = engine.get("sails.v1alpha1.example.org/a")["metadata"]["uid"].clone();
    let mut owned: Value = serde_json::from_str(&old("owned", "2x2")).unwrap();
    owned["metadata"]["ownerReferences"] = json!([
        {"apiVersion": "example.org/v1", "kind": "Sail", "name": "a", "uid": owner},
    ]);
    engine.apply(&owned.to_string());
    for (name, client, says) in [
        ("gone", json!({"url": "https://127.0.0.1:1/x"}), "onnection refused"),
        ("liar", server.at("/convert-wrongly"), "invalid groupVersion"),
        ("admission", server.at("/lie"), "expected response.uid="),
    ] {
        engine.apply(&definition("v1", &client));
        let prefix = "conversion webhook for example.org/v1";
        let refused = engine.kubectl_fails(&["get", "sails.v1.example.org"], "");
        assert!(refused.contains(prefix) && refused.contains(says), "{name}: {refused}");
        let refused = engine.kubectl_fails(&APPLY, &old(name, "1x1"));
        assert!(refused.contains(prefix) && refused.contains(says), "{name}: {refused}");
        // what is stored in the version that is asked for needs no webhook
        let listed = engine.kubectl(&["get", "sails.v1alpha1.example.org", "-o", "name"]);
        assert_eq!(listed.lines().count(), 3, "{name}: {listed}");
    }
    // one that does not answer keeps no watch from its end
    engine.apply(&definition("v1", &server.at("/slow")));
    let begun = Instant::now();
    assert_eq!(engine.kubectl(&["get", "--raw", &watch(1)]), "");
    assert!(begun.elapsed() < Duration::from_secs(15), "{:?}", begun.elapsed());
    engine.apply(&definition("v1", &json!({"url": "https://127.0.0.1:1/x"})));
    engine.kubectl(&["delete", "namespace", "sea", "--timeout=60s"]);
    engine.kubectl(&["delete", "sails.v1alpha1.example.org", "a", "--timeout=60s"]);
    let gone = ["wait", "--for=delete", "sails.v1alpha1.example.org/owned", "--timeout=60s"];
    engine.kubectl(&gone);
    engine.kubectl(&["delete", "crd", "sails.example.org", "--timeout=60s"]);
}
