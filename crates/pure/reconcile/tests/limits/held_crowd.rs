//! Requests that waited for the same thing, a node or a disruption budget, do not all go on in the
//! moment in which it is there: the limits hold for what was held back, too (promise P5).

use std::collections::{BTreeMap, VecDeque};

use k8s_openapi::api::core::v1::{self, Node};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use rekindle_controllers::plan::{EvictWrite, WriteRefusal};
use rekindle_controllers::{
    NamespacedName, NewObject, ObjectId, ResourceKind, ViewObject, WriteOperation, WriteResult,
};
use rekindle_reconcile::{Planner, PlannerTask, RestartLimits, TokenBucket, WatchUpdate, kinds};
use rekindle_types::held::HeldPod;
use rekindle_types::v1alpha1::{LedgerPhase, PodRestart, PodRestartPhase, RestartLadder};
use rekindle_types::{Tick, TickDuration};
use serde_json::{Value, json};

use crate::failing::{BEGIN, failing_pod, typed};

const PODS: usize = 20;
const MINUTE: TickDuration = TickDuration::from_secs(60);
/// A new pod is ready after this.
const STARTS_IN: TickDuration = TickDuration::from_secs(3);

/// An API of pods without controllers, each with the rung Reschedule, and the nodes' part.
struct World {
    now: Tick,
    planner: Planner,
    revision: u64,
    /// What watches show next.
    seen: VecDeque<WatchUpdate>,
    /// When a pod becomes ready.
    starting: Vec<(Tick, HeldPod)>,
    evicted: Vec<Tick>,
    deleted: Vec<ObjectId>,
    open: BTreeMap<ObjectId, Tick>,
    most_open: usize,
    budget: Budget,
}

/// Whether a disruption budget lets pods be evicted.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Budget {
    Allows,
    Forbids,
}

fn node(name: &str) -> ViewObject {
    let node: Node = typed(json!({
        "metadata": {"name": name, "uid": name, "resourceVersion": "1"},
        "status": {
            "allocatable": {"cpu": "64", "memory": "64Gi", "pods": "110"},
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }));
    ViewObject::from(node)
}

/// What is stored when this is written.
fn stored(object: &ViewObject, change: impl FnOnce(&mut ObjectMeta)) -> WriteResult {
    let object = match object {
        ViewObject::Pod(o) => ViewObject::from(changed(o.as_ref(), |o| change(&mut o.metadata))),
        ViewObject::PodRestart(o) => {
            ViewObject::from(changed(o.as_ref(), |o| change(&mut o.metadata)))
        }
        ViewObject::RestartLedger(o) => {
            ViewObject::from(changed(o.as_ref(), |o| change(&mut o.metadata)))
        }
        ViewObject::RestartLadder(o) => {
            ViewObject::from(changed(o.as_ref(), |o| change(&mut o.metadata)))
        }
        _ => return WriteResult::Done,
    };
    WriteResult::Stored(object)
}

fn changed<T: Clone>(object: &T, change: impl FnOnce(&mut T)) -> T {
    let mut object = object.clone();
    change(&mut object);
    object
}

impl World {
    fn new(limits: RestartLimits, rung: &str, budget: Value) -> Self {
        let ladder: RestartLadder = typed(json!({
            "metadata": {
                "name": "web", "namespace": "shop", "uid": "ladder", "resourceVersion": "1", "generation": 1,
            },
            "spec": {
                "selector": {"matchLabels": {"app": "web"}}, "budget": budget,
                "rungs": [{"rung": rung, "attempts": 3}],
            },
        }));
        let mut objects = BTreeMap::from([
            (ResourceKind::Node, vec![node("n1")]),
            (ResourceKind::RestartLadder, vec![ViewObject::from(ladder)]),
            (ResourceKind::Pod, (0..PODS).map(|number| failing_pod("shop", number)).collect()),
        ]);
        let mut planner = Planner::new(limits);
        for kind in kinds() {
            planner.see(BEGIN, WatchUpdate::List(kind, objects.remove(&kind).unwrap_or_default()));
        }
        Self {
            now: BEGIN,
            planner,
            revision: 10,
            seen: VecDeque::new(),
            starting: Vec::new(),
            evicted: Vec::new(),
            deleted: Vec::new(),
            open: BTreeMap::new(),
            most_open: 0,
            budget: Budget::Allows,
        }
    }

    fn settle(&mut self) {
        loop {
            while let Some(seen) = self.seen.pop_front() {
                self.planner.see(self.now, seen);
            }
            self.planner.begin_due(self.now);
            let Some(task) = self.planner.poll_task() else {
                if self.seen.is_empty() {
                    return;
                }
                continue;
            };
            if let PlannerTask::Write(work, step) = task {
                let outcome = self.carry_out(&step.write);
                self.planner.settle(self.now, &work, &step, outcome);
            }
        }
    }

    fn carry_out(&mut self, write: &WriteOperation) -> WriteResult {
        self.revision += 1;
        let (uid, version) = (format!("new-{}", self.revision), self.revision.to_string());
        match write {
            WriteOperation::Create(manifest) => {
                let made = match manifest {
                    NewObject::Pod(pod) => ViewObject::from(pod.as_ref().clone()),
                    NewObject::Object(object) => object.clone(),
                };
                stored(&made, |meta| {
                    meta.uid = Some(uid);
                    meta.resource_version = Some(version);
                    meta.creation_timestamp = Some(self.now.to_time());
                })
            }
            WriteOperation::UpdateStatus(object) | WriteOperation::Update(object) => {
                if let ViewObject::PodRestart(restart) = object {
                    self.count(restart);
                }
                stored(object, |meta| meta.resource_version = Some(version))
            }
            // a request is guarded as long as it has the only copy of its pod
            WriteOperation::Patch { id, patch, .. } if id.kind == ResourceKind::PodRestart => {
                let finalizers = typed(patch["metadata"]["finalizers"].clone());
                let Some(object) = self.planner.view().get(id) else { return WriteResult::Gone };
                stored(object, |meta| {
                    meta.resource_version = Some(version);
                    meta.finalizers = finalizers;
                })
            }
            WriteOperation::Evict(evict) => self.evict(evict),
            WriteOperation::Delete(delete) => {
                self.deleted.push(delete.id.clone());
                WriteResult::Gone
            }
            WriteOperation::Bind { pod, node, .. } => {
                let Some(ViewObject::Pod(bound)) = self.planner.view().get(pod) else {
                    return WriteResult::Gone;
                };
                let mut bound = bound.as_ref().clone();
                bound.metadata.resource_version = Some(version);
                bound.node_name = Some(node.clone());
                self.seen.push_back(WatchUpdate::Applied(ViewObject::from(bound.clone())));
                self.starting.push((self.now + STARTS_IN, bound));
                WriteResult::Done
            }
            _ => WriteResult::Done,
        }
    }

    fn evict(&mut self, evict: &EvictWrite) -> WriteResult {
        if self.budget == Budget::Forbids {
            let message = "Cannot evict pod as it would violate the pod's disruption budget.";
            return WriteResult::Refused {
                refusal: WriteRefusal::Budget,
                message: message.to_owned(),
            };
        }
        self.evicted.push(self.now);
        self.open.insert(evict.pod.clone(), self.now);
        self.most_open = self.most_open.max(self.open.len());
        self.seen.push_back(WatchUpdate::Deleted(evict.pod.clone(), evict.uid.clone()));
        WriteResult::Done
    }

    /// A replacement is over.
    fn count(&mut self, restart: &PodRestart) {
        let phase = restart.status.as_ref().and_then(|status| status.phase);
        if phase.is_some_and(PodRestartPhase::is_final) {
            self.open.retain(|pod, _| pod.name.name != restart.spec.pod_name);
        }
    }

    /// Until so long after the beginning.
    fn run_for(&mut self, span: TickDuration) {
        let end = self.now + span;
        self.settle();
        loop {
            let starts = self.starting.iter().map(|(at, _)| *at).min();
            let Some(due) = self.planner.next_due().into_iter().chain(starts).min() else { break };
            if due > end {
                break;
            }
            self.now = self.now.max(due);
            let (ready, rest) =
                std::mem::take(&mut self.starting).into_iter().partition(|(at, _)| *at <= self.now);
            self.starting = rest;
            for (_, pod) in ready {
                self.become_ready(pod);
            }
            self.settle();
        }
        self.now = end;
        self.settle();
    }

    fn become_ready(&mut self, mut pod: HeldPod) {
        self.revision += 1;
        let at = self.now.to_time();
        pod.metadata.resource_version = Some(self.revision.to_string());
        let status: v1::PodStatus = typed(json!({
            "phase": "Running", "startTime": at,
            "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": at}],
            "containerStatuses": [{
                "name": "app", "image": "app", "imageID": "", "ready": true, "restartCount": 0,
                "state": {"running": {"startedAt": at}},
            }],
        }));
        pod.status = Some(status.into());
        self.seen.push_back(WatchUpdate::Applied(ViewObject::from(pod)));
    }

    fn most_within(&self, span: TickDuration) -> usize {
        let within = |first: &Tick| {
            self.evicted.iter().filter(|at| *at >= first && at.since(*first) < span).count()
        };
        self.evicted.iter().map(within).max().unwrap_or(0)
    }
}

/// Four at once and 12 a minute.
fn limits() -> RestartLimits {
    RestartLimits {
        namespace: TokenBucket::new(4, 12),
        cluster: TokenBucket::new(100, 600),
        per_workload: 100,
    }
}

#[test]
fn a_crowd_that_waited_for_a_node_goes_there_a_few_at_a_time() {
    let mut world = World::new(limits(), "Reschedule", json!({}));
    world.run_for(TickDuration::from_secs(300));
    assert_eq!(world.evicted.len(), 0, "there is no other node");
    world.planner.see(world.now, WatchUpdate::Applied(node("n2")));
    world.settle();
    world.run_for(TickDuration::from_secs(5));
    assert!((1..=6).contains(&world.evicted.len()), "{} within 5 s", world.evicted.len());
    world.run_for(TickDuration::from_secs(300));
    assert_eq!(world.evicted.len(), PODS, "each gets its turn");
    assert!(world.most_within(MINUTE) <= 4 + 12, "{:?}", world.evicted);
}

/// What the ledgers say of their ladders.
fn phases(world: &World) -> Vec<(Option<LedgerPhase>, String)> {
    let all = world.planner.view().of_kind(ResourceKind::RestartLedger);
    let said = all.filter_map(|(_, object)| match object {
        ViewObject::RestartLedger(ledger) => ledger.status.clone(),
        _ => None,
    });
    said.map(|status| (status.phase, status.message.unwrap_or_default())).collect()
}

#[test]
fn what_no_other_node_can_take_is_given_up_after_ten_minutes_and_the_ladder_is_at_its_end() {
    let mut world = World::new(limits(), "Reschedule", json!({}));
    // the limits let the last ones ask some 80 s later than the first
    world.run_for(TickDuration::from_secs(590));
    assert!(phases(&world).iter().all(|(phase, _)| *phase == Some(LedgerPhase::Holding)));
    world.run_for(TickDuration::from_secs(300));
    let told = phases(&world);
    assert_eq!(told.len(), PODS);
    let reason = "replacing the pod by one on another node was given up after 10m: no node but n1 can take the pod: ";
    for (phase, message) in told {
        assert_eq!(phase, Some(LedgerPhase::Exhausted), "{message}");
        assert!(message.starts_with(reason), "{message}");
        assert!(message.contains("every rung was tried (Reschedule 1)"), "{message}");
    }
    assert_eq!(world.evicted.len(), 0);
}

#[test]
fn what_a_disruption_budget_holds_is_not_given_up_although_a_node_was_missing_for_a_while() {
    let mut world = World::new(limits(), "Reschedule", json!({}));
    world.budget = Budget::Forbids;
    world.run_for(TickDuration::from_secs(300));
    world.planner.see(world.now, WatchUpdate::Applied(node("n2")));
    world.run_for(TickDuration::from_secs(900));
    for (phase, message) in phases(&world) {
        assert_eq!(phase, Some(LedgerPhase::Holding), "{message}");
        assert!(message.contains("disruption budget"), "{message}");
    }
    // and the lack of a node counts from when it began
    world.seen.push_back(WatchUpdate::Deleted(
        ObjectId::new(ResourceKind::Node, NamespacedName::new("", "n2")),
        "n2".to_owned(),
    ));
    world.run_for(TickDuration::from_secs(500));
    assert!(phases(&world).iter().all(|(phase, _)| *phase == Some(LedgerPhase::Holding)));
    world.run_for(TickDuration::from_secs(300));
    for (phase, message) in phases(&world) {
        assert_eq!(phase, Some(LedgerPhase::Exhausted), "{message}");
    }
}

#[test]
fn a_crowd_that_waited_for_a_disruption_budget_keeps_to_the_ladders_own() {
    let roomy = RestartLimits { namespace: TokenBucket::new(100, 600), ..limits() };
    let mut world = World::new(roomy, "Recreate", json!({"maxConcurrent": 1}));
    world.budget = Budget::Forbids;
    world.run_for(TickDuration::from_secs(900));
    assert_eq!(world.evicted.len(), 0, "it is forbidden");
    world.budget = Budget::Allows;
    world.run_for(TickDuration::from_secs(600));
    assert_eq!(world.evicted.len(), PODS, "each gets its turn");
    assert_eq!(world.most_open, 1, "one pod of the ladder at a time: {:?}", world.evicted);
}

#[test]
fn what_may_go_on_and_has_to_wait_for_its_turn_says_so() {
    let roomy = RestartLimits { namespace: TokenBucket::new(100, 600), ..limits() };
    let mut world = World::new(roomy, "Reschedule", json!({"maxConcurrent": 1}));
    world.run_for(TickDuration::from_secs(60));
    world.planner.see(world.now, WatchUpdate::Applied(node("n2")));
    world.run_for(STARTS_IN);
    let all = world.planner.view().of_kind(ResourceKind::PodRestart);
    let said: Vec<String> = all
        .filter_map(|(_, object)| match object {
            ViewObject::PodRestart(restart) => restart.status.as_ref()?.message.clone(),
            _ => None,
        })
        .collect();
    let waits = "waiting: restart budget is full (maxConcurrent 1 of the ladder)";
    assert!(said.iter().any(|message| message == waits), "{said:?}");
}

#[test]
fn requests_of_a_ladder_that_is_gone_are_withdrawn_and_its_ledgers_wait_for_nothing() {
    let mut world = World::new(limits(), "Recreate", json!({}));
    world.budget = Budget::Forbids;
    world.run_for(TickDuration::from_secs(300));
    let ladder = ObjectId::new(ResourceKind::RestartLadder, NamespacedName::new("shop", "web"));
    world.seen.push_back(WatchUpdate::Deleted(ladder, "ladder".to_owned()));
    world.run_for(TickDuration::from_secs(1));
    world.budget = Budget::Allows;
    world.run_for(TickDuration::from_secs(300));
    assert_eq!(world.evicted.len(), 0, "nobody asks for it any more");
    let view = world.planner.view();
    let mut requests = 0;
    for (_, object) in view.of_kind(ResourceKind::PodRestart) {
        let ViewObject::PodRestart(restart) = object else { continue };
        let status = restart.status.clone().unwrap_or_default();
        assert_eq!(status.phase, Some(PodRestartPhase::Withdrawn), "{:?}", status.message);
        requests += 1;
    }
    assert_eq!(requests, PODS);
    for (_, object) in view.of_kind(ResourceKind::RestartLedger) {
        let ViewObject::RestartLedger(ledger) = object else { continue };
        let status = ledger.status.clone().unwrap_or_default();
        assert_eq!((status.phase, status.held_by, status.next_attempt_at), (None, None, None));
        assert!(status.message.is_some_and(|said| said.starts_with("no ladder selects the pod")));
        assert_eq!(status.failures_total, 1, "what was counted stays");
    }
}

#[test]
fn a_ledger_that_nobody_takes_over_goes_when_its_attempts_would_not_count_any_more() {
    let mut world = World::new(limits(), "Recreate", json!({}));
    world.budget = Budget::Forbids;
    // all are held, and none is just being asked for: a pod that goes then counts as evicted
    world.run_for(TickDuration::from_millis(100_500));
    for number in 0..PODS {
        let pod = NamespacedName::new("shop", format!("web-{number}"));
        let gone =
            WatchUpdate::Deleted(ObjectId::new(ResourceKind::Pod, pod), format!("shop-{number}"));
        world.seen.push_back(gone);
    }
    let ledgers = |world: &World| {
        world.deleted.iter().filter(|id| id.kind == ResourceKind::RestartLedger).count()
    };
    // the ladder's window is ten minutes
    world.run_for(TickDuration::from_secs(500));
    assert_eq!(ledgers(&world), 0, "a pod of that name would take it over");
    world.run_for(TickDuration::from_secs(700));
    assert_eq!(ledgers(&world), PODS);
}
