//! The driver's rules, one at a time.

use rekindle_pod::{CoreAction, CoreEvent, EvictionCause, Loss, PodEviction};
use rekindle_pod_driver::Existence;
use rekindle_types::TickDuration;
use serde_json::{Value, json};

use crate::runtime::Says;
use crate::world::{ApiSays, Routed, World, pod};

fn one_container() -> Value {
    json!({"restartPolicy": "Always", "containers": [{"name": "app", "image": "demo:1"}]})
}

const fn millis(millis: u64) -> TickDuration {
    TickDuration::from_millis(millis)
}

/// A pod that runs, with all of it written.
fn running() -> World {
    running_as(one_container())
}

fn running_as(spec: Value) -> World {
    let mut world = World::new(pod(spec));
    world.settle_for(millis(100));
    assert_eq!((world.phase(), world.runtime.running().count()), (Some("Running"), 1));
    world.see();
    world.log.clear();
    world
}

#[test]
fn a_status_that_the_next_start_replaces_is_not_written() {
    let mut world = running();
    let written = world.written.len();
    world.exit("app", 1);
    world.journal_ends(true);
    assert_eq!(world.log[..3], ["persist", "start", "advance"]);
    assert!(world.log.contains(&"show"), "those who ask the node see it at once");
    world.pass(millis(9));
    assert_eq!(world.status_in_flight.as_ref().map(|_| ()), None);
    world.settle();
    assert_eq!(world.written.len(), written + 1, "one write for the crash and the start");
    let count = |world: &World| {
        world.written.last().unwrap().container_statuses.clone().unwrap()[0].restart_count
    };
    assert_eq!(count(&world), 1);
}

#[test]
fn a_status_whose_start_takes_long_is_written_after_ten_milliseconds() {
    let mut world = running();
    world.exit("app", 1);
    world.journal_ends(true);
    let due = world.driver.poll_timeout().unwrap();
    assert!(due.since(world.now) <= millis(10), "{due:?}");
    world.pass(millis(9));
    assert!(world.status_in_flight.is_none());
    world.pass(millis(1));
    assert!(world.status_in_flight.is_some());
}

#[test]
fn a_status_is_written_at_once_when_what_follows_takes_as_long_as_a_registry() {
    let image = "registry.test/app:1";
    let mut world = World::new(pod(json!({"containers": [{"name": "app", "image": image}]})));
    for _ in 0..20 {
        world.journal_ends(true);
        let fetched =
            |(_, action): &(_, CoreAction)| matches!(action, CoreAction::PullImage { .. });
        if world.under_way.iter().any(fetched) {
            break;
        }
        world.answer(0);
    }
    assert_eq!(world.under_way.len(), 1);
    assert!(world.status_in_flight.is_some());
}

#[test]
fn a_status_is_written_at_once_when_what_led_on_comes_to_nothing() {
    let mut world = running();
    world.exit("app", 1);
    world.journal_ends(true);
    assert!(world.status_in_flight.is_none());
    world.fail(0);
    world.journal_ends(true);
    assert!(world.status_in_flight.is_some());
}

#[test]
fn a_journal_that_cannot_be_written_holds_all_up_and_is_tried_with_each_input_and_each_second() {
    let mut world = running();
    world.exit("app", 1);
    assert_eq!(world.log, ["persist"]);
    world.journal_ends(false);
    assert_eq!(world.log, ["persist"], "no start without its journal");
    let due = world.driver.poll_timeout().unwrap();
    assert_eq!(due.since(world.now), TickDuration::from_secs(1));
    world.see();
    assert_eq!(world.log, ["persist", "persist"]);
    world.journal_ends(false);
    world.pass(TickDuration::from_secs(1));
    assert_eq!(world.log, ["persist", "persist", "persist"]);
    world.journal_ends(true);
    assert_eq!(world.log[..4], ["persist", "persist", "persist", "start"]);
}

#[test]
fn what_happens_while_a_journal_is_written_again_is_written_before_anything_goes_on() {
    let mut world = World::new(pod(json!({"restartPolicy": "Always", "containers": [
        {"name": "app", "image": "demo:1"}, {"name": "side", "image": "demo:2"},
    ]})));
    world.settle_for(millis(100));
    world.exit("app", 0);
    world.journal_ends(false);
    world.pass(TickDuration::from_secs(1));
    assert!(world.journal_in_flight.is_some());
    world.exit("side", 0);
    world.log.clear();
    world.journal_ends(true);
    assert_eq!(world.log, ["persist"], "the journal in flight did not know of the second end");
    world.journal_ends(true);
    assert_eq!(world.log[..3], ["persist", "start", "start"]);
}

#[test]
fn a_deleted_pod_ends_while_its_journal_cannot_be_written() {
    let mut world = running();
    world.delete(30);
    world.journal_ends(false);
    world.routes_end();
    assert!(world.log.contains(&"signal"), "{:?}", world.log);
    world.settle_for(TickDuration::from_secs(40));
    assert_eq!(world.finishes, 1);
}

#[test]
fn a_stopping_node_goes_on_without_a_journal_and_writes_nothing() {
    let mut world = running();
    let written = world.written.len();
    world.driver.node_stops(world.now);
    world.drive();
    world.journal_ends_of_stopping_node();
    // nor does it tell of rules that take too long
    world.pass(millis(1_000));
    while world.journal_in_flight.is_some() || !world.under_way.is_empty() {
        match world.journal_in_flight {
            Some(_) => world.journal_ends_of_stopping_node(),
            None => world.answer(0),
        }
    }
    assert_eq!(world.finishes, 1);
    assert_eq!(world.written.len(), written);
    assert!(!world.log.contains(&"write") && !world.log.contains(&"event"), "{:?}", world.log);
}

#[test]
fn a_pod_without_an_object_ends_and_writes_nothing() {
    for (loss, grace) in [(Loss::Deleted, 1), (Loss::Missing, 30)] {
        let mut world = running();
        world.exit("app", 1);
        world.journal_ends(true);
        assert!(!world.driver.is_status_settled(), "it is held");
        world.driver.object_vanished(world.now, loss);
        world.drive();
        assert!(world.driver.is_status_settled());
        assert_eq!(world.driver.deletion_grace_told(), Some(grace));
        assert_eq!(world.driver.existence(), Existence::Vanished);
        world.settle_for(TickDuration::from_secs(40));
        assert_eq!(world.finishes, 1);
        assert!(!world.log.contains(&"write"), "{:?}", world.log);
        assert!(world.driver.is_status_settled());
    }
}

#[test]
fn a_deletion_is_told_once_for_each_grace() {
    let mut world = running();
    world.delete(30);
    assert_eq!(world.driver.deletion_grace_told(), Some(30));
    let journals = |world: &World| world.log.iter().filter(|word| **word == "persist").count();
    world.journal_ends(true);
    let before = journals(&world);
    world.change(|pod| pod.metadata.generation = Some(7));
    world.journal_ends(true);
    assert_eq!(journals(&world), before);
    world.delete(5);
    assert_eq!(world.driver.deletion_grace_told(), Some(5));
}

#[test]
fn a_pod_that_another_writer_calls_not_ready_is_written_again() {
    let mut world = running();
    world.change(|pod| {
        let conditions = pod.status.as_mut().unwrap().conditions.as_mut().unwrap();
        let ready = conditions.iter_mut().find(|condition| condition.type_ == "Ready").unwrap();
        ready.status = "False".to_owned();
    });
    assert!(world.status_in_flight.is_some());
    world.status_ends(ApiSays::Written);
    world.see();
    assert!(world.status_in_flight.is_none(), "and once is enough");
}

#[test]
fn a_conflict_is_answered_with_a_write_on_the_new_version() {
    let mut world = running();
    world.exit("app", 1);
    world.journal_ends(true);
    world.answer(0);
    assert!(world.status_in_flight.is_some());
    world.change(|pod| pod.metadata.generation = Some(3));
    world.status_ends(ApiSays::Written);
    assert!(world.status_in_flight.is_none(), "it was on an older version");
    world.pass(millis(50));
    let write = world.status_in_flight.as_ref().unwrap();
    assert_eq!(write.base.resource_version, world.pod.metadata.resource_version);
}

#[test]
fn the_last_status_goes_ahead_of_the_end() {
    let mut world = running();
    world.delete(30);
    world.settle_for(TickDuration::from_secs(40));
    let last = |word: &str| world.log.iter().rposition(|found| *found == word).unwrap();
    assert!(last("show") < last("finish"));
    assert!(last("write") < last("finish"));
    world.driver.handle(world.now, CoreEvent::DeleteRequested { grace: millis(0) });
    world.drive();
    assert_eq!(world.finishes, 2, "asked for again when a finished pod is deleted");
}

#[test]
fn a_deleted_pod_gets_its_signal_when_no_rule_leads_to_it() {
    let mut world = running();
    world.delete(30);
    world.journal_ends(true);
    assert!(world.log.contains(&"withdraw") && !world.log.contains(&"signal"), "{:?}", world.log);
    world.routes_end();
    assert!(world.log.ends_with(&["signal"]), "{:?}", world.log);
    world.settle_for(millis(100));
    assert_eq!(world.log.iter().filter(|word| **word == "withdraw").count(), 1);
    assert_eq!(world.finishes, 1);
}

#[test]
fn rules_that_cannot_be_written_hold_a_pod_for_a_second_at_most() {
    let mut world = running();
    world.delete(30);
    world.journal_ends(true);
    world.pass(millis(999));
    assert!(!world.log.contains(&"signal"), "{:?}", world.log);
    assert_eq!(world.driver.poll_timeout(), Some(world.now + millis(1)));
    world.log.clear();
    world.pass(millis(1));
    assert_eq!(world.log[..2], ["event", "signal"], "{:?}", world.log);
    // an answer that comes late changes nothing
    world.routes_end();
    world.settle_for(millis(100));
    assert_eq!(world.finishes, 1);
}

#[test]
fn connections_come_again_when_the_restarted_pod_is_ready() {
    let mut world = running();
    restart(&mut world);
    world.settle_for(millis(100));
    assert_in_order(&world, &["withdraw", "signal", "start", "admit"]);
}

fn restart(world: &mut World) {
    let request = rekindle_pod::RestartRequest {
        id: "id".to_owned(),
        name: "restart".to_owned(),
        rung: rekindle_types::v1alpha1::Rung::Containers,
        container: None,
        empty_dirs: rekindle_types::v1alpha1::EmptyDirPolicy::Clear,
        grace: None,
        reason: String::new(),
        is_fast: false,
        series: rekindle_pod::Series::Anew,
        group: None,
    };
    world.driver.handle(world.now, CoreEvent::RestartRequested(request));
    world.drive();
}

#[test]
fn a_container_that_fails_its_liveness_probe_gets_its_signal_when_no_rule_leads_to_it() {
    let mut spec = one_container();
    spec["containers"][0]["livenessProbe"] =
        json!({"exec": {"command": ["check"]}, "periodSeconds": 1, "failureThreshold": 1});
    let mut world = running_as(spec);
    world.runtime.answers.insert("app Liveness".to_owned(), Says::Failure);
    world.settle_for(millis(1_000));
    world.runtime.answers.clear();
    world.settle_for(millis(1_000));
    assert_in_order(&world, &["withdraw", "signal", "start", "admit"]);
}

/// Slices say it later.
#[test]
fn the_node_says_that_a_pod_is_ready_and_that_it_is_not() {
    let mut spec = one_container();
    spec["containers"][0]["readinessProbe"] =
        json!({"exec": {"command": ["check"]}, "periodSeconds": 1, "failureThreshold": 1});
    let mut world = running_as(spec);
    world.runtime.answers.insert("app Readiness".to_owned(), Says::Failure);
    world.settle_for(millis(1_000));
    assert_eq!(routes(&world), ["exclude"]);
    world.runtime.answers.clear();
    restart(&mut world);
    world.settle_for(millis(1_000));
    assert_in_order(&world, &["withdraw", "signal", "start", "admit"]);
    world.log.clear();
    world.runtime.answers.insert("app Readiness".to_owned(), Says::Failure);
    world.settle_for(millis(3_000));
    world.runtime.answers.clear();
    world.settle_for(millis(1_000));
    assert_eq!(routes(&world), ["exclude", "admit"]);
}

#[test]
fn a_container_that_dies_gets_no_connections_until_the_pod_is_ready_again() {
    let mut world = running();
    world.exit("app", 1);
    world.settle_for(millis(100));
    world.log.clear();
    // the second restart waits for its back-off
    world.exit("app", 1);
    world.settle();
    assert_eq!(routes(&world), ["exclude"]);
    assert_eq!(world.routed, Routed::Excluded);
    world.settle_for(TickDuration::from_secs(11));
    assert_in_order(&world, &["exclude", "start", "admit"]);
}

/// What was said of the routes.
fn routes(world: &World) -> Vec<&'static str> {
    let words = world.log.iter().copied();
    words.filter(|word| matches!(*word, "withdraw" | "admit" | "exclude")).collect()
}

#[test]
fn an_evicted_pod_gets_its_signal_when_no_rule_leads_to_it() {
    let mut world = running();
    let grace = TickDuration::from_secs(30);
    let (cause, message) = (EvictionCause::NodePressure, "The node was low on memory".to_owned());
    world.driver.handle(world.now, CoreEvent::Eviction(PodEviction { cause, message, grace }));
    world.drive();
    world.settle_for(millis(100));
    assert_in_order(&world, &["withdraw", "signal", "finish"]);
    assert!(!world.log.contains(&"admit"), "{:?}", world.log);
}

/// The first of each of these comes after the first of the one before it.
fn assert_in_order(world: &World, words: &[&str]) {
    let first = |word: &&str| world.log.iter().position(|logged| logged == word);
    let places: Vec<_> = words.iter().map(first).collect();
    assert!(places.iter().all(Option::is_some) && places.is_sorted(), "{:?}", world.log);
}
