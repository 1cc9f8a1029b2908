//! Several nodes on one machine, with real containers: what runs on a further node is seen and
//! entered as on the first, the death of its agent or of the engine harms no pod (P1), and nothing
//! is left of any of them.
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use rekindle_testkit::ports::answers;
use rekindle_testkit::{Engine, TIMEOUT, free_port, is, text};
use serde_json::{Value, json};

const SPREAD: &str = "
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 3
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      terminationGracePeriodSeconds: 1
      topologySpreadConstraints:
      - maxSkew: 1
        topologyKey: kubernetes.io/hostname
        whenUnsatisfiable: DoNotSchedule
        labelSelector: {matchLabels: {app: web}}
      containers:
      - name: server
        image: localhost/demo
        args: [server, --port, '8080']
        readinessProbe: {httpGet: {port: 8080}, periodSeconds: 1, timeoutSeconds: 30}
      - name: shell
        image: localhost/host
        command: [sh, -c, 'echo I am on $NODE; sleep 100000 & wait']
        env:
        - {name: NODE, valueFrom: {fieldRef: {fieldPath: spec.nodeName}}}
";

/// The pods that are not going, by their nodes.
fn pods_by_node(engine: &Engine) -> BTreeMap<String, Value> {
    let pods = engine.get("pods");
    let pods = pods["items"].as_array().unwrap().iter();
    let staying = pods.filter(|pod| pod["metadata"]["deletionTimestamp"].is_null());
    staying.map(|pod| (pod["spec"]["nodeName"].as_str().unwrap().to_owned(), pod.clone())).collect()
}

fn name(pod: &Value) -> String {
    pod["metadata"]["name"].as_str().unwrap().to_owned()
}

fn address(pod: &Value) -> &str {
    pod["status"]["podIP"].as_str().unwrap()
}

/// Waits until there are three pods that stay, all Ready and on these nodes, each of which has one
/// or more.
#[track_caller]
fn wait_until_pods_are_on(engine: &Engine, nodes: &[&str]) {
    engine.until(&["pods"], |pods| {
        let staying = pods.values().filter(|pod| pod["metadata"]["deletionTimestamp"].is_null());
        let staying: Vec<&Value> = staying.collect();
        let there: BTreeSet<&str> =
            staying.iter().filter_map(|pod| pod["spec"]["nodeName"].as_str()).collect();
        staying.len() == 3 && staying.iter().all(|pod| is(pod, "Ready")) && there.iter().eq(nodes)
    });
}

/// What identifies the run of a pod's containers.
fn runs(pods: &BTreeMap<String, Value>) -> Vec<[Value; 4]> {
    let run = |pod: &Value| {
        let containers = pod["status"]["containerStatuses"].as_array().unwrap();
        let of_all = |field: &str| containers.iter().map(|c| c[field].clone()).collect();
        let (ids, counts) =
            (Value::Array(of_all("containerID")), Value::Array(of_all("restartCount")));
        [pod["metadata"]["uid"].clone(), pod["status"]["podIP"].clone(), ids, counts]
    };
    pods.values().map(run).collect()
}

#[track_caller]
fn expect(output: &Output) -> String {
    assert!(output.status.success(), "{}{}", text(&output.stdout), text(&output.stderr));
    text(&output.stdout)
}

/// What the pod's shell says.
fn shell(engine: &Engine, pod: &str, script: &str, input: &str) -> Output {
    engine.try_kubectl(&["exec", "-i", pod, "-c", "shell", "--", "bash", "-c", script], input)
}

/// Asks the server of one pod from within another.
#[track_caller]
fn reaches(engine: &Engine, from: &str, to: &str) {
    let script =
        format!("exec 3<>/dev/tcp/{to}/8080; printf 'GET / HTTP/1.0\\r\\n\\r\\n' >&3; head -1 <&3");
    let said = expect(&shell(engine, from, &script, ""));
    assert!(said.contains("200"), "{from} asked {to}: {said:?}");
}

/// The folders of the engine's nodes.
fn folders(engine: &Engine) -> Vec<PathBuf> {
    let further = ["node-1-2", "node-1-3"].map(|node| engine.data_dir().join("nodes").join(node));
    further.into_iter().chain([engine.data_dir().to_owned()]).collect()
}

fn pid_of_agent(engine: &Engine, node: &str) -> String {
    let lock = engine.data_dir().join("nodes").join(node).join("engine.lock");
    std::fs::read_to_string(lock).unwrap().trim().to_owned()
}

/// The pids of the agents with a folder in this engine's, however they came to be.
fn agents(engine: &Engine) -> BTreeSet<String> {
    let nodes = engine.data_dir().join("nodes").display().to_string();
    let is_agent = |pid: &String| {
        let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        text(&line).contains(&nodes)
    };
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().into_string().ok());
    let found: BTreeSet<String> = pids.filter(is_agent).collect();
    // the child of an agent looks like it until it is another program
    found.iter().filter(|pid| parent(pid).is_none_or(|it| !found.contains(&it))).cloned().collect()
}

fn parent(pid: &str) -> Option<String> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    status.lines().find_map(|line| line.strip_prefix("PPid:\t")).map(str::to_owned)
}

/// What may be left of this node on the machine.
fn traces(folder: &Path) -> Vec<PathBuf> {
    let id = std::fs::read_to_string(folder.join("engine-id")).unwrap();
    let cgroups = std::fs::read_dir("/sys/fs/cgroup").unwrap().flatten().map(|entry| entry.path());
    let cgroups = cgroups.map(|root| root.join("rekindle").join(&id));
    let found = cgroups.chain([Path::new("/run/rekindle").join(&id)]);
    found.filter(|path| path.exists()).collect()
}

#[test]
fn pods_on_further_nodes_live_as_on_the_first_and_survive_agents_and_engines() {
    let mut engine = Engine::prepare();
    engine.launch(&["--nodes", "3"]);
    wait_for_nodes(&engine, &["node-1-2", "node-1-3"]);
    engine.apply(SPREAD);
    engine.kubectl(&["rollout", "status", "deployment/web", TIMEOUT]);
    let pods = pods_by_node(&engine);
    let nodes: Vec<&str> = pods.keys().map(String::as_str).collect();
    assert_eq!(nodes, ["node-1", "node-1-2", "node-1-3"], "one pod a node");
    let addresses: BTreeSet<&str> = pods.values().map(address).collect();
    assert_eq!(addresses.len(), 3, "{addresses:?}");

    a_far_pod_is_entered_and_reached(&engine, &pods);
    a_dead_agent_harms_no_pod(&engine, &pods);

    // the engine dies: agents and pods go on, and the next engine has them
    let before = agents(&engine);
    assert_eq!(before.len(), 2);
    engine.kill();
    assert_eq!(agents(&engine), before);
    engine.launch(&[]);
    wait_for_nodes(&engine, &["node-1-2", "node-1-3"]);
    let far = name(&pods["node-1-2"]);
    assert_eq!(expect(&shell(&engine, &far, "cat", "still there")), "still there");
    assert_eq!(runs(&pods_by_node(&engine)), runs(&pods));

    // the engine is killed again, and `down` finds nobody but agents
    engine.kill();
    let down = expect(&engine.rekindle(&["down"]));
    assert_eq!(down.matches("ended pod").count(), 3, "{down}");
    assert_eq!(agents(&engine), BTreeSet::new());
    let left: Vec<PathBuf> = folders(&engine).iter().flat_map(|folder| traces(folder)).collect();
    assert_eq!(left, Vec::<PathBuf>::new());
    assert!(!Path::new("/sys/class/net").join(engine.bridge()).exists());
}

#[track_caller]
fn wait_for_nodes(engine: &Engine, nodes: &[&str]) {
    for node in nodes {
        let node = format!("node/{node}");
        engine.kubectl(&["wait", "--for=create", &node, TIMEOUT]);
        engine.kubectl(&["wait", "--for=condition=Ready", &node, TIMEOUT]);
    }
}

fn a_far_pod_is_entered_and_reached(engine: &Engine, pods: &BTreeMap<String, Value>) {
    let far = name(&pods["node-1-2"]);
    assert_eq!(engine.first_lines(&[&far, "-c", "shell"], 1), ["I am on node-1-2"]);
    let long = "0123456789abcdef\n".repeat(20_000);
    let sent = shell(engine, &far, "cat; exit 7", &long);
    assert_eq!(sent.status.code(), Some(7));
    assert!(text(&sent.stdout) == long, "{} bytes came back", sent.stdout.len());
    for (from, to) in [("node-1-2", "node-1-3"), ("node-1-2", "node-1"), ("node-1", "node-1-2")] {
        reaches(engine, &name(&pods[from]), address(&pods[to]));
    }
    let health = engine.kubectl(&["get", "--raw", "/api/v1/nodes/node-1-2/proxy/healthz"]);
    assert_eq!(health, "ok");
    let top = engine.kubectl(&["top", "nodes", "--no-headers"]);
    assert_eq!(top.lines().count(), 3, "{top}");
    // the far agent is a node, and no admin
    let kubeconfig = engine.data_dir().join("nodes/node-1-2/kubeconfig");
    let as_node = |arguments: &[&str]| {
        let mut command = engine.kubectl_command(arguments);
        command.env("KUBECONFIG", &kubeconfig).output().unwrap()
    };
    let who = expect(&as_node(&["auth", "whoami", "-o", "jsonpath={.status.userInfo.username}"]));
    assert_eq!(who, "system:node:node-1-2");
    let refused = as_node(&["delete", "deployment", "web"]);
    assert!(text(&refused.stderr).contains("forbidden"), "{}", text(&refused.stderr));
}

fn a_dead_agent_harms_no_pod(engine: &Engine, pods: &BTreeMap<String, Value>) {
    let far = name(&pods["node-1-2"]);
    expect(&engine.rekindle(&["node", "kill", "node-1-2"]));
    reaches(engine, &name(&pods["node-1"]), address(&pods["node-1-2"]));
    let refused = engine.kubectl_fails(&["logs", &far, "-c", "shell"], "");
    assert!(refused.contains("node \"node-1-2\" does not run"), "{refused}");
    let list = expect(&engine.rekindle(&["node", "list"]));
    assert!(
        list.lines().any(|l| l.starts_with(" node-1-2 ") && l.contains("does not run")),
        "{list}"
    );

    expect(&engine.rekindle(&["node", "start", "node-1-2"]));
    engine.wait_ready(&far);
    assert_eq!(expect(&shell(engine, &far, "cat", "hello")), "hello");
    assert_eq!(runs(&pods_by_node(engine)), runs(pods), "the same containers, not started again");
    assert!(!pid_of_agent(engine, "node-1-2").is_empty());
}

#[test]
fn a_node_is_added_and_removed_while_the_engine_runs() {
    let engine = Engine::start();
    let added = expect(&engine.rekindle(&["node", "add"]));
    assert_eq!(added, "node node-1-2 added\n");
    expect(&engine.rekindle(&["node", "add", "edge"]));
    engine.apply(&SPREAD.replace("DoNotSchedule", "ScheduleAnyway"));
    wait_until_pods_are_on(&engine, &["edge", "node-1", "node-1-2"]);

    // its pods go elsewhere
    expect(&engine.rekindle(&["node", "remove", "edge"]));
    engine.kubectl(&["wait", "--for=delete", "node/edge", TIMEOUT]);
    wait_until_pods_are_on(&engine, &["node-1", "node-1-2"]);
    assert!(!engine.data_dir().join("nodes/edge").exists());

    // stopped, a node is there and runs nothing
    expect(&engine.rekindle(&["node", "stop", "node-1-2"]));
    engine.wait_for("node/node-1-2", ".status.conditions[?(@.type==\"Ready\")].status", "False");
    assert_eq!(traces(&engine.data_dir().join("nodes/node-1-2")), Vec::<PathBuf>::new());

    for (arguments, wrong) in [
        (&["node", "kill", "node-1"][..], "is the engine's own node"),
        (&["node", "start", "edge"][..], "there is no node \"edge\""),
        (&["node", "add", "../x"][..], "is no name for a node"),
        (&["node", "add", "node-1"][..], "there is a node \"node-1\" already"),
    ] {
        let output = engine.rekindle(arguments);
        assert!(
            !output.status.success() && text(&output.stderr).contains(wrong),
            "{arguments:?}: {output:?}"
        );
    }
}

const FAVOURITE: &str = "
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 1
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      terminationGracePeriodSeconds: 1
      affinity:
        nodeAffinity:
          preferredDuringSchedulingIgnoredDuringExecution:
          - weight: 100
            preference: {matchExpressions: [{key: kubernetes.io/hostname, operator: In, values: [node-1-2]}]}
      containers:
      - {name: app, image: localhost/demo, args: [signal]}
";

/// Kubernetes documentation, "Nodes" and "Taint based Evictions", with seconds instead of minutes.
#[test]
fn the_pods_of_a_dead_node_are_made_anew_elsewhere_and_end_when_it_is_back() {
    let mut engine = Engine::prepare();
    let quick = ["--node-monitor-grace-period", "8s", "--default-toleration-seconds", "2"];
    engine.launch(&[&["--nodes", "2"][..], &quick].concat());
    wait_for_nodes(&engine, &["node-1-2"]);
    let port = free_port();
    let serving = format!(
        "args: [server, --port, '8080'], ports: [{{containerPort: 8080, hostPort: {port}}}], readinessProbe: {{httpGet: {{port: 8080}}, periodSeconds: 1}}"
    );
    engine.apply(&FAVOURITE.replace("args: [signal]", &serving));
    engine.kubectl(&["rollout", "status", "deployment/web", TIMEOUT]);
    let first = name(&pods_by_node(&engine)["node-1-2"]);

    expect(&engine.rekindle(&["node", "kill", "node-1-2"]));
    assert!(answers("127.0.0.1", port), "the pod runs on, and its host port leads there");
    engine.wait_for("node/node-1-2", ".status.conditions[?(@.type==\"Ready\")].status", "Unknown");
    engine.wait_for_event(&first, "NodeNotReady", "Node is not ready");
    engine.wait_for_event(&first, "TaintManagerEviction", "Marking for deletion");
    // marked for deletion and there for ever, since nobody can say that it has ended; and a second
    // one elsewhere
    engine.until(&["pods"], |pods| {
        let ends = |pod: &Value| !pod["metadata"]["deletionTimestamp"].is_null();
        let second = pods.values().find(|pod| !ends(pod));
        pods.get(&first).is_some_and(ends)
            && second.is_some_and(|pod| is(pod, "Ready") && pod["spec"]["nodeName"] == "node-1")
    });
    assert!(answers("127.0.0.1", port), "the second one has the host port");

    expect(&engine.rekindle(&["node", "start", "node-1-2"]));
    engine.kubectl(&["wait", "--for=delete", &format!("pod/{first}"), TIMEOUT]);
    assert!(answers("127.0.0.1", port), "the end of the first one does not close it");
    engine.wait_for("node/node-1-2", ".status.conditions[?(@.type==\"Ready\")].status", "True");
}

/// Nobody but an agent can say that its pods have ended: one is started for that.
#[test]
fn a_dead_node_is_removed_with_the_pods_that_it_left() {
    let mut engine = Engine::prepare();
    let quick = ["--node-monitor-grace-period", "8s", "--default-toleration-seconds", "2"];
    engine.launch(&[&["--nodes", "2"][..], &quick].concat());
    wait_for_nodes(&engine, &["node-1-2"]);
    engine.apply(FAVOURITE);
    engine.kubectl(&["rollout", "status", "deployment/web", TIMEOUT]);
    let first = name(&pods_by_node(&engine)["node-1-2"]);

    expect(&engine.rekindle(&["node", "kill", "node-1-2"]));
    engine
        .until_one(&format!("pods/{first}"), |pod| !pod["metadata"]["deletionTimestamp"].is_null());
    let removed = expect(&engine.rekindle(&["node", "remove", "node-1-2"]));
    assert!(removed.ends_with("node node-1-2 removed\n"), "{removed}");
    engine.kubectl(&["wait", "--for=delete", "node/node-1-2", TIMEOUT]);
    engine.until(&["pods"], |pods| {
        let mut all = pods.values();
        all.len() == 1 && all.all(|pod| is(pod, "Ready") && pod["spec"]["nodeName"] == "node-1")
    });
    assert!(!engine.data_dir().join("nodes/node-1-2").exists());
}

/// What runs on a further node by its engine's id: the shims of its pods, and what is in their
/// containers. A shim is in the network of its pod, and in none of the node's cgroups.
fn processes_of_pods(engine: &Engine, node: &str) -> (BTreeSet<String>, BTreeSet<String>) {
    let id = engine.data_dir().join("nodes").join(node).join("engine-id");
    let id = std::fs::read_to_string(id).unwrap();
    let network = |pid: &str| std::fs::read_link(format!("/proc/{pid}/ns/net")).ok();
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    let pids: Vec<String> = entries
        .filter_map(|entry| entry.file_name().into_string().ok())
        .filter(|name| name.bytes().all(|byte| byte.is_ascii_digit()))
        .collect();
    let agents = agents(engine);
    let is_contained = |pid: &&String| {
        let cgroups = std::fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap_or_default();
        cgroups.contains(id.trim()) && !agents.contains(*pid)
    };
    let contained: BTreeSet<String> = pids.iter().filter(is_contained).cloned().collect();
    let of_machine = network("self");
    let networks: BTreeSet<_> = contained
        .iter()
        .map(|pid| network(pid))
        .filter(|it| it.is_some() && *it != of_machine)
        .collect();
    let beside = |pid: &&String| networks.contains(&network(pid)) && !contained.contains(*pid);
    (pids.iter().filter(beside).cloned().collect(), contained)
}

/// Each pod's node, and what identifies it and the runs of its containers.
fn runs_by_pod(engine: &Engine) -> BTreeMap<String, (String, [Value; 4])> {
    let pods = engine.get("pods");
    let run = |pod: &Value| {
        let node = pod["spec"]["nodeName"].as_str().unwrap().to_owned();
        let run = runs(&BTreeMap::from([(node.clone(), pod.clone())])).remove(0);
        (name(pod), (node, run))
    };
    pods["items"].as_array().unwrap().iter().map(run).collect()
}

#[test]
fn pods_of_a_node_that_are_all_killed_at_once_run_again_and_no_others_are_touched() {
    let mut engine = Engine::prepare();
    engine.launch(&["--nodes", "2"]);
    wait_for_nodes(&engine, &["node-1-2"]);
    engine.wait_for_event("node-1-2", "RegisteredNode", "Registered Node node-1-2 in Controller");
    engine.wait_for_event("node-1-2", "NodeReady", "Node node-1-2 status is now: NodeReady");
    engine.apply(&SPREAD.replace("replicas: 3", "replicas: 4"));
    engine.kubectl(&["rollout", "status", "deployment/web", TIMEOUT]);
    let before = runs_by_pod(&engine);
    let far = |runs: &BTreeMap<String, (String, [Value; 4])>| -> BTreeSet<String> {
        runs.iter()
            .filter(|(_, (node, _))| node == "node-1-2")
            .map(|(pod, _)| pod.clone())
            .collect()
    };
    assert_eq!((before.len(), far(&before).len()), (4, 2), "{before:?}");

    let (shims, contained) = processes_of_pods(&engine, "node-1-2");
    assert_eq!(shims.len(), 2, "one of each pod");
    assert!(contained.len() >= 4, "two containers of each pod: {contained:?}");
    // the shims first: what they would have restarted at once was none of those that are to die
    let mut kill = Command::new("kill");
    kill.arg("-KILL").args(&shims).args(&contained);
    // the first process of a container takes the others with it
    let _some_are_gone = kill.output().unwrap();

    let counts = |pod: &Value| -> Vec<u64> {
        let containers = pod["status"]["containerStatuses"].as_array().unwrap().iter();
        containers.map(|container| container["restartCount"].as_u64().unwrap()).collect()
    };
    engine.until(&["pods"], |pods| {
        let is_back = |pod: &Value| {
            is(pod, "Ready")
                && (pod["spec"]["nodeName"] == "node-1" || counts(pod).iter().all(|it| *it > 0))
        };
        pods.len() == 4 && pods.values().all(is_back)
    });
    engine.wait_for("deployment/web", ".status.availableReplicas", "4");
    let after = runs_by_pod(&engine);
    assert_eq!(far(&after), far(&before), "the same pods");
    for (pod, (node, [uid, address, ids, restarts])) in &after {
        let (_, run) = &before[pod];
        if node == "node-1" {
            assert_eq!(
                *run,
                [uid, address, ids, restarts].map(Value::clone),
                "pod {pod} is untouched"
            );
            continue;
        }
        assert_eq!((uid, restarts), (&run[0], &json!([1, 1])), "pod {pod}");
        let ended = |id: &&Value| !run[2].as_array().unwrap().contains(id);
        assert_eq!(ids.as_array().unwrap().iter().filter(ended).count(), 2, "pod {pod}: {ids}");
    }
}
