//! Pods on the node's own network, and in its IPC namespace, with real containers.
use std::collections::BTreeMap;
use std::fs::{self, File};

use rekindle_testkit::guarded_child::GuardedChild;
use rekindle_testkit::ports::{answers, forwarded_port};
use rekindle_testkit::{Engine, free_port, process, text};

const UNPRIVILEGED_PORTS: &str = "/proc/sys/net/ipv4/ip_unprivileged_port_start";
/// A variable that no process outside the test has.
const MARK: &str = "REKINDLE_TEST_NAMESPACES";
const KINDS: [&str; 5] = ["net", "ipc", "uts", "pid", "mnt"];

/// A server that is ready when the node reaches it, and a container to look around in.
fn pod(engine: &Engine, shared: &str, port: u16) -> String {
    format!(
        "
apiVersion: v1
kind: Pod
metadata: {{name: agent}}
spec:
  {shared}: true
  terminationGracePeriodSeconds: 5
  containers:
  - name: server
    image: localhost/demo
    args: [server, --port, '{port}']
    ports: [{{containerPort: {port}}}]
    readinessProbe: {{httpGet: {{port: {port}}}, periodSeconds: 1}}
  - {{name: look, image: localhost/host, command: [sh, -c, 'trap \"exit 0\" TERM; sleep 100000 & wait'], volumeMounts: [{{name: scratch, mountPath: /scratch}}], env: [{{name: {MARK}, value: '{mark}'}}]}}
  volumes:
  - {{name: scratch, emptyDir: {{}}}}
",
        mark = engine.data_dir().display()
    )
}

/// The namespaces of the container to look around in, held open so that their numbers are not given
/// again.
fn hold_namespaces(engine: &Engine) -> Vec<File> {
    let mark = engine.data_dir().display().to_string();
    process::hold_namespaces(process::find(MARK, &mark).expect("the container runs"))
}

/// The output of a command in the container.
fn exec(engine: &Engine, command: &str) -> String {
    engine.kubectl(&["exec", "agent", "-c", "look", "--", "sh", "-c", command])
}

fn namespaces(engine: &Engine) -> BTreeMap<&'static str, String> {
    let script = KINDS.map(|kind| format!("readlink /proc/1/ns/{kind};")).concat();
    let output = exec(engine, &script);
    KINDS.into_iter().zip(output.lines().map(str::to_owned)).collect()
}

fn namespace_of_host(kind: &str) -> String {
    fs::read_link(format!("/proc/self/ns/{kind}")).unwrap().to_str().unwrap().to_owned()
}

/// The kinds that are the host's.
fn shared(found: &BTreeMap<&'static str, String>) -> Vec<&'static str> {
    assert_eq!(found.len(), KINDS.len(), "{found:?}");
    found
        .iter()
        .filter(|(kind, it)| **it == namespace_of_host(kind))
        .map(|(kind, _)| *kind)
        .collect()
}

/// Restarts the whole pod, for this time in its life, and waits until the node has reached the new
/// server.
fn restart_whole(engine: &Engine, time: u8) {
    let output = engine.rekindle(&["restart", "pod/agent", "--rung", "pod", "--wait"]);
    assert!(output.status.success(), "{}{}", text(&output.stdout), text(&output.stderr));
    for container in [0, 1] {
        let count = format!(".status.containerStatuses[{container}].restartCount");
        engine.wait_for("pod/agent", &count, &time.to_string());
    }
    engine.wait_ready("agent");
}

fn container_ids(engine: &Engine) -> Vec<String> {
    let pod = engine.get("pod/agent");
    let statuses = pod["status"]["containerStatuses"].as_array().unwrap();
    statuses.iter().map(|status| status["containerID"].to_string()).collect()
}

fn assert_address_is_the_nodes(engine: &Engine) -> String {
    let status = engine.get("pod/agent")["status"].clone();
    let host_ip = status["hostIP"].as_str().unwrap().to_owned();
    assert_eq!(status["podIP"], host_ip.as_str());
    assert_eq!(status["podIPs"], status["hostIPs"]);
    host_ip
}

/// One answer through `kubectl port-forward`.
fn assert_port_forward_works(engine: &Engine, port: u16) {
    let mut forward = engine.kubectl_command(&["port-forward", "pod/agent", &format!(":{port}")]);
    let mut forward = GuardedChild::start(&mut forward);
    // read on as long as it forwards: it says so with each connection
    let mut lines = forward.lines();
    assert!(answers("127.0.0.1", forwarded_port(&mut lines, port)));
    drop((forward, lines));
}

#[test]
fn a_pod_on_the_nodes_network_is_at_home_there_and_changes_nothing() {
    let port = free_port();
    let setting = fs::read_to_string(UNPRIVILEGED_PORTS).unwrap();
    let mut engine = Engine::start();
    let output = engine.try_kubectl(&["apply", "-f", "-"], &pod(&engine, "hostNetwork", port));
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert_eq!(text(&output.stderr), "", "nothing to warn of");
    engine.wait_ready("agent");

    let at_first = namespaces(&engine);
    assert_eq!(shared(&at_first), ["net"]);
    let host_ip = assert_address_is_the_nodes(&engine);
    assert!(answers(&host_ip, port) && answers("127.0.0.1", port));
    assert_port_forward_works(&engine, port);

    assert_eq!(exec(&engine, &format!("cat {UNPRIVILEGED_PORTS}")), setting);
    let name = rustix::system::uname().nodename().to_string_lossy().into_owned();
    assert_eq!(exec(&engine, "hostname; cat /etc/hostname"), format!("{name}\n{name}\n"));
    let hosts = exec(&engine, "cat /etc/hosts");
    let copied = hosts.strip_prefix("# Kubernetes-managed hosts file (host network).\n").unwrap();
    assert_eq!(copied.trim_end(), fs::read_to_string("/etc/hosts").unwrap().trim_end());

    exec(&engine, "touch /scratch/old");
    let held = hold_namespaces(&engine);
    restart_whole(&engine, 1);
    let restarted = namespaces(&engine);
    drop(held);
    assert_eq!(shared(&restarted), ["net"]);
    for kind in ["ipc", "uts", "pid", "mnt"] {
        assert_ne!(restarted[kind], at_first[kind], "{kind} is new");
    }
    assert_eq!(exec(&engine, "ls /scratch"), "", "the emptyDir is new");
    assert!(answers(&assert_address_is_the_nodes(&engine), port));

    let before = container_ids(&engine);
    engine.kill();
    assert!(answers("127.0.0.1", port), "it goes on without the engine");
    engine.launch(&[]);
    engine.wait_ready("agent");
    assert_eq!(namespaces(&engine), restarted);
    assert_eq!(container_ids(&engine), before, "nothing was started again");
    assert_address_is_the_nodes(&engine);
    assert_port_forward_works(&engine, port);
    restart_whole(&engine, 2);
    assert_eq!(shared(&namespaces(&engine)), ["net"]);

    engine.kubectl(&["delete", "pod", "agent"]);
    assert!(!answers("127.0.0.1", port), "its port is free again");
    assert_eq!(fs::read_to_string(UNPRIVILEGED_PORTS).unwrap(), setting);
    assert_eq!(rustix::system::uname().nodename().to_string_lossy(), name);
}

#[test]
fn a_pod_in_the_nodes_ipc_namespace_shares_its_memory_and_nothing_else() {
    let file = tempfile::Builder::new().prefix("rekindle-").tempfile_in("/dev/shm").unwrap();
    fs::write(file.path(), "from the node\n").unwrap();
    let show = format!("cat {}", file.path().display());
    let mut engine = Engine::start();
    engine.apply(&pod(&engine, "hostIPC", 8080));
    engine.wait_ready("agent");

    let at_first = namespaces(&engine);
    assert_eq!(shared(&at_first), ["ipc"]);
    let status = engine.get("pod/agent")["status"].clone();
    assert_ne!(status["podIP"], status["hostIP"]);
    assert_eq!(exec(&engine, "hostname"), "agent\n");
    assert_eq!(exec(&engine, &show), "from the node\n");
    exec(&engine, &format!("echo 'from the pod' > {}", file.path().display()));
    assert_eq!(fs::read_to_string(file.path()).unwrap(), "from the pod\n");

    engine.kill();
    engine.launch(&[]);
    engine.wait_ready("agent");
    assert_eq!(namespaces(&engine), at_first);
    let held = hold_namespaces(&engine);
    restart_whole(&engine, 1);
    let restarted = namespaces(&engine);
    drop(held);
    assert_eq!(shared(&restarted), ["ipc"]);
    assert_ne!(restarted["net"], at_first["net"]);
    assert_eq!(exec(&engine, &show), "from the pod\n");

    engine.kubectl(&["delete", "pod", "agent"]);
    assert_eq!(fs::read_to_string(file.path()).unwrap(), "from the pod\n");
}
