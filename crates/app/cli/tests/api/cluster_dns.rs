//! Cluster DNS with real containers: who asks is the C library in a pod, or the test as a process
//! of the node.
use std::net::{Ipv4Addr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::thread::JoinHandle;

use rekindle_testkit::claims::loopback_address;
use rekindle_testkit::{Engine, TIMEOUT, text};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use serde_json::Value;

const APP: &str = "
apiVersion: v1
kind: Service
metadata: {name: db}
spec: {clusterIP: None, selector: {app: db}, ports: [{name: sql, port: 5432}]}
---
apiVersion: v1
kind: Service
metadata: {name: plain}
spec: {selector: {app: db}, ports: [{port: 80}]}
---
apiVersion: v1
kind: Service
metadata: {name: elsewhere}
spec: {type: ExternalName, externalName: outside.example}
---
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: db}
spec:
  replicas: 2
  serviceName: db
  podManagementPolicy: Parallel
  selector: {matchLabels: {app: db}}
  template:
    metadata: {labels: {app: db}}
    spec:
      terminationGracePeriodSeconds: 0
      affinity:
        podAntiAffinity:
          requiredDuringSchedulingIgnoredDuringExecution:
          - {topologyKey: kubernetes.io/hostname, labelSelector: {matchLabels: {app: db}}}
      containers:
      - name: shell
        image: localhost/host
        command: [sh, -c, 'touch /tmp/rekindle-ready; sleep 100000 & wait']
        readinessProbe: {exec: {command: [test, -f, /tmp/rekindle-ready]}, periodSeconds: 1, timeoutSeconds: 30, failureThreshold: 1}
";

/// A pod for each way to have a resolv.conf.
fn policies(names: [&str; 3]) -> String {
    let [default, none, host] = names;
    let pod = |name: &str, spec: &str| {
        format!(
            "
apiVersion: v1
kind: Pod
metadata: {{name: {name}}}
spec:
  nodeName: node-1
  terminationGracePeriodSeconds: 0
  {spec}
  containers:
  - {{name: shell, image: localhost/host, command: [sh, -c, 'sleep 100000 & wait']}}
---"
        )
    };
    let config =
        "{nameservers: [192.0.2.7], searches: [a.example], options: [{name: ndots, value: '2'}]}";
    [
        pod(default, "dnsPolicy: Default"),
        pod(none, &format!("dnsPolicy: None\n  dnsConfig: {config}")),
        pod(host, "dnsPolicy: ClusterFirstWithHostNet\n  hostNetwork: true"),
    ]
    .concat()
}

/// A resolver of the node: it knows the address of `outside.example`, and no other name.
fn resolver() -> Ipv4Addr {
    let address = loopback_address(1);
    let socket = UdpSocket::bind((address, 53)).expect("port 53 of an address of the loopback");
    std::thread::spawn(move || {
        let mut buffer = [0; 1500];
        while let Ok((len, client)) = socket.recv_from(&mut buffer) {
            let asked = &buffer[..len];
            let end = 12 + asked[12..].iter().position(|byte| *byte == 0).expect("a name") + 5;
            let mut answer = asked[..end].to_vec();
            let known = asked[12..end].starts_with(b"\x07outside\x07example\x00");
            let wants_ipv4 = asked[end - 4..end - 2] == [0, 1];
            // an answer; recursion available; no such name, where it is another
            (answer[2], answer[3]) = (0x81, if known { 0x80 } else { 0x83 });
            answer[4..12].copy_from_slice(&[0, 1, 0, u8::from(known && wants_ipv4), 0, 0, 0, 0]);
            if known && wants_ipv4 {
                answer.extend([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4, 192, 0, 2, 53]);
            }
            socket.send_to(&answer, client).expect("answer");
        }
    });
    address
}

/// Asks in a pod until the answer is `expected`: DNS tells nobody of a change, and follows the API
/// a moment behind.
#[track_caller]
fn finds(engine: &Engine, pod: &str, name: &str, expected: &[&str]) {
    let mut expected: Vec<&str> = expected.to_vec();
    expected.sort_unstable();
    let script = format!(
        "wanted='{}'; for i in $(seq 600); do found=$(echo $(getent ahostsv4 {name} | cut -d' ' -f1 | LC_ALL=C sort -u)); \
         [ \"$found\" = \"$wanted\" ] && exit 0; sleep 0.1; done; echo \"$found\"; exit 1",
        expected.join(" ")
    );
    let output = engine.try_kubectl(&["exec", pod, "--", "sh", "-c", &script], "");
    assert!(
        output.status.success(),
        "{pod} finds {name} at {} and not at {expected:?}{}",
        text(&output.stdout),
        text(&output.stderr)
    );
}

fn address(engine: &Engine, pod: &str) -> String {
    engine.get(&format!("pod/{pod}"))["status"]["podIP"].as_str().expect("an address").to_owned()
}

fn resolv_conf(engine: &Engine, pod: &str) -> String {
    engine.kubectl(&["exec", pod, "--", "cat", "/etc/resolv.conf"])
}

/// How many hosts the server names for a port, asked by a process of the node.
fn hosts_of_port(server: &str, labels: &[&str]) -> u8 {
    try_hosts_of_port(server, labels).unwrap()
}

fn try_hosts_of_port(server: &str, labels: &[&str]) -> std::io::Result<u8> {
    let mut question = vec![7, 7, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
    for label in labels.iter().copied().chain(["default", "svc", "cluster", "local", ""]) {
        question.push(u8::try_from(label.len()).unwrap());
        question.extend(label.as_bytes());
    }
    question.extend([0, 33, 0, 1]);
    let socket = UdpSocket::bind((server, 0)).unwrap();
    socket.set_read_timeout(Some(std::time::Duration::from_secs(30))).unwrap();
    // connected: a server that is not there is an error
    socket.connect((server, 53)).unwrap();
    socket.send(&question)?;
    let mut answer = [0; 1500];
    let len = socket.recv(&mut answer)?;
    assert!(len > question.len() && answer[..2] == question[..2]);
    Ok(answer[7])
}

#[test]
fn pods_of_all_nodes_find_each_other_by_name_whatever_becomes_of_them() {
    let resolver = resolver();
    let mut engine = Engine::prepare();
    let folder = tempfile::tempdir().unwrap();
    let (conf, config) = (folder.path().join("resolv.conf"), folder.path().join("node.yaml"));
    std::fs::write(&conf, format!("nameserver {resolver}\n")).unwrap();
    let settings = format!("evictionHard: {{}}\nresolvConf: {}\n", conf.display());
    std::fs::write(&config, settings).unwrap();
    let arguments = ["--nodes", "2", "--node-config", config.to_str().unwrap()];
    engine.launch(&arguments);
    let applied = engine.try_kubectl(&["apply", "-f", "-"], APP);
    let warnings = text(&applied.stderr);
    assert!(applied.status.success(), "{warnings}");
    assert!(!warnings.contains("not enforced"), "{warnings}");
    engine.apply(&policies(["by-node", "by-pod", "with-node"]));
    for pod in ["by-node", "by-pod", "with-node"] {
        engine.wait_ready(pod);
    }
    engine.wait_for("statefulset/db", ".status.readyReplicas", "2");
    let (first, second) = (address(&engine, "db-0"), address(&engine, "db-1"));
    let node = |pod: &str| engine.get(&format!("pod/{pod}"))["spec"]["nodeName"].clone();
    assert_ne!(node("db-0"), node("db-1"));

    each_policy_has_its_resolv_conf(&engine, resolver);
    names_of_the_cluster_and_of_elsewhere_are_found(&engine, &first, &second);
    only_what_is_ready_is_found(&engine, &first, &second);
    let newest = a_new_pod_and_a_new_sandbox_are_found(&engine, first, second);

    // the next engine knows what this one knew, and runs what ran
    let before = engine.get("pod/db-0")["status"]["containerStatuses"].clone();
    let gateway = gateway(&engine);
    engine.kill();
    assert_eq!(hosts_of_port(&gateway, &["_sql", "_tcp", "db"]), 2, "while no engine runs");
    engine.launch(&arguments);
    engine.kubectl(&["wait", "--for=condition=Ready", "node/node-1-2", TIMEOUT]);
    finds(&engine, "db-0", "db-1.db", &[&newest]);
    finds(&engine, "db-1", "outside.example", &["192.0.2.53"]);
    assert_eq!(restarts(&engine.get("pod/db-0")["status"]["containerStatuses"]), restarts(&before));
}

/// The process that answers, if there is one.
fn server_process(engine: &Engine) -> Option<Pid> {
    let id = std::fs::read_to_string(engine.data_dir().join("engine-id")).unwrap();
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let mut found = processes.filter_map(|entry| {
        let pid = Pid::from_raw(entry.file_name().to_str()?.parse().ok()?)?;
        let command = std::fs::read_to_string(entry.path().join("cmdline")).ok()?;
        let mut arguments = command.split('\0').skip(1);
        let is_its = arguments.next() == Some("cluster-dns")
            && arguments.next().is_some_and(|socket| socket.contains(id.trim()));
        is_its.then_some(pid)
    });
    let first = found.next();
    assert_eq!(found.next(), None, "one at a time");
    first
}

/// Asks all the time whether a name is known, until it is dropped. Each question must be answered.
struct Asker {
    asked: Arc<AtomicU64>,
    over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Asker {
    fn start(server: String) -> Self {
        let (asked, over) = (Arc::<AtomicU64>::default(), Arc::<AtomicBool>::default());
        let (count, stop) = (Arc::clone(&asked), Arc::clone(&over));
        let thread = std::thread::spawn(move || {
            while !stop.load(Relaxed) {
                assert_eq!(hosts_of_port(&server, &["_sql", "_tcp", "db"]), 1);
                count.fetch_add(1, Relaxed);
            }
        });
        Self { asked, over, thread: Some(thread) }
    }

    fn until_answered(&self, more: u64) {
        let wanted = self.asked.load(Relaxed) + more;
        while self.asked.load(Relaxed) < wanted {
            assert!(!self.thread.as_ref().unwrap().is_finished(), "a question had no answer");
            std::thread::yield_now();
        }
    }

    fn stop(mut self) {
        self.over.store(true, Relaxed);
        self.thread.take().unwrap().join().unwrap();
    }
}

#[test]
fn no_question_is_lost_while_engines_come_and_go_and_another_process_answers() {
    let mut engine = Engine::prepare();
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("node.yaml");
    let resolvers = |file: &str| {
        let settings = format!("resolvConf: {}\n", folder.path().join(file).display());
        std::fs::write(&config, settings).unwrap();
    };
    let arguments = ["--node-config", config.to_str().unwrap()];
    resolvers("first.conf");
    engine.launch(&arguments);
    engine.apply(
        "{apiVersion: v1, kind: Service, metadata: {name: db}, \
         spec: {ports: [{name: sql, port: 5432}]}}",
    );
    let node = engine.get("node/node-1");
    let server = node["status"]["addresses"][0]["address"].as_str().unwrap().to_owned();
    let asker = Asker::start(server.clone());
    asker.until_answered(10);
    let first = server_process(&engine).unwrap();
    let status = format!("/proc/{}/status", first.as_raw_nonzero());
    let status = std::fs::read_to_string(status).unwrap();
    for rights in ["CapEff:\t0000000000000000", "CapPrm:\t0000000000000000", "NoNewPrivs:\t1"] {
        assert!(status.contains(rights), "{status}");
    }

    // it goes on while no engine runs, and with the next one
    engine.kill();
    asker.until_answered(10);
    engine.launch(&arguments);
    asker.until_answered(10);
    assert_eq!(server_process(&engine), Some(first));

    // another that is to serve something else takes its sockets
    engine.kill();
    resolvers("second.conf");
    engine.launch(&arguments);
    asker.until_answered(10);
    let second = server_process(&engine).unwrap();
    assert_ne!(second, first);
    asker.stop();

    // one that is killed, or hangs, is replaced
    let handle = pidfd_open(second, PidfdFlags::empty()).unwrap();
    pidfd_send_signal(&handle, Signal::KILL).unwrap();
    poll(&mut [PollFd::new(&handle, PollFlags::IN)], None).unwrap();
    while try_hosts_of_port(&server, &["_sql", "_tcp", "db"]).is_err() {}
    let third = server_process(&engine).unwrap();
    engine.kill();
    rustix::process::kill_process(third, Signal::STOP).unwrap();
    engine.launch(&arguments);
    assert_ne!(server_process(&engine), Some(third));
    let down = engine.rekindle(&["down"]);
    assert!(down.status.success(), "{}", text(&down.stderr));
    assert_eq!(server_process(&engine), None);
}

/// The address of the server of the first node.
fn gateway(engine: &Engine) -> String {
    engine.get("pod/db-0")["status"]["hostIP"].as_str().expect("an address").to_owned()
}

fn each_policy_has_its_resolv_conf(engine: &Engine, resolver: Ipv4Addr) {
    let searches = "search default.svc.cluster.local svc.cluster.local cluster.local";
    let cluster = format!("{searches}\nnameserver {}\noptions ndots:5\n", gateway(engine));
    for pod in ["db-0", "db-1", "with-node"] {
        assert_eq!(resolv_conf(engine, pod), cluster, "{pod}");
    }
    assert_eq!(resolv_conf(engine, "by-node"), format!("nameserver {resolver}\n"));
    let own = "search a.example\nnameserver 192.0.2.7\noptions ndots:2\n";
    assert_eq!(resolv_conf(engine, "by-pod"), own);
}

fn names_of_the_cluster_and_of_elsewhere_are_found(engine: &Engine, first: &str, second: &str) {
    let both = [first, second];
    finds(engine, "db-0", "db", &both);
    let plain = engine.get("service/plain")["spec"]["clusterIP"].clone();
    let plain = plain.as_str().expect("an address");
    finds(engine, "db-1", "plain.default.svc.cluster.local", &[plain]);
    finds(engine, "db-0", "db-1.db", &[second]);
    finds(engine, "db-1", "db-0.db", &[first]);
    finds(engine, "with-node", "db-0.db", &[first]);
    finds(engine, "db-1", "outside.example", &["192.0.2.53"]);
    finds(engine, "db-0", "elsewhere", &["192.0.2.53"]);
    finds(engine, "db-0", "nowhere.example", &[]);
    let name = engine.kubectl(&["exec", "db-0", "--", "getent", "hosts", second]);
    // it is an endpoint of two Services, and the C library may show either
    assert!(name.contains(".default.svc.cluster.local"), "{name}");
    let gateway = gateway(engine);
    assert_eq!(hosts_of_port(&gateway, &["_sql", "_tcp", "db"]), 2);
    assert_eq!(hosts_of_port(&gateway, &["_sql", "_udp", "db"]), 0);
}

fn only_what_is_ready_is_found(engine: &Engine, first: &str, second: &str) {
    engine.kubectl(&["exec", "db-1", "--", "rm", "/tmp/rekindle-ready"]);
    engine.kubectl(&["wait", "--for=condition=Ready=false", "pod/db-1", TIMEOUT]);
    finds(engine, "db-0", "db", &[first]);
    finds(engine, "db-0", "db-1.db", &[]);
    engine.kubectl(&["exec", "db-1", "--", "touch", "/tmp/rekindle-ready"]);
    engine.wait_ready("db-1");
    finds(engine, "db-0", "db-1.db", &[second]);
}

/// Each time by another address than any before; answers the last one of db-1.
fn a_new_pod_and_a_new_sandbox_are_found(engine: &Engine, first: String, second: String) -> String {
    let mut addresses = vec![first, second];
    for rung in ["recreate", "pod"] {
        let output = engine.rekindle(&["restart", "pod/db-1", "--rung", rung, "--wait"]);
        assert!(output.status.success(), "{}{}", text(&output.stdout), text(&output.stderr));
        engine.wait_for("statefulset/db", ".status.readyReplicas", "2");
        engine.wait_ready("db-1");
        let now = address(engine, "db-1");
        assert!(!addresses.contains(&now), "{now} again after {rung}");
        finds(engine, "db-0", "db-1.db", &[&now]);
        addresses.push(now);
    }
    addresses.pop().expect("two at least")
}

fn restarts(statuses: &Value) -> (Value, Value) {
    (statuses[0]["containerID"].clone(), statuses[0]["restartCount"].clone())
}
