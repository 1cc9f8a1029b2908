//! A load that grows and shrinks, and the autoscaler that follows it, in virtual time.

use std::collections::BTreeSet;

use rekindle_pod::PodConfig;
use rekindle_sim::{
    FaultRates, Faults, PodLoad, Scenario, ScenarioPolicy, WatchRecovery, World, WorldEvent,
};
use rekindle_types::TickDuration;
use serde_json::{Value, json};

const LOAD_CURVE: &str = include_str!("../../../../../examples/sim/load-curve.yaml");

const fn minutes(minutes: u64) -> TickDuration {
    TickDuration::from_secs(minutes * 60)
}

fn documents(text: &str) -> Vec<Value> {
    rekindle_manifest::objects(text).unwrap().into_iter().map(Value::Object).collect()
}

/// The world of the example, at its beginning.
fn world(seed: u64) -> World {
    let (scripts, manifests): (Vec<_>, Vec<_>) =
        documents(LOAD_CURVE).into_iter().partition(|document| document["kind"] == "Scenario");
    let load: Vec<PodLoad> = serde_json::from_value(scripts[0]["spec"]["load"].clone()).unwrap();
    let mut world = World::new(seed, 1, Vec::new(), PodConfig::default()).unwrap();
    world.set_load(load);
    for manifest in &manifests {
        world.apply(manifest).unwrap();
    }
    world
}

/// The ready pods at each of these minutes of the run.
fn ready_at(world: &mut World, times: &[u64]) -> Vec<usize> {
    let mut counts = Vec::new();
    for time in times {
        world.run_until(minutes(*time)).unwrap();
        assert_eq!(world.broken_promise(), None);
        counts.push(world.readiness().0);
    }
    counts
}

#[test]
fn pods_follow_a_load_up_within_two_minutes_and_down_after_five() {
    let play = |seed| {
        let mut world = world(seed);
        // 200m for one pod of 500m; from 10 minutes on two cores; from 30 on 200m again
        let counts = ready_at(&mut world, &[9, 12, 29, 34, 37, 59]);
        assert_eq!(
            counts,
            [1, 8, 8, 8, 1, 1],
            "{:#?}",
            world.trace().last_lines().collect::<Vec<_>>()
        );
        (world.trace().hash(), world.figures())
    };
    let (hash, figures) = play(7);
    assert_eq!(hash, play(7).0, "the same seed, the same run");
    // a reading that changes nothing is answered by no write
    assert!(figures.writes < 400, "{figures:?}");
}

#[test]
fn a_load_is_followed_after_lost_writes_and_controllers_that_die() {
    for seed in 1..=8 {
        let mut world = world(seed);
        let rates = FaultRates {
            write_lost: 100,
            write_unsaid: 100,
            write_conflict: 100,
            ..FaultRates::default()
        };
        world.set_faults(Faults::new(seed, rates, BTreeSet::new()));
        for time in [11, 16, 31, 33] {
            world.do_at(minutes(time), WorldEvent::CrashControllers);
        }
        let deaf = WorldEvent::DeafControllers(minutes(2), WatchRecovery::Relist);
        world.do_at(minutes(13), deaf);
        // the controllers that began at 33 wait for their window of five minutes
        let counts = ready_at(&mut world, &[9, 29, 36]);
        assert_eq!(counts, [1, 8, 8], "seed {seed}");
        world.heal().unwrap();
        assert_eq!(ready_at(&mut world, &[45]), [1], "seed {seed}");
    }
}

#[test]
fn a_load_without_change_is_no_work() {
    let mut world = world(1);
    ready_at(&mut world, &[8]);
    let before = world.figures();
    ready_at(&mut world, &[9]);
    let during = world.figures();
    // a heartbeat of the node's Lease every 10 s, and no more
    assert!(during.writes - before.writes <= 8, "{before:?} {during:?}");
}

#[test]
fn the_example_ends_as_it_began() {
    let scenario = Scenario::from_documents(documents(LOAD_CURVE)).unwrap();
    let outcome = scenario.play(1, &ScenarioPolicy::AsWritten).unwrap();
    assert_eq!((outcome.pods, outcome.ready), (1, 1), "{outcome:?}");
    assert_eq!(outcome.broken_promise, None);
}

#[test]
fn a_load_that_cannot_be_played_is_named_by_its_path() {
    for (load, message) in [
        (json!({"matchLabels": {}, "points": []}), "spec.load[0].matchLabels: give the labels"),
        (json!({"matchLabels": {"app": "a"}, "points": []}), "spec.load[0].points: give one"),
        (
            json!({"matchLabels": {"app": "a"}, "points": [{"from": "1m"}, {"from": "1m"}]}),
            "spec.load[0].points[1].from: give a time after",
        ),
        (
            json!({"matchLabels": {"app": "a"}, "points": [{"from": "1m", "cpu": "-1"}]}),
            "spec.load[0].points[0].cpu: give 0 or more",
        ),
        (
            json!({"matchLabels": {"app": "a"}, "points": [{"from": "1m", "cpu": "much"}]}),
            "spec.load[0].points[0].cpu: \"much\" is no quantity",
        ),
    ] {
        let script = json!({"apiVersion": "rekindle.dev/v1alpha1", "kind": "Scenario",
            "spec": {"for": "1h", "load": [load]}});
        let pod = json!({"apiVersion": "v1", "kind": "Pod"});
        let error = Scenario::from_documents(vec![script, pod]).unwrap_err().to_string();
        assert!(error.contains(message), "{error}");
    }
}
