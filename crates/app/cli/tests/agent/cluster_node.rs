//! A cluster with one node: its API, its runtime, its kubelet, and the agent.

use std::process::Stdio;
use std::sync::mpsc::Receiver;

use rekindle_agent::PodCalls;
use rekindle_agent::cri::CriClient;
use rekindle_testkit::containerd::Containerd;
use rekindle_testkit::guarded_child::GuardedChild;
use rekindle_testkit::{Engine, PATIENCE, rekindle};
use serde_json::{Value, json};

use crate::kubelet_double::KubeletDouble;

pub const NODE: &str = "worker-1";

/// What ends first is first.
pub struct ClusterNode {
    pub agent: Option<AgentProcess>,
    pub kubelet: Option<KubeletDouble>,
    pub containerd: Containerd,
    pub engine: Engine,
}

/// The agent; killed when it is dropped, as by kill -9.
pub struct AgentProcess {
    child: GuardedChild,
    lines: Receiver<String>,
}

impl AgentProcess {
    #[track_caller]
    pub fn says(&self, what: &str) {
        let mut said = Vec::new();
        while let Ok(line) = self.lines.recv_timeout(PATIENCE) {
            said.push(line);
            if said.last().is_some_and(|line| line.contains(what)) {
                return;
            }
        }
        panic!("nothing about {what:?} in {said:#?}")
    }

    pub fn pid(&self) -> u32 {
        self.child.0.id()
    }
}

impl ClusterNode {
    /// A node with its kubelet and no agent.
    pub fn new() -> Self {
        let engine = Engine::start_with(&["--no-ladders"]);
        let containerd = Containerd::start();
        engine.apply(&format!("{{apiVersion: v1, kind: Node, metadata: {{name: {NODE}}}}}"));
        let mut node = Self { agent: None, kubelet: None, containerd, engine };
        node.start_kubelet();
        node
    }

    pub fn start_kubelet(&mut self) {
        self.kubelet = Some(KubeletDouble::start(
            self.engine.kubeconfig(),
            NODE.to_owned(),
            self.containerd.socket(),
            self.containerd.cgroup().to_owned(),
        ));
    }

    pub fn start_agent(&mut self) {
        let mut command = rekindle();
        command.args(["agent", "--node-name", NODE, "--kubeconfig"]).arg(self.engine.kubeconfig());
        command.arg("--cri-socket").arg(format!("unix://{}", self.containerd.socket().display()));
        let mut child = GuardedChild::start(command.stderr(Stdio::piped()));
        let lines = child.all_lines();
        let agent = AgentProcess { child, lines };
        agent.says("restarts pods of node worker-1 in place");
        self.agent = Some(agent);
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
