//! A cluster with one node: its API, its runtime, its kubelet, and the agent.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::mpsc::Receiver;

use rekindle_agent::PodCalls;
use rekindle_agent::cri::CriClient;
use rekindle_testkit::containerd::Containerd;
use rekindle_testkit::guarded_child::GuardedChild;
use rekindle_testkit::{Engine, PATIENCE, TIMEOUT, rekindle};
use serde_json::{Value, json};

use crate::kubelet_double::KubeletDouble;

pub const NODE: &str = "worker-1";

/// What ends first is first.
pub struct ClusterNode {
    pub agent: Option<AgentProcess>,
    pub kubelet: Option<KubeletDouble>,
    pub containerd: Containerd,
    pub engine: Engine,
    /// The kubelet's folders.
    pub root: KubeletRoot,
}

/// The folders of a kubelet, and what is mounted in them.
pub struct KubeletRoot(tempfile::TempDir);

impl KubeletRoot {
    pub fn path(&self) -> &Path {
        self.0.path()
    }
}

impl Drop for KubeletRoot {
    fn drop(&mut self) {
        let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
        let mounts = mounts.lines().filter_map(|line| line.split(' ').nth(4));
        for mount in mounts.filter(|path| Path::new(path).starts_with(self.path())) {
            let unmounted = rustix::mount::unmount(mount, rustix::mount::UnmountFlags::DETACH);
            assert!(unmounted.is_ok() || std::thread::panicking(), "unmount {mount}");
        }
    }
}

/// The agent; killed when it is dropped, as by kill -9.
pub struct AgentProcess {
    child: GuardedChild,
    lines: Receiver<String>,
    /// Where it serves metrics.
    pub endpoint: String,
}

impl AgentProcess {
    #[track_caller]
    pub fn says(&self, what: &str) -> String {
        let mut said = Vec::new();
        while let Ok(line) = self.lines.recv_timeout(PATIENCE) {
            if line.contains(what) {
                return line;
            }
            said.push(line);
        }
        panic!("nothing about {what:?} in {said:#?}")
    }

    pub fn pid(&self) -> u32 {
        self.child.0.id()
    }
}

/// An operator in mode act; killed when it is dropped.
pub struct OperatorProcess {
    _child: GuardedChild,
    pub lines: Receiver<String>,
}

impl ClusterNode {
    /// A node with its kubelet and no agent.
    pub fn new() -> Self {
        let engine = Engine::start_with(&["--no-ladders"]);
        let containerd = Containerd::start();
        engine.apply(&format!("{{apiVersion: v1, kind: Node, metadata: {{name: {NODE}}}}}"));
        let root = tempfile::Builder::new().prefix("rkklt-").tempdir().unwrap();
        for folder in ["pods", "logs"] {
            std::fs::create_dir(root.path().join(folder)).unwrap();
        }
        let root = KubeletRoot(root);
        let mut node = Self { agent: None, kubelet: None, containerd, engine, root };
        node.start_kubelet();
        node
    }

    pub fn start_kubelet(&mut self) {
        self.kubelet = Some(KubeletDouble::start(
            self.engine.kubeconfig(),
            NODE.to_owned(),
            self.containerd.socket(),
            self.containerd.cgroup().to_owned(),
            self.root.path().to_owned(),
        ));
    }

    /// An agent with the runtime's socket alone.
    pub fn start_agent(&mut self) {
        self.start_agent_with(&[]);
    }

    /// An agent that freezes pods.
    pub fn start_freezing_agent(&mut self) {
        self.start_agent_with(&["--cgroup-root", "/sys/fs/cgroup"]);
    }

    /// An agent that sees cgroups, volumes and logs as well.
    pub fn start_seeing_agent(&mut self) {
        let of_kubelet = |folder: &str| self.root.path().join(folder).display().to_string();
        let (pods, logs) = (of_kubelet("pods"), of_kubelet("logs"));
        self.start_agent_with(&[
            "--cgroup-root",
            "/sys/fs/cgroup",
            "--kubelet-pods",
            &pods,
            "--pod-logs",
            &logs,
        ]);
    }

    fn start_agent_with(&mut self, access: &[&str]) {
        let mut command = rekindle();
        command.args(["agent", "--node-name", NODE, "--kubeconfig"]).arg(self.engine.kubeconfig());
        command.arg("--cri-socket").arg(format!("unix://{}", self.containerd.socket().display()));
        command.args(access).args(["--metrics-bind-address", "127.0.0.1:0"]);
        let mut child = GuardedChild::start(command.stderr(Stdio::piped()));
        let lines = child.all_lines();
        let mut agent = AgentProcess { child, lines, endpoint: String::new() };
        agent.says("restarts pods of node worker-1 in place");
        let line = agent.says("metrics: http://");
        let address = line.trim_start_matches("metrics: http://").trim_end_matches("/metrics");
        agent.endpoint = address.to_owned();
        self.agent = Some(agent);
    }

    /// An operator that knows the agent: its pod is there as the chart makes it with
    /// `agent.freezePods`, and ready.
    pub fn start_operator(&self) -> OperatorProcess {
        self.engine.kubectl(&["create", "namespace", "rekindle-system"]);
        self.engine.kubectl(&["label", "namespace", "default", "rekindle.dev/ladder=enabled"]);
        let labels =
            json!({"rekindle.dev/component": "agent", "rekindle.dev/freezes-pods": "true"});
        let pod = json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": "agent", "namespace": "rekindle-system", "labels": labels},
            "spec": {"nodeName": NODE,
                "containers": [{"name": "agent", "image": "localhost/busybox:test"}]},
        });
        self.engine.apply(&pod.to_string());
        let ready =
            ["wait", "pod/agent", "--namespace=rekindle-system", "--for=condition=Ready", TIMEOUT];
        self.engine.kubectl(&ready);
        let mut command = rekindle();
        command.args(["operator", "--on-engine", "--mode", "act", "--kubeconfig"]);
        let mut child =
            GuardedChild::start(command.arg(self.engine.kubeconfig()).stderr(Stdio::piped()));
        let lines = child.all_lines();
        OperatorProcess { _child: child, lines }
    }

    /// The file that freezes a pod, where cgroups of version 2 are.
    pub fn freezer(&self, uid: &str) -> PathBuf {
        self.containerd.cgroup_of_pods().join(format!("pod{uid}/cgroup.freeze"))
    }

    /// Asks the runtime, as the agent does.
    pub fn runtime<T>(&self, ask: impl AsyncFnOnce(PodCalls) -> T) -> T {
        let calls = PodCalls::new(CriClient::new(self.containerd.socket()));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(ask(calls))
    }

    /// A pod of the node with these fields of its spec, which runs.
    pub fn pod(&self, name: &str, spec: Value) -> Value {
        self.labelled_pod(name, json!({}), spec)
    }

    /// The same with labels.
    pub fn labelled_pod(&self, name: &str, labels: Value, spec: Value) -> Value {
        let mut pod = json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": labels},
            "spec": {"nodeName": NODE, "terminationGracePeriodSeconds": 1,
                "containers": [{"name": "app", "image": "localhost/busybox:test"}]},
        });
        for (key, value) in spec.as_object().unwrap() {
            pod["spec"][key] = value.clone();
        }
        self.engine.apply(&pod.to_string());
        self.engine.until_one(&format!("pod/{name}"), |pod| pod["status"]["phase"] == "Running")
    }

    /// Asks for a restart.
    pub fn ask(&self, name: &str, spec: Value) {
        let restart = json!({
            "apiVersion": "rekindle.dev/v1alpha1", "kind": "PodRestart",
            "metadata": {"name": name}, "spec": spec,
        });
        self.engine.apply(&restart.to_string());
    }

    /// The status of a restart when it has this phase.
    #[track_caller]
    pub fn until_phase(&self, name: &str, phase: &str) -> Value {
        let restart = self.engine.until_one(&format!("podrestart/{name}"), |restart| {
            let shown = restart["status"]["phase"].as_str();
            shown == Some(phase) || shown.is_some_and(|shown| shown != "Running")
        });
        assert_eq!(restart["status"]["phase"], phase, "{restart:#}");
        restart["status"].clone()
    }
}

/// The runtime's ids of a pod's containers, and their restart counts.
pub fn containers(pod: &Value) -> Vec<(String, i64)> {
    let statuses = pod["status"]["containerStatuses"].as_array().unwrap().iter();
    statuses
        .map(|status| {
            let id = status["containerID"].as_str().unwrap().to_owned();
            (id, status["restartCount"].as_i64().unwrap())
        })
        .collect()
}
