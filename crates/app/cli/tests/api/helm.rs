//! A chart's whole life with the real helm.
use std::path::Path;

use rekindle_testkit::{Engine, text};

const TEMPLATE: &str = "
apiVersion: v1
kind: ConfigMap
metadata: {name: '{{ .Release.Name }}-config'}
data: {greeting: '{{ .Values.greeting }}'}
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: '{{ .Release.Name }}'}
---
apiVersion: v1
kind: Service
metadata: {name: '{{ .Release.Name }}'}
spec: {selector: {app: '{{ .Release.Name }}'}, ports: [{port: 80}]}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: '{{ .Release.Name }}'}
spec:
  replicas: {{ .Values.replicas }}
  selector: {matchLabels: {app: '{{ .Release.Name }}'}}
  template:
    metadata: {labels: {app: '{{ .Release.Name }}'}, annotations: {greeting: '{{ .Values.greeting }}'}}
    spec:
      terminationGracePeriodSeconds: 1
      containers:
      - {name: one, image: localhost/demo, args: [signal]}
---
apiVersion: rekindle.dev/v1alpha1
kind: RestartLadder
metadata: {name: '{{ .Release.Name }}'}
spec:
  selector: {matchLabels: {app: '{{ .Release.Name }}'}}
  rungs: [{rung: Container, attempts: 3}, {rung: Pod, attempts: 2}]
";

fn write_chart(folder: &Path) {
    std::fs::create_dir_all(folder.join("templates")).unwrap();
    std::fs::write(folder.join("Chart.yaml"), "{apiVersion: v2, name: shop, version: 0.1.0}")
        .unwrap();
    std::fs::write(folder.join("values.yaml"), "{replicas: 1, greeting: hello}").unwrap();
    std::fs::write(folder.join("templates/all.yaml"), TEMPLATE).unwrap();
}

#[track_caller]
fn helm(engine: &Engine, arguments: &[&str]) -> String {
    let output = engine.helm_command(arguments).output().unwrap();
    let printed = text(&output.stdout) + &text(&output.stderr);
    assert!(output.status.success(), "helm {arguments:?}: {printed}");
    printed
}

/// What helm waits for is enough replicas; a pod of the revision before may not be gone yet.
#[track_caller]
fn assert_release(engine: &Engine, replicas: i64, greeting: &str) {
    engine.until_one("deployment/web", |deployment| {
        let status = &deployment["status"];
        status["readyReplicas"] == replicas && status["updatedReplicas"] == replicas
    });
    assert_eq!(engine.get("configmap/web-config")["data"]["greeting"], greeting);
}

#[test]
fn a_chart_is_installed_upgraded_rolled_back_and_uninstalled() {
    let engine = Engine::start();
    let folder = tempfile::tempdir().unwrap();
    let chart = folder.path().join("chart");
    write_chart(&chart);
    let chart = chart.to_str().unwrap();
    let wait = ["--wait", rekindle_testkit::TIMEOUT];

    helm(&engine, &[&["install", "web", chart], &wait[..]].concat());
    assert_release(&engine, 1, "hello");
    assert!(helm(&engine, &["list"]).contains("deployed"));

    let values = ["--set", "replicas=2,greeting=bye"];
    helm(&engine, &[&["upgrade", "web", chart], &values[..], &wait[..]].concat());
    assert_release(&engine, 2, "bye");

    helm(&engine, &[&["rollback", "web", "1"], &wait[..]].concat());
    engine.kubectl(&["rollout", "status", "deployment/web", rekindle_testkit::TIMEOUT]);
    assert_release(&engine, 1, "hello");
    let history = helm(&engine, &["history", "web"]);
    assert!(history.contains("Rollback to 1"), "{history}");

    helm(&engine, &[&["uninstall", "web"], &wait[..]].concat());
    let left =
        engine.kubectl(&["get", "deployments,services,restartladders,secrets", "-o", "name"]);
    assert_eq!(left, "service/kubernetes\n", "helm's own records are gone, too");
}

/// helm applies by the server, so it owns what its charts say. Another owner of a field is a
/// conflict, which helm names.
#[test]
fn helm_owns_what_its_chart_says_and_names_who_else_does() {
    let engine = Engine::start();
    let folder = tempfile::tempdir().unwrap();
    write_chart(folder.path());
    let chart = folder.path().to_str().unwrap();
    helm(&engine, &["install", "web", chart]);
    let owners =
        engine.kubectl(&["get", "configmap/web-config", "--show-managed-fields", "-o", "yaml"]);
    assert!(owners.contains("manager: helm") && owners.contains("operation: Apply"), "{owners}");

    let by_hand =
        "{apiVersion: v1, kind: ConfigMap, metadata: {name: web-config}, data: {greeting: hand}}";
    let force = ["apply", "--server-side", "--force-conflicts", "--field-manager=hand", "-f", "-"];
    engine.kubectl_with(&force, by_hand);
    let upgrade = ["upgrade", "web", chart, "--set", "greeting=bye"];
    let output = engine.helm_command(&upgrade).output().unwrap();
    assert!(!output.status.success());
    let error = text(&output.stderr);
    assert!(error.contains("conflict with \"hand\": .data.greeting"), "{error}");
    helm(&engine, &[&upgrade[..], &["--force-conflicts"]].concat());
    assert_eq!(engine.get("configmap/web-config")["data"]["greeting"], "bye");
    helm(&engine, &["uninstall", "web"]);
}
