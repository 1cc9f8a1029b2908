//! Figures of the controllers, without API and disk: what the scheduler decides in a second, what
//! one change among many pods costs, and what the view of them weighs. `cargo bench -p
//! rekindle-controllers` prints them, and only those whose name contains an argument, where there
//! is one; docs/figures.md says what is asked for. Everything runs on one thread, and times are
//! those of its processor, so that what else runs on the machine counts little.
#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    missing_docs,
    reason = "it measures time and memory"
)]

mod changes;
mod objects;

use std::time::Duration;

use rekindle_controllers::{
    ClusterView, ControllerKey, ObjectChange, ObjectId, PlannedWrite, ViewObject, WriteOperation,
    WriteResult, affected, reconcile,
};
use rekindle_types::Tick;
use rekindle_types::held::HeldPod;
use serde_json::{Value, json};

const NODES: usize = 1000;
const PODS: usize = 10_000;
/// Pods of one ReplicaSet.
const REPLICAS: usize = 100;
const NOW: Tick = Tick::from_secs(1_800_000_000);

fn main() {
    // `cargo test --benches` only builds it and sees that it starts.
    if !std::env::args().any(|argument| argument == "--bench") {
        return;
    }
    changes::weigh();
    let spread = json!({"topologySpreadConstraints": [{"maxSkew": 5, "topologyKey": "zone",
        "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {"matchLabels": {"app": "web-0"}}}]});
    let shy = json!({"affinity": {"podAntiAffinity": {
        "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 100, "podAffinityTerm": {
            "topologyKey": "kubernetes.io/hostname",
            "labelSelector": {"matchLabels": {"app": "web-0"}}}}]}}});
    println!("scheduler, {NODES} nodes, pods per second:");
    for (what, more, pods, sets) in [
        ("plain pods", json!({}), PODS, 0),
        ("pods of ReplicaSets", json!({}), PODS, PODS / REPLICAS),
        ("spread over zones", spread, PODS / 10, 0),
        ("away from each other, preferred", shy, PODS / 10, 0),
    ] {
        if is_wanted(what) {
            schedule(what, &more, pods, sets);
        }
    }
    changes::measure();
}

/// True when no argument names what is to be measured, or one names this.
fn is_wanted(what: &str) -> bool {
    let mut named =
        std::env::args().skip(1).filter(|argument| !argument.starts_with('-')).peekable();
    named.peek().is_none() || named.any(|name| what.contains(&name))
}

/// From a pod that waits to its binding, seen by the watch: decision, own write, its answer, the
/// watch's event, and what each of them touches. So many of the ReplicaSets are there that the pods
/// are of.
fn schedule(what: &str, more: &Value, pods: usize, sets: usize) {
    let mut view = ClusterView::new();
    (0..NODES).for_each(|number| drop(view.apply(objects::node(number).into())));
    (0..sets).for_each(|number| drop(view.apply(objects::replica_set(number).into())));
    let waiting: Vec<ObjectId> = (0..pods)
        .map(|number| {
            let mut value = objects::pod(&objects::replica(number), None);
            for (key, more) in more.as_object().unwrap() {
                value["spec"][key] = more.clone();
            }
            let object = ViewObject::from(serde_json::from_value::<HeldPod>(value).unwrap());
            let id = object.id();
            view.apply(object);
            id
        })
        .collect();
    let begun = on_processor();
    for id in &waiting {
        bind(&mut view, &ControllerKey::Schedule(id.name.clone()));
    }
    let seconds = (on_processor() - begun).as_secs_f64();
    assert_eq!(view.unscheduled().count(), 0, "all of them have a node");
    #[expect(clippy::cast_precision_loss, reason = "a count of pods")]
    let rate = pods as f64 / seconds;
    println!("  {what}: {rate:.0} ({pods} pods)");
}

fn bind(view: &mut ClusterView, key: &ControllerKey) {
    let plan = reconcile(view, key, NOW);
    let step: &PlannedWrite = &plan.batches[0][0];
    let WriteOperation::Bind { pod: id, node, .. } = &step.write else { panic!("{key}: {plan:?}") };
    let mut changes: Vec<ObjectChange> = view.begin(step);
    changes.extend(view.settle(&key.object(), step, WriteResult::Done).changes);
    let Some(ViewObject::Pod(pod)) = view.get(id) else { panic!("{id} is there") };
    let mut bound = pod.as_ref().clone();
    bound.metadata.resource_version = Some("2".to_owned());
    bound.node_name = Some(node.clone());
    changes.extend(view.apply(bound.into()));
    for change in &changes {
        std::hint::black_box(affected(view, change));
    }
}

/// How long this thread has run on a processor; the kernel brings it up to date at its ticks, so
/// that only sums say something.
fn on_processor() -> Duration {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    Duration::from_nanos(text.split_whitespace().next().unwrap().parse().unwrap())
}

/// The resident memory of this process, in KiB.
fn resident_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}
