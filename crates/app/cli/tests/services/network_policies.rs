//! NetworkPolicies: which pods reach which, by address and by Service, on one bridge.

use std::time::{Duration, Instant};

use rekindle_testkit::Engine;
use rekindle_testkit::guarded_child::GuardedChild;
use rekindle_testkit::ports::answers;

use crate::{ready, replicas, web};

/// A policy has to hold within this time, and a connection to be made.
const PATIENCE: Duration = Duration::from_secs(30);

/// Pods with a shell: a friend and a stranger, and one of another namespace.
const CLIENTS: &str = "
apiVersion: v1
kind: Namespace
metadata: {name: other, labels: {team: shop}}
---
apiVersion: v1
kind: Pod
metadata: {name: friend, labels: {role: friend}}
spec:
  terminationGracePeriodSeconds: 0
  containers: [{name: shell, image: localhost/host, command: [sleep, infinity]}]
---
apiVersion: v1
kind: Pod
metadata: {name: stranger}
spec:
  terminationGracePeriodSeconds: 0
  containers: [{name: shell, image: localhost/host, command: [sleep, infinity]}]
---
apiVersion: v1
kind: Pod
metadata: {name: guest, namespace: other, labels: {role: guest}}
spec:
  terminationGracePeriodSeconds: 0
  containers: [{name: shell, image: localhost/host, command: [sleep, infinity]}]
";

fn policy(spec: &str) -> String {
    format!(
        "apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: {{name: p}}\nspec: {spec}\n"
    )
}

/// For the server: `from` are its peers.
fn allow(from: &str, ports: &str) -> String {
    policy(&format!(
        "{{podSelector: {{matchLabels: {{app: web}}}}, ingress: [{{from: {from}, ports: {ports}}}]}}"
    ))
}

const DENY: &str = "{podSelector: {}, policyTypes: [Ingress]}";

/// Whether a pod can connect.
fn connects(engine: &Engine, (namespace, pod): (&str, &str), host: &str, port: u16) -> bool {
    let script =
        format!("timeout 1 bash -c 'exec 3<>/dev/tcp/{host}/{port}' && echo open || echo closed");
    let exec = ["exec", "-n", namespace, pod, "--", "bash", "-c", &script];
    match engine.kubectl(&exec).trim() {
        "open" => true,
        "closed" => false,
        other => panic!("{other}"),
    }
}

/// Waits until exactly these of the three clients reach the server.
#[track_caller]
fn until_only(engine: &Engine, names: &[&str], host: &str, port: u16) {
    let begin = Instant::now();
    loop {
        let clients = [("default", "friend"), ("default", "stranger"), ("other", "guest")];
        let found: Vec<_> =
            clients.into_iter().filter(|client| connects(engine, *client, host, port)).collect();
        let found: Vec<_> = found.into_iter().map(|(_, pod)| pod).collect();
        if found == names {
            return;
        }
        assert!(begin.elapsed() < PATIENCE, "{found:?} reach {host}:{port}, not {names:?}");
    }
}

/// The server's pod and its address.
fn server(engine: &Engine) -> (String, String) {
    let pod = replicas(engine).into_iter().find(|name| name.starts_with("web")).unwrap();
    let address = engine.get(&format!("pod/{pod}"))["status"]["podIP"].as_str().unwrap().to_owned();
    (pod, address)
}

fn start() -> (Engine, String, String) {
    let engine = Engine::start();
    engine.apply(&web(1, 1));
    engine.apply(CLIENTS);
    for (namespace, pod) in [("default", "friend"), ("default", "stranger"), ("other", "guest")] {
        let pod = format!("pod/{pod}");
        engine.kubectl(&["wait", "-n", namespace, "--for=condition=Ready", &pod, "--timeout=60s"]);
    }
    let (service, _) = ready(&engine);
    let (_, address) = server(&engine);
    (engine, address, service)
}

#[test]
fn a_policy_lets_in_only_the_peers_that_it_names() {
    const ALL: &[&str] = &["friend", "stranger", "guest"];
    let (engine, address, service) = start();
    let check = |names: &[&str]| {
        until_only(&engine, names, &address, 8080);
        until_only(&engine, names, &service, 80);
    };
    check(ALL);
    engine.apply(&policy(DENY));
    check(&[]);
    assert!(answers(&address, 8080), "the node reaches its pods always");

    engine.apply(&allow("[{podSelector: {matchLabels: {role: friend}}}]", "[{port: http}]"));
    check(&["friend"]);
    engine.apply(&allow("[{namespaceSelector: {matchLabels: {team: shop}}}]", "[{port: 8080}]"));
    check(&["guest"]);
    engine.apply(&allow("[{podSelector: {}}]", "[{port: 8000, endPort: 8100}]"));
    check(&["friend", "stranger"]);
    engine.apply(&allow("[{podSelector: {}}]", "[{port: 80}]"));
    check(&[]);
    let stranger = engine.get("pod/stranger")["status"]["podIP"].as_str().unwrap().to_owned();
    let block = format!("[{{ipBlock: {{cidr: 0.0.0.0/0, except: [{stranger}/32]}}}}]");
    engine.apply(&allow(&block, "[{port: 8080, protocol: TCP}]"));
    check(&["friend", "guest"]);
    // labels that change are other peers
    engine.apply(&allow("[{podSelector: {matchLabels: {role: friend}}}]", "[{port: http}]"));
    engine.kubectl(&["label", "pod/stranger", "role=friend"]);
    engine.kubectl(&["label", "pod/friend", "role-"]);
    check(&["stranger"]);
    engine.kubectl(&["delete", "networkpolicy", "p"]);
    check(ALL);
}

#[test]
fn a_pod_that_restarts_in_place_keeps_its_policies_and_its_probes() {
    let (mut engine, address, service) = start();
    engine.apply(&policy(DENY));
    until_only(&engine, &[], &address, 8080);
    let (pod, _) = server(&engine);
    let restarted = engine.rekindle(&["restart", &format!("pod/{pod}")]);
    assert!(restarted.status.success(), "{restarted:?}");
    // its readiness probe comes from the node
    ready(&engine);
    let (_, address) = server(&engine);
    until_only(&engine, &[], &address, 8080);
    until_only(&engine, &[], &service, 80);
    // the rules do not end with the engine, and an engine that starts again has them
    engine.kill();
    engine.launch(&[]);
    until_only(&engine, &[], &address, 8080);
    let table = format!("inet rekindle-{}-policies", engine.bridge());
    let nft = |action: &str| {
        let mut command = std::process::Command::new("nft");
        command.arg(format!("{action} table {table}")).output().unwrap().status.success()
    };
    assert!(nft("list"));
    assert!(engine.rekindle(&["down"]).status.success());
    engine.wait();
    assert!(!nft("list"), "no rules are left behind");
}

#[test]
fn egress_is_denied_but_names_are_found_and_an_open_connection_ends() {
    let (engine, address, _) = start();
    let request = r"printf 'GET / HTTP/1.1\r\nHost: web\r\n\r\n' >&3";
    // one connection, a request after the other; an answer that does not come is the end of it
    let script = format!(
        "exec 3<>/dev/tcp/{address}/8080; while {request}; do read -t 3 -u 3 l || break; echo up; while read -t 0.1 -u 3 l; do :; done; done; echo ended"
    );
    let mut command = engine.kubectl_command(&["exec", "friend", "--", "bash", "-c", &script]);
    let mut client = GuardedChild::start(&mut command);
    let mut lines = client.lines();
    assert_eq!(lines.next().unwrap().unwrap(), "up");
    engine.apply(&policy(
        "{podSelector: {matchLabels: {role: friend}}, policyTypes: [Egress], egress: [{ports: [{port: 53, protocol: UDP}, {port: 53}]}]}",
    ));
    assert!(lines.any(|line| line.unwrap() == "ended"), "the connection goes on");
    until_only(&engine, &["stranger", "guest"], &address, 8080);
    engine.kubectl(&["exec", "friend", "--", "getent", "hosts", "web.default.svc.cluster.local"]);
    engine.kubectl(&["delete", "networkpolicy", "p"]);
    until_only(&engine, &["friend", "stranger", "guest"], &address, 8080);
}
