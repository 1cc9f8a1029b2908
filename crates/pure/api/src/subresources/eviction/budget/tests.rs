//! The answers of budgets, after the cases of upstream's `eviction_test.go` and the documentation
//! of `unhealthyPodEvictionPolicy`.

use serde_json::{Value, json};

use super::*;

fn budget(spec: Value, status: Value) -> PodDisruptionBudget {
    serde_json::from_value(json!({
        "metadata": {"name": "foo", "namespace": "default", "generation": 1},
        "spec": spec,
        "status": status,
    }))
    .unwrap()
}

/// What the budget says, in one line.
fn says(spec: Value, mut status: Value, health: PodHealth) -> String {
    if status.get("observedGeneration").is_none() {
        status["observedGeneration"] = json!(1);
    }
    match decide(&budget(spec, status), health) {
        Ok(decision) => format!("{decision:?}"),
        Err(BudgetRefusal::Exhausted(why)) => why,
        Err(other) => format!("{other:?}"),
    }
}

#[test]
fn a_ready_pod_goes_only_while_a_disruption_is_left() {
    for (status, said) in [
        (json!({"disruptionsAllowed": 1}), "Counted"),
        (json!({"disruptionsAllowed": 7}), "Counted"),
        (
            json!({"disruptionsAllowed": 0, "currentHealthy": 3, "desiredHealthy": 3}),
            "The disruption budget foo needs 3 healthy pods and has 3 currently",
        ),
        (
            json!({"disruptionsAllowed": 0, "currentHealthy": 4, "desiredHealthy": 3}),
            "The disruption budget foo does not allow evicting pods currently",
        ),
        (json!({"disruptionsAllowed": 1, "observedGeneration": 0}), "Processing"),
        (json!({"disruptionsAllowed": -1}), "Broken(\"pdb disruptions allowed is negative\")"),
    ] {
        assert_eq!(says(json!({}), status.clone(), PodHealth::Ready), said, "{status}");
    }
}

#[test]
fn a_pod_that_is_not_ready_goes_as_the_policy_says() {
    let undisrupted = json!({"disruptionsAllowed": 0, "currentHealthy": 3, "desiredHealthy": 3});
    let disrupted = json!({"disruptionsAllowed": 0, "currentHealthy": 2, "desiredHealthy": 3});
    let wants_none = json!({"disruptionsAllowed": 0, "currentHealthy": 0, "desiredHealthy": 0});
    let needs = |desired, current| {
        format!(
            "The disruption budget foo needs {desired} healthy pods and has {current} currently"
        )
    };
    for (policy, status, said) in [
        (json!(null), &undisrupted, "NotCounted".to_owned()),
        (json!("IfHealthyBudget"), &undisrupted, "NotCounted".to_owned()),
        (json!("AlwaysAllow"), &undisrupted, "NotCounted".to_owned()),
        (json!(null), &disrupted, needs(3, 2)),
        (json!("IfHealthyBudget"), &disrupted, needs(3, 2)),
        (json!("AlwaysAllow"), &disrupted, "NotCounted".to_owned()),
        (json!("IfHealthyBudget"), &wants_none, needs(0, 0)),
    ] {
        let spec = json!({"unhealthyPodEvictionPolicy": policy});
        assert_eq!(says(spec, status.clone(), PodHealth::NotReady), said, "{policy} {status}");
    }
}

#[test]
fn a_refusal_says_what_the_budgets_condition_says() {
    let status = |reason: &str, current| {
        json!({
            "disruptionsAllowed": 0, "currentHealthy": current, "desiredHealthy": 3,
            "conditions": [{"type": "DisruptionAllowed", "status": "False", "reason": reason, "message": "hoge",
                "lastTransitionTime": "2026-01-01T00:00:00Z"}],
        })
    };
    for (reason, current, said) in [
        (
            "SyncFailed",
            0,
            "The disruption budget foo does not allow evicting pods currently because it failed sync: hoge",
        ),
        (
            "bar-reason",
            4,
            "The disruption budget foo does not allow evicting pods currently (bar-reason): hoge",
        ),
        ("bar-reason", 2, "The disruption budget foo needs 3 healthy pods and has 2 currently"),
    ] {
        assert_eq!(says(json!({}), status(reason, current), PodHealth::Ready), said);
    }
}

#[test]
fn too_many_evictions_that_nobody_has_seen_are_refused() {
    let unseen = |count: usize| {
        let pods: serde_json::Map<String, Value> =
            (0..count).map(|n| (format!("p{n}"), json!("2026-01-01T00:00:00Z"))).collect();
        says(json!({}), json!({"disruptionsAllowed": 5, "disruptedPods": pods}), PodHealth::Ready)
    };
    assert_eq!(unseen(UNSEEN_MAX), "Counted");
    assert!(unseen(UNSEEN_MAX + 1).starts_with("Broken"));
}

#[test]
fn the_last_disruption_turns_the_condition() {
    let now = rekindle_types::Tick::from_secs(1_795_000_000).to_time();
    let mut budget = budget(json!({}), json!({"disruptionsAllowed": 2, "observedGeneration": 1}));
    take(&mut budget, "a", now.clone());
    let status = budget.status.clone().unwrap();
    assert_eq!((status.disruptions_allowed, status.conditions), (Some(1), None));
    take(&mut budget, "b", now);
    let status = serde_json::to_value(budget.status).unwrap();
    assert_eq!(status["disruptionsAllowed"], 0);
    assert_eq!(
        status["disruptedPods"],
        json!({"a": "2026-11-18T11:06:40Z", "b": "2026-11-18T11:06:40Z"})
    );
    assert_eq!(
        status["conditions"],
        json!([{"type": "DisruptionAllowed", "status": "False", "reason": "InsufficientPods", "message": "",
            "lastTransitionTime": "2026-11-18T11:06:40Z", "observedGeneration": 1}])
    );
}
