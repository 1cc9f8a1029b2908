//! Pods of a node are led to the endpoints of their node or zone, where the Service says so.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use rekindle_testkit::Engine;
use rekindle_testkit::ports::answers;

/// Rules have to follow within this time.
const PATIENCE: Duration = Duration::from_secs(30);

/// On each node a server that answers with the node's name, and a shell.
const PODS: &str = "
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: web}
spec:
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      nodeSelector: {serves: 'yes'}
      terminationGracePeriodSeconds: 1
      containers:
      - name: server
        image: localhost/demo
        args: [server, --port, '8080', --text, $(NODE)]
        env: [{name: NODE, valueFrom: {fieldRef: {fieldPath: spec.nodeName}}}]
        readinessProbe: {httpGet: {port: 8080}, periodSeconds: 1}
---
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: shell}
spec:
  selector: {matchLabels: {app: shell}}
  template:
    metadata: {labels: {app: shell}}
    spec:
      terminationGracePeriodSeconds: 0
      containers: [{name: shell, image: localhost/host, command: [sleep, infinity]}]
";

fn service(name: &str, more: &str) -> String {
    format!(
        "---\napiVersion: v1\nkind: Service\nmetadata: {{name: {name}}}\nspec: {{selector: {{app: web}}, ports: [{{port: 80, targetPort: 8080}}]{more}}}\n"
    )
}

/// What a pod of a node is answered, asked so often that each endpoint has answered.
fn answers_on(engine: &Engine, shell: &str, service: &str) -> BTreeSet<String> {
    let script = format!(
        "for n in {{1..30}}; do exec 3<>/dev/tcp/{service}/80; printf 'GET / HTTP/1.1\\r\\nHost: web\\r\\nConnection: close\\r\\n\\r\\n' >&3; tail -n 1 <&3; echo; done"
    );
    let answers = engine.kubectl(&["exec", shell, "--", "bash", "-c", &script]);
    answers.lines().filter(|line| !line.is_empty()).map(str::to_owned).collect()
}

fn until(what: &str, holds: impl Fn() -> bool) {
    let begin = Instant::now();
    while !holds() {
        assert!(begin.elapsed() < PATIENCE, "{what}");
    }
}

#[test]
fn pods_reach_the_endpoints_of_their_node_or_zone() {
    let engine = Engine::start_with(&["--nodes", "2"]);
    let nodes = engine.items("nodes");
    let nodes: Vec<&str> =
        nodes.iter().map(|node| node["metadata"]["name"].as_str().unwrap()).collect();
    for (node, zone) in nodes.iter().zip(["east", "west"]) {
        let zone = format!("topology.kubernetes.io/zone={zone}");
        engine.kubectl(&["label", "node", node, "serves=yes", &zone]);
    }
    let services = [
        service("all", ""),
        service("own", ", internalTrafficPolicy: Local"),
        service("zone", ", trafficDistribution: PreferSameZone"),
        service("node", ", trafficDistribution: PreferSameNode"),
    ];
    engine.apply(&format!("{PODS}{}", services.concat()));
    for set in ["daemonset/web", "daemonset/shell"] {
        engine.kubectl(&["rollout", "status", set, "--timeout=120s"]);
    }
    let pods = engine.items("pods");
    let shell_on = |node: &str| {
        let on_node = pods.iter().filter(|pod| pod["spec"]["nodeName"] == node);
        let mut names = on_node.map(|pod| pod["metadata"]["name"].as_str().unwrap());
        names.find(|name| name.starts_with("shell")).unwrap()
    };
    let everyone: BTreeSet<String> = nodes.iter().map(|node| (*node).to_owned()).collect();
    for node in &nodes {
        let shell = shell_on(node);
        until("all endpoints answer", || answers_on(&engine, shell, "all") == everyone);
        for service in ["own", "zone", "node"] {
            let own = BTreeSet::from([(*node).to_owned()]);
            until(service, || answers_on(&engine, shell, service) == own);
        }
    }
    // a zone that is not said: hints are for none of its endpoints, so they do not count
    engine.kubectl(&["label", "node", nodes[1], "topology.kubernetes.io/zone-"]);
    let (first, second) = (shell_on(nodes[0]), shell_on(nodes[1]));
    until("zones do not count", || answers_on(&engine, first, "zone") == everyone);
    // the other node has one still: it is preferred, or the only one that may be asked
    engine.kubectl(&["label", "node", nodes[0], "serves=no", "--overwrite"]);
    let other = BTreeSet::from([nodes[1].to_owned()]);
    for service in ["all", "zone", "node"] {
        until(service, || answers_on(&engine, first, service) == other);
    }
    assert_eq!(answers_on(&engine, second, "own"), other);
    let dropped = "timeout 1 bash -c 'exec 3<>/dev/tcp/own/80'; echo $?";
    let dropped = engine.kubectl(&["exec", first, "--", "bash", "-c", dropped]);
    assert_eq!(dropped.trim(), "124", "it is not refused");
    // the machine is all nodes
    let address = engine.get("service/own")["spec"]["clusterIP"].as_str().unwrap().to_owned();
    assert!(answers(&address, 80));
}
