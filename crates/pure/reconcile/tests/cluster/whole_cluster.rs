//! A whole cluster under faults: the operator and the agents as they run in production, beside
//! kubelets and runtimes as they were measured. Whatever is killed between two steps, no pod is
//! restarted twice for one request, a group stops before any of it starts, and all of it ends.

use std::collections::BTreeMap;

use proptest::prelude::*;
use rekindle_reconcile::{
    AGENT_LABEL, AGENT_LABEL_VALUE, FREEZES_PODS_LABEL, FREEZES_PODS_LABEL_VALUE, LadderMode,
};
use rekindle_types::v1alpha1::{
    GroupRestartMember, GroupRestartStage, LedgerPhase, MemberTurn, PodRestart, PodRestartPhase,
    RestartLadder, RestartLedger, RestartLedgerStatus, Rung,
};
use serde_json::json;

use crate::nodes::{ClusterNode, turn_of};
use crate::world::{OWN, SHOP, World, typed};

const NODES: [&str; 2] = ["n1", "n2"];
/// Seconds after the faults by which everything runs again.
const REST_WITHIN: u64 = 1800;

/// So often the agents look in a second, if they always find something to do.
const ROUNDS_MAX: usize = 20;

#[derive(Clone, Copy, Debug)]
enum ClusterEvent {
    Pass(u64),
    PodBreaks { node: usize, pod: usize },
    SandboxIsLost { node: usize, pod: usize },
    AgentIsKilled(usize),
    OperatorIsKilledAfter(usize),
    KubeletStops(usize),
    KubeletStarts(usize),
    RuntimeHangs(usize),
    RuntimeAnswers(usize),
    CallsFail(usize, u32),
    GroupIsAskedFor,
    RequestIsDeleted(usize),
}

fn cluster_event() -> impl Strategy<Value = ClusterEvent> {
    let node = || 0..NODES.len();
    prop_oneof![
        12 => (1..20_u64).prop_map(ClusterEvent::Pass),
        4 => (node(), 0..3_usize).prop_map(|(node, pod)| ClusterEvent::PodBreaks { node, pod }),
        2 => (node(), 0..3_usize).prop_map(|(node, pod)| ClusterEvent::SandboxIsLost { node, pod }),
        3 => node().prop_map(ClusterEvent::AgentIsKilled),
        2 => (0..6_usize).prop_map(ClusterEvent::OperatorIsKilledAfter),
        1 => node().prop_map(ClusterEvent::KubeletStops),
        2 => node().prop_map(ClusterEvent::KubeletStarts),
        1 => node().prop_map(ClusterEvent::RuntimeHangs),
        2 => node().prop_map(ClusterEvent::RuntimeAnswers),
        2 => (node(), 1..4_u32).prop_map(|(node, times)| ClusterEvent::CallsFail(node, times)),
        2 => Just(ClusterEvent::GroupIsAskedFor),
        1 => (0..6_usize).prop_map(ClusterEvent::RequestIsDeleted),
    ]
}

struct Cluster {
    world: World,
    nodes: Vec<ClusterNode>,
    /// Requests of a person so far.
    asked: u32,
}

impl Cluster {
    /// Four pods of a ReplicaSet on two nodes, each with an agent, and a ladder of this scope.
    fn new(scope: &str) -> Self {
        let mut world = World::new(LadderMode::Act);
        for node in NODES {
            let name = format!("agent-{node}");
            world.pod(OWN, &name, None, json!({"nodeName": node}));
            let labels = json!({
                AGENT_LABEL: AGENT_LABEL_VALUE, FREEZES_PODS_LABEL: FREEZES_PODS_LABEL_VALUE,
            });
            world.relabel(OWN, &name, labels);
        }
        world.put(typed::<RestartLadder>(json!({
            "metadata": {"name": "web", "namespace": SHOP, "generation": 1},
            "spec": {
                "selector": {"matchLabels": {"app": "web"}}, "scope": scope, "window": "10m",
                "rungs": [{"rung": "Container"}, {"rung": "Pod", "attempts": 2},
                    {"rung": "Recreate", "attempts": 2}],
            },
        })));
        world.replica_set(SHOP, "web");
        for (number, node) in NODES.iter().cycle().take(4).enumerate() {
            let volumes = json!([{"name": "scratch", "emptyDir": {}}]);
            let name = format!("web-{number}");
            world.pod(SHOP, &name, Some("web"), json!({"nodeName": node, "volumes": volumes}));
        }
        let mut nodes = NODES.map(ClusterNode::new);
        nodes[1].is_crio = true;
        let mut cluster = Self { world, nodes: nodes.into(), asked: 0 };
        cluster.pass(5);
        cluster
    }

    /// A second: kubelets look, agents and the operator go on as far as they can.
    fn pass(&mut self, seconds: u64) {
        for _ in 0..seconds {
            self.world.bind_pods(NODES[0]);
            for node in &mut self.nodes {
                node.kubelet(&mut self.world);
            }
            for _ in 0..ROUNDS_MAX {
                for node in &mut self.nodes {
                    node.agent(&mut self.world);
                }
                self.world.settle();
                self.check();
                if !self.nodes.iter().any(|node| node.is_busy) {
                    break;
                }
            }
            self.world.advance(1);
        }
    }

    fn happen(&mut self, event: ClusterEvent) {
        let now = self.world.now;
        match event {
            ClusterEvent::Pass(seconds) => self.pass(seconds),
            ClusterEvent::PodBreaks { node, pod } => self.nodes[node].break_pod(pod, now),
            ClusterEvent::SandboxIsLost { node, pod } => self.nodes[node].lose_sandbox(pod, now),
            ClusterEvent::AgentIsKilled(node) => self.nodes[node].kill_agent(&self.world),
            ClusterEvent::OperatorIsKilledAfter(writes) => self.world.killed_after = Some(writes),
            ClusterEvent::KubeletStops(node) => self.nodes[node].has_kubelet = false,
            ClusterEvent::KubeletStarts(node) => self.nodes[node].has_kubelet = true,
            ClusterEvent::RuntimeHangs(node) => self.nodes[node].has_runtime = false,
            ClusterEvent::RuntimeAnswers(node) => self.nodes[node].has_runtime = true,
            ClusterEvent::CallsFail(node, times) => self.nodes[node].failing_calls = times,
            ClusterEvent::GroupIsAskedFor => {
                self.asked += 1;
                let name = format!("by-hand-{}", self.asked);
                self.world.put(typed::<PodRestart>(json!({
                    "metadata": {"name": name, "namespace": SHOP},
                    "spec": {"selector": {"matchLabels": {"app": "web"}}, "deadlineSeconds": 120},
                })));
            }
            ClusterEvent::RequestIsDeleted(which) => {
                if let Some(request) = self.world.requests().get(which) {
                    let object = rekindle_controllers::ViewObject::from(request.clone());
                    self.world.remove(&object.id());
                }
            }
        }
        self.check();
    }

    /// What holds at each moment.
    fn check(&self) {
        let requests = self.world.requests();
        for request in &requests {
            let Some(status) = &request.status else { continue };
            let is_over = status.phase.is_some_and(PodRestartPhase::is_final);
            // a member that has stopped waits for the others
            let waits = status.stopped_at.is_some()
                && !is_over
                && turn_of(request, &requests) == MemberTurn::Stop;
            let pod = status.pod_uid.as_deref().unwrap_or_default();
            let runs = self.nodes.iter().any(|node| node.runs(pod));
            assert!(!waits || !runs, "a member runs before its group starts: {request:?}");
        }
        for group in requests.iter().filter(|request| request.is_of_group()) {
            let Some(state) = group.group() else { continue };
            let is_open = |member: &&GroupRestartMember| {
                member.request_uid.is_some() && !member.phase.is_some_and(PodRestartPhase::is_final)
            };
            let is_over = group.status.as_ref().and_then(|s| s.phase).is_some_and(|p| p.is_final());
            if state.stage == GroupRestartStage::Starting
                && !is_over
                && group.spec.rung() == Rung::Pod
            {
                let all_stopped =
                    state.members.iter().filter(is_open).all(|m| m.stopped_at.is_some());
                assert!(all_stopped, "a group starts before all have stopped: {group:?}");
            }
        }
        for node in &self.nodes {
            let mut sandboxes: BTreeMap<&str, &str> = BTreeMap::new();
            for (request, call) in &node.calls {
                let ends = call.starts_with("StopSandbox") || call.starts_with("RemoveSandbox");
                let Some((_, sandbox)) = call.split_once('(').filter(|_| ends) else { continue };
                let first = sandboxes.entry(request).or_insert(sandbox);
                assert_eq!(*first, sandbox, "request {request} ended two sandboxes");
            }
        }
    }
}

fn play(scope: &str, events: &[ClusterEvent]) {
    let mut cluster = Cluster::new(scope);
    for event in events {
        cluster.happen(*event);
    }
    // the faults are over
    cluster.world.killed_after = None;
    for node in &mut cluster.nodes {
        node.has_kubelet = true;
        node.has_runtime = true;
        node.failing_calls = 0;
    }
    let mut waited = 0;
    while waited < REST_WITHIN && !is_at_rest(&cluster) {
        cluster.pass(10);
        waited += 10;
    }
    let mut open = cluster.world.requests();
    open.retain(|request| !is_over(request));
    assert!(open.is_empty(), "{scope}: never over: {open:#?}");
    for node in &cluster.nodes {
        assert_eq!(node.frozen(), [""; 0], "{scope}: a pod is left frozen");
    }
    assert!(is_at_rest(&cluster), "{scope}: a pod never runs again: {:?}", cluster.world.ledgers());
}

fn is_over(request: &PodRestart) -> bool {
    request.status.as_ref().and_then(|status| status.phase).is_some_and(PodRestartPhase::is_final)
}

/// Nothing is under way, and what does not run has tried every rung.
fn is_at_rest(cluster: &Cluster) -> bool {
    let is_exhausted = |(_, status): &(RestartLedger, RestartLedgerStatus)| {
        status.phase == Some(LedgerPhase::Exhausted)
    };
    let runs = cluster.nodes.iter().all(|node| node.stopped().is_empty())
        || cluster.world.ledgers().iter().any(is_exhausted);
    runs && cluster.nodes.iter().all(|node| node.frozen().is_empty())
        && cluster.world.requests().iter().all(is_over)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    #[test]
    fn whatever_fails_no_pod_is_restarted_twice_and_all_of_them_run_in_the_end(
        scope in prop_oneof![Just("Pod"), Just("Group")],
        events in prop::collection::vec(cluster_event(), 1..40),
    ) {
        play(scope, &events);
    }
}
