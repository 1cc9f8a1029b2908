//! `--nodes auto`: a node comes when pods find no room, within the user's bounds, and goes when it
//! is not needed.
use rekindle_testkit::{Engine, TIMEOUT, text};

/// What the first node has for pods, in thousandths of a CPU.
fn cpu_millis(engine: &Engine) -> u64 {
    let node = engine.get("node/node-1");
    let cpu = node["status"]["allocatable"]["cpu"].as_str().unwrap().to_owned();
    match cpu.strip_suffix('m') {
        Some(millis) => millis.parse().unwrap(),
        None => cpu.parse::<u64>().unwrap() * 1000,
    }
}

/// Pods each of which has a node for itself.
fn web(request_millis: u64) -> String {
    format!(
        "
apiVersion: apps/v1
kind: Deployment
metadata: {{name: web}}
spec:
  replicas: 2
  selector: {{matchLabels: {{app: web}}}}
  template:
    metadata: {{labels: {{app: web}}}}
    spec:
      terminationGracePeriodSeconds: 0
      containers:
      - name: app
        image: localhost/demo
        args: [signal]
        resources: {{requests: {{cpu: {request_millis}m}}}}
"
    )
}

fn node_list(engine: &Engine) -> String {
    let list = engine.rekindle(&["node", "list"]);
    assert!(list.status.success(), "{}", text(&list.stderr));
    text(&list.stdout)
}

/// A pod that nobody makes again, and that its user lets go.
const SAFE_TO_EVICT: &str = r#"
apiVersion: v1
kind: Pod
metadata:
  name: alone
  annotations: {cluster-autoscaler.kubernetes.io/safe-to-evict: "true"}
spec:
  nodeName: node-1-2
  terminationGracePeriodSeconds: 0
  containers:
  - {name: app, image: localhost/demo, args: [signal]}
"#;

#[test]
fn a_node_comes_for_pods_without_room_and_goes_when_it_is_not_needed() {
    let mut engine = Engine::prepare();
    engine.launch(&["--nodes", "auto=1..2", "--scale-down-unneeded-time", "3s"]);
    let all = cpu_millis(&engine);
    let request = all * 6 / 10;
    engine.apply(&web(request));
    engine.kubectl(&["rollout", "status", "deployment/web", TIMEOUT]);
    let nodes = engine.kubectl(&["get", "pods", "-o", "jsonpath={.items[*].spec.nodeName}"]);
    let mut nodes: Vec<&str> = nodes.split_whitespace().collect();
    nodes.sort_unstable();
    assert_eq!(nodes, ["node-1", "node-1-2"]);

    // as many as the user wants, and no more
    engine.kubectl(&["scale", "deployment/web", "--replicas=3"]);
    engine.kubectl(&["wait", "--for=jsonpath={.status.replicas}=3", "deployment/web", TIMEOUT]);
    let waiting = engine.kubectl(&[
        "get",
        "pods",
        "--field-selector=status.phase=Pending",
        "-o",
        "jsonpath={.items[*].metadata.name}",
    ]);
    engine.wait_for_event(waiting.trim(), "NotTriggerScaleUp", "max node group size reached (2)");

    let why = format!("stays: {} % of it are asked for", request * 100 / all);
    engine.wait_for("node/node-1-2", ".metadata.annotations.rekindle\\.dev/scale-down", &why);
    let list = node_list(&engine);
    let told = |line: &str| line.starts_with(" node-1-2 ") && line.contains(&why);
    assert!(list.lines().any(told), "{list}");

    // nor does a pod keep it that is safe to evict
    engine.apply(SAFE_TO_EVICT);
    engine.wait_ready("alone");
    engine.kubectl(&["delete", "deployment/web", "--cascade=foreground", TIMEOUT]);
    engine.kubectl(&["wait", "--for=delete", "node/node-1-2", TIMEOUT]);
    engine.kubectl(&["wait", "--for=delete", "pod/alone", TIMEOUT]);
}
