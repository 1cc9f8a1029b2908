//! Admission webhooks with the real kubectl, and a real webhook server: one that changes objects
//! and refuses some, that does not answer, that lies, and that is gone.

use rekindle_testkit::Engine;
use serde_json::{Value, json};

use crate::webhook_server::WebhookServer;

/// A configuration with one webhook for new config maps of the namespace `default`.
fn configuration(kind: &str, name: &str, client: Value, more: Value) -> String {
    let mut webhook = json!({
        "name": format!("{name}.example.org"),
        "clientConfig": client,
        "rules": [{
            "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"],
            "operations": ["CREATE"],
        }],
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "default"}},
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
    });
    webhook.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": kind,
        "metadata": {"name": name}, "webhooks": [webhook],
    })
    .to_string()
}

fn config_map(name: &str) -> String {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}}).to_string()
}

const APPLY: [&str; 3] = ["apply", "-f", "-"];

#[test]
fn webhooks_change_and_refuse_what_users_write_also_after_a_kill() {
    let server = WebhookServer::start();
    let mut engine = Engine::start();
    let service = server.behind_service(&engine);
    let kind = "MutatingWebhookConfiguration";
    engine.apply(&configuration(kind, "label", service("/label"), json!({})));
    let kind = "ValidatingWebhookConfiguration";
    engine.apply(&configuration(kind, "check", service("/check"), json!({})));

    let made = engine.try_kubectl(&APPLY, &config_map("good"));
    let warning = String::from_utf8_lossy(&made.stderr);
    assert!(warning.contains("Warning: the hook has seen it"), "{warning}");
    assert_eq!(engine.get("configmap/good")["metadata"]["labels"]["seen-by"], "hook");
    let refused = engine.kubectl_fails(&APPLY, &config_map("bad"));
    let says = "admission webhook \"check.example.org\" denied the request: not this one";
    assert!(refused.contains(says), "{refused}");

    engine.kill();
    engine.launch(&[]);

    let refused = engine.kubectl_fails(&APPLY, &config_map("bad"));
    assert!(refused.contains(says), "{refused}");
}

#[test]
fn a_webhook_that_fails_refuses_or_is_passed_over_as_its_policy_says() {
    let server = WebhookServer::start();
    let engine = Engine::start();
    let kind = "ValidatingWebhookConfiguration";
    let gone = json!({"url": "https://127.0.0.1:1/x"});
    let untrusted = json!({"url": format!("https://localhost:{}/check", server.port)});
    for (name, client, says) in [
        ("slow", server.at("/slow"), "context deadline exceeded"),
        ("liar", server.at("/lie"), "expected response.uid="),
        ("gone", gone, "onnection refused"),
        ("untrusted", untrusted, "certificate"),
    ] {
        let fails = configuration(kind, name, client.clone(), json!({"timeoutSeconds": 1}));
        engine.apply(&fails);
        let refused = engine.kubectl_fails(&APPLY, &config_map(name));
        let prefix = format!("failed calling webhook \"{name}.example.org\"");
        assert!(refused.contains(&prefix) && refused.contains(says), "{refused}");
        let ignored = json!({"timeoutSeconds": 1, "failurePolicy": "Ignore"});
        engine.apply(&configuration(kind, name, client, ignored));
        engine.apply(&config_map(name));
        engine.kubectl(&["delete", "validatingwebhookconfiguration", name]);
    }
}
