//! Mode observe: ledgers are written, and nothing else is.

use rekindle_reconcile::LadderMode;
use rekindle_types::v1alpha1::{LedgerPhase, PodRestartPhase, Rung};
use serde_json::json;

use crate::world::{SHOP, World, typed};

/// Container three times, Recreate once, Reschedule twice: all that is proposed.
const CRASHES: usize = 7;

#[test]
fn a_pod_without_a_ladder_is_followed_by_the_one_that_would_be_proposed() {
    let mut world = World::new(LadderMode::Observe);
    world.replica_set(SHOP, "web");
    world.pod(SHOP, "web-a", Some("web"), json!({}));
    world.crash(SHOP, "web-a");
    for _ in 1..CRASHES {
        world.crash_again(SHOP, "web-a");
    }
    let (ledger, status) = world.ledgers().remove(0);
    assert_eq!(ledger.spec.ladder_name, "proposed/replicaset/web");
    assert_eq!(status.phase, Some(LedgerPhase::Exhausted), "{:?}", status.message);
    assert_eq!(status.failures_total, CRASHES as u64);
    let noted: Vec<Rung> = status
        .decisions
        .iter()
        .flatten()
        .filter(|decision| decision.is_dry_run())
        .filter_map(|decision| decision.rung)
        .collect();
    assert_eq!(noted, [Rung::Recreate, Rung::Reschedule, Rung::Reschedule]);
    assert!(status.message.unwrap().ends_with("mode observe: nothing was done"));
    assert_eq!(world.pod_names(), ["shop/web-a"], "nothing was done");
}

#[test]
fn it_writes_ledgers_only_and_one_write_for_a_crash() {
    for has_old_definitions in [false, true] {
        let mut world = World::new(LadderMode::Observe);
        world.has_old_definitions = has_old_definitions;
        world.ladder(SHOP, json!([{"rung": "Container"}, {"rung": "Recreate"}]), json!({}));
        world.replica_set(SHOP, "web");
        world.pod(SHOP, "web-a", Some("web"), json!({}));
        world.settle();
        assert_eq!(world.writes, Vec::<String>::new(), "all is well");
        world.crash(SHOP, "web-a");
        assert_eq!(world.writes.len(), 2, "the ledger is created: {:?}", world.writes);
        for crash in 1..CRASHES {
            world.crash_again(SHOP, "web-a");
            assert!(world.writes.len() <= 2 + crash, "{:?}", world.writes);
        }
        let others = world.writes.iter().filter(|write| !write.contains("RestartLedger"));
        assert_eq!(others.collect::<Vec<_>>(), Vec::<&String>::new());
        assert_eq!(world.events, 0);
    }
}

/// Our API refuses such annotations; others take them.
#[test]
fn it_writes_no_event_about_a_pod_with_a_ladder_that_cannot_be_read() {
    for (mode, events) in [(LadderMode::Observe, 0), (LadderMode::Act, 1)] {
        let mut world = World::new(mode);
        world.pod(SHOP, "web", None, json!({}));
        world.annotate(SHOP, "web", json!({"rekindle.dev/ladder": "Containr"}));
        world.settle();
        assert_eq!(world.events, events);
        assert_eq!(world.writes, Vec::<String>::new());
    }
}

#[test]
fn a_request_by_hand_is_refused_with_the_reason() {
    let mut world = World::new(LadderMode::Observe);
    world.pod(SHOP, "web", None, json!({}));
    world.put(typed::<rekindle_types::v1alpha1::PodRestart>(json!({
        "metadata": {"name": "by-hand", "namespace": SHOP},
        "spec": {"podName": "web", "rung": "Recreate"},
    })));
    world.settle();
    let status = world.requests().remove(0).status.unwrap();
    assert_eq!(status.phase, Some(PodRestartPhase::Refused));
    assert_eq!(status.message.unwrap(), "the operator only observes: start it with --mode act");
    assert_eq!(world.count("evict"), 0);
}

#[test]
fn an_operator_that_acts_begins_above_container_anew() {
    for has_old_definitions in [false, true] {
        let mut world = World::new(LadderMode::Observe);
        world.has_old_definitions = has_old_definitions;
        world.ladder(SHOP, json!([{"rung": "Container"}, {"rung": "Recreate"}]), json!({}));
        world.pod(SHOP, "web", None, json!({}));
        world.crash(SHOP, "web");
        world.crash_again(SHOP, "web");
        world.crash_again(SHOP, "web");
        assert!(world.said().contains("every rung was tried"), "{}", world.said());
        world.restart_operator(LadderMode::Act);
        world.crash_again(SHOP, "web");
        assert_eq!(world.count("evict Pod shop/web"), 1, "{:?}", world.writes);
    }
}
