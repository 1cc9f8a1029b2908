//! Nodes of the cluster: a kubelet and a runtime as they were measured, and the agent's procedure
//! as it runs in production.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::Pod;
use rekindle_cri_restart::{
    FreezeSupport, NodeCall, OpenRestart, PodRuntime, RestartAction, RestartEnd, RestartProgress,
    RestartSituation, RestartSlots, RuntimeContainer, RuntimeContainerState, RuntimeSandbox,
    frozen_by_deleted, frozen_for_nothing, next_action, runtime_uid,
};
use rekindle_pod_driver::restart_status_patch;
use rekindle_types::v1alpha1::{ContainerLastEnd, MemberTurn, PodRestart, PodRestartStatus};
use rekindle_types::{Tick, TickDuration};
use serde_json::{Value, json};

use crate::world::{OWN, World, typed};

/// The kubelet's pauses between starts in one sandbox in seconds: 10, 20, 40 and so on.
const BACK_OFF: u64 = 10;
const BACK_OFF_MAX: u64 = 300;

/// A node.
pub(crate) struct ClusterNode {
    name: String,
    /// Whether its runtime is CRI-O; else it is containerd.
    pub(crate) is_crio: bool,
    /// Whether its kubelet looks after pods.
    pub(crate) has_kubelet: bool,
    /// Whether its runtime answers.
    pub(crate) has_runtime: bool,
    /// So many calls that change something fail.
    pub(crate) failing_calls: u32,
    pods: BTreeMap<String, PodOnNode>,
    agent: Agent,
    /// Whether the agent did something at its last look.
    pub(crate) is_busy: bool,
    /// What the agent has called: the request's UID, the call, the sandbox.
    pub(crate) calls: Vec<(String, String)>,
}

/// A pod as runtime and kernel have it.
#[derive(Default)]
struct PodOnNode {
    runtime: PodRuntime,
    is_frozen: bool,
    /// What the containers of a sandbox share is broken: each start in it fails.
    broken: BTreeSet<String>,
    made: u32,
    restarts: i64,
    /// When the container ended last in its sandbox, and how often it did.
    ended: Option<(Tick, u32)>,
}

/// What an agent remembers. It may be lost at any point.
struct Agent {
    slots: RestartSlots,
    tasks: BTreeMap<String, RestartProgress>,
    /// The requests as they were when it looked last.
    last: BTreeMap<String, PodRestart>,
}

impl Default for Agent {
    fn default() -> Self {
        Self { slots: RestartSlots::new(1), tasks: BTreeMap::new(), last: BTreeMap::new() }
    }
}

impl PodOnNode {
    fn runs(&self) -> bool {
        self.runtime.containers.iter().any(RuntimeContainer::may_run)
    }

    fn end(&mut self, id: &str, exit_code: i32, now: Tick) {
        let container = self.runtime.containers.iter_mut().find(|container| container.id == id);
        let Some(container) = container.filter(|container| container.may_run()) else { return };
        container.state = RuntimeContainerState::Exited;
        container.end = Some(ContainerLastEnd {
            exit_code,
            reason: Some("Error".to_owned()),
            message: None,
            finished_at: Some(now.to_micro_time()),
        });
        let times = self.ended.map_or(0, |(_, times)| times);
        self.ended = Some((now, times + 1));
    }

    fn end_sandbox(&mut self, id: &str, now: Tick) {
        self.runtime.sandboxes.iter_mut().filter(|s| s.id == id).for_each(|s| s.is_ready = false);
        let of_it: Vec<String> =
            self.runtime.containers_of(id).map(|container| container.id.clone()).collect();
        of_it.iter().for_each(|id| self.end(id, 137, now));
    }

    /// Whether the kubelet waits before it starts the container again in the same sandbox.
    fn is_in_back_off(&self, now: Tick) -> bool {
        let Some((at, times)) = self.ended else { return false };
        let pause = match times {
            0 | 1 => 0,
            times => BACK_OFF_MAX.min(BACK_OFF << (times.min(7) - 2)),
        };
        now < at + TickDuration::from_secs(pause)
    }

    /// One look of the kubelet. What it starts in a frozen cgroup waits; with CRI-O a sandbox has
    /// no process that would.
    fn sync(&mut self, is_crio: bool, now: Tick) {
        if self.is_frozen && !is_crio {
            return;
        }
        if self.runtime.ready_sandbox().is_none() {
            self.made += 1;
            let id = format!("s{}", self.made);
            let created_at = i64::from(self.made);
            self.runtime.sandboxes.push(RuntimeSandbox { id, is_ready: true, created_at });
            // of a container that it still finds it says that it crashed
            if self.runtime.containers.is_empty() {
                self.ended = None;
            }
        }
        if self.is_frozen {
            return;
        }
        let sandbox = self.runtime.ready_sandbox().expect("it is there").id.clone();
        let running = self.runtime.containers_of(&sandbox).find(|c| c.may_run());
        match running.map(|container| container.id.clone()) {
            Some(id) if self.broken.contains(&sandbox) => self.end(&id, 1, now),
            Some(_) => {}
            None if self.is_in_back_off(now) => {}
            None => {
                self.made += 1;
                self.restarts += i64::from(self.made > 2);
                self.runtime.containers.push(RuntimeContainer {
                    id: format!("c{}", self.made),
                    sandbox_id: sandbox,
                    name: "app".to_owned(),
                    attempt: self.made,
                    state: RuntimeContainerState::Running,
                    end: None,
                    last_log: None,
                });
            }
        }
    }

    /// The status as the kubelet writes it.
    fn status(&self, pod: &Pod, now: Tick) -> Value {
        let latest = self.runtime.containers.iter().max_by_key(|container| container.attempt);
        let of_end = |container: &RuntimeContainer| {
            let end = container.end.as_ref()?;
            Some(json!({"terminated": {
                "exitCode": end.exit_code, "reason": end.reason,
                "startedAt": end.finished_at, "finishedAt": end.finished_at,
                "containerID": format!("containerd://{}", container.id),
            }}))
        };
        let last = self.runtime.containers.iter().filter(|container| container.end.is_some());
        let last = last.max_by_key(|container| container.attempt).and_then(of_end);
        let runs = latest.is_some_and(RuntimeContainer::may_run);
        let before = serde_json::to_value(&pod.status).expect("a status");
        let before = &before["containerStatuses"][0];
        let id = latest.map(|container| format!("containerd://{}", container.id));
        let is_same = id.as_deref().is_some_and(|id| before["containerID"] == id);
        let started = match &before["state"]["running"]["startedAt"] {
            at @ Value::String(_) if is_same => at.clone(),
            _ => json!(now.to_time()),
        };
        let state = match runs {
            true => json!({"running": {"startedAt": started}}),
            false => json!({"waiting": {"reason": "CrashLoopBackOff", "message": "back-off"}}),
        };
        json!({
            "phase": "Running", "startTime": pod.metadata.creation_timestamp,
            "conditions": [{"type": "Ready", "status": if runs { "True" } else { "False" },
                "lastTransitionTime": started}],
            "containerStatuses": [{
                "name": "app", "image": "app", "imageID": "", "ready": runs,
                "restartCount": self.restarts, "containerID": id, "state": state,
                "lastState": last.unwrap_or_else(|| before["lastState"].clone()),
            }],
        })
    }
}

impl ClusterNode {
    pub(crate) fn new(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            is_crio: false,
            has_kubelet: true,
            has_runtime: true,
            failing_calls: 0,
            pods: BTreeMap::new(),
            agent: Agent::default(),
            is_busy: false,
            calls: Vec::new(),
        }
    }

    /// The kubelet looks at its pods, and says how they are.
    pub(crate) fn kubelet(&mut self, world: &mut World) {
        let pods = world.pods_of_node(&self.name);
        let uids: BTreeSet<&str> = pods.iter().filter_map(runtime_uid).collect();
        self.pods.retain(|uid, _| uids.contains(uid.as_str()));
        if !self.has_kubelet || !self.has_runtime {
            return;
        }
        for pod in pods.iter().filter(|pod| pod.metadata.namespace.as_deref() != Some(OWN)) {
            let uid = runtime_uid(pod).expect("a UID").to_owned();
            let on_node = self.pods.entry(uid).or_default();
            on_node.sync(self.is_crio, world.now);
            let status = on_node.status(pod, world.now);
            if serde_json::to_value(&pod.status).expect("a status") != status {
                world.report_pod(pod, status);
            }
        }
    }

    /// What the containers of a pod share breaks.
    pub(crate) fn break_pod(&mut self, which: usize, now: Tick) {
        let Some(pod) = self.pods.values_mut().nth(which) else { return };
        let Some(sandbox) = pod.runtime.ready_sandbox().map(|sandbox| sandbox.id.clone()) else {
            return;
        };
        let running = pod.runtime.containers_of(&sandbox).find(|c| c.may_run());
        if let Some(id) = running.map(|container| container.id.clone()) {
            pod.end(&id, 1, now);
        }
        pod.broken.insert(sandbox);
    }

    /// The runtime loses a sandbox.
    pub(crate) fn lose_sandbox(&mut self, which: usize, now: Tick) {
        let Some(pod) = self.pods.values_mut().nth(which) else { return };
        if let Some(id) = pod.runtime.ready_sandbox().map(|sandbox| sandbox.id.clone()) {
            pod.end_sandbox(&id, now);
        }
    }

    /// The agent is killed and started again.
    pub(crate) fn kill_agent(&mut self, world: &World) {
        self.agent = Agent::default();
        let frozen = self.pods.iter().filter(|(_, pod)| pod.is_frozen);
        let frozen = frozen.map(|(uid, _)| cgroup_of(uid)).collect();
        let pods = world.pods_of_node(&self.name);
        for cgroup in frozen_for_nothing(frozen, pods.iter(), world.requests().iter()) {
            self.thaw(&cgroup);
        }
    }

    fn thaw(&mut self, cgroup: &str) {
        let pods = self.pods.iter_mut().filter(|(uid, _)| cgroup_of(uid) == cgroup);
        pods.for_each(|(_, pod)| pod.is_frozen = false);
    }

    /// The agent does one thing for each request that it works on.
    pub(crate) fn agent(&mut self, world: &mut World) {
        self.is_busy = false;
        let restarts = world.requests();
        let pods = world.pods_of_node(&self.name);
        let pod_of = |restart: &PodRestart| {
            let is_named = |pod: &&Pod| {
                pod.metadata.name.as_deref() == Some(restart.spec.pod_name.as_str())
                    && pod.metadata.namespace == restart.metadata.namespace
            };
            pods.iter().find(is_named)
        };
        let open: Vec<OpenRestart> = { restarts.iter() }
            .filter_map(|restart| {
                let turn = turn_of(restart, &restarts);
                OpenRestart::of_node(&self.name, restart, pod_of(restart).is_some(), turn)
            })
            .collect();
        let is_there = |uid: &str| restarts.iter().any(|r| r.metadata.uid.as_deref() == Some(uid));
        self.agent.slots.changed();
        self.agent.slots.pause_is_over();
        for uid in self.agent.slots.take(&open, is_there) {
            self.agent.tasks.insert(uid, RestartProgress::default());
        }
        for (uid, mut progress) in std::mem::take(&mut self.agent.tasks) {
            let is_of_uid = |r: &&PodRestart| r.metadata.uid.as_deref() == Some(uid.as_str());
            let end = match restarts.iter().find(is_of_uid) {
                None => {
                    let last = self.agent.last.remove(&uid);
                    let left = last.and_then(|last| frozen_by_deleted(&last, &progress));
                    left.iter().for_each(|cgroup| self.thaw(cgroup));
                    Some(RestartEnd::Answered)
                }
                Some(restart) => {
                    self.agent.last.insert(uid.clone(), restart.clone());
                    let turn = turn_of(restart, &restarts);
                    self.step(world, restart, pod_of(restart), turn, &mut progress)
                }
            };
            match end {
                Some(end) => self.agent.slots.ended(&uid, end),
                None => drop(self.agent.tasks.insert(uid, progress)),
            }
        }
    }

    fn step(
        &mut self,
        world: &mut World,
        restart: &PodRestart,
        pod: Option<&Pod>,
        turn: MemberTurn,
        progress: &mut RestartProgress,
    ) -> Option<RestartEnd> {
        let uid = pod.and_then(runtime_uid).unwrap_or_default();
        let shown = self
            .pods
            .get(uid)
            .map(|pod| PodRuntime { cgroup: Some(cgroup_of(uid)), ..pod.runtime.clone() });
        let shown = shown.unwrap_or_default();
        match self.has_runtime {
            true => progress.answered(),
            false => progress.unanswered("no answer", world.now),
        }
        let situation = RestartSituation {
            node: &self.name,
            own_namespace: Some(OWN),
            restart,
            pod,
            runtime: self.has_runtime.then_some(&shown),
            support: FreezeSupport::EmptiesVolumes,
            turn,
            now: world.now,
        };
        let is_begun = restart.status.as_ref().is_some_and(|status| status.phase.is_some());
        match next_action(&situation, progress) {
            RestartAction::Leave if is_begun => return Some(RestartEnd::Answered),
            RestartAction::Leave => return Some(RestartEnd::Unanswered),
            RestartAction::Wait(_) => {}
            RestartAction::Write(status) => {
                self.is_busy = true;
                write(world, restart, &status);
            }
            RestartAction::Call(call) => {
                self.is_busy = true;
                let request = restart.metadata.uid.clone().unwrap_or_default();
                self.calls.push((request, format!("{:?}", call)));
                if self.failing_calls > 0 || (is_of_runtime(&call) && !self.has_runtime) {
                    self.failing_calls = self.failing_calls.saturating_sub(1);
                    progress.failed(call.kind(), "broken", world.now);
                } else {
                    self.carry_out(&call, uid, world.now);
                    progress.succeeded(call.kind());
                }
            }
        }
        None
    }

    fn carry_out(&mut self, call: &NodeCall, uid: &str, now: Tick) {
        let Some(pod) = self.pods.get_mut(uid) else { return };
        match call {
            NodeCall::StopContainers(plan) => {
                plan.waves.iter().flatten().for_each(|stop| pod.end(&stop.id, 143, now));
            }
            NodeCall::HoldPod(_) => pod.is_frozen = true,
            NodeCall::ReleasePod(_) => pod.is_frozen = false,
            NodeCall::KillContainers(ids) => ids.iter().for_each(|id| pod.end(id, 137, now)),
            NodeCall::StopSandbox(id) => pod.end_sandbox(id, now),
            NodeCall::ClearEmptyDirs { .. } => {
                assert!(pod.is_frozen && !pod.runs(), "emptied below what may run");
            }
            NodeCall::RemoveSandbox(id) => {
                pod.runtime.sandboxes.retain(|sandbox| sandbox.id != *id);
                pod.runtime.containers.retain(|container| container.sandbox_id != *id);
            }
        }
    }

    /// Whether a container of this pod runs.
    pub(crate) fn runs(&self, pod_uid: &str) -> bool {
        self.pods.get(pod_uid).is_some_and(PodOnNode::runs)
    }

    /// The UIDs of pods that are frozen.
    pub(crate) fn frozen(&self) -> Vec<&str> {
        let frozen = self.pods.iter().filter(|(_, pod)| pod.is_frozen);
        frozen.map(|(uid, _)| uid.as_str()).collect()
    }

    /// The UIDs of pods of which nothing runs.
    pub(crate) fn stopped(&self) -> Vec<&str> {
        let stopped = self.pods.iter().filter(|(_, pod)| !pod.runs());
        stopped.map(|(uid, _)| uid.as_str()).collect()
    }
}

/// Whether the runtime answers a call; the others are the kernel's.
fn is_of_runtime(call: &NodeCall) -> bool {
    match call {
        NodeCall::StopContainers(_)
        | NodeCall::KillContainers(_)
        | NodeCall::StopSandbox(_)
        | NodeCall::RemoveSandbox(_) => true,
        NodeCall::HoldPod(_) | NodeCall::ReleasePod(_) | NodeCall::ClearEmptyDirs { .. } => false,
    }
}

fn cgroup_of(pod_uid: &str) -> String {
    format!("kubepods/besteffort/pod{pod_uid}")
}

/// What the group of a request is about to do.
pub(crate) fn turn_of(restart: &PodRestart, all: &[PodRestart]) -> MemberTurn {
    let group = restart.spec.member_of.as_ref();
    let group = group.and_then(|name| all.iter().find(|r| r.metadata.name.as_ref() == Some(name)));
    restart.member_turn(group)
}

/// The merge patch of an agent, over the version that it was decided on.
fn write(world: &mut World, before: &PodRestart, status: &PodRestartStatus) {
    let now = world.requests().into_iter().find(|r| r.metadata.uid == before.metadata.uid);
    let Some(mut restart) = now else { return };
    if restart.metadata.resource_version != before.metadata.resource_version {
        return; // a conflict
    }
    let patch = restart_status_patch(before.metadata.uid.as_deref(), status);
    let mut merged = serde_json::to_value(&restart.status).expect("a status");
    if merged.is_null() {
        merged = json!({});
    }
    for (field, value) in patch["status"].as_object().expect("a status") {
        match value {
            Value::Null => drop(merged.as_object_mut().expect("a status").remove(field)),
            value => merged[field] = value.clone(),
        }
    }
    restart.status = Some(typed(merged));
    world.put(restart);
}
