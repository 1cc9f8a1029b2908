//! Policies that users write in CEL, with the real kubectl.

use rekindle_testkit::Engine;
use serde_json::json;

/// Deployments of the namespace `default` have at most three replicas, and a label that says who
/// owns them: `unknown` where there is none.
const POLICIES: &str = r#"
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: replicas}
spec:
  matchConstraints:
    resourceRules:
    - {apiGroups: [apps], apiVersions: [v1], operations: [CREATE, UPDATE], resources: [deployments]}
  validations:
  - expression: object.spec.replicas <= 3
    messageExpression: "'at most 3 replicas, not ' + string(object.spec.replicas)"
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: replicas}
spec:
  policyName: replicas
  validationActions: [Deny]
  matchResources: {namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: default}}}
---
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicy
metadata: {name: owner}
spec:
  matchConstraints:
    resourceRules:
    - {apiGroups: [apps], apiVersions: [v1], operations: [CREATE], resources: [deployments]}
  matchConditions:
  - name: without-owner
    expression: "!has(object.metadata.labels) || !('owner' in object.metadata.labels)"
  reinvocationPolicy: Never
  mutations:
  - patchType: ApplyConfiguration
    applyConfiguration:
      expression: 'Object{metadata: Object.metadata{labels: {"owner": "unknown"}}}'
---
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicyBinding
metadata: {name: owner}
spec:
  policyName: owner
  matchResources: {namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: default}}}
"#;

fn deployment(replicas: u32) -> String {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "web"},
        "spec": {
            "replicas": replicas, "paused": true,
            "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [{"name": "web", "image": "localhost/demo"}]},
            },
        },
    })
    .to_string()
}

#[test]
fn policies_hold_at_once_and_after_a_kill() {
    let mut engine = Engine::start();
    engine.apply(POLICIES);
    let apply = ["apply", "-f", "-"];
    let refused = engine.kubectl_fails(&apply, &deployment(4));
    let says = "ValidatingAdmissionPolicy 'replicas' with binding 'replicas' denied request: at \
                most 3 replicas, not 4";
    assert!(refused.contains(says), "{refused}");
    engine.apply(&deployment(2));
    let labels = engine.get("deployment/web")["metadata"]["labels"].clone();
    assert_eq!(labels["owner"], json!("unknown"));

    engine.kill();
    engine.launch(&[]);

    let refused = engine.kubectl_fails(&apply, &deployment(9));
    assert!(refused.contains("at most 3 replicas, not 9"), "{refused}");
    let listed = engine.kubectl(&["get", "validatingadmissionpolicies", "--no-headers"]);
    let row: Vec<_> = listed.split_whitespace().take(3).collect();
    assert_eq!(row, ["replicas", "1", "<unset>"], "{listed}");
}
