//! The world as a whole, in virtual time.

use rekindle_controllers::{NamespacedName, ObjectId, ResourceKind};
use rekindle_pod::PodConfig;
use rekindle_sim::{Behaviour, BehaviourRemedy, ExitRule, World, WorldChange, WorldEvent};
use rekindle_types::TickDuration;
use rekindle_types::v1alpha1::Rung;
use serde_json::{Value, json};

const HOUR: TickDuration = TickDuration::from_secs(3_600);
const DAY: TickDuration = TickDuration::from_secs(86_400);

fn deployment(replicas: u32) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [{"name": "app", "image": "app:1"}]},
            },
        },
    })
}

fn pod() -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "crash"},
        "spec": {"containers": [{"name": "app", "image": "app:1"}]},
    })
}

fn crashes(mended_by: BehaviourRemedy) -> Behaviour {
    let exits = ExitRule { code: 1, after: TickDuration::ZERO, oom: false };
    Behaviour { exits: Some(exits), mended_by, ..Behaviour::default() }
}

fn world(seed: u64, behaviours: Vec<Behaviour>, config: PodConfig) -> World {
    World::new(seed, 3, behaviours, config).unwrap()
}

#[test]
fn a_deployment_becomes_ready() {
    let mut world = world(1, Vec::new(), PodConfig::default());
    world.apply(&deployment(5)).unwrap();
    world.run_until(TickDuration::from_secs(10)).unwrap();
    assert_eq!(world.readiness(), (5, 5), "{:#?}", world.trace().last_lines().collect::<Vec<_>>());
    assert_eq!((world.restarts(), world.broken_promise()), (0, None));
}

#[test]
fn the_same_seed_gives_the_same_trace_and_another_one_another() {
    let hash = |seed| {
        let mut world =
            world(seed, vec![crashes(BehaviourRemedy::Container)], PodConfig::default());
        world.apply(&deployment(3)).unwrap();
        world.run_until(HOUR).unwrap();
        (world.trace().hash(), world.trace().steps())
    };
    assert_eq!(hash(7), hash(7));
    assert_ne!(hash(7).0, hash(8).0);
}

#[test]
fn a_pod_that_crashes_at_once_is_restarted_every_five_minutes_in_the_long_run() {
    let mut world = world(1, vec![crashes(BehaviourRemedy::Nothing)], PodConfig::default());
    world.apply(&pod()).unwrap();
    world.run_until(DAY.saturating_mul(20)).unwrap();
    // once at once, five times after 10, 20, 40, 80 and 160 s, and then every 300 s: what is left
    // of the last wait is more than all the starts take. `rekindle sim
    // examples/sim/crash-loop.yaml` counts them as well.
    let every_five_minutes = (20 * 86_400 - 310) / 300;
    assert_eq!(world.restarts(), 6 + every_five_minutes);
    assert_eq!(world.broken_promise(), None);
}

#[test]
fn with_a_longest_wait_of_one_second_it_is_restarted_each_second() {
    let config = PodConfig {
        max_container_restart_period: TickDuration::from_secs(1),
        ..PodConfig::default()
    };
    let mut world = world(1, vec![crashes(BehaviourRemedy::Nothing)], config);
    world.apply(&pod()).unwrap();
    world.run_until(TickDuration::from_secs(600)).unwrap();
    // 20 days of it would be 1.7 million
    assert!((590..=602).contains(&world.restarts()), "{} restarts", world.restarts());
}

#[test]
fn agents_that_crash_start_nothing_twice_and_restart_nothing() {
    let mut world = world(3, Vec::new(), PodConfig::default());
    world.apply(&deployment(6)).unwrap();
    // in the middle of everything that a start takes
    for millis in 1..120 {
        world.run_until(TickDuration::from_millis(millis)).unwrap();
        world.crash_agents().unwrap();
    }
    world.run_until(HOUR).unwrap();
    assert_eq!(world.broken_promise(), None);
    assert_eq!((world.readiness(), world.restarts()), ((6, 6), 0));
}

#[test]
fn a_ladder_restarts_the_pod_when_only_a_new_sandbox_helps() {
    let ladder = json!({
        "apiVersion": "rekindle.dev/v1alpha1", "kind": "RestartLadder", "metadata": {"name": "web"},
        "spec": {
            "selector": {"matchLabels": {"app": "web"}}, "window": "10m",
            "rungs": [{"rung": "Container", "attempts": 2}, {"rung": "Pod", "attempts": 2}],
        },
    });
    let run = |ladders: &[Value]| {
        let mut world = world(1, vec![crashes(BehaviourRemedy::Pod)], PodConfig::default());
        for ladder in ladders {
            world.apply(ladder).unwrap();
        }
        world.apply(&deployment(1)).unwrap();
        world.run_until(HOUR).unwrap();
        assert_eq!(world.broken_promise(), None);
        (world.readiness(), world.restarts())
    };
    let (plain, plain_restarts) = run(&[]);
    let (healed, healed_restarts) = run(&[ladder]);
    assert_eq!((plain, healed), ((1, 0), (1, 1)));
    assert!(healed_restarts < plain_restarts, "{healed_restarts} and {plain_restarts}");
}

/// What a ladder writes comes after what the node does by itself, and holds it up nowhere.
#[test]
fn the_ledger_delays_no_restart_of_a_container() {
    let ladder = json!({
        "apiVersion": "rekindle.dev/v1alpha1", "kind": "RestartLadder", "metadata": {"name": "web"},
        "spec": {
            "selector": {"matchLabels": {"app": "web"}},
            "rungs": [{"rung": "Container", "attempts": 3}, {"rung": "Pod", "attempts": 2}],
        },
    });
    let mut worlds = [false, true].map(|with_ladder| {
        let mut world = world(1, vec![crashes(BehaviourRemedy::Nothing)], PodConfig::default());
        if with_ladder {
            world.apply(&ladder).unwrap();
        }
        world.apply(&deployment(1)).unwrap();
        world
    });
    // the first restart comes at once, the second one after ten seconds
    for millis in (1..500).chain(9_900..10_400) {
        let restarts = worlds.each_mut().map(|world| {
            world.run_until(TickDuration::from_millis(millis)).unwrap();
            world.restarts()
        });
        assert_eq!(restarts[0], restarts[1], "after {millis} ms");
    }
    assert_eq!(worlds[1].restarts(), 2);
}

/// The probes' deadlines cross: an earlier one takes the place of a later one, and must not leave
/// it behind each time.
#[test]
fn a_day_of_two_probes_costs_twice_what_half_a_day_costs() {
    let mut probed = pod();
    probed["spec"]["containers"][0]["livenessProbe"] =
        json!({"exec": {"command": ["true"]}, "periodSeconds": 7});
    probed["spec"]["containers"][0]["readinessProbe"] =
        json!({"exec": {"command": ["true"]}, "periodSeconds": 10});
    let mut world = world(1, Vec::new(), PodConfig::default());
    world.apply(&probed).unwrap();
    let mut happened = [6, 12].map(|hours| {
        world.run_until(HOUR.saturating_mul(hours)).unwrap();
        world.happened()
    });
    happened[1] -= happened[0];
    // each probe has its deadline and its answer
    let probes = 6 * 3_600 / 7 + 6 * 3_600 / 10;
    assert!(happened[1] <= happened[0] + 10, "{happened:?}");
    assert!(happened[1] <= 3 * probes, "{happened:?}, and there were {probes} probes");
}

#[test]
fn what_another_start_mends_goes_wrong_once_in_each_sandbox() {
    let mut world = world(1, vec![crashes(BehaviourRemedy::Container)], PodConfig::default());
    world.apply(&pod()).unwrap();
    world.do_at(HOUR, WorldEvent::RestartPod(0, Rung::Pod));
    world.run_until(TickDuration::from_secs(600)).unwrap();
    assert_eq!((world.starts(), world.readiness()), (2, (1, 1)));
    world.run_until(HOUR.saturating_mul(2)).unwrap();
    assert_eq!((world.starts(), world.readiness()), (4, (1, 1)));
}

#[test]
fn a_hook_that_sleeps_takes_as_long_as_it_says() {
    let mut stops = pod();
    stops["spec"]["containers"][0]["lifecycle"] = json!({"preStop": {"sleep": {"seconds": 20}}});
    let mut world = world(1, Vec::new(), PodConfig::default());
    world.apply(&stops).unwrap();
    let id = ObjectId::new(ResourceKind::Pod, NamespacedName::new("default", "crash"));
    world.change_at(TickDuration::from_secs(60), "the test", WorldChange::Delete(id));
    world.run_until(TickDuration::from_secs(79)).unwrap();
    assert_eq!(world.readiness().0, 1);
    world.run_until(TickDuration::from_secs(82)).unwrap();
    assert_eq!((world.readiness().0, world.broken_promise()), (0, None));
}
