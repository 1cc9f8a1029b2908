//! Local storage: emptyDir's size limit, and `ephemeral-storage` of containers and pods.

use std::collections::BTreeMap;

use rekindle_pod::EvictionCause;
use rekindle_types::PodUid;
use serde_json::{Value, json};

use super::pods::pod_of;
use crate::eviction::choice;
use crate::eviction::figures::{ContainerFigures, DiskUsage, EvictionFigures};
use crate::eviction::storage::{is_limited, over_limit};

const MIB: u64 = 1 << 20;

/// A pod whose containers and volumes have written so many MiB.
fn pod(spec: Value, containers: &[(&str, u64)], volumes: &[(&str, u64)]) -> EvictionFigures {
    let total: u64 = containers.iter().chain(volumes).map(|(_, used)| used * MIB).sum();
    EvictionFigures {
        uid: PodUid("p".to_owned()),
        pod: pod_of(spec),
        memory: None,
        disk: Some(DiskUsage { bytes: total, inodes: 1 }),
        pids: None,
        containers: containers
            .iter()
            .map(|(name, used)| ContainerFigures {
                name: (*name).to_owned(),
                memory: None,
                disk: Some(used * MIB),
            })
            .collect(),
        volumes: volumes.iter().map(|(name, used)| ((*name).to_owned(), used * MIB)).collect(),
    }
}

fn limits(amount: &str) -> Value {
    json!({"limits": {"ephemeral-storage": amount}})
}

#[test]
fn a_pod_is_told_what_it_uses_too_much_of() {
    let dir = |limit: &str| json!({"containers": [{"name": "a"}], "volumes": [{"name": "x", "emptyDir": {"sizeLimit": limit}}]});
    let one = json!({"containers": [{"name": "a", "resources": limits("10Mi")}]});
    let two = json!({"containers": [
        {"name": "a", "resources": limits("10Mi")}, {"name": "b", "resources": limits("20Mi")}]});
    let half = json!({"containers": [{"name": "a", "resources": limits("10Mi")}, {"name": "b"}]});
    let with_init = json!({
        "initContainers": [{"name": "i", "resources": limits("50Mi")}],
        "containers": [{"name": "a", "resources": limits("10Mi")}],
    });
    let of_pod = "Pod ephemeral local storage usage exceeds the total limit of containers ";
    type Used<'a> = &'a [(&'a str, u64)];
    let cases: [(&Value, Used<'_>, Used<'_>, Option<String>); 12] = [
        (&dir("10Mi"), &[], &[("x", 10)], None),
        (
            &dir("10Mi"),
            &[],
            &[("x", 11)],
            Some("Usage of EmptyDir volume \"x\" exceeds the limit \"10Mi\". ".to_owned()),
        ),
        (&dir("0"), &[], &[("x", 11)], None),
        (&one, &[("a", 10)], &[], None),
        (&one, &[("a", 11)], &[], Some(format!("{of_pod}10Mi. "))),
        (&one, &[("a", 4)], &[("v", 7)], Some(format!("{of_pod}10Mi. "))),
        (&two, &[("a", 5), ("b", 19)], &[("v", 5)], None),
        (
            &two,
            &[("a", 11), ("b", 1)],
            &[],
            Some("Container a exceeded its local ephemeral storage limit \"10Mi\". ".to_owned()),
        ),
        (&two, &[("a", 5), ("b", 19)], &[("v", 7)], Some(format!("{of_pod}30Mi. "))),
        (&half, &[("a", 1), ("b", 10)], &[], Some(format!("{of_pod}10Mi. "))),
        (&with_init, &[("a", 9)], &[("v", 41)], None),
        (&json!({"containers": [{"name": "a"}]}), &[("a", 9999)], &[], None),
    ];
    for (spec, containers, volumes, expected) in cases {
        let figures = pod(spec.clone(), containers, volumes);
        let found = over_limit(&figures).map(|(_, message)| message);
        assert_eq!(found, expected, "{spec} {containers:?} {volumes:?}");
    }
}

#[test]
fn what_a_volume_in_memory_holds_is_no_disk() {
    let spec = json!({"containers": [{"name": "a"}],
        "volumes": [{"name": "x", "emptyDir": {"medium": "Memory", "sizeLimit": "1Mi"}}]});
    assert!(!is_limited(&pod_of(spec.clone())));
    assert_eq!(over_limit(&pod(spec, &[], &[("x", 5)])), None);
}

#[test]
fn nothing_is_walked_through_for_pods_without_limits() {
    for (spec, limited) in [
        (json!({"containers": [{"name": "a"}]}), false),
        (
            json!({"containers": [{"name": "a", "resources": {"requests": {"ephemeral-storage": "1Gi"}}}]}),
            false,
        ),
        (json!({"containers": [{"name": "a"}], "volumes": [{"name": "x", "emptyDir": {}}]}), false),
        (json!({"containers": [{"name": "a", "resources": limits("1Gi")}]}), true),
        (
            json!({"containers": [], "initContainers": [{"name": "a", "resources": limits("1Gi")}]}),
            true,
        ),
        (
            json!({"containers": [], "volumes": [{"name": "x", "emptyDir": {"sizeLimit": "1Gi"}}]}),
            true,
        ),
    ] {
        assert_eq!(is_limited(&pod_of(spec.clone())), limited, "{spec}");
    }
}

#[test]
fn pods_over_their_limits_go_together_and_critical_ones_stay() {
    let spec = |priority: i32| json!({"priority": priority, "containers": [{"name": "a", "resources": limits("1Mi")}]});
    let mut pods = [spec(0), spec(5), spec(2_000_001_000)].map(|spec| pod(spec, &[("a", 2)], &[]));
    for (number, pod) in pods.iter_mut().enumerate() {
        pod.uid = PodUid(number.to_string());
        pod.volumes = BTreeMap::new();
    }
    let victims = choice::over_their_limits(&pods);
    let uids: Vec<&str> = victims.iter().map(|victim| victim.uid.0.as_str()).collect();
    assert_eq!(uids, ["0", "1"]);
    assert!(victims.iter().all(|victim| victim.eviction.cause == EvictionCause::StorageLimit));
    assert!(victims.iter().all(|victim| victim.eviction.grace.as_secs() == 1));
}

#[test]
fn each_limit_is_counted_under_the_kubelets_name() {
    let volume = json!({"containers": [{"name": "a"}],
        "volumes": [{"name": "x", "emptyDir": {"sizeLimit": "1Mi"}}]});
    let one = json!({"containers": [{"name": "a", "resources": limits("1Mi")}, {"name": "b"}]});
    let both = json!({"containers": [{"name": "a", "resources": limits("3Mi")},
        {"name": "b", "resources": limits("3Mi")}]});
    for (figures, signal) in [
        (pod(volume, &[], &[("x", 2)]), "emptydirfs.limit"),
        (pod(one, &[("b", 2)], &[]), "ephemeralpodfs.limit"),
        (pod(both, &[("a", 4)], &[]), "ephemeralcontainerfs.limit"),
    ] {
        let victims = choice::over_their_limits(&[figures]);
        let signals: Vec<&str> = victims.iter().map(|victim| victim.signal).collect();
        assert_eq!(signals, [signal]);
    }
}
