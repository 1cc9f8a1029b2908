//! Settings in the kubelet's names, right and wrong ones.

use serde_json::json;

use super::*;
use crate::eviction::{EvictionSignal, ThresholdAmount, ThresholdKind};

fn read(file: &Value) -> NodeSettings {
    NodeSettings::read(file).unwrap_or_else(|error| panic!("{file}: {error}"))
}

fn amounts(settings: &NodeSettings) -> Vec<(&'static str, ThresholdAmount)> {
    settings.eviction.thresholds.iter().map(|t| (t.signal.name(), t.amount)).collect()
}

#[test]
fn without_settings_the_kubelets_defaults_hold() {
    for file in [json!({}), Value::Null, json!({"apiVersion": API_VERSION, "kind": KIND})] {
        let settings = read(&file);
        assert_eq!(settings, NodeSettings::default());
        assert!(!settings.shutdown.is_on());
        assert_eq!(
            amounts(&settings),
            [
                ("memory.available", ThresholdAmount::Units(100 << 20)),
                ("nodefs.available", ThresholdAmount::Millionths(100_000)),
                ("nodefs.inodesFree", ThresholdAmount::Millionths(50_000)),
                ("imagefs.available", ThresholdAmount::Millionths(150_000)),
                ("imagefs.inodesFree", ThresholdAmount::Millionths(50_000)),
            ]
        );
        assert_eq!(settings.eviction.transition_period, TickDuration::from_secs(300));
        assert_eq!(settings.eviction.monitoring_period, TickDuration::from_secs(10));
    }
}

#[test]
fn hard_thresholds_take_the_place_of_the_defaults_unless_they_are_merged() {
    let hard =
        json!({"memory.available": "1Gi", "nodefs.available": "0%", "pid.available": "2.5%"});
    let replaced = read(&json!({"evictionHard": hard}));
    assert_eq!(
        amounts(&replaced),
        [
            ("memory.available", ThresholdAmount::Units(1 << 30)),
            ("pid.available", ThresholdAmount::Millionths(25_000))
        ]
    );
    let merged = read(&json!({"evictionHard": hard, "mergeDefaultEvictionSettings": true}));
    let names: Vec<&str> = amounts(&merged).into_iter().map(|(name, _)| name).collect();
    assert_eq!(
        names,
        [
            "nodefs.inodesFree",
            "imagefs.available",
            "imagefs.inodesFree",
            "memory.available",
            "pid.available"
        ]
    );
    assert_eq!(amounts(&read(&json!({"evictionHard": {}}))), []);
}

#[test]
fn soft_thresholds_have_a_grace_period_and_any_may_have_a_minimum_reclaim() {
    let settings = read(&json!({
        "evictionHard": {"nodefs.available": "10%"},
        "evictionSoft": {"memory.available": "1Gi"},
        "evictionSoftGracePeriod": {"memory.available": "1m30s"},
        "evictionMinimumReclaim": {"nodefs.available": "500Mi"},
        "evictionMaxPodGracePeriod": 60,
        "evictionPressureTransitionPeriod": "30s",
        "evictionMonitoringPeriod": "500ms",
    }));
    let [disk, memory] = settings.eviction.thresholds.as_slice() else { panic!() };
    assert_eq!((disk.signal, disk.kind), (EvictionSignal::NodeFsAvailable, ThresholdKind::Hard));
    assert_eq!(disk.min_reclaim, ThresholdAmount::Units(500 << 20));
    assert_eq!(memory.kind, ThresholdKind::Soft { grace: TickDuration::from_secs(90) });
    assert_eq!(memory.min_reclaim, ThresholdAmount::Units(0));
    assert_eq!(settings.eviction.max_pod_grace, TickDuration::from_secs(60));
    assert_eq!(settings.eviction.transition_period, TickDuration::from_secs(30));
    assert_eq!(settings.eviction.monitoring_period, TickDuration::from_millis(500));
}

#[test]
fn a_shutdown_has_two_periods_or_one_for_each_priority() {
    let periods = json!({"shutdownGracePeriod": "30s", "shutdownGracePeriodCriticalPods": "10s"});
    assert_eq!(read(&periods).shutdown, ShutdownPolicy::of_periods(30, 10));
    let groups = json!({"shutdownGracePeriodByPodPriority": [
        {"priority": 1000, "shutdownGracePeriodSeconds": 5},
        {"priority": 0, "shutdownGracePeriodSeconds": 20},
    ]});
    let group = |priority, shutdown_grace_period_seconds| ShutdownGroup {
        priority,
        shutdown_grace_period_seconds,
    };
    assert_eq!(
        read(&groups).shutdown,
        ShutdownPolicy::by_priority(vec![group(0, 20), group(1000, 5)])
    );
}

#[test]
fn images_are_kept_and_pods_are_taken_as_set() {
    let settings = read(&json!({
        "imageGCHighThresholdPercent": 60,
        "imageGCLowThresholdPercent": 40,
        "imageMinimumGCAge": "1h",
        "maxPods": 250,
        "allowedUnsafeSysctls": ["net.core.somaxconn", "kernel.msg*"],
    }));
    assert_eq!(settings.max_pods, Some(250));
    let expected = ImageGcPolicy {
        high_threshold_percent: 60,
        low_threshold_percent: 40,
        min_age: TickDuration::from_secs(3600),
    };
    assert_eq!(settings.image_gc, expected);
    let allowed = ["net.core.somaxconn".to_owned(), "kernel.msg*".to_owned()];
    assert_eq!(settings.sysctls, AllowedSysctls::new(&allowed).unwrap());
}

#[test]
fn what_the_kubelet_would_not_take_is_refused_by_name() {
    for (file, error) in [
        (json!({"podsPerCore": 5}), "unknown field `podsPerCore`"),
        (json!({"maxPods": -1}), "maxPods: invalid value: integer `-1`, expected u32"),
        (
            json!({"evictionHard": {"pid.available": 20}}),
            "evictionHard.pid.available: invalid type: integer `20`, expected a string",
        ),
        (json!({"imageGCHighThresholdPercent": 101}), "imageGCHighThresholdPercent: 101"),
        (
            json!({"imageGCHighThresholdPercent": 80}),
            "imageGCLowThresholdPercent: 80 must be less than imageGCHighThresholdPercent, 80",
        ),
        (json!({"imageMinimumGCAge": "old"}), "imageMinimumGCAge: \"old\""),
        (json!({"kind": "Pod"}), "kind: \"Pod\" is not KubeletConfiguration"),
        (
            json!({"evictionHard": {"memory": "1Gi"}}),
            "evictionHard: unrecognized eviction signal memory",
        ),
        (
            json!({"evictionHard": {"memory.available": "-1"}}),
            "evictionHard[memory.available]: \"-1\"",
        ),
        (
            json!({"evictionHard": {"memory.available": "0"}}),
            "evictionHard[memory.available]: \"0\"",
        ),
        (
            json!({"evictionHard": {"memory.available": "101%"}}),
            "evictionHard[memory.available]: \"101%\"",
        ),
        (
            json!({"evictionHard": {"memory.available": "much"}}),
            "evictionHard[memory.available]: \"much\"",
        ),
        (
            json!({"evictionSoft": {"memory.available": "1Gi"}}),
            "grace period must be specified for the soft eviction threshold memory.available",
        ),
        (
            json!({"evictionSoft": {"memory.available": "1Gi"},
                   "evictionSoftGracePeriod": {"memory.available": "soon"}}),
            "evictionSoftGracePeriod[memory.available]: \"soon\"",
        ),
        (json!({"evictionMonitoringPeriod": "1ms"}), "evictionMonitoringPeriod: must be"),
        (
            json!({"endpointWithdrawalTimeout": "99ms"}),
            "endpointWithdrawalTimeout: must be from 100ms to 30s",
        ),
        (json!({"endpointWithdrawalTimeout": "31s"}), "endpointWithdrawalTimeout: must be from"),
        (json!({"endpointWithdrawalTimeout": "soon"}), "endpointWithdrawalTimeout: \"soon\""),
        (
            json!({"evictionMaxPodGracePeriod": -1}),
            "evictionMaxPodGracePeriod: must not be negative",
        ),
        (json!({"shutdownGracePeriod": "500ms"}), "shutdownGracePeriod must be either zero or"),
        (json!({"shutdownGracePeriod": "soon"}), "shutdownGracePeriod: \"soon\""),
        (
            json!({"shutdownGracePeriod": "5s", "shutdownGracePeriodCriticalPods": "10s"}),
            "shutdownGracePeriod 5s must be >= shutdownGracePeriodCriticalPods 10s",
        ),
        (
            json!({"shutdownGracePeriod": "5s", "shutdownGracePeriodByPodPriority": [{"priority": 1}]}),
            "cannot specify both",
        ),
    ] {
        let found = NodeSettings::read(&file).unwrap_err().to_string();
        assert!(found.contains(error), "{file}: {found}");
    }
}

#[test]
fn user_ids_are_set_in_the_kubelets_name_and_ours() {
    let settings = read(&json!({"userNamespaces": {"idsPerPod": 131_072, "firstId": 655_360}}));
    assert_eq!(settings.user_ids, UserIdRanges::new(Some(655_360), Some(131_072)).unwrap());
    for (file, expected) in [
        (json!({"idsPerPod": 1000}), "userNamespaces.idsPerPod: 1000 is not a multiple of 65536"),
        (json!({"firstId": 100_000}), "userNamespaces.firstId: 100000 is not a multiple of 65536"),
        (json!({"lastId": 7}), "unknown field `lastId`"),
    ] {
        let error = NodeSettings::read(&json!({"userNamespaces": file})).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
}

#[test]
fn the_end_of_a_container_waits_for_the_rules_as_long_as_is_set() {
    assert_eq!(read(&json!({})).endpoint_withdrawal_timeout, None);
    for (text, millis) in [("100ms", 100), ("2500ms", 2500), ("30s", 30_000)] {
        let timeout = read(&json!({"endpointWithdrawalTimeout": text})).endpoint_withdrawal_timeout;
        assert_eq!(timeout, Some(TickDuration::from_millis(millis)));
    }
}
