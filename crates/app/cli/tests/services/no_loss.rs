//! Connections under load, while pods end and are restarted. None of them has a preStop hook or
//! sleeps before it stops to listen: the rules are gone before the stop signal (P15).

use rekindle_testkit::load::Load;
use rekindle_testkit::{Engine, text};

use crate::dual_stack::{dual_web, second};
use crate::{ready, replicas, web};

fn restart(engine: &Engine, pod: &str, rung: &str) {
    let output = engine.rekindle(&["restart", &format!("pod/{pod}"), "--rung", rung, "--wait"]);
    assert!(output.status.success(), "{}{}", text(&output.stdout), text(&output.stderr));
    engine.wait_ready(pod);
}

#[test]
fn a_rollout_and_restarts_of_each_replica_lose_no_connection() {
    let engine = Engine::start();
    engine.apply(&web(2, 10));
    let (address, node_port) = ready(&engine);
    let (by_address, by_port) = (Load::start(&address, 80), Load::start("127.0.0.1", node_port));
    by_address.until_answered(100);
    by_port.until_answered(100);
    for rung in ["pod", "containers"] {
        for pod in replicas(&engine) {
            restart(&engine, &pod, rung);
            by_address.until_answered(100);
        }
    }
    engine.kubectl(&["rollout", "restart", "deployment/web"]);
    ready(&engine);
    for pod in replicas(&engine) {
        engine.kubectl(&["delete", "pod", &pod]);
        ready(&engine);
    }
    by_address.until_answered(100);
    for load in [by_address, by_port] {
        let result = load.stop();
        assert!(
            result.lost.is_empty(),
            "{} of {}: {:?}",
            result.lost.len(),
            result.answered,
            result.lost.first()
        );
    }
}

#[test]
fn a_replica_that_makes_room_for_a_pod_of_higher_priority_loses_no_connection() {
    let engine = Engine::start();
    // two replicas fill the node
    let millis = engine.cpu_millis() / 2;
    let image = "image: localhost/demo\n";
    let requests = format!("{image}        resources: {{requests: {{cpu: {millis}m}}}}\n");
    engine.apply(&web(2, 10).replace(image, &requests));
    let (address, _) = ready(&engine);
    let load = Load::start(&address, 80);
    load.until_answered(100);
    engine.apply(&format!(
        "
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata: {{name: high}}
value: 100
---
apiVersion: v1
kind: Pod
metadata: {{name: urgent}}
spec:
  priorityClassName: high
  containers:
  - name: server
    {image}    args: [server, --port, '8080']
    resources: {{requests: {{cpu: {millis}m}}}}
"
    ));
    engine.wait_ready("urgent");
    load.until_answered(100);
    let result = load.stop();
    assert!(result.lost.is_empty(), "{}: {:?}", result.lost.len(), result.lost.first());
}

/// With a Service whose connections wait for up to a minute: a restart may take longer than two
/// seconds where many tests run at once.
fn patient(manifest: &str) -> String {
    let service = "kind: Service\nmetadata: {name: web";
    assert!(manifest.contains(service));
    let annotations = "annotations: {rekindle.dev/hold-connections: 1m}";
    manifest.replace(service, &format!("{service}, {annotations}"))
}

/// Connections wait until it is ready again.
#[test]
fn restarts_of_the_only_replica_lose_no_connection() {
    let engine = Engine::start();
    engine.apply(&patient(&web(1, 10)));
    let (address, node_port) = ready(&engine);
    let (by_address, by_port) = (Load::start(&address, 80), Load::start("127.0.0.1", node_port));
    for rung in ["pod", "containers"] {
        by_address.until_answered(100);
        restart(&engine, &replicas(&engine).remove(0), rung);
    }
    for load in [by_address, by_port] {
        load.until_answered(100);
        let result = load.stop();
        assert!(result.lost.is_empty(), "{}: {:?}", result.lost.len(), result.lost.first());
    }
}

/// The order of the end is one for both addresses of a pod: rolling restarts, and the only replica.
#[test]
fn restarts_lose_no_connection_of_either_family() {
    let engine = Engine::start_with(&["--dual-stack"]);
    engine.apply(&patient(&dual_web(2, 10)));
    let (address, _) = ready(&engine);
    let second = second(&engine.get("service/web"), "/spec/clusterIPs");
    let loads = [Load::start(&second, 80), Load::start(&address, 80)];
    loads[0].until_answered(100);
    engine.kubectl(&["rollout", "restart", "deployment/web"]);
    ready(&engine);
    engine.kubectl(&["scale", "deployment/web", "--replicas=1"]);
    ready(&engine);
    loads[0].until_answered(100);
    for rung in ["pod", "containers"] {
        restart(&engine, &replicas(&engine).remove(0), rung);
        loads[0].until_answered(100);
    }
    for load in loads {
        let result = load.stop();
        assert!(result.lost.is_empty(), "{}: {:?}", result.lost.len(), result.lost.first());
    }
}

/// `rekindle.dev/hold-connections` counts whatever the reason.
#[test]
fn a_connection_to_a_service_without_pods_waits_for_the_first_one() {
    let engine = Engine::start();
    engine.apply(&patient(&web(0, 1)));
    let address = engine.get("service/web")["spec"]["clusterIP"].as_str().unwrap().to_owned();
    let load = Load::start(&address, 80);
    engine.kubectl(&["scale", "deployment/web", "--replicas=1"]);
    load.until_answered(4);
    let result = load.stop();
    assert!(result.lost.is_empty(), "{}: {:?}", result.lost.len(), result.lost.first());
}

#[test]
fn who_connects_to_a_pod_past_its_service_loses_connections_when_it_ends() {
    let engine = Engine::start();
    engine.apply(&web(1, 10));
    ready(&engine);
    let pod = replicas(&engine).remove(0);
    let address = engine.get(&format!("pod/{pod}"))["status"]["podIP"].as_str().unwrap().to_owned();
    let load = Load::start(&address, 8080);
    load.until_answered(100);
    restart(&engine, &pod, "pod");
    assert!(!load.stop().lost.is_empty(), "the measurement cannot fail");
}

#[test]
fn connections_go_on_while_no_engine_runs_and_when_the_next_one_starts() {
    let mut engine = Engine::start();
    engine.apply(&web(2, 10));
    let (address, _) = ready(&engine);
    let load = Load::start(&address, 80);
    load.until_answered(100);
    engine.kill();
    load.until_answered(100);
    engine.launch(&[]);
    load.until_answered(100);
    // the next engine knows which pods it has to withdraw
    for pod in replicas(&engine) {
        restart(&engine, &pod, "pod");
    }
    let result = load.stop();
    assert!(result.lost.is_empty(), "{:?}", result.lost.first());
}

#[test]
fn pods_of_a_further_node_are_withdrawn_before_they_end_too() {
    let engine = Engine::start_with(&["--nodes", "2"]);
    engine.apply(&web(2, 10));
    engine.kubectl(&[
        "patch", "deployment/web", "--type=json",
        "--patch=[{\"op\": \"add\", \"path\": \"/spec/template/spec/topologySpreadConstraints\", \"value\": [{\"maxSkew\": 1, \"topologyKey\": \"kubernetes.io/hostname\", \"whenUnsatisfiable\": \"DoNotSchedule\", \"labelSelector\": {\"matchLabels\": {\"app\": \"web\"}}}]}]",
    ]);
    let (address, _) = ready(&engine);
    let load = Load::start(&address, 80);
    load.until_answered(100);
    let mut nodes: Vec<String> = Vec::new();
    for pod in replicas(&engine) {
        let node =
            engine.get(&format!("pod/{pod}"))["spec"]["nodeName"].as_str().unwrap().to_owned();
        nodes.push(node);
        restart(&engine, &pod, "pod");
        load.until_answered(100);
    }
    let result = load.stop();
    nodes.sort();
    nodes.dedup();
    assert!(nodes.len() > 1, "{nodes:?}");
    assert!(result.lost.is_empty(), "{:?}", result.lost.first());
}
