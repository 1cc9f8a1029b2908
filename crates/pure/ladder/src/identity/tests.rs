use super::*;

fn pod(owner: Option<(&str, &str)>) -> HeldPod {
    let mut pod = HeldPod::default();
    pod.metadata.name = Some("web-0".to_owned());
    pod.metadata.uid = Some("uid-1".to_owned());
    pod.metadata.owner_references = owner.map(|(kind, uid)| {
        vec![OwnerReference {
            api_version: "apps/v1".to_owned(),
            kind: kind.to_owned(),
            name: "web".to_owned(),
            uid: uid.to_owned(),
            controller: Some(true),
            block_owner_deletion: Some(true),
        }]
    });
    pod
}

#[test]
fn a_ledger_goes_with_the_controller() {
    for (owner, expected) in [
        (None, None),
        (Some(("StatefulSet", "sts-uid")), Some(("StatefulSet", "sts-uid"))),
        (Some(("ReplicaSet", "rs-uid")), Some(("ReplicaSet", "rs-uid"))),
        (Some(("Job", "job-uid")), Some(("Job", "job-uid"))),
    ] {
        let identity = identity(&pod(owner));
        assert_eq!(identity.ledger_name, "web-0");
        let found = identity.owner.as_ref().map(|o| (o.kind.as_str(), o.uid.as_str()));
        assert_eq!(found, expected, "{owner:?}");
        assert_eq!(identity.owner.and_then(|owner| owner.controller), None);
    }
}

#[test]
fn the_ledger_of_a_daemon_is_that_of_its_node() {
    let on = |node: &str| {
        let mut pod = pod(Some(("DaemonSet", "ds-uid")));
        pod.node_name = Some(node.to_owned());
        identity(&pod)
    };
    for (node, name, lineage) in [
        ("node-1", "web.node-1", Lineage::Node),
        ("", "web-0", Lineage::Controller),
        (&"n".repeat(250), "web-0", Lineage::Controller),
    ] {
        let identity = on(node);
        assert_eq!((identity.ledger_name.as_str(), identity.lineage), (name, lineage), "{node}");
    }
}

fn made(name: &str, secs: u64) -> HeldPod {
    let mut pod = HeldPod::default();
    pod.metadata.name = Some(name.to_owned());
    pod.metadata.uid = Some(format!("uid of {name}"));
    pod.metadata.creation_timestamp = Some(Tick::from_secs(secs).to_time());
    pod
}

/// A ledger that was made at `secs` and decided for the last time half a second after `last`.
fn ledger(name: &str, secs: u64, last: u64) -> RestartLedger {
    let mut ledger = RestartLedger::default();
    ledger.metadata.name = Some(name.to_owned());
    ledger.metadata.creation_timestamp = Some(Tick::from_secs(secs).to_time());
    let at = Tick::from_secs(last) + TickDuration::from_millis(500);
    let decision = rekindle_types::v1alpha1::LedgerDecision {
        at: at.to_micro_time(),
        first_at: None,
        rung: None,
        reason: String::new(),
        count: 1,
        pod_restart: None,
        outcome: None,
    };
    ledger.status = Some(rekindle_types::v1alpha1::RestartLedgerStatus {
        decisions: Some(vec![decision]),
        ..Default::default()
    });
    ledger
}

#[test]
fn each_ledger_has_one_heir_in_the_order_of_creation() {
    let ledgers = [ledger("b", 20, 40), ledger("a", 10, 50)];
    let pods = [made("old", 30), made("one", 50), made("two", 50), made("three", 60)];
    let heir = |pod: &HeldPod| {
        let ledger = heir_of(pod, pods.iter(), ledgers.iter())?;
        ledger.metadata.name.clone()
    };
    assert_eq!(heir(&pods[0]), None, "it lived when the ledgers' pods did");
    assert_eq!(heir(&pods[1]).as_deref(), Some("a"), "in the very second of the last decision");
    assert_eq!(heir(&pods[2]).as_deref(), Some("b"));
    assert_eq!(heir(&pods[3]), None, "there is none left");
}
