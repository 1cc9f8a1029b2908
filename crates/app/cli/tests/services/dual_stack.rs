//! Dual stack: pods and Services with addresses of both families, in real containers.

use std::fs;
use std::net::TcpStream;
use std::process::Command;
use std::time::{Duration, Instant};

use rekindle_testkit::ports::answers;
use rekindle_testkit::{Engine, text};
use serde_json::json;

use crate::{ready, replicas, web};

/// A policy has to hold within this time.
const PATIENCE: Duration = Duration::from_secs(30);
const FORWARDING: &str = "/proc/sys/net/ipv6/conf/all/forwarding";

/// A pod with a shell.
const SHELL: &str = "
apiVersion: v1
kind: Pod
metadata: {name: shell}
spec:
  terminationGracePeriodSeconds: 0
  containers:
  - name: shell
    image: localhost/host
    command: [sleep, infinity]
    env: [{name: IPS, valueFrom: {fieldRef: {fieldPath: status.podIPs}}}]
";

/// The servers listen at `::`, and their Service has both families.
pub fn dual_web(replicas: u8, grace_seconds: u8) -> String {
    let listening = web(replicas, grace_seconds).replace("[server, ", "[server, --address, '::', ");
    listening.replace("type: NodePort", "type: NodePort\n  ipFamilyPolicy: PreferDualStack")
}

fn in_shell(engine: &Engine, script: &str) -> String {
    engine.kubectl(&["exec", "shell", "--", "bash", "-c", script])
}

fn reaches(engine: &Engine, host: &str, port: u16) -> bool {
    let script =
        format!("timeout 2 bash -c 'exec 3<>/dev/tcp/{host}/{port}' && echo open || echo closed");
    in_shell(engine, &script).trim() == "open"
}

/// The second entry of a list in an object.
pub fn second(object: &serde_json::Value, pointer: &str) -> String {
    let list = object.pointer(pointer).and_then(|list| list.as_array()).unwrap();
    assert_eq!(list.len(), 2, "{pointer} of {object}");
    let entry = if list[1].is_string() { &list[1] } else { &list[1]["ip"] };
    entry.as_str().unwrap().to_owned()
}

#[test]
fn pods_and_services_are_reached_by_ipv6_and_everything_goes_with_the_engine() {
    let forwarding_before = fs::read_to_string(FORWARDING).unwrap();
    let mut engine = Engine::start_with(&["--dual-stack", "--nodes", "2"]);
    engine.apply(&dual_web(2, 1));
    let (address, node_port) = ready(&engine);
    let server = engine.get(&format!("pod/{}", replicas(&engine)[0]));
    engine.apply(SHELL);
    engine.wait_ready("shell");

    let service = second(&engine.get("service/web"), "/spec/clusterIPs");
    let shell = engine.get("pod/shell");
    let shell_ip = second(&shell, "/status/podIPs");
    let node_ip = second(&shell, "/status/hostIPs");
    let server_ip = second(&server, "/status/podIPs");
    for ip in [&service, &shell_ip, &node_ip, &server_ip] {
        assert!(ip.starts_with("fd52:"), "{ip}");
    }
    let node = &engine.get("nodes")["items"][0];
    let range = second(node, "/spec/podCIDRs");
    assert!(range.starts_with("fd52:"), "{range}");

    // each family beside the other, from the node and from a pod
    for host in [address.as_str(), &service] {
        assert!(answers(host, 80), "from the node: {host}");
        assert!(reaches(&engine, host, 80), "from a pod: {host}");
    }
    assert!(answers(&server_ip, 8080), "a pod from the node");
    assert!(reaches(&engine, &server_ip, 8080), "a pod from a pod");
    assert!(answers(&node_ip, node_port), "a port of the node");
    assert!(reaches(&engine, &node_ip, node_port), "a port of the node, from a pod");
    assert!(answers("127.0.0.1", node_port));

    // what the pod knows of itself and of names
    // both of the first family, as kubeadm has them
    let kubernetes = &engine.get("service/kubernetes")["spec"];
    let families = (&kubernetes["ipFamilyPolicy"], &kubernetes["ipFamilies"]);
    assert_eq!(families, (&json!("SingleStack"), &json!(["IPv4"])));
    assert_eq!(in_shell(&engine, "grep -c ^nameserver /etc/resolv.conf").trim(), "1");

    let ips = in_shell(&engine, "echo $IPS");
    assert!(ips.trim().ends_with(&format!(",{shell_ip}")), "{ips}");
    let hosts = in_shell(&engine, "cat /etc/hosts");
    assert!(hosts.contains(&format!("{shell_ip}\tshell\n")), "{hosts}");
    let found = in_shell(&engine, "getent ahostsv6 web.default.svc.cluster.local");
    assert!(found.contains(&service), "{found}");
    let name = in_shell(&engine, &format!("getent hosts {service}"));
    assert!(name.contains("web.default.svc.cluster.local"), "{name}");

    let slices = engine.get("endpointslices");
    let slices = slices["items"].as_array().unwrap().iter();
    let of_web =
        slices.filter(|it| it["metadata"]["labels"]["kubernetes.io/service-name"] == "web");
    let mut types: Vec<&str> = of_web.map(|it| it["addressType"].as_str().unwrap()).collect();
    types.sort_unstable();
    assert_eq!(types, ["IPv4", "IPv6"]);

    // without endpoints a connection is turned away at once
    engine.kubectl(&["scale", "deployment/web", "--replicas=0"]);
    engine.kubectl(&["wait", "--for=delete", "pod", "--selector=app=web", "--timeout=60s"]);
    let to = format!("[{service}]:80").parse().unwrap();
    let refused = TcpStream::connect_timeout(&to, Duration::from_secs(60)).unwrap_err();
    assert_eq!(refused.kind(), std::io::ErrorKind::ConnectionRefused);

    assert_eq!(fs::read_to_string(FORWARDING).unwrap().trim(), "1");
    let bridge = engine.bridge().to_owned();
    let down = engine.rekindle(&["down"]);
    assert!(down.status.success(), "{}", text(&down.stderr));
    engine.wait();
    let tables = Command::new("nft").args(["list", "tables"]).output().unwrap();
    assert!(!text(&tables.stdout).contains(&bridge), "{}", text(&tables.stdout));
    let routes = Command::new("ip").args(["-6", "route"]).output().unwrap();
    assert!(!text(&routes.stdout).contains(&bridge), "{}", text(&routes.stdout));
    if forwarding_before.trim() == "0" {
        // another test may need it still
        let others = fs::read_dir("/run/rekindle/forwarding-ipv6").unwrap();
        let others = others.flatten().filter(|file| file.file_name() != ".lock").count();
        if others == 0 {
            assert_eq!(fs::read_to_string(FORWARDING).unwrap(), forwarding_before);
        }
    }
}

#[test]
fn policies_hold_for_both_addresses_of_a_pod() {
    let engine = Engine::start_with(&["--dual-stack"]);
    engine.apply(&dual_web(1, 1));
    ready(&engine);
    engine.apply(SHELL);
    engine.wait_ready("shell");
    let service = second(&engine.get("service/web"), "/spec/clusterIPs");
    let shell_ip = second(&engine.get("pod/shell"), "/status/podIPs");
    let until = |expected: bool| {
        let begin = Instant::now();
        while reaches(&engine, &service, 80) != expected {
            assert!(begin.elapsed() < PATIENCE, "reached: {}", !expected);
        }
    };
    until(true);
    let policy = |spec: &str| {
        format!(
            "apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: {{name: p}}\nspec: {spec}\n"
        )
    };
    let from = |block: &str| {
        policy(&format!("{{podSelector: {{}}, ingress: [{{from: [{{ipBlock: {block}}}]}}]}}"))
    };
    engine.apply(&policy("{podSelector: {}, policyTypes: [Ingress]}"));
    until(false);
    engine.apply(&from(&format!("{{cidr: {shell_ip}/128}}")));
    until(true);
    engine.apply(&from(&format!("{{cidr: '::/0', except: ['{shell_ip}/128']}}")));
    until(false);
    engine.kubectl(&["delete", "networkpolicy", "p"]);
    until(true);
}
