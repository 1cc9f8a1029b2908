//! Server-side apply with the real kubectl.

use rekindle_testkit::{Engine, text};
use serde_json::Value;

const DEPLOYMENT: &str = "
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, labels: {app: web}}
spec:
  replicas: 1
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      terminationGracePeriodSeconds: 1
      containers:
      - {name: one, image: localhost/demo, args: [signal]}
";

const APPLY: [&str; 4] = ["apply", "--server-side", "-f", "-"];

/// The owners of an object, as `manager operation subresource`.
fn owners(engine: &Engine, what: &str) -> Vec<String> {
    let shown = engine.kubectl(&["get", what, "--show-managed-fields", "-o", "json"]);
    let object: Value = serde_json::from_str(&shown).unwrap();
    let entries = object["metadata"]["managedFields"].as_array().unwrap().clone();
    let text = |entry: &Value, field| entry[field].as_str().unwrap_or_default().to_owned();
    let entries = entries.iter().map(|entry| {
        let parts = ["manager", "operation", "subresource"].map(|field| text(entry, field));
        parts.join(" ").trim_end().to_owned()
    });
    entries.collect()
}

#[test]
fn owners_of_a_deployment_share_it_and_conflict_by_name() {
    let engine = Engine::start();
    let applied = engine.kubectl_with(&APPLY, DEPLOYMENT);
    assert_eq!(applied, "deployment.apps/web serverside-applied\n");
    engine.kubectl(&["rollout", "status", "deployment/web", rekindle_testkit::TIMEOUT]);
    let version = |object: &Value| object["metadata"]["resourceVersion"].clone();
    let before = engine.until_one("deployment/web", |web| web["status"]["readyReplicas"] == 1);
    engine.kubectl_with(&APPLY, DEPLOYMENT);
    assert_eq!(version(&engine.get("deployment/web")), version(&before), "nothing was written");
    let known = owners(&engine, "deployment/web");
    assert_eq!(known[0], "kubectl Apply");
    assert!(known.iter().any(|owner| owner.ends_with("Update status")), "{known:?}");

    let scaled = DEPLOYMENT.replace("replicas: 1", "replicas: 2");
    let other = [&APPLY[..], &["--field-manager=scaler"]].concat();
    let error = engine.kubectl_fails(&other, &scaled);
    let conflict = "Apply failed with 1 conflict: conflict with \"kubectl\": .spec.replicas";
    assert!(error.contains(conflict), "{error}");
    let diff = engine.kubectl_command(&["diff", "--server-side", "-f", "-"]);
    let diff = diff_of(diff, &scaled);
    assert!(diff.contains("-  replicas: 1") && diff.contains("+  replicas: 2"), "{diff}");
    engine.kubectl_with(&[&other[..], &["--force-conflicts"]].concat(), &scaled);
    let error = engine.kubectl_fails(&APPLY, DEPLOYMENT);
    assert!(error.contains("conflict with \"scaler\": .spec.replicas"), "{error}");

    // kubectl gives replicas up, and keeps what scaler set
    engine.kubectl_with(&APPLY, &DEPLOYMENT.replace("  replicas: 1\n", ""));
    assert_eq!(engine.get("deployment/web")["spec"]["replicas"], 2);
}

/// Runs `kubectl diff`, which exits with 1 when there is a difference.
fn diff_of(mut command: std::process::Command, manifest: &str) -> String {
    use std::io::Write;
    use std::process::Stdio;
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(manifest.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));
    text(&output.stdout)
}

#[test]
fn client_side_apply_is_taken_over_by_the_server() {
    let engine = Engine::start();
    let map = "{apiVersion: v1, kind: ConfigMap, metadata: {name: a}, data: {x: '1', y: '1'}}";
    engine.kubectl_with(&["apply", "-f", "-"], map);
    assert_eq!(owners(&engine, "configmap/a"), ["kubectl-client-side-apply Update"]);
    let next = "{apiVersion: v1, kind: ConfigMap, metadata: {name: a}, data: {x: '2'}}";
    engine.kubectl_with(&APPLY, next);
    let data = &engine.get("configmap/a")["data"];
    assert_eq!(data, &serde_json::json!({"x": "2"}), "y was applied before, and is no longer");
    let known = owners(&engine, "configmap/a");
    assert!(known.contains(&"kubectl Apply".to_owned()), "{known:?}");
}
