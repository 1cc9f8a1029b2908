//! Ports of the node that lead to pods, with real containers.
use std::net::TcpListener;
use std::process::Command;

use rekindle_testkit::ports::answers;
use rekindle_testkit::{Engine, free_port, text};

fn server(name: &str, ports: &str) -> String {
    format!(
        "
apiVersion: v1
kind: Pod
metadata: {{name: {name}}}
spec:
  nodeName: $NODE
  terminationGracePeriodSeconds: 5
  containers:
  - name: server
    image: localhost/demo
    args: [server, --port, '8080']
    ports: [{ports}]
    readinessProbe: {{httpGet: {{port: 8080}}, periodSeconds: 1}}
"
    )
}

/// How many of the bridge's ports there are; each lets in only what its pod may send.
fn guarded_ports(engine: &Engine) -> usize {
    let run = |program: &str, arguments: &str| {
        let output = Command::new(program).args(arguments.split(' ')).output().unwrap();
        text(&output.stdout)
    };
    let links = run("ip", &format!("-o link show master {}", engine.bridge()));
    let names = links.lines().filter_map(|line| line.split([' ', '@']).nth(1));
    let names: Vec<&str> = names.map(|name| name.trim_end_matches(':')).collect();
    for name in &names {
        let filters = run("tc", &format!("filter show dev {name} ingress"));
        // one that was deleted just now has none
        let is_gone = run("ip", &format!("-o link show {name}")).is_empty();
        assert!(is_gone || filters.contains("direct-action"), "{name}: {filters}");
    }
    names.len()
}

fn restart(engine: &Engine, rung: &str, time: u8) {
    let output = engine.rekindle(&["restart", "pod/web", "--rung", rung, "--wait"]);
    assert!(output.status.success(), "{}{}", text(&output.stdout), text(&output.stderr));
    engine.wait_for("pod/web", ".status.containerStatuses[0].restartCount", &time.to_string());
    engine.wait_ready("web");
}

#[test]
fn a_port_of_the_node_leads_to_its_pod_whatever_is_restarted_and_is_free_when_it_ends() {
    let (everywhere, local) = (free_port(), free_port());
    let mut engine = Engine::start();
    let node = engine.kubectl(&["get", "nodes", "-o", "jsonpath={.items[0].metadata.name}"]);
    let on_node = |manifest: String| manifest.replace("$NODE", &node);
    let ports = format!(
        "{{containerPort: 8080, hostPort: {everywhere}}}, {{containerPort: 8080, protocol: TCP, name: local, hostPort: {local}, hostIP: 127.0.0.1}}"
    );
    let output = engine.try_kubectl(&["apply", "-f", "-"], &on_node(server("web", &ports)));
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(!text(&output.stderr).contains("not enforced"), "{}", text(&output.stderr));
    engine.wait_ready("web");
    let host_ip = engine.get("pod/web")["status"]["hostIP"].as_str().unwrap().to_owned();
    assert!(answers("127.0.0.1", everywhere) && answers(&host_ip, everywhere));
    assert!(answers("127.0.0.1", local));
    assert!(!answers(&host_ip, local), "hostIP names the loopback only");

    let taken = TcpListener::bind(("127.0.0.1", everywhere)).unwrap_err();
    assert_eq!(taken.kind(), std::io::ErrorKind::AddrInUse, "no process gets what a pod has");

    let guarded = guarded_ports(&engine);
    assert!(guarded > 0);

    // no rung needs the port anew, and the new sandbox is where it leads
    let address = engine.get("pod/web")["status"]["podIP"].clone();
    restart(&engine, "pod", 1);
    assert_ne!(engine.get("pod/web")["status"]["podIP"], address);
    assert!(answers("127.0.0.1", everywhere) && answers("127.0.0.1", local));
    assert!(guarded_ports(&engine) > 0, "also of a sandbox that was made ahead");

    // whoever has the port keeps it: another pod fails at once, as with the kubelet
    let wanted = format!("{{containerPort: 8080, hostPort: {everywhere}}}");
    engine.apply(&on_node(server("late", &wanted)));
    engine.wait_for("pod/late", ".status.phase", "Failed");
    assert_eq!(engine.get("pod/late")["status"]["reason"], "NodePorts");
    engine.kubectl(&["delete", "pod", "late", "--now"]);
    assert!(answers("127.0.0.1", everywhere));

    // what a process of the machine has may be free again soon: the pod is told, and waits
    let foreign = TcpListener::bind("0.0.0.0:0").unwrap();
    let port = foreign.local_addr().unwrap().port();
    engine
        .apply(&on_node(server("patient", &format!("{{containerPort: 8080, hostPort: {port}}}"))));
    let told = format!("open port {port} of the node for TCP at 0.0.0.0");
    engine.wait_for_event("patient", "FailedCreatePodSandBox", &told);
    drop(foreign);
    engine.wait_ready("patient");
    engine.kubectl(&["delete", "pod", "patient", "--now"]);

    engine.kill();
    assert!(answers("127.0.0.1", everywhere), "rules lead there without an engine");
    engine.launch(&[]);
    assert!(answers("127.0.0.1", everywhere) && answers("127.0.0.1", local));
    TcpListener::bind(("127.0.0.1", everywhere)).unwrap_err();
    restart(&engine, "container", 2);
    assert!(answers("127.0.0.1", everywhere) && answers("127.0.0.1", local));

    engine.kubectl(&["delete", "pod", "web"]);
    for port in [everywhere, local] {
        TcpListener::bind(("127.0.0.1", port)).unwrap_or_else(|e| panic!("port {port}: {e}"));
    }
}
