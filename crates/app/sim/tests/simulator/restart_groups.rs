//! Groups of pods that restart as one, while agents and controllers die and writes are lost.

use std::collections::{BTreeMap, BTreeSet};

use rekindle_pod::PodConfig;
use rekindle_sim::{
    Behaviour, BehaviourRemedy, ExitRule, FaultRates, Faults, PowerLossSync, World, WorldEvent,
};
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

/// One of the pods fails three seconds after each start, until this helps.
fn one_fails(mended_by: BehaviourRemedy) -> Behaviour {
    let after = TickDuration::from_secs(3);
    Behaviour {
        match_labels: [("rank".to_owned(), "1".to_owned())].into(),
        container: Some("app".to_owned()),
        mended_by,
        exits: Some(ExitRule { code: 1, after, oom: false }),
        ..Behaviour::default()
    }
}

fn group_ladder(rungs: &Value) -> Value {
    json!({
        "apiVersion": "rekindle.dev/v1alpha1", "kind": "RestartLadder", "metadata": {"name": "keep"},
        "spec": {
            "selector": {"matchLabels": {"job": "train"}}, "scope": "Group", "rungs": rungs,
            "budget": {"maxConcurrent": 1},
        },
    })
}

/// Three pods with a ladder of scope Group, of which the second one fails.
fn laddered(seed: u64, rungs: &Value, behaviour: Behaviour) -> World {
    let mut world = World::new(seed, 2, vec![behaviour], PodConfig::default()).unwrap();
    for number in 0..PODS {
        let mut pod = trainer(number);
        pod["metadata"]["labels"]["rank"] = json!(number.to_string());
        world.apply(&pod).unwrap();
    }
    world.apply(&group_ladder(rungs)).unwrap();
    world
}

/// One rung was tried so often for the group, and each of its pods has a request for each.
#[track_caller]
fn tried_as_one(mut world: World, rungs: &[(Rung, u64)], case: &str) -> World {
    world.run_until(TickDuration::from_secs(900)).unwrap();
    world.heal().unwrap();
    world.run_until(TickDuration::from_secs(1_000)).unwrap();
    let last = || world.trace().last_lines().collect::<Vec<_>>().join("\n");
    assert_eq!(world.broken_promise(), None, "{case}\n{}", last());
    let expected = rungs.iter().map(|(rung, groups)| {
        (*rung, BTreeMap::from([("Succeeded".to_owned(), groups * (1 + PODS as u64))]))
    });
    assert_eq!(world.rungs(), expected.collect(), "{case}\n{}", last());
    world
}

#[test]
fn a_ladder_restarts_the_whole_group_when_one_pod_fails() {
    let rungs = json!([{"rung": "Pod", "attempts": 2}]);
    let world = laddered(1, &rungs, one_fails(BehaviourRemedy::Pod));
    let world = tried_as_one(world, &[(Rung::Pod, 1)], "no fault");
    let counts: Vec<u64> = world.restarts_by_pod().values().copied().collect();
    assert_eq!((counts[0], counts[2]), (2, 2), "once for each of two containers: {counts:?}");
}

#[test]
fn a_ladder_replaces_the_whole_group_when_nothing_in_place_helps() {
    let rungs = json!([{"rung": "Containers"}, {"rung": "Pod"}, {"rung": "Recreate"}]);
    let world = laddered(1, &rungs, one_fails(BehaviourRemedy::Nothing));
    let tried = [(Rung::Containers, 1), (Rung::Pod, 1), (Rung::Recreate, 1)];
    tried_as_one(world, &tried, "then it is exhausted");
}

#[test]
fn whoever_dies_while_a_ladder_restarts_a_group_it_is_one_attempt() {
    let rungs = json!([{"rung": "Pod", "attempts": 2}]);
    let deeds = [
        WorldEvent::CrashControllers,
        WorldEvent::CrashAgent(0),
        WorldEvent::CrashAgent(1),
        WorldEvent::PowerLoss(PowerLossSync::After),
    ];
    for (place, deed) in deeds.into_iter().enumerate() {
        for millis in (3_000..8_000).step_by(500) {
            let mut world =
                laddered(millis + place as u64, &rungs, one_fails(BehaviourRemedy::Pod));
            world.do_at(TickDuration::from_millis(millis), deed.clone());
            tried_as_one(world, &[(Rung::Pod, 1)], &format!("{deed:?} after {millis} ms"));
        }
    }
}
