//! Where the addresses and names of Services lead, from the node and from pods.

use std::net::{TcpListener, TcpStream};
use std::process::Command;
use std::time::{Duration, Instant};

use rekindle_testkit::guarded_child::GuardedChild;
use rekindle_testkit::ports::{answers, forwarded_port};
use rekindle_testkit::{Engine, text};

use crate::{ready, web};

/// Rules have to follow within this time.
const PATIENCE: Duration = Duration::from_secs(30);

/// A pod with a shell.
pub const SHELL: &str = "
apiVersion: v1
kind: Pod
metadata: {name: shell}
spec:
  terminationGracePeriodSeconds: 0
  containers: [{name: shell, image: localhost/host, command: [sleep, infinity]}]
";

fn in_shell(engine: &Engine, script: &str) -> String {
    engine.kubectl(&["exec", "shell", "--", "bash", "-c", script])
}

/// Asks a server from inside the pod.
pub fn asked_in_shell(engine: &Engine, host: &str, port: u16) -> String {
    in_shell(
        engine,
        &format!(
            "exec 3<>/dev/tcp/{host}/{port}; printf 'GET / HTTP/1.1\\r\\nHost: web\\r\\nConnection: close\\r\\n\\r\\n' >&3; head -n 1 <&3"
        ),
    )
}

fn tables() -> String {
    let listed = Command::new("nft").args(["list", "tables"]).output().unwrap();
    assert!(listed.status.success(), "{}", text(&listed.stderr));
    text(&listed.stdout)
}

#[test]
fn a_service_is_reached_by_address_name_and_port_of_the_node() {
    let engine = Engine::start();
    engine.apply(&web(2, 1));
    let (address, node_port) = ready(&engine);
    engine.apply(SHELL);
    engine.wait_ready("shell");
    let host_ip = engine.get("pod/shell")["status"]["hostIP"].as_str().unwrap().to_owned();
    for (host, port) in [(&*address, 80), ("127.0.0.1", node_port), (&*host_ip, node_port)] {
        assert!(answers(host, port), "from the node: {host}:{port}");
    }
    for (host, port) in [
        (&*address, 80),
        ("web", 80),
        ("web.default.svc.cluster.local", 80),
        (&*host_ip, node_port),
    ] {
        let answer = asked_in_shell(&engine, host, port);
        assert!(answer.starts_with("HTTP/1.1 200"), "from a pod: {host}:{port}: {answer}");
    }
    // the API, by its name and by what in-cluster clients are told
    in_shell(&engine, "exec 3<>/dev/tcp/kubernetes.default.svc/443");
    in_shell(&engine, "exec 3<>/dev/tcp/$KUBERNETES_SERVICE_HOST/$KUBERNETES_SERVICE_PORT");
    // and another Service; the Service web was there before the pod
    in_shell(&engine, "exec 3<>/dev/tcp/$WEB_SERVICE_HOST/$WEB_SERVICE_PORT");

    let mut forward = engine.kubectl_command(&["port-forward", "service/web", ":80"]);
    let mut forward = GuardedChild::start(&mut forward);
    let mut lines = forward.lines();
    let port = forwarded_port(&mut lines, 8080);
    assert!(answers("127.0.0.1", port), "kubectl port-forward");

    // without endpoints a connection is turned away at once, and gets there again with them
    engine.kubectl(&["scale", "deployment/web", "--replicas=0"]);
    engine.kubectl(&["wait", "--for=delete", "pod", "--selector=app=web", "--timeout=60s"]);
    let to = format!("{address}:80").parse().unwrap();
    let refused = TcpStream::connect_timeout(&to, Duration::from_secs(60)).unwrap_err();
    assert_eq!(refused.kind(), std::io::ErrorKind::ConnectionRefused);
    engine.kubectl(&["scale", "deployment/web", "--replicas=1"]);
    ready(&engine);
    assert!(answers(&address, 80));
}

/// kubernetes#139515: names went into comments, of which 128 bytes are the most, and one Service
/// with longer names kept the rules of all others from being written.
#[test]
fn names_of_any_length_stand_in_no_rule() {
    let engine = Engine::start();
    let (namespace, name, port) = ("n".repeat(63), "s".repeat(63), "p".repeat(15));
    engine.kubectl(&["create", "namespace", &namespace]);
    let service = format!(
        "---\napiVersion: v1\nkind: Service\nmetadata: {{name: {name}}}\nspec: {{selector: {{app: web}}, ports: [{{name: {port}, port: 80, targetPort: http}}]}}\n"
    );
    let manifest = format!("{}{service}", web(1, 1));
    engine.kubectl_with(&["apply", "--namespace", &namespace, "--filename=-"], &manifest);
    let in_namespace = ["--namespace", &namespace];
    let rollout = ["rollout", "status", "deployment/web", "--timeout=120s"];
    engine.kubectl(&[&rollout[..], &in_namespace].concat());
    let address = ["get", "service", &name, "--output=jsonpath={.spec.clusterIP}"];
    let address = engine.kubectl(&[&address[..], &in_namespace].concat());
    let begin = Instant::now();
    while !answers(&address, 80) {
        assert!(begin.elapsed() < PATIENCE, "the Service does not answer");
    }
    let table = format!("rekindle-{}", engine.bridge());
    let rules = Command::new("nft").args(["list", "table", "inet", &table]).output().unwrap();
    let rules = text(&rules.stdout);
    assert!(rules.contains(&address), "{rules}");
    for name in [namespace, name, port] {
        assert!(!rules.contains(&name), "{name} in {rules}");
    }
}

/// Rules come before sockets, as with kube-proxy: the process loses its clients.
#[test]
fn a_node_port_that_a_process_has_leads_to_the_service_and_is_named() {
    let engine = Engine::start();
    engine.apply(&web(1, 1));
    let (_, of_web) = ready(&engine);
    let mut ports = (30_000..32_768).rev().filter(|port| *port != of_web);
    let held = ports.find_map(|port| TcpListener::bind(("0.0.0.0", port)).ok()).unwrap();
    let port = held.local_addr().unwrap().port();
    engine.apply(&format!(
        "apiVersion: v1\nkind: Service\nmetadata: {{name: shadow}}\nspec: {{type: NodePort, selector: {{app: web}}, ports: [{{port: 80, targetPort: http, nodePort: {port}}}]}}\n"
    ));
    engine.wait_for_event("shadow", "PortConflict", &format!("Node port {port}/TCP"));
    let begin = Instant::now();
    while !answers("127.0.0.1", port) {
        assert!(begin.elapsed() < PATIENCE, "the Service does not answer at {port}");
    }
}

#[test]
fn rules_that_somebody_else_takes_away_are_back_and_go_with_the_engine() {
    let mut engine = Engine::start();
    engine.apply(&web(1, 1));
    let (address, _) = ready(&engine);
    let table = format!("table inet rekindle-{}", engine.bridge());
    assert!(tables().contains(&table), "{}", tables());
    engine.kill();
    assert!(answers(&address, 80), "the rules do not end with the engine");
    // the table has no owner now
    let deleted = Command::new("nft").arg(format!("delete {table}")).status().unwrap();
    assert!(deleted.success());
    engine.launch(&[]);
    while !answers(&address, 80) {
        assert!(tables().contains("table"), "no rules were written");
    }
    let down = engine.rekindle(&["down"]);
    assert!(down.status.success(), "{}", text(&down.stderr));
    engine.wait();
    assert!(!tables().contains(&table), "{}", tables());
}

#[test]
fn a_service_without_a_selector_leads_where_its_endpoints_say() {
    let engine = Engine::start();
    engine.apply(&web(1, 1));
    ready(&engine);
    let pod = engine.get("pods")["items"][0]["status"]["podIP"].as_str().unwrap().to_owned();
    engine.apply(
        "apiVersion: v1\nkind: Service\nmetadata: {name: out}\nspec: {ports: [{port: 81}]}\n",
    );
    let address = engine.get("service/out")["spec"]["clusterIP"].as_str().unwrap().to_owned();
    let to = format!("{address}:81").parse().unwrap();
    let refused = TcpStream::connect_timeout(&to, Duration::from_secs(60)).unwrap_err();
    assert_eq!(refused.kind(), std::io::ErrorKind::ConnectionRefused);
    let endpoints = |extra: &str| {
        format!(
            "apiVersion: v1\nkind: Endpoints\nmetadata: {{name: out{extra}}}\nsubsets: [{{addresses: [{{ip: {pod}}}], ports: [{{port: 8080}}]}}]\n"
        )
    };
    let until = |expected: bool| {
        let begin = Instant::now();
        while answers(&address, 81) != expected {
            assert!(begin.elapsed() < PATIENCE, "answers: {}", !expected);
        }
    };
    engine.apply(&endpoints(""));
    until(true);
    let slices = engine.get("endpointslices");
    let mut labels = slices["items"].as_array().unwrap().iter().map(|it| &it["metadata"]["labels"]);
    let of_out = labels.find(|labels| labels["kubernetes.io/service-name"] == "out").unwrap();
    let manager = &of_out["endpointslice.kubernetes.io/managed-by"];
    assert_eq!(manager, "endpointslicemirroring-controller.k8s.io");
    engine.apply(&endpoints(", labels: {endpointslice.kubernetes.io/skip-mirror: 'true'}"));
    until(false);
    engine.apply(&endpoints(", labels: {endpointslice.kubernetes.io/skip-mirror: 'false'}"));
    until(true);
    engine.kubectl(&["delete", "endpoints", "out"]);
    until(false);
}
