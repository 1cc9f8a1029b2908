//! Namespaces decide independently of each other, and write at the same time. In whatever order
//! their writes are carried out, the cluster's bucket gives no more than it has (promise P5).

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Node;
use rekindle_controllers::{
    NewObject, PlannedWrite, ResourceKind, ViewObject, WriteOperation, WriteResult,
};
use rekindle_reconcile::{
    Planner, PlannerTask, RestartLimits, TokenBucket, WatchUpdate, WorkItem, kinds,
};
use rekindle_types::v1alpha1::{PodRestart, PodRestartPhase, PodRestartStatus, RestartLadder};
use rekindle_types::{Tick, TickDuration};
use serde_json::json;

use crate::failing::{BEGIN, failing_pod, typed};

const NAMESPACES: usize = 6;
const PODS: usize = 3;
/// At once, and each minute.
const BURST: u32 = 3;
const PER_MINUTE: u32 = 6;
const MINUTE: TickDuration = TickDuration::from_secs(60);

/// Numbers that look random and are the same each time (splitmix64).
struct Dice(u64);

impl Dice {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((z ^ (z >> 31)) % u64::try_from(end).expect("small")).expect("small")
    }
}

/// An API that stores what it is given, and a planner whose writes it carries out in any order.
struct World {
    now: Tick,
    planner: Planner,
    dice: Dice,
    revision: u64,
    under_way: Vec<(WorkItem, Box<PlannedWrite>)>,
    granted: Vec<Tick>,
}

impl World {
    fn new(seed: u64) -> Self {
        let limits = RestartLimits {
            namespace: TokenBucket::new(100, 600),
            cluster: TokenBucket::new(BURST, PER_MINUTE),
            per_workload: 100,
        };
        let mut objects: BTreeMap<ResourceKind, Vec<ViewObject>> = BTreeMap::new();
        let node: Node =
            typed(json!({"metadata": {"name": "n1", "uid": "n1", "resourceVersion": "1"}}));
        objects.entry(ResourceKind::Node).or_default().push(ViewObject::from(node));
        for namespace in (0..NAMESPACES).map(|n| format!("ns-{n}")) {
            let ladder: RestartLadder = typed(json!({
                "metadata": {
                    "name": "web", "namespace": namespace, "uid": format!("{namespace}-ladder"),
                    "resourceVersion": "1", "generation": 1,
                },
                "spec": {"selector": {"matchLabels": {"app": "web"}}, "rungs": [{"rung": "Pod", "attempts": 3}]},
            }));
            objects.entry(ResourceKind::RestartLadder).or_default().push(ViewObject::from(ladder));
            let pods = (0..PODS).map(|number| failing_pod(&namespace, number));
            objects.entry(ResourceKind::Pod).or_default().extend(pods);
        }
        let mut planner = Planner::new(limits);
        for kind in kinds() {
            planner.see(BEGIN, WatchUpdate::List(kind, objects.remove(&kind).unwrap_or_default()));
        }
        let (under_way, granted) = (Vec::new(), Vec::new());
        Self { now: BEGIN, planner, dice: Dice(seed), revision: 10, under_way, granted }
    }

    /// Everything that is due at this moment is decided and written, in some order.
    fn settle(&mut self) {
        loop {
            self.planner.begin_due(self.now);
            while let Some(task) = self.planner.poll_task() {
                match task {
                    PlannerTask::Write(work, step) => self.under_way.push((work, step)),
                    PlannerTask::Record(_) | PlannerTask::Read(_) => {}
                }
            }
            if self.under_way.is_empty() {
                return;
            }
            let next = self.dice.below(self.under_way.len());
            let (work, step) = self.under_way.swap_remove(next);
            let outcome = self.carry_out(&step.write);
            self.planner.settle(self.now, &work, &step, outcome);
        }
    }

    fn carry_out(&mut self, write: &WriteOperation) -> WriteResult {
        self.revision += 1;
        let (uid, revision) = (format!("uid-{}", self.revision), self.revision.to_string());
        match write {
            WriteOperation::Create(NewObject::Object(ViewObject::RestartLedger(ledger))) => {
                let mut ledger = ledger.as_ref().clone();
                ledger.metadata.uid = Some(uid);
                ledger.metadata.resource_version = Some(revision);
                WriteResult::Stored(ViewObject::from(ledger))
            }
            WriteOperation::UpdateStatus(ViewObject::RestartLedger(ledger)) => {
                let mut ledger = ledger.as_ref().clone();
                ledger.metadata.resource_version = Some(revision);
                WriteResult::Stored(ViewObject::from(ledger))
            }
            WriteOperation::Create(NewObject::Object(ViewObject::PodRestart(restart))) => {
                self.granted.push(self.now);
                let mut restart: PodRestart = restart.as_ref().clone();
                restart.metadata.uid = Some(uid);
                restart.metadata.resource_version = Some(revision);
                restart.metadata.creation_timestamp = Some(self.now.to_time());
                restart.status = Some(PodRestartStatus {
                    phase: Some(PodRestartPhase::Succeeded),
                    finished_at: Some(self.now.to_time()),
                    ..PodRestartStatus::default()
                });
                WriteResult::Stored(ViewObject::from(restart))
            }
            WriteOperation::UpdateStatus(ViewObject::RestartLadder(ladder)) => {
                let mut ladder = ladder.as_ref().clone();
                ladder.metadata.resource_version = Some(revision);
                WriteResult::Stored(ViewObject::from(ladder))
            }
            _ => WriteResult::Done,
        }
    }

    /// Until so long after the beginning.
    fn run_until(&mut self, end: Tick) {
        self.settle();
        while let Some(due) = self.planner.next_due().filter(|due| *due <= end) {
            self.now = self.now.max(due);
            self.settle();
        }
    }
}

#[test]
fn whatever_the_order_of_their_writes_namespaces_do_not_exceed_the_clusters_bucket() {
    for seed in 0..12 {
        let mut world = World::new(seed);
        world.settle();
        let at_once = world.granted.len();
        assert_eq!(at_once, BURST as usize, "seed {seed}: what is there at once is given at once");
        world.run_until(BEGIN + TickDuration::from_secs(300));
        assert_eq!(world.granted.len(), NAMESPACES * PODS, "seed {seed}: each gets its turn");
        for (number, first) in world.granted.iter().enumerate() {
            let within = world.granted[number..].iter().filter(|at| at.since(*first) < MINUTE);
            let most = (BURST + PER_MINUTE) as usize;
            assert!(within.count() <= most, "seed {seed}: {:?}", world.granted);
        }
    }
}
