//! Pod Security admission with the real kubectl: the pod that was root on the node in a namespace
//! that enforced `restricted` (issue 33).
use rekindle_testkit::{Engine, text};

const SHOP: &str = "
apiVersion: v1
kind: Namespace
metadata: {name: shop, labels: {pod-security.kubernetes.io/enforce: restricted}}
";

/// It listed the engine's keys.
const BREAKOUT: &str = "
apiVersion: v1
kind: Pod
metadata: {name: breakout, namespace: shop}
spec:
  containers:
  - name: app
    image: localhost/host
    command: [ls, /node/var/lib/rekindle/pki]
    securityContext: {privileged: true}
    volumeMounts: [{name: node, mountPath: /node}]
  volumes: [{name: node, hostPath: {path: /}}]
";

const WEB: &str = "
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: shop}
spec:
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers: [{name: app, image: localhost/demo, args: [server, --port, '8080']}]
";

const GOOD: &str = "
apiVersion: v1
kind: Pod
metadata: {name: good, namespace: shop}
spec:
  terminationGracePeriodSeconds: 1
  securityContext: {runAsNonRoot: true, runAsUser: 1000, seccompProfile: {type: RuntimeDefault}}
  containers:
  - name: app
    image: localhost/demo
    args: [server, --port, '8080']
    securityContext: {allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}
";

/// What kubectl says on standard error, when it must not fail.
fn warnings(engine: &Engine, arguments: &[&str], input: &str) -> String {
    let output = engine.try_kubectl(arguments, input);
    assert!(output.status.success(), "{}", text(&output.stderr));
    text(&output.stderr)
}

#[test]
fn a_namespace_that_enforces_restricted_lets_no_pod_be_root_on_the_node() {
    let engine = Engine::start();
    engine.apply(SHOP);
    let refused = engine.kubectl_fails(&["apply", "-f", "-"], BREAKOUT);
    assert!(
        refused.contains("pods \"breakout\" is forbidden: violates PodSecurity \"restricted:latest\": host image (container \"app\" must not use image \"localhost/host\"), privileged (container \"app\" must not set securityContext.privileged=true), allowPrivilegeEscalation != false"),
        "{refused}"
    );
    assert!(
        refused.contains(
            "restricted volume types (volume \"node\" uses restricted volume type \"hostPath\")"
        ),
        "{refused}"
    );

    // a workload is warned about; its pods are refused, and that is told
    let warned = warnings(&engine, &["apply", "-f", "-"], WEB);
    assert!(
        warned.contains("Warning: would violate PodSecurity \"restricted:latest\": allowPrivilegeEscalation != false (container \"app\" must set securityContext.allowPrivilegeEscalation=false)"),
        "{warned}"
    );
    let events = ["events", "-n", "shop", "--field-selector=reason=FailedCreate"];
    engine.until(&events, |events| {
        events.values().any(|event| {
            let message = event["message"].as_str().unwrap_or_default();
            message.starts_with("Error creating: pods \"web-")
                && message.contains("is forbidden: violates PodSecurity \"restricted:latest\"")
        })
    });
    assert_eq!(engine.kubectl(&["get", "pods", "-n", "shop", "-o", "name"]), "");

    // what asks for little runs, and gets no container with more beside it
    engine.apply(GOOD);
    engine.kubectl(&[
        "wait",
        "-n",
        "shop",
        "--for=condition=Ready",
        "pod/good",
        rekindle_testkit::TIMEOUT,
    ]);
    let debug = r#"{"spec":{"ephemeralContainers":[{"name":"debug","image":"localhost/host","command":["sh"]}]}}"#;
    let refused = engine.kubectl_fails(
        &["patch", "-n", "shop", "pod/good", "--subresource=ephemeralcontainers", "-p", debug],
        "",
    );
    assert!(refused.contains("host image (container \"debug\""), "{refused}");
    let metrics = engine.kubectl(&["get", "--raw", "/metrics"]);
    let denied = "pod_security_evaluations_total{decision=\"deny\",policy_level=\"restricted\",policy_version=\"latest\",mode=\"enforce\"";
    assert!(metrics.contains(denied), "{metrics}");
}

#[test]
fn a_file_sets_defaults_and_exemptions_for_all_namespaces() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("admission.yaml");
    std::fs::write(
        &file,
        "
apiVersion: apiserver.config.k8s.io/v1
kind: AdmissionConfiguration
plugins:
- name: PodSecurity
  configuration:
    apiVersion: pod-security.admission.config.k8s.io/v1
    kind: PodSecurityConfiguration
    defaults: {enforce: baseline, warn: restricted}
    exemptions: {namespaces: [kube-system]}
",
    )
    .unwrap();
    let engine = Engine::start_with(&["--admission-control-config-file", file.to_str().unwrap()]);
    let breakout = BREAKOUT.replace("namespace: shop", "namespace: default");
    let refused = engine.kubectl_fails(&["apply", "-f", "-"], &breakout);
    assert!(
        refused.contains("violates PodSecurity \"baseline:latest\": host image ("),
        "{refused}"
    );
    let plain = "{apiVersion: v1, kind: Pod, metadata: {name: plain}, spec: {containers: [{name: app, image: localhost/demo}]}}";
    let dry = ["apply", "--dry-run=server", "-f", "-"];
    let warned = warnings(&engine, &dry, plain);
    assert!(
        warned.contains("Warning: would violate PodSecurity \"restricted:latest\""),
        "{warned}"
    );
    let exempt = BREAKOUT.replace("namespace: shop", "namespace: kube-system");
    assert_eq!(warnings(&engine, &dry, &exempt), "");

    std::fs::write(&file, "apiVersion: v1\nkind: Pod\n").unwrap();
    let failed = Engine::prepare()
        .up_command(&["--admission-control-config-file", file.to_str().unwrap()])
        .output()
        .unwrap();
    assert!(!failed.status.success());
    let told = text(&failed.stderr);
    assert!(
        told.contains("read the admission configuration")
            && told.contains("must be AdmissionConfiguration"),
        "{told}"
    );
}
