//! The scenarios of examples/sim.

use rekindle_sim::{PolicyOutcome, Scenario, ScenarioPolicy, ScenarioReport};
use rekindle_types::TickDuration;
use serde_json::{Value, json};

const CRASH_LOOP: &str = include_str!("../../../../../examples/sim/crash-loop.yaml");
const DEPENDENCY_DOWN: &str = include_str!("../../../../../examples/sim/dependency-down.yaml");
const BAD_ROLLOUT: &str = include_str!("../../../../../examples/sim/bad-rollout.yaml");
const ROLLBACK: &str = include_str!("../../../../../examples/sim/ladder-rollback.yaml");
const ZONE_FAILURE: &str = include_str!("../../../../../examples/sim/zone-failure.yaml");
const LADDER: &str = include_str!("../../../../../examples/sim/ladder.yaml");

/// The longest wait between restarts of a container: when it begins a new one is a matter of luck.
const BACKOFF: TickDuration = minutes(5);

const fn minutes(minutes: u64) -> TickDuration {
    TickDuration::from_secs(minutes * 60)
}

fn documents(text: &str) -> Vec<Value> {
    rekindle_manifest::objects(text).unwrap().into_iter().map(Value::Object).collect()
}

#[test]
fn the_crash_loop_counts_as_upstream_s_backoff_does() {
    let mut scenario = Scenario::from_documents(documents(CRASH_LOOP)).unwrap();
    assert_eq!(scenario.duration(), TickDuration::from_secs(20 * 86_400));
    scenario.set_duration("the test", TickDuration::from_secs(3_600)).unwrap();
    let mut report = ScenarioReport::new(1, scenario.duration());
    report.outcomes.push(scenario.play(1, &ScenarioPolicy::AsWritten).unwrap());
    let json = report.to_json();
    // at once, after 10, 20, 40, 80 and 160 s, and ten more in the 3,290 s that are left
    assert_eq!((&json["restarts"], &json["seconds"]), (&16.into(), &3_600.into()));
    assert_eq!(json["policies"][0]["restartsByPod"]["default/crash"], 16);
    assert_eq!(json["policies"][0]["brokenPromise"], Value::Null);
    // of two statuses at one moment the second is written on the answer to the first, as the agent
    // does it
    assert_eq!(json["policies"][0]["apiRefused"], 0);
    let table = report.table();
    assert!(table.lines().nth(1).unwrap().starts_with("as written        16"), "{table}");
    assert!(table.contains("as written: restarts by pod: default/crash 16\n"), "{table}");
}

#[test]
fn with_a_ladder_and_without_all_pods_come_back_when_the_dependency_does() {
    let scenario = Scenario::from_documents(documents(DEPENDENCY_DOWN)).unwrap();
    let ladder = ScenarioPolicy::ladders("ladder.yaml", documents(LADDER)).unwrap();
    let [plain, healed] =
        [&ScenarioPolicy::NoLadder, &ladder].map(|policy| scenario.play(1, policy).unwrap());
    for outcome in [&plain, &healed] {
        assert_eq!((outcome.pods, outcome.ready), (5, 5), "{outcome:?}");
        assert_eq!(outcome.broken_promise, None);
    }
    // an hour, and what is left of a backoff of five minutes at most
    for outcome in [&plain, &healed] {
        let recovery = outcome.timeline.time_to_recovery().unwrap();
        assert!(recovery >= minutes(60) && recovery < minutes(66), "{recovery:?}");
        assert_eq!(outcome.timeline.outages.len(), 1, "{:?}", outcome.timeline.outages);
        assert!(outcome.timeline.ready_after.unwrap() < minutes(1));
    }
    assert_eq!(plain.restarted_in_place(), 0);
    assert_eq!(healed.restarted_in_place(), 1, "on one pod it is tried, once: {healed:?}");
    assert!(healed.restarts <= plain.restarts, "{healed:?}\n{plain:?}");
    assert_eq!(scenario.play(1, &ladder).unwrap(), healed);
}

/// Pods that are made anew begin with no restarts, so that starts tell of all; and a restart of a
/// whole pod takes longer than one of a container, which may make an outage longer by what one such
/// restart takes.
#[test]
fn a_ladder_starts_no_more_than_kubernetes_alone_and_makes_an_outage_hardly_longer() {
    let mut scenario = Scenario::from_documents(documents(DEPENDENCY_DOWN)).unwrap();
    scenario.set_duration("the test", minutes(100)).unwrap();
    let ladder = |rungs: Value| {
        let mut documents = documents(LADDER);
        documents[0]["spec"]["rungs"] = rungs;
        ScenarioPolicy::ladders("ladder.yaml", documents).unwrap()
    };
    let plain = scenario.play(1, &ScenarioPolicy::NoLadder).unwrap();
    for rungs in [
        json!([{"rung": "Pod", "attempts": 5}]),
        json!([{"rung": "Containers", "attempts": 2}, {"rung": "Pod", "attempts": 2}]),
        json!([{"rung": "Container", "attempts": 1}, {"rung": "Recreate", "attempts": 3}]),
    ] {
        let healed = scenario.play(1, &ladder(rungs.clone())).unwrap();
        assert!(healed.restarts <= plain.restarts, "{healed:?}\n{plain:?}");
        assert_eq!((healed.pods, healed.ready, healed.broken_promise.clone()), (5, 5, None));
        let recovery = |outcome: &PolicyOutcome| outcome.timeline.time_to_recovery().unwrap();
        assert!(healed.starts <= plain.starts, "{rungs}: {} and {}", healed.starts, plain.starts);
        let (longer, limit) = (recovery(&healed), recovery(&plain) + BACKOFF);
        assert!(longer <= limit, "{rungs}: {longer:?} and {limit:?}");
        let limit = plain.timeline.missing_micros * 21 / 20;
        let missing = healed.timeline.missing_micros;
        assert!(missing <= limit, "{rungs}: {missing} and {limit} µs");
    }
}

#[test]
fn a_ladder_that_rolls_back_recovers_from_a_bad_revision_before_anybody_does_it_by_hand() {
    let scenario = Scenario::from_documents(documents(BAD_ROLLOUT)).unwrap();
    let rollback = ScenarioPolicy::ladders("rollback", documents(ROLLBACK)).unwrap();
    let [plain, healed] =
        [&ScenarioPolicy::NoLadder, &rollback].map(|policy| scenario.play(1, policy).unwrap());
    for outcome in [&plain, &healed] {
        assert_eq!((outcome.pods, outcome.ready), (8, 8), "{:?}", outcome.rungs);
        assert_eq!(outcome.broken_promise, None);
    }
    assert!(healed.restarts < plain.restarts, "{} and {}", healed.restarts, plain.restarts);
    let [plain, healed] =
        [&plain, &healed].map(|outcome| outcome.timeline.time_to_recovery().unwrap());
    assert!(plain >= minutes(30) && plain < minutes(31), "until it is undone by hand: {plain:?}");
    assert!(healed < minutes(5), "{healed:?}");
}

#[test]
fn pods_of_a_lost_zone_run_elsewhere_after_the_grace_and_the_toleration_one_node_after_the_other() {
    let scenario = Scenario::from_documents(documents(ZONE_FAILURE)).unwrap();
    let outcome = scenario.play(1, &ScenarioPolicy::AsWritten).unwrap();
    assert_eq!((outcome.pods, outcome.ready, outcome.restarts), (20, 20, 0));
    // 50 s without a heartbeat, 300 s of toleration, and the third of the nodes 20 s after the
    // first
    let outage = outcome.timeline.longest_outage();
    let until = TickDuration::from_secs(50 + 300 + 20);
    assert!(outage >= until && outage < until + TickDuration::from_secs(2), "{outage:?}");
    assert_eq!(outcome.broken_promise, None);
}
