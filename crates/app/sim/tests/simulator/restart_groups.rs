//! Groups of pods that restart as one, while agents and controllers die and writes are lost.

use std::collections::{BTreeMap, BTreeSet};

use rekindle_pod::PodConfig;
use rekindle_sim::{FaultRates, Faults, PowerLossSync, World, WorldEvent};
use rekindle_types::TickDuration;
use rekindle_types::v1alpha1::Rung;
use serde_json::{Value, json};

/// When the group is asked for: all pods run by then.
const ASKED: TickDuration = TickDuration::from_secs(60);
/// Long before the group's deadline.
const OVER: TickDuration = TickDuration::from_secs(400);
const PODS: usize = 3;

fn trainer(number: usize) -> Value {
    let name = format!("train-{number}");
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": {"job": "train"}},
        "spec": {
            "terminationGracePeriodSeconds": 5,
            "containers": [{"name": "app", "image": "app:1"}, {"name": "side", "image": "app:1"}],
        },
    })
}

fn group() -> Value {
    json!({
        "apiVersion": "rekindle.dev/v1alpha1", "kind": "PodRestart", "metadata": {"name": "again"},
        "spec": {"selector": {"matchLabels": {"job": "train"}}},
    })
}

/// The pods run on two nodes, and the group was just asked for.
fn asked(seed: u64, faults: impl FnOnce(&mut World)) -> World {
    let mut world = World::new(seed, 2, Vec::new(), PodConfig::default()).unwrap();
    (0..PODS).for_each(|number| world.apply(&trainer(number)).unwrap());
    world.run_until(ASKED).unwrap();
    assert_eq!(world.restarts(), 0);
    world.apply(&group()).unwrap();
    faults(&mut world);
    world
}

/// Each container was started again once, and the group and its members say so.
#[track_caller]
fn all_restarted_once(mut world: World, case: &str) {
    world.run_until(OVER).unwrap();
    world.heal().unwrap();
    world.run_until(OVER + TickDuration::from_secs(60)).unwrap();
    let last = || world.trace().last_lines().collect::<Vec<_>>().join("\n");
    assert_eq!(world.broken_promise(), None, "{case}\n{}", last());
    let succeeded = BTreeMap::from([("Succeeded".to_owned(), 1 + PODS as u64)]);
    assert_eq!(world.rungs(), BTreeMap::from([(Rung::Pod, succeeded)]), "{case}\n{}", last());
    let counts: Vec<u64> = world.restarts_by_pod().values().copied().collect();
    assert_eq!(counts, [2; PODS], "{case}: once for each of two containers\n{}", last());
}

#[test]
fn a_group_restarts_as_one_without_faults() {
    all_restarted_once(asked(1, |_| {}), "no fault");
}

#[test]
fn agents_that_die_before_any_of_their_actions_start_nothing_before_all_has_stopped() {
    for action in 0..40 {
        let world = asked(action, |world| {
            let crashes = BTreeSet::from([world.actions() + action]);
            world.set_faults(Faults::new(action, FaultRates::default(), crashes));
        });
        all_restarted_once(world, &format!("the agent dies before action {action}"));
    }
}

#[test]
fn controllers_agents_and_machines_that_die_at_any_time_lose_no_group() {
    let deeds = [
        WorldEvent::CrashControllers,
        WorldEvent::CrashAgent(0),
        WorldEvent::PowerLoss(PowerLossSync::After),
        WorldEvent::PowerLoss(PowerLossSync::Before),
    ];
    for (place, deed) in deeds.into_iter().enumerate() {
        for millis in (0..3_000).step_by(250) {
            let seed = millis + place as u64;
            let world = asked(seed, |world| {
                world.do_at(ASKED + TickDuration::from_millis(millis), deed.clone());
            });
            all_restarted_once(world, &format!("{deed:?} after {millis} ms"));
        }
    }
}

#[test]
fn writes_that_are_lost_or_conflict_change_nothing_about_a_group() {
    let rates = FaultRates {
        write_lost: 200,
        write_unsaid: 200,
        write_conflict: 200,
        ..FaultRates::default()
    };
    for seed in 0..25 {
        let world = asked(seed, |world| {
            world.set_faults(Faults::new(seed, rates, BTreeSet::new()));
            let at = ASKED + TickDuration::from_millis(seed * 40);
            world.do_at(at, WorldEvent::CrashControllers);
            world.do_at(at, WorldEvent::CrashAgent(seed));
        });
        all_restarted_once(world, &format!("seed {seed}"));
    }
}
