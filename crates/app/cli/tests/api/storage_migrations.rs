//! The end of an old version of a users' kind, with the real kubectl: another version is stored, a
//! StorageVersionMigration writes all objects again, and the old version leaves the definition.

use rekindle_testkit::{Engine, TIMEOUT};
use serde_json::json;

fn definition(versions: &[(&str, bool)]) -> String {
    let versions: Vec<_> = versions
        .iter()
        .map(|(name, is_stored)| {
            json!({
                "name": name, "served": true, "storage": is_stored,
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {
                    "spec": {"type": "object", "properties": {"size": {"type": "integer"}}}}}},
            })
        })
        .collect();
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "queues.example.org"},
        "spec": {
            "group": "example.org", "scope": "Namespaced", "versions": versions,
            "names": {"plural": "queues", "singular": "queue", "kind": "Queue"},
        },
    })
    .to_string()
}

fn queues() -> String {
    let queues: Vec<_> = (0..300)
        .map(|number| {
            json!({
                "apiVersion": "example.org/v1beta1", "kind": "Queue",
                "metadata": {"name": format!("queue-{number}")}, "spec": {"size": number},
            })
        })
        .collect();
    json!({"apiVersion": "v1", "kind": "List", "items": queues}).to_string()
}

const MIGRATION: &str = "
apiVersion: storagemigration.k8s.io/v1
kind: StorageVersionMigration
metadata: {name: queues}
spec: {resource: {group: example.org, resource: queues}}
";

/// The engine is killed while it writes, or just before or after: it goes on where it was.
#[test]
fn an_old_version_goes_once_all_objects_are_migrated_also_after_a_kill() {
    let mut engine = Engine::start();
    engine.apply(&definition(&[("v1beta1", true)]));
    engine.kubectl_with(&["create", "-f", "-"], &queues());
    engine.apply(&definition(&[("v1beta1", false), ("v1", true)]));
    let stored = ["get", "crd", "queues.example.org", "-o", "jsonpath={.status.storedVersions}"];
    assert_eq!(engine.kubectl(&stored), r#"["v1beta1","v1"]"#);
    let refused = engine.kubectl_fails(&["apply", "-f", "-"], &definition(&[("v1", true)]));
    assert!(refused.contains("status.storedVersions[0]"), "{refused}");

    engine.apply(MIGRATION);
    engine.kill();
    engine.launch(&[]);
    let over = ["wait", "--for=condition=Succeeded", "storageversionmigration/queues", TIMEOUT];
    engine.kubectl(&over);
    assert_eq!(engine.kubectl(&stored), r#"["v1"]"#);
    let table = engine.kubectl(&["get", "storageversionmigrations"]);
    assert!(table.contains("queues.example.org"), "{table}");

    engine.apply(&definition(&[("v1", true)]));
    let list = engine.get("queues.v1.example.org");
    assert_eq!(list["items"].as_array().unwrap().len(), 300);
    assert_eq!(engine.get("queue/queue-7")["spec"]["size"], 7);
}
