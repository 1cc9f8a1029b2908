//! The audit log's webhook with the real kubectl and a real server: events come in batches, and
//! neither a slow nor a dead server delays a client.

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use rekindle_testkit::{Engine, text};
use serde_json::{Value, json};

use crate::webhook_server::WebhookServer;

const POLICY: &str = "
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- {level: Request, resources: [{resources: [configmaps]}], verbs: [create]}
- {level: None}
";

/// An engine whose events go to this server.
fn audited(server: &Value, more: &[&str]) -> Engine {
    let mut engine = Engine::prepare();
    let folder: PathBuf = engine.data_dir().to_owned();
    let (policy, config) = (folder.join("policy.yaml"), folder.join("audit-webhook.yaml"));
    fs::write(&policy, POLICY).unwrap();
    let kubeconfig = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "audit",
        "clusters": [{"name": "audit", "cluster": server}],
        "users": [{"name": "audit", "user": {"token": "secret"}}],
        "contexts": [{"name": "audit", "context": {"cluster": "audit", "user": "audit"}}],
    });
    fs::write(&config, kubeconfig.to_string()).unwrap();
    let (policy, config) = (policy.display().to_string(), config.display().to_string());
    let arguments = ["--audit-policy-file", &policy, "--audit-webhook-config-file", &config];
    engine.launch(&[&arguments[..], more].concat());
    engine
}

fn make(engine: &Engine, name: &str) {
    engine.kubectl(&["create", "configmap", name]);
}

/// The names of the objects of the events in these lists.
fn names(lists: &[Value]) -> Vec<String> {
    let events = lists.iter().flat_map(|list| list["items"].as_array().unwrap());
    let made = events.filter(|event| event["requestURI"].as_str().unwrap().contains("/default/"));
    made.map(|event| event["objectRef"]["name"].as_str().unwrap_or_default().to_owned()).collect()
}

#[test]
fn events_come_in_lists_and_a_stop_loses_none() {
    let server = WebhookServer::start();
    let at = json!({
        "server": format!("https://localhost:{}/audit", server.port),
        "certificate-authority-data": server.ca_bundle,
    });
    let mut engine = audited(&at, &["--audit-webhook-batch-max-wait", "1h"]);
    for index in 0..3 {
        make(&engine, &format!("m-{index}"));
    }
    let down = engine.rekindle(&["down"]);
    assert!(down.status.success(), "{}", text(&down.stderr));
    engine.wait();
    let lists = server.events.lock().unwrap();
    assert_eq!(names(&lists), ["m-0", "m-1", "m-2"]);
    let list = &lists[0];
    assert_eq!(
        (&list["kind"], &list["apiVersion"]),
        (&json!("EventList"), &json!("audit.k8s.io/v1"))
    );
    let event = &list["items"][0];
    assert_eq!((&event["level"], &event["verb"]), (&json!("Request"), &json!("create")));
    assert_eq!(event["requestObject"]["kind"], "ConfigMap");
}

#[test]
fn a_server_that_is_slow_or_gone_delays_no_client_and_losses_are_counted() {
    let server = WebhookServer::start();
    let slow = json!({
        "server": format!("https://localhost:{}/slow", server.port),
        "certificate-authority-data": server.ca_bundle,
    });
    let gone = json!({"server": "https://127.0.0.1:1/x"});
    for at in [slow, gone] {
        let more =
            ["--audit-webhook-batch-max-size", "1", "--audit-webhook-batch-buffer-size", "2"];
        let mut engine = audited(&at, &more);
        let begun = Instant::now();
        for index in 0..6 {
            make(&engine, &format!("m-{index}"));
        }
        assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
        let metrics = engine.kubectl(&["get", "--raw", "/metrics"]);
        let buffered = "apiserver_audit_error_total{plugin=\"buffered\"}";
        assert!(metrics.lines().any(|line| line.starts_with(buffered)), "{metrics}");
        let down = engine.rekindle(&["down"]);
        assert!(down.status.success(), "{}", text(&down.stderr));
        engine.wait();
    }
}
