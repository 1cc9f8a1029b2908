//! What `rekindle report` shows after an operator has observed.

use std::collections::BTreeMap;

use rekindle_reconcile::LadderMode;
use rekindle_types::v1alpha1::LedgerPhase;
use serde_json::json;

use crate::world::{SHOP, World};

#[test]
fn it_counts_restarts_says_what_the_ladder_would_have_done_and_proposes_one() {
    let mut world = World::new(LadderMode::Observe);
    world.namespace("other", json!({}));
    world.pod("other", "noisy", None, json!({}));
    world.crash("other", "noisy");
    world.crash_again("other", "noisy");
    world.replica_set(SHOP, "web");
    for pod in ["web-a", "web-b"] {
        world.pod(SHOP, pod, Some("web"), json!({}));
    }
    world.pod(SHOP, "quiet", None, json!({}));
    world.crash(SHOP, "web-a");
    for _ in 0..4 {
        world.crash_again(SHOP, "web-a");
    }
    let report = world.report(None);
    assert_eq!(report.namespaces, [SHOP], "others are not enabled");
    assert_eq!(report.restarts, 4);
    assert_eq!(report.workloads.len(), 1, "{report:?}");
    let web = &report.workloads[0];
    assert_eq!((&*web.kind, &*web.name, web.pods), ("ReplicaSet", "web", 2));
    assert_eq!((web.restarts, web.failures, &web.ladder), (4, 5, &None));
    assert_eq!(web.would_have_done, BTreeMap::from([("Recreate", 1), ("Reschedule", 1)]));
    assert_eq!(web.done, BTreeMap::new());
    assert_eq!(web.phase, Some(LedgerPhase::Climbing));
    let proposal = serde_json::to_value(web.proposal.as_ref().unwrap()).unwrap();
    assert_eq!(proposal["spec"]["selector"], json!({"matchLabels": {"app": "web"}}));
    assert_eq!(proposal["metadata"], json!({"name": "web-replicaset", "namespace": SHOP}));

    world.ladder(SHOP, json!([{"rung": "Container"}, {"rung": "Recreate"}]), json!({}));
    let report = world.report(Some(SHOP));
    assert_eq!(report.workloads[0].ladder.as_deref(), Some("web"));
    assert_eq!(report.workloads[0].proposal, None, "it has one");
    assert_eq!(world.report(Some("other")).workloads, []);
}

#[test]
fn what_an_operator_did_is_told_apart_from_what_one_only_noted() {
    let mut world = World::new(LadderMode::Act);
    world.ladder(SHOP, json!([{"rung": "Recreate"}]), json!({}));
    world.pod(SHOP, "web", None, json!({}));
    world.crash(SHOP, "web");
    let report = world.report(None);
    assert_eq!(report.workloads[0].done, BTreeMap::from([("Recreate", 1)]));
    assert_eq!(report.workloads[0].would_have_done, BTreeMap::new());
}

/// What is applied must change no ladder that is there, and all of it must be there afterwards.
#[test]
fn proposals_have_names_of_their_own() {
    let mut world = World::new(LadderMode::Observe);
    world.replica_set(SHOP, "web");
    for (pod, set) in [("web-a", Some("web")), ("web", None), ("web-replicaset", None)] {
        world.pod(SHOP, pod, set, json!({}));
        world.relabel(SHOP, pod, json!({"app": format!("of-{pod}")}));
        world.crash(SHOP, pod);
        world.crash_again(SHOP, pod);
    }
    world.ladder(SHOP, json!([{"rung": "Recreate"}]), json!({}));
    world.rename_ladder("web-pod");
    let report = world.report(None);
    let proposals = report.workloads.iter().filter_map(|workload| workload.proposal.as_ref());
    let mut names: Vec<&str> = proposals.filter_map(|p| p.metadata.name.as_deref()).collect();
    names.sort_unstable();
    assert_eq!(names, ["web-pod-2", "web-replicaset", "web-replicaset-pod"]);
}

/// The report and the operator go by the same rule.
#[test]
fn what_is_reported_of_a_pod_is_what_the_operator_goes_by() {
    let includes = |what: &str| json!({"rekindle.dev/ladder-includes": what});
    let rungs = json!([{"rung": "Container", "attempts": 3}]);
    for (spec, ladder, expected, proposed) in [
        (json!({}), None, None, true),
        (json!({}), Some(includes("")), Some("web"), false),
        (json!({"hostNetwork": true}), None, None, false),
        (json!({"hostNetwork": true}), Some(includes("Static")), None, false),
        (json!({"hostNetwork": true}), Some(includes("HostNetwork")), Some("web"), false),
        (json!({"restartPolicy": "OnFailure"}), None, None, false),
        (json!({"restartPolicy": "OnFailure"}), Some(includes("")), Some("web"), false),
    ] {
        let mut world = World::new(LadderMode::Observe);
        if let Some(annotations) = ladder.clone() {
            world.ladder(SHOP, rungs.clone(), annotations);
        }
        world.pod(SHOP, "web", None, spec.clone());
        world.crash(SHOP, "web");
        world.crash_again(SHOP, "web");
        let report = world.report(None);
        let found = (report.workloads[0].ladder.as_deref(), report.workloads[0].proposal.is_some());
        assert_eq!(found, (expected, proposed), "{spec} {ladder:?}");
        let ledgers = world.ledgers();
        let by = ledgers.first().map(|(ledger, _)| ledger.spec.ladder_name.as_str());
        assert_eq!(by, expected.or(proposed.then_some("proposed/pod/web")), "{spec} {ladder:?}");
    }
}
