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

/// Only members of `oncall` open a shell in a pod; other commands are allowed.
const NO_SHELLS: &str = r#"
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: shells}
spec:
  matchConstraints:
    resourceRules:
    - {apiGroups: [""], apiVersions: [v1], operations: [CONNECT], resources: [pods/exec]}
  validations:
  - expression: "!('sh' in object.command) || 'oncall' in request.userInfo.groups"
    message: shells are for those on call
    reason: Forbidden
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: shells}
spec: {policyName: shells, validationActions: [Deny]}
---
apiVersion: v1
kind: Pod
metadata: {name: web}
spec:
  terminationGracePeriodSeconds: 0
  containers: [{name: one, image: localhost/host, command: [sleep, '1000000']}]
"#;

#[test]
fn a_policy_forbids_shells_in_pods() {
    let engine = Engine::start();
    engine.apply(NO_SHELLS);
    engine.wait_ready("web");
    assert_eq!(engine.kubectl(&["exec", "web", "--", "echo", "hello"]), "hello\n");
    let shell = ["exec", "web", "--", "sh", "-c", "echo hello"];
    let refused = engine.kubectl_fails(&shell, "");
    assert!(refused.contains("shells are for those on call"), "{refused}");
    let on_call = ["--as=ann", "--as-group=system:masters", "--as-group=oncall"];
    assert_eq!(engine.kubectl(&[&on_call[..], &shell[..]].concat()), "hello\n");
}
