//! Which pods of a cluster ladders reach.

use rekindle_reconcile::LadderMode;
use rekindle_types::v1alpha1::{PodRestart, PodRestartPhase};
use serde_json::{Value, json};

use crate::world::{OWN, SHOP, World, typed};

const ENABLED: &str = "enabled";

fn recreates() -> Value {
    json!([{"rung": "Recreate", "attempts": 3}])
}

#[test]
fn namespaces_opt_in_and_some_never_do() {
    for (namespace, label, why) in [
        (
            "other",
            "disabled",
            "namespace other is not enabled: kubectl label namespace other rekindle.dev/ladder=enabled",
        ),
        ("kube-system", ENABLED, "ladders never act in namespace kube-system"),
        (OWN, ENABLED, "ladders never act in namespace rekindle-system, which is the operator's"),
    ] {
        for mode in [LadderMode::Observe, LadderMode::Act] {
            let mut world = World::new(mode);
            world.namespace(namespace, json!({"rekindle.dev/ladder": label}));
            world.ladder(namespace, recreates(), json!({}));
            world.pod(namespace, "web", None, json!({}));
            world.crash(namespace, "web");
            world.crash_again(namespace, "web");
            assert_eq!(world.ledgers(), [], "{namespace}");
            assert_eq!(world.count("evict"), 0, "{namespace}");
            if mode == LadderMode::Act {
                assert_eq!(world.accepted(), ("NotEnabled".to_owned(), why.to_owned()));
                world.put(typed::<PodRestart>(json!({
                    "metadata": {"name": "by-hand", "namespace": namespace},
                    "spec": {"podName": "web", "rung": "Recreate"},
                })));
                world.settle();
                let status = world.requests().remove(0).status.unwrap();
                assert_eq!(status.phase, Some(PodRestartPhase::Refused));
                assert_eq!(status.message.unwrap(), why);
            }
        }
    }
}

#[test]
fn a_label_that_is_taken_off_stops_the_ladder_and_the_ledger_says_so() {
    let mut world = World::new(LadderMode::Act);
    world.ladder(SHOP, json!([{"rung": "Container"}, {"rung": "Recreate"}]), json!({}));
    world.pod(SHOP, "web", None, json!({}));
    world.crash(SHOP, "web");
    world.namespace(SHOP, json!({}));
    world.settle();
    assert!(world.said().starts_with("no ladder selects the pod"), "{}", world.said());
    world.crash_again(SHOP, "web");
    world.crash_again(SHOP, "web");
    assert_eq!(world.count("evict"), 0, "{:?}", world.writes);
    world.namespace(SHOP, json!({"rekindle.dev/ladder": ENABLED}));
    world.settle();
    assert_eq!(world.count("evict"), 1, "{:?}", world.writes);
}

#[test]
fn pods_of_the_node_have_to_be_named() {
    let host_network = json!({"hostNetwork": true});
    for (includes, evictions) in
        [("", 0), ("Static", 0), ("HostNetwork", 1), ("Static, HostNetwork", 1)]
    {
        let mut world = World::new(LadderMode::Act);
        world.ladder(SHOP, recreates(), json!({"rekindle.dev/ladder-includes": includes}));
        world.pod(SHOP, "web", None, host_network.clone());
        world.crash(SHOP, "web");
        assert_eq!(world.count("evict"), evictions, "{includes:?}: {:?}", world.writes);
        assert_eq!(world.accepted().0, "Accepted");
    }
    let mut world = World::new(LadderMode::Act);
    world.ladder(SHOP, recreates(), json!({"rekindle.dev/ladder-includes": "DaemonSet"}));
    world.settle();
    let expected = "annotation rekindle.dev/ladder-includes: \"DaemonSet\" is none of Static, HostNetwork and OnFailure";
    assert_eq!(world.accepted(), ("Invalid".to_owned(), expected.to_owned()));
}

/// The cluster's own controllers do that.
#[test]
fn replicas_that_are_missing_and_pods_that_wait_for_a_node_are_left_alone() {
    let mut world = World::new(LadderMode::Act);
    world.replica_set(SHOP, "web");
    world.pod(SHOP, "web-a", Some("web"), json!({"nodeName": null}));
    world.advance(3600);
    assert_eq!(world.writes, Vec::<String>::new());
}
