//! Where pods go, as a user of the real kubectl sees it. Other nodes than the first are objects
//! that nobody runs: what is bound to them stays Pending, which is all that the scheduler's side of
//! it needs.
use rekindle_testkit::{Engine, free_port};
use serde_json::json;

/// A pod that waits for its end, with more of its spec.
fn pod(name: &str, more: &str) -> String {
    format!(
        "
apiVersion: v1
kind: Pod
metadata: {{name: {name}, labels: {{app: {name}}}}}
spec:
  terminationGracePeriodSeconds: 1
  {more}
"
    )
}

fn server(ports: &str) -> String {
    format!(
        "containers: [{{name: c, image: localhost/demo, args: [server, --port, '8080'], ports: [{ports}]}}]"
    )
}

/// Nobody is missed who never says a word, however long the test takes.
const PATIENT: [&str; 2] = ["--node-monitor-grace-period", "1h"];

/// A node that has room and that nobody runs.
fn add_node(engine: &Engine, name: &str, zone: &str) {
    let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name,
        "labels": {"kubernetes.io/hostname": name, "zone": zone}}});
    engine.apply(&node.to_string());
    let room = json!({"cpu": "8", "memory": "16Gi", "pods": "110"});
    let status = json!({"status": {"allocatable": room, "capacity": room}}).to_string();
    engine.kubectl(&["patch", "node", name, "--subresource=status", "--type=merge", "-p", &status]);
}

#[test]
fn the_second_pod_with_a_port_of_the_node_waits_until_the_first_is_gone() {
    let engine = Engine::start();
    let port = free_port();
    let ports = server(&format!("{{containerPort: 8080, hostPort: {port}}}"));
    engine.apply(&pod("first", &ports));
    engine.wait_ready("first");
    engine.apply(&pod("second", &ports));
    engine.wait_for_event(
        "second",
        "FailedScheduling",
        "0/1 nodes are available: 1 node(s) didn't have free ports for the requested pod ports.",
    );
    engine.kubectl(&["delete", "pod", "first"]);
    engine.wait_ready("second");
}

#[test]
fn replicas_that_shun_each_other_go_to_one_node_each_and_a_new_revision_may_join_them() {
    let engine = Engine::start_with(&PATIENT);
    engine.kubectl(&["label", "node", "node-1", "zone=east"]);
    add_node(&engine, "other", "west");
    let deployment = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"},
        "spec": {
            "replicas": 3,
            "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {
                    "containers": [{"name": "c", "image": "localhost/demo",
                        "args": ["server", "--port", "8080"]}],
                    "affinity": {"podAntiAffinity": {
                        "requiredDuringSchedulingIgnoredDuringExecution": [{
                            "topologyKey": "zone",
                            "labelSelector": {"matchLabels": {"app": "web"}},
                            "matchLabelKeys": ["pod-template-hash"],
                        }]}},
                },
            },
        },
    });
    let said = engine.apply(&deployment.to_string());
    assert!(!said.contains("Warning"), "{said}");
    let waiting = "jsonpath={.status.conditions[?(@.type==\"PodScheduled\")].reason}=Unschedulable";
    let pending = || {
        let all = engine.get("pods");
        let pods = all["items"].as_array().unwrap().clone();
        let unplaced = pods.iter().filter(|pod| pod["spec"]["nodeName"].is_null());
        let names = unplaced.map(|pod| pod["metadata"]["name"].as_str().unwrap().to_owned());
        (pods.clone(), names.collect::<Vec<_>>())
    };
    engine.wait_for("deployment/web", ".status.replicas", "3");
    engine.wait_for("deployment/web", ".status.availableReplicas", "1");
    // one has a node that runs it, one the other node, and one has been looked at and found no
    // place
    let looked_at = "--for=jsonpath={.status.conditions[?(@.type==\"PodScheduled\")].status}";
    engine.kubectl(&["wait", "pods", "-l", "app=web", looked_at, rekindle_testkit::TIMEOUT]);
    let (_, names) = pending();
    let [third] = names.as_slice() else { panic!("one pod waits: {names:?}") };
    engine.kubectl(&[
        "wait",
        &format!("pod/{third}"),
        &format!("--for={waiting}"),
        rekindle_testkit::TIMEOUT,
    ]);
    engine.wait_for_event(
        third,
        "FailedScheduling",
        "0/2 nodes are available: 2 node(s) didn't match pod anti-affinity rules.",
    );
    let (pods, _) = pending();
    let terms = &pods[0]["spec"]["affinity"]["podAntiAffinity"];
    let selector = &terms["requiredDuringSchedulingIgnoredDuringExecution"][0]["labelSelector"];
    assert_eq!(selector["matchExpressions"][0]["key"], "pod-template-hash", "{selector}");
    let mut nodes: Vec<_> =
        pods.iter().filter_map(|pod| pod["spec"]["nodeName"].as_str()).collect();
    nodes.sort_unstable();
    assert_eq!(nodes, ["node-1", "other"]);
    add_node(&engine, "third", "north");
    engine.wait_for(&format!("pod/{third}"), ".spec.nodeName", "third");
}

#[test]
fn pods_are_spread_over_zones_and_say_so_when_they_cannot_be() {
    let engine = Engine::start_with(&PATIENT);
    engine.kubectl(&["label", "node", "node-1", "zone=east"]);
    add_node(&engine, "other", "west");
    let spread = |name: &str| {
        let constraint = "topologySpreadConstraints: [{maxSkew: 1, topologyKey: zone, whenUnsatisfiable: DoNotSchedule, labelSelector: {matchExpressions: [{key: app, operator: In, values: [one, two, three]}]}}]";
        pod(name, &format!("{constraint}\n  {}", server("")))
    };
    for (name, cordon) in [("one", "other"), ("two", "node-1")] {
        engine.kubectl(&["cordon", cordon]);
        let said = engine.apply(&spread(name));
        assert!(!said.contains("Warning"), "{said}");
        engine.kubectl(&[
            "wait",
            &format!("pod/{name}"),
            "--for=condition=PodScheduled",
            rekindle_testkit::TIMEOUT,
        ]);
        engine.kubectl(&["uncordon", cordon]);
    }
    engine.kubectl(&["delete", "pod", "two", "--force"]);
    engine.kubectl(&["cordon", "other"]);
    engine.apply(&spread("three"));
    engine.wait_for_event(
        "three",
        "FailedScheduling",
        "0/2 nodes are available: 1 node(s) didn't match pod topology spread constraints, 1 node(s) were unschedulable.",
    );
    engine.kubectl(&["uncordon", "other"]);
    engine.wait_for("pod/three", ".spec.nodeName", "other");
}

#[test]
fn a_gated_pod_says_so_and_goes_when_its_gates_are_gone() {
    let engine = Engine::start();
    let spec = format!("schedulingGates: [{{name: example.com/wait}}]\n  {}", server(""));
    engine.apply(&pod("gated", &spec));
    let pod = engine.get("pod/gated");
    let condition = &pod["status"]["conditions"][0];
    assert_eq!(condition["type"], "PodScheduled", "{pod}");
    assert_eq!(condition["status"], "False", "{pod}");
    assert_eq!(condition["reason"], "SchedulingGated", "{pod}");
    assert_eq!(condition["message"], "Scheduling is blocked due to non-empty scheduling gates");
    let row = engine.kubectl(&["get", "pod", "gated", "--no-headers"]);
    assert!(row.contains("SchedulingGated"), "{row}");
    let no_gates = r#"[{"op": "remove", "path": "/spec/schedulingGates"}]"#;
    engine.kubectl(&["patch", "pod", "gated", "--type=json", "-p", no_gates]);
    engine.wait_ready("gated");
}

/// Kubernetes documentation, "Pod Priority and Preemption".
#[test]
fn a_pod_of_higher_priority_takes_the_place_of_the_lowest_one_when_that_has_ended() {
    let engine = Engine::start();
    for (name, value, policy) in
        [("low", 1, "Never"), ("middle", 50, "Never"), ("high", 100, "PreemptLowerPriority")]
    {
        let class = json!({"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass",
            "metadata": {"name": name}, "value": value, "preemptionPolicy": policy});
        engine.apply(&class.to_string());
    }
    let millis = engine.cpu_millis();
    // Two of them fill the node.
    let pod = |name: &str, class: &str| {
        let resources = json!({"requests": {"cpu": format!("{}m", millis / 2)}});
        let spec = json!({"priorityClassName": class, "terminationGracePeriodSeconds": 1,
            "containers": [{"name": "c", "image": "localhost/demo", "resources": resources,
                "args": ["server", "--port", "8080"]}]});
        let pod =
            json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec});
        engine.apply(&pod.to_string())
    };
    let said = pod("weak", "low");
    assert!(!said.contains("priorityClassName"), "{said}");
    pod("kept", "middle");
    engine.wait_ready("weak");
    engine.wait_ready("kept");
    pod("patient", "middle");
    let never = "0/1 nodes are available: 1 Insufficient cpu. preemption: not eligible due to preemptionPolicy=Never.";
    engine.wait_for_event("patient", "FailedScheduling", never);
    pod("urgent", "high");
    engine.wait_for_event("weak", "Preempted", "on node node-1");
    engine.wait_ready("urgent");
    let pods = engine.get("pods");
    let names = pods["items"].as_array().unwrap().iter();
    let names: Vec<_> = names.map(|pod| pod["metadata"]["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["kept", "patient", "urgent"]);
    let urgent = engine.get("pod/urgent");
    assert!(urgent["status"]["nominatedNodeName"].is_null(), "{urgent}");
    let kept = engine.get("pod/kept");
    assert_eq!(kept["status"]["phase"], "Running", "{kept}");
}
