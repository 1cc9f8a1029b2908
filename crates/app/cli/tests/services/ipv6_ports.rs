//! Ports of the node at IPv6: those of pods (`hostPort`), and those that load balancers ask.

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use rekindle_testkit::ports::{answers, get};
use rekindle_testkit::{Engine, free_port, text};

use crate::dual_stack::{dual_web, second};
use crate::ready;

/// A port has to be served within this time.
const PATIENCE: Duration = Duration::from_secs(30);

/// Servers that listen in both families, on the node that the scheduler would choose.
fn server(engine: &Engine, name: &str, ports: &str) -> String {
    let node = engine.kubectl(&["get", "nodes", "-o", "jsonpath={.items[0].metadata.name}"]);
    format!(
        "
apiVersion: v1
kind: Pod
metadata: {{name: {name}}}
spec:
  nodeName: {node}
  terminationGracePeriodSeconds: 1
  containers:
  - name: server
    image: localhost/demo
    args: [server, --address, '::', --port, '8080']
    ports: [{ports}]
    readinessProbe: {{httpGet: {{port: 8080}}, periodSeconds: 1}}
"
    )
}

fn is_refused(host: &str, port: u16) -> bool {
    let to: SocketAddr = (host.parse::<std::net::IpAddr>().unwrap(), port).into();
    let refused = TcpStream::connect_timeout(&to, Duration::from_secs(60));
    refused.is_err_and(|error| error.kind() == std::io::ErrorKind::ConnectionRefused)
}

#[test]
fn a_host_port_is_served_in_both_families_and_a_host_ip_in_its_own() {
    let (everywhere, only_second, only_first) = (free_port(), free_port(), free_port());
    let mut engine = Engine::start_with(&["--dual-stack"]);
    let node = engine.get("nodes")["items"][0].clone();
    let addresses = node["status"]["addresses"].as_array().unwrap().iter();
    let mut internal = addresses.filter(|address| address["type"] == "InternalIP");
    let mut next = || internal.next().unwrap()["address"].as_str().unwrap().to_owned();
    let (first_ip, second_ip) = (next(), next());
    assert!(second_ip.starts_with("fd52:"), "{second_ip}");
    let ports = format!(
        "{{containerPort: 8080, hostPort: {everywhere}}}, \
         {{containerPort: 8080, name: second, hostPort: {only_second}, hostIP: '{second_ip}'}}, \
         {{containerPort: 8080, name: first, hostPort: {only_first}, hostIP: 0.0.0.0}}"
    );
    let web = server(&engine, "web", &ports);
    let applied = engine.try_kubectl(&["apply", "-f", "-"], &web);
    assert!(applied.status.success(), "{}", text(&applied.stderr));
    assert!(!text(&applied.stderr).contains("Warning"), "{}", text(&applied.stderr));
    engine.wait_ready("web");
    let pod_ip = second(&engine.get("pod/web"), "/status/podIPs");

    let check = |engine: &Engine| {
        for host in ["127.0.0.1", first_ip.as_str(), second_ip.as_str()] {
            assert!(answers(host, everywhere), "{host}");
        }
        assert!(answers(&second_ip, only_second) && is_refused(&first_ip, only_second));
        assert!(answers(&first_ip, only_first) && is_refused(&second_ip, only_first));
        for address in ["0.0.0.0", "::"] {
            TcpListener::bind((address, everywhere)).unwrap_err();
        }
        assert!(engine.get("pod/web")["status"]["phase"] == "Running");
    };
    check(&engine);
    // the next sandbox, and the next engine
    let restarted = engine.rekindle(&["restart", "pod/web", "--rung", "pod", "--wait"]);
    assert!(restarted.status.success(), "{}", text(&restarted.stderr));
    engine.wait_ready("web");
    assert_ne!(second(&engine.get("pod/web"), "/status/podIPs"), pod_ip);
    check(&engine);
    engine.kill();
    assert!(answers(&second_ip, everywhere), "rules lead there without an engine");
    engine.launch(&["--dual-stack"]);
    check(&engine);

    // what the kubelet refuses
    for (name, host_ip) in [("all", "'::'"), ("second", second_ip.as_str())] {
        let ports = format!("{{containerPort: 8080, hostPort: {everywhere}, hostIP: {host_ip}}}");
        engine.apply(&server(&engine, name, &ports));
        engine.wait_for(&format!("pod/{name}"), ".status.phase", "Failed");
        assert_eq!(engine.get(&format!("pod/{name}"))["status"]["reason"], "NodePorts");
    }
    engine.kubectl(&["delete", "pod", "web"]);
    assert!(is_refused(&second_ip, everywhere) && is_refused(&second_ip, only_second));
    TcpListener::bind(("::", everywhere)).unwrap();
}

#[test]
fn a_health_check_port_answers_in_the_families_of_its_service() {
    let engine = Engine::start_with(&["--dual-stack"]);
    engine.apply(&dual_web(1, 1));
    ready(&engine);
    let front = format!(
        "apiVersion: v1\nkind: Service\nmetadata: {{name: front}}\nspec: {{type: LoadBalancer, \
         externalTrafficPolicy: Local, ipFamilyPolicy: PreferDualStack, selector: {{app: web}}, \
         ports: [{{port: {}, targetPort: 8080}}]}}\n",
        free_port()
    );
    engine.apply(&front);
    let number = engine.get("service/front")["spec"]["healthCheckNodePort"].as_u64().unwrap();
    let port = u16::try_from(number).unwrap();
    let begin = Instant::now();
    while !(answers("127.0.0.1", port) && answers("::1", port)) {
        assert!(begin.elapsed() < PATIENCE, "port {port} does not answer in both families");
    }
    let answer = get("::1", port).unwrap();
    assert!(answer.contains("\"localEndpoints\":1"), "{answer}");
}

#[test]
fn without_dual_stack_events_name_the_ports_of_ipv6() {
    let engine = Engine::start();
    let ports = format!(
        "{{containerPort: 8080, hostPort: {}, hostIP: 'fd00::7'}}, \
         {{containerPort: 8080, name: loop, hostPort: {}, hostIP: '::1'}}",
        free_port(),
        free_port()
    );
    let applied = engine.try_kubectl(&["apply", "-f", "-"], &server(&engine, "web", &ports));
    let warned = text(&applied.stderr);
    assert!(applied.status.success() && warned.contains("no port of the node is opened at ::1"));
    engine.wait_ready("web");
    engine.wait_for_event("web", "FailedOpenPort", "[fd00::7]:");
}
