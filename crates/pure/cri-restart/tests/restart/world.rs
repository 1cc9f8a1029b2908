//! A node as the procedure sees it: a runtime, a kubelet that was measured, and an agent that may
//! lose its memory.

use k8s_openapi::api::core::v1::Pod;
use rekindle_cri_restart::{
    FreezeSupport, NodeCall, PodRuntime, RestartAction, RestartProgress, RestartSituation,
    RuntimeCall, RuntimeContainer, RuntimeContainerState, RuntimeSandbox, next_action,
};
use rekindle_types::v1alpha1::{ContainerLastEnd, MemberTurn, PodRestart, PodRestartPhase};
use rekindle_types::{Tick, TickDuration};
use serde_json::{Value, json};

pub const NODE: &str = "n1";
/// The pod's.
pub const CGROUP: &str = "kubepods/burstable/podu1";

pub struct NodeWorld {
    pub now: Tick,
    pub restart: PodRestart,
    pub pod: Pod,
    pub runtime: PodRuntime,
    pub progress: RestartProgress,
    /// Calls that changed something, in order.
    pub calls: Vec<String>,
    /// The next calls fail with these.
    pub errors: Vec<String>,
    pub is_silent: bool,
    pub support: FreezeSupport,
    /// What the group is about to do.
    pub turn: MemberTurn,
    /// Whether the pod's cgroup is frozen.
    pub is_frozen: bool,
    /// CRI-O: StopPodSandbox waits for what is asked to end, and a sandbox has no process that a
    /// frozen cgroup would hold back.
    pub is_crio: bool,
    /// Whether there is something in its emptyDir volumes from before the request.
    pub is_dirty: bool,
    made: u32,
}

pub fn pod(spec: Value) -> Pod {
    let mut pod = json!({
        "metadata": {"name": "web", "namespace": "shop", "uid": "u1"},
        "spec": {
            "nodeName": NODE, "terminationGracePeriodSeconds": 5,
            "containers": [{"name": "app"}, {"name": "side"}],
            "initContainers": [{"name": "setup"}, {"name": "proxy", "restartPolicy": "Always"},
                {"name": "logs", "restartPolicy": "Always"}],
        },
        "status": {"phase": "Running"},
    });
    for (key, value) in spec.as_object().unwrap() {
        pod["spec"][key] = value.clone();
    }
    serde_json::from_value(pod).unwrap()
}

pub fn request(spec: Value) -> PodRestart {
    let mut restart = json!({
        "apiVersion": "rekindle.dev/v1alpha1", "kind": "PodRestart",
        "metadata": {"name": "again", "namespace": "shop", "uid": "r1",
            "creationTimestamp": "1970-01-01T00:01:40Z"},
        "spec": {"podName": "web", "emptyDirs": "Keep"},
    });
    for (key, value) in spec.as_object().unwrap() {
        restart["spec"][key] = value.clone();
    }
    serde_json::from_value(restart).unwrap()
}

impl NodeWorld {
    /// The pod runs, and the request was just made.
    pub fn new(restart: PodRestart, pod: Pod) -> Self {
        let mut world = Self {
            now: Tick::from_secs(100),
            restart,
            pod,
            runtime: PodRuntime { cgroup: Some(CGROUP.to_owned()), ..PodRuntime::default() },
            progress: RestartProgress::default(),
            calls: Vec::new(),
            errors: Vec::new(),
            is_silent: false,
            support: FreezeSupport::EmptiesVolumes,
            turn: MemberTurn::Stop,
            is_frozen: false,
            is_crio: false,
            is_dirty: true,
            made: 0,
        };
        world.kubelet();
        world
    }

    pub fn phase(&self) -> Option<PodRestartPhase> {
        self.restart.status.as_ref().and_then(|status| status.phase)
    }

    pub fn message(&self) -> &str {
        let status = self.restart.status.as_ref();
        status.and_then(|status| status.message.as_deref()).unwrap_or_default()
    }

    pub fn is_over(&self) -> bool {
        self.phase().is_some_and(PodRestartPhase::is_final)
    }

    /// What is next, without doing it.
    pub fn next(&mut self) -> RestartAction {
        if self.is_silent {
            self.progress.unanswered("no answer", self.now);
        } else {
            self.progress.answered();
        }
        let situation = RestartSituation {
            node: NODE,
            own_namespace: Some("rekindle-system"),
            restart: &self.restart,
            pod: Some(&self.pod),
            runtime: (!self.is_silent).then_some(&self.runtime),
            support: self.support,
            turn: self.turn,
            now: self.now,
        };
        next_action(&situation, &mut self.progress)
    }

    /// The agent does one thing.
    pub fn agent(&mut self) -> RestartAction {
        let action = self.next();
        match &action {
            RestartAction::Leave | RestartAction::Wait(_) => {}
            RestartAction::Write(status) => self.restart.status = Some(status.as_ref().clone()),
            RestartAction::Call(call) => self.carry_out(call),
        }
        action
    }

    fn carry_out(&mut self, call: &NodeCall) {
        match call {
            NodeCall::StopContainers(plan) => {
                let ids: Vec<String> =
                    plan.waves.iter().flatten().map(|stop| stop.id.clone()).collect();
                if self.call(RuntimeCall::StopContainers, &ids.join(" ")) {
                    ids.iter().for_each(|id| self.end(id, 143));
                }
            }
            NodeCall::HoldPod(cgroup) => {
                if self.call(RuntimeCall::HoldPod, cgroup) {
                    self.is_frozen = true;
                }
            }
            NodeCall::KillContainers(ids) => {
                if self.call(RuntimeCall::KillContainers, &ids.join(" ")) {
                    ids.iter().for_each(|id| self.end(id, 137));
                }
            }
            NodeCall::ClearEmptyDirs { cgroup: _, volumes } => {
                let names: Vec<&str> = volumes.iter().map(|volume| volume.name.as_str()).collect();
                if self.call(RuntimeCall::ClearEmptyDirs, &names.join(" ")) {
                    let runs = self.runtime.containers.iter().any(RuntimeContainer::may_run);
                    assert!(self.is_frozen && !runs, "emptied below a container that may run");
                    self.is_dirty = false;
                }
            }
            NodeCall::ReleasePod(cgroup) => {
                if self.call(RuntimeCall::ReleasePod, cgroup) {
                    self.is_frozen = false;
                }
            }
            NodeCall::StopSandbox(id) => {
                let runs = self.runtime.containers_of(id).any(RuntimeContainer::may_run);
                if runs && self.is_frozen && self.is_crio {
                    self.errors.push("the deadline was exceeded".to_owned());
                }
                if self.call(RuntimeCall::StopSandbox, id) {
                    self.end_sandbox(id);
                }
            }
            NodeCall::RemoveSandbox(id) => {
                if self.call(RuntimeCall::RemoveSandbox, id) {
                    self.runtime.sandboxes.retain(|sandbox| sandbox.id != *id);
                    self.runtime.containers.retain(|container| container.sandbox_id != *id);
                }
            }
        }
    }

    fn call(&mut self, call: RuntimeCall, of: &str) -> bool {
        self.calls.push(format!("{call:?} {of}"));
        match self.errors.pop() {
            Some(error) => {
                self.progress.failed(call, &error, self.now);
                false
            }
            None => {
                self.progress.succeeded(call);
                true
            }
        }
    }

    pub fn end_sandbox(&mut self, id: &str) {
        let sandbox = self.runtime.sandboxes.iter_mut().find(|sandbox| sandbox.id == id);
        sandbox.unwrap().is_ready = false;
        let of_it: Vec<String> =
            self.runtime.containers_of(id).map(|container| container.id.clone()).collect();
        of_it.iter().for_each(|id| self.end(id, 137));
    }

    /// A container ends, if it runs.
    pub fn end(&mut self, id: &str, exit_code: i32) {
        let container = self.runtime.containers.iter_mut().find(|container| container.id == id);
        let Some(container) = container.filter(|container| container.may_run()) else { return };
        container.state = RuntimeContainerState::Exited;
        container.end = Some(ContainerLastEnd {
            exit_code,
            reason: Some("Error".to_owned()),
            message: None,
            finished_at: None,
        });
    }

    /// The agent is killed and started again.
    pub fn crash(&mut self) {
        self.progress = RestartProgress::default();
    }

    pub fn pass(&mut self, seconds: u64) {
        self.now = self.now + TickDuration::from_secs(seconds);
    }

    /// The kubelet lists anew: a sandbox if none is ready, containers that do not run, the status.
    /// What it starts in a frozen cgroup waits.
    pub fn kubelet(&mut self) {
        if self.is_frozen && !self.is_crio {
            return;
        }
        if self.runtime.ready_sandbox().is_none() {
            self.made += 1;
            let id = format!("s{}", self.made);
            let created_at = i64::from(self.made);
            self.runtime.sandboxes.push(RuntimeSandbox { id, is_ready: true, created_at });
        }
        if self.is_frozen {
            return;
        }
        let sandbox = self.runtime.ready_sandbox().unwrap().id.clone();
        let mut shown = Vec::new();
        for name in ["app", "side", "proxy", "logs"] {
            let runs = |c: &&RuntimeContainer| c.name == name && c.may_run();
            if self.runtime.containers_of(&sandbox).find(runs).is_none() {
                self.made += 1;
                self.runtime.containers.push(RuntimeContainer {
                    id: format!("{name}{}", self.made),
                    sandbox_id: sandbox.clone(),
                    name: name.to_owned(),
                    attempt: self.made,
                    state: RuntimeContainerState::Running,
                    end: None,
                    last_log: Some(format!("{name} runs")),
                });
            }
            let container = self.runtime.containers_of(&sandbox).find(runs).unwrap();
            shown.push(json!({"name": name, "image": "", "imageID": "", "ready": true,
                "restartCount": 0, "containerID": format!("containerd://{}", container.id),
                "state": {"running": {}}}));
        }
        let mut pod = serde_json::to_value(&self.pod).unwrap();
        pod["status"]["containerStatuses"] = json!(shown[..2]);
        pod["status"]["initContainerStatuses"] = json!(shown[2..]);
        self.pod = serde_json::from_value(pod).unwrap();
    }

    /// Agent and kubelet in turn, until it is over.
    pub fn settle(&mut self) {
        for _ in 0..2000 {
            if self.is_over() {
                return;
            }
            if let RestartAction::Wait(_) = self.agent() {
                self.kubelet();
                self.pass(1);
            }
        }
        panic!("it never ends: {:?}, calls {:?}", self.restart.status, self.calls);
    }
}
