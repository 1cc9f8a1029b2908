//! Who goes first, who stays, what is said of it, and who is not let in.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use proptest::prelude::*;
use rekindle_pod::EvictionCause;
use rekindle_types::reasons::pod::AdmissionRefusal;
use rekindle_types::{PodUid, TickDuration};
use serde_json::{Value, json};

use crate::eviction::choice;
use crate::eviction::figures::{ContainerFigures, DiskUsage, EvictionFigures};
use crate::eviction::judge::Reclaim;
use crate::eviction::policy::ThresholdKind;
use crate::eviction::ranking::{ranked, request_of_pod};
use crate::eviction::signal::StarvedResource;
use crate::eviction::{EvictionPolicy, EvictionSignal, PressureKind, refusal};

const MIB: u64 = 1 << 20;

pub(super) fn pod_of(spec: Value) -> Arc<Pod> {
    Arc::new(serde_json::from_value(json!({"metadata": {"name": "p"}, "spec": spec})).unwrap())
}

/// A pod of one container that asked for `request` and uses `used` MiB of everything.
fn pod(name: &str, priority: i32, request: &str, used: u64) -> EvictionFigures {
    let requests = json!({"memory": request, "ephemeral-storage": request});
    let spec = json!({
        "priority": priority,
        "containers": [{"name": "app", "resources": {"requests": requests}}],
    });
    EvictionFigures {
        uid: PodUid(name.to_owned()),
        pod: pod_of(spec),
        memory: Some(used * MIB),
        disk: Some(DiskUsage { bytes: used * MIB, inodes: used }),
        pids: Some(used),
        containers: vec![ContainerFigures {
            name: "app".to_owned(),
            memory: Some(used * MIB),
            disk: Some(used * MIB),
        }],
        volumes: BTreeMap::new(),
    }
}

fn names(pods: Vec<EvictionFigures>) -> Vec<String> {
    pods.into_iter().map(|pod| pod.uid.0).collect()
}

fn reclaim(signal: EvictionSignal, kind: ThresholdKind) -> Reclaim {
    Reclaim { signal, kind, wanted: 100 * MIB, available: 86 * 1024 }
}

#[test]
fn those_above_their_requests_go_first_then_by_priority_then_by_how_much() {
    let pods = || {
        vec![
            pod("within-low", -1, "100Mi", 90),
            pod("within", 0, "100Mi", 50),
            pod("above-much", 0, "10Mi", 90),
            pod("above-little", 0, "10Mi", 20),
            pod("above-important", 5, "10Mi", 500),
            pod("greedy", 0, "0", 60),
        ]
    };
    let order = ["above-much", "greedy", "above-little", "above-important", "within-low", "within"];
    for resource in [StarvedResource::Memory, StarvedResource::EphemeralStorage] {
        assert_eq!(names(ranked(pods(), resource)), order, "{resource:?}");
    }
}

#[test]
fn of_processes_priority_and_number_decide() {
    let pods =
        vec![pod("few", 0, "1Mi", 5), pod("many", 0, "1Mi", 50), pod("important", 9, "1Mi", 500)];
    assert_eq!(names(ranked(pods, StarvedResource::Pids)), ["many", "few", "important"]);
}

#[test]
fn a_pod_that_nobody_could_count_goes_before_the_others() {
    let mut unknown = pod("unknown", 0, "100Mi", 0);
    unknown.memory = None;
    let pods = vec![pod("above", 0, "10Mi", 900), unknown];
    assert_eq!(names(ranked(pods, StarvedResource::Memory)), ["unknown", "above"]);
}

#[test]
fn the_request_of_a_pod_counts_init_containers_and_sidecars() {
    let ask = |amount: &str| json!({"requests": {"memory": amount}});
    let spec = json!({
        "initContainers": [
            {"name": "big", "resources": ask("100Mi")},
            {"name": "side", "restartPolicy": "Always", "resources": ask("10Mi")},
        ],
        "containers": [{"name": "a", "resources": ask("20Mi")}, {"name": "b", "resources": ask("30Mi")}],
        "overhead": {"memory": "1Mi"},
    });
    assert_eq!(request_of_pod(&pod_of(spec), StarvedResource::Memory), 101 * MIB);
}

#[test]
fn critical_pods_stay_and_the_next_one_goes() {
    let critical = |name: &str, annotation: Option<&str>, priority| {
        let mut figures = pod(name, priority, "0", 900);
        let annotations =
            annotation.map(|key| BTreeMap::from([(key.to_owned(), "file".to_owned())]));
        Arc::make_mut(&mut figures.pod).metadata.annotations = annotations;
        figures
    };
    let pods = || {
        vec![
            critical("static", Some("kubernetes.io/config.source"), 0),
            critical("mirror", Some("kubernetes.io/config.mirror"), 0),
            critical("system", None, 2_000_000_000),
            pod("web", 1_000_000_000, "0", 1),
        ]
    };
    let policy = EvictionPolicy::default();
    let memory = reclaim(EvictionSignal::MemoryAvailable, ThresholdKind::Hard);
    assert_eq!(choice::victim(&policy, &memory, pods()).unwrap().uid.0, "web");
    let critical = pods().into_iter().take(3).collect();
    assert_eq!(choice::victim(&policy, &memory, critical), None);
}

#[test]
fn the_message_says_what_was_low_and_who_used_more_than_it_asked_for() {
    let policy = EvictionPolicy::default();
    let memory = reclaim(EvictionSignal::MemoryAvailable, ThresholdKind::Hard);
    let victim = choice::victim(&policy, &memory, vec![pod("web", 0, "0", 123)]).unwrap();
    assert_eq!(victim.eviction.cause, EvictionCause::NodePressure);
    assert_eq!(victim.eviction.grace, TickDuration::from_secs(1));
    assert_eq!(
        victim.eviction.message,
        "The node was low on resource: memory. Threshold quantity: 100Mi, available: 86Ki. \
         Container app was using 123Mi, request is 0, has larger consumption of memory. "
    );
    let disk = reclaim(EvictionSignal::NodeFsAvailable, ThresholdKind::Hard);
    let victim = choice::victim(&policy, &disk, vec![pod("web", 0, "200Mi", 123)]).unwrap();
    assert_eq!(
        victim.eviction.message,
        "The node was low on resource: ephemeral-storage. Threshold quantity: 100Mi, available: 86Ki. "
    );
}

#[test]
fn at_a_soft_threshold_a_pod_gets_its_grace_up_to_the_maximum() {
    let kind = ThresholdKind::Soft { grace: TickDuration::from_secs(90) };
    let soft = reclaim(EvictionSignal::MemoryAvailable, kind);
    for (maximum, own, grace) in
        [(60, Some(10), 10), (60, None, 30), (5, Some(10), 5), (0, None, 0)]
    {
        let policy = EvictionPolicy {
            max_pod_grace: TickDuration::from_secs(maximum),
            ..EvictionPolicy::off()
        };
        let mut figures = pod("web", 0, "0", 1);
        Arc::make_mut(&mut figures.pod).spec.as_mut().unwrap().termination_grace_period_seconds =
            own;
        let victim = choice::victim(&policy, &soft, vec![figures]).unwrap();
        assert_eq!(victim.eviction.grace.as_secs(), grace);
    }
}

#[test]
fn a_node_under_pressure_lets_in_whom_upstream_lets_in() {
    let best_effort = json!({"containers": [{"name": "c"}]});
    let burstable = json!({"containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]});
    let critical = json!({"priority": 2_000_000_000, "containers": [{"name": "c"}]});
    let toleration =
        |toleration: Value| json!({"containers": [{"name": "c"}], "tolerations": [toleration]});
    let memory_key = "node.kubernetes.io/memory-pressure";
    let tolerant =
        toleration(json!({"key": memory_key, "operator": "Exists", "effect": "NoSchedule"}));
    let everything = toleration(json!({"operator": "Exists"}));
    let of_disk =
        toleration(json!({"key": "node.kubernetes.io/disk-pressure", "operator": "Exists"}));
    let (memory, disk, pid) = (PressureKind::Memory, PressureKind::Disk, PressureKind::Pid);
    let cases: [(&Value, &[PressureKind], bool); 13] = [
        (&best_effort, &[], true),
        (&best_effort, &[memory], false),
        (&burstable, &[memory], true),
        (&tolerant, &[memory], true),
        (&everything, &[memory], true),
        (&of_disk, &[memory], false),
        (&of_disk, &[disk], false),
        (&burstable, &[disk], false),
        (&burstable, &[memory, disk], false),
        (&burstable, &[pid], false),
        (&everything, &[pid], false),
        (&critical, &[memory, disk, pid], true),
        (&critical, &[disk], true),
    ];
    for (spec, pressures, let_in) in cases {
        let pressures = BTreeSet::from_iter(pressures.iter().copied());
        let refused = refusal(&pod_of(spec.clone()), &pressures);
        assert_eq!(refused.is_none(), let_in, "{spec} {pressures:?}");
    }
    let both = BTreeSet::from([disk, memory]);
    let refused = refusal(&pod_of(burstable), &both).unwrap();
    assert_eq!(refused.message, "The node had condition: [MemoryPressure DiskPressure]. ");
    assert_eq!(
        refused.cause,
        EvictionCause::NotAdmitted { refusal: AdmissionRefusal::NodePressure }
    );
}

proptest! {
    /// Whoever uses no more than it asked for goes after everybody who does, whatever the
    /// priorities.
    #[test]
    fn nobody_within_its_requests_goes_before_one_above_them(
        pods in proptest::collection::vec((-3..3_i32, 0..100_u64, 0..100_u64), 1..12),
    ) {
        let figures: Vec<EvictionFigures> = pods
            .iter()
            .enumerate()
            .map(|(number, (priority, asked, used))| {
                pod(&number.to_string(), *priority, &format!("{asked}Mi"), *used)
            })
            .collect();
        let order = names(ranked(figures.clone(), StarvedResource::Memory));
        let rank = |name: &String| {
            let (priority, asked, used) = pods[name.parse::<usize>().unwrap()];
            (used <= asked, priority, i128::from(asked) - i128::from(used))
        };
        prop_assert!(order.windows(2).all(|pair| rank(&pair[0]) <= rank(&pair[1])));
        let reversed = figures.into_iter().rev().collect();
        prop_assert_eq!(names(ranked(reversed, StarvedResource::Memory)), order, "the order of the list does not matter");
    }
}
