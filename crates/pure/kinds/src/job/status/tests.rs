use serde_json::{Value, json};

use super::*;

fn job(spec: &Value, status: &Value) -> Job {
    let mut spec = spec.clone();
    spec["template"] = json!({});
    serde_json::from_value(json!({"metadata": {}, "spec": spec, "status": status})).unwrap()
}

fn wrong(spec: &Value, old: &Value, new: &Value) -> Vec<String> {
    check(&job(spec, new), &job(spec, old)).iter().map(ToString::to_string).collect()
}

/// Conditions that are True.
fn conditions(kinds: &[&str]) -> Value {
    kinds.iter().map(|kind| json!({"type": kind, "status": "True"})).collect()
}

const EARLY: &str = "2026-11-21T12:00:00Z";
const LATE: &str = "2026-11-21T13:00:00Z";

#[test]
fn what_a_job_goes_through_is_taken() {
    let plain = json!({"completions": 3, "parallelism": 2, "completionMode": "NonIndexed"});
    let indexed = json!({"completions": 5, "parallelism": 2, "completionMode": "Indexed",
        "backoffLimitPerIndex": 1});
    let elastic = json!({"completions": 2, "parallelism": 2, "completionMode": "Indexed"});
    let smaller = json!({"completions": 2, "parallelism": 1, "completionMode": "Indexed"});
    let met = conditions(&["SuccessCriteriaMet"]);
    let complete = conditions(&["SuccessCriteriaMet", "Complete"]);
    let failing = conditions(&["FailureTarget"]);
    let failed = conditions(&["FailureTarget", "Failed"]);
    let suspended = conditions(&["Suspended"]);
    for (spec, old, new) in [
        (&plain, json!({}), json!({"startTime": EARLY, "active": 2, "ready": 1, "terminating": 0})),
        (
            &plain,
            json!({"startTime": EARLY, "active": 1, "succeeded": 2}),
            json!({"startTime": EARLY, "succeeded": 3, "conditions": met,
                "uncountedTerminatedPods": {"succeeded": ["a"], "failed": ["b"]}}),
        ),
        (
            &plain,
            json!({"startTime": EARLY, "succeeded": 3, "conditions": met}),
            json!({"startTime": EARLY, "completionTime": LATE, "succeeded": 3,
                "uncountedTerminatedPods": {}, "conditions": complete}),
        ),
        (
            &plain,
            json!({"startTime": EARLY, "conditions": failing}),
            json!({"startTime": EARLY, "failed": 7, "conditions": failed}),
        ),
        // a Job that is suspended has no start, and begins anew
        (&json!({"suspend": true}), json!({"startTime": EARLY}), json!({"conditions": suspended})),
        (&plain, json!({"startTime": EARLY, "conditions": suspended}), json!({"startTime": LATE})),
        (
            &indexed,
            json!({"completedIndexes": "0"}),
            json!({"completedIndexes": "0,2", "failedIndexes": "1,3-4"}),
        ),
        (&elastic, json!({"succeeded": 4}), json!({"succeeded": 1, "completedIndexes": "0"})),
        (&smaller, json!({"succeeded": 4}), json!({"succeeded": 1, "completedIndexes": "0"})),
        // what stood there before is no reason to refuse the rest
        (
            &plain,
            json!({"completedIndexes": "x", "conditions": conditions(&["Complete", "Failed"])}),
            json!({"completedIndexes": "x", "conditions": conditions(&["Complete", "Failed"]),
                "succeeded": 1}),
        ),
    ] {
        assert_eq!(wrong(spec, &old, &new), [""; 0], "{old} {new}");
    }
}

#[test]
fn what_no_job_goes_through_is_refused() {
    let plain = json!({"completions": 3, "parallelism": 2, "completionMode": "NonIndexed"});
    let indexed = json!({"completions": 5, "parallelism": 2, "completionMode": "Indexed"});
    let per_index = json!({"completions": 5, "parallelism": 2, "completionMode": "Indexed",
        "backoffLimitPerIndex": 1});
    let of = |kinds: &[&str]| json!({"startTime": EARLY, "conditions": conditions(kinds)});
    let complete = &["SuccessCriteriaMet", "Complete"][..];
    let with = |mut status: Value, more: Value| {
        status.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        status
    };
    for (spec, old, new, expected) in [
        (
            &plain,
            json!({"succeeded": 2, "failed": 1}),
            json!({"succeeded": 1, "failed": 0, "active": -1, "ready": 1, "terminating": -1}),
            &[
                "status.active: Invalid value: -1: must be greater than or equal to 0",
                "status.terminating: Invalid value: -1: must be",
                "status.ready: Invalid value: 1: cannot set more ready pods than active",
                "status.failed: Invalid value: 0: cannot decrease the failed counter",
                "status.succeeded: Invalid value: 1: cannot decrease the succeeded counter",
            ][..],
        ),
        (
            &plain,
            json!({}),
            json!({"uncountedTerminatedPods": {"succeeded": ["a", ""], "failed": ["a"]}}),
            &[
                "status.uncountedTerminatedPods.succeeded[1]: Invalid value: \"\": must not be empty",
                "status.uncountedTerminatedPods.failed[0]: Duplicate value: \"a\"",
            ],
        ),
        (
            &plain,
            of(&[]),
            with(of(&["Complete", "Failed"]), json!({"completionTime": LATE})),
            &[
                "status.conditions: Invalid value: cannot set Complete=True and Failed=true",
                "status.conditions: Invalid value: cannot set Failed=True condition without",
                "status.conditions: Invalid value: cannot set Complete=True condition without",
            ],
        ),
        (
            &plain,
            of(&["FailureTarget", "SuccessCriteriaMet"]),
            of(&["Suspended"]),
            &[
                "status.conditions: Invalid value: cannot disable the terminal FailureTarget=True",
                "status.conditions: Invalid value: cannot disable the SuccessCriteriaMet=True",
            ],
        ),
        (
            &plain,
            of(&["SuccessCriteriaMet"]),
            json!({"conditions": conditions(complete), "active": 1, "terminating": 1,
                "uncountedTerminatedPods": {"failed": ["a"]}}),
            &[
                "status.completionTime: Required value: completionTime is required for Complete jobs",
                "status.startTime: Required value: startTime is required for finished job",
                "status.startTime: Required value: startTime cannot be removed",
                "status.active: Invalid value: 1: active>0 is invalid for finished job",
                "status.terminating: Invalid value: 1: terminating>0 is invalid for finished job",
                "status.uncountedTerminatedPods: Invalid value: {\"failed\":[\"a\"]}: uncountedTerminatedPods needs",
            ],
        ),
        (
            &plain,
            json!({"startTime": LATE}),
            json!({"startTime": LATE, "completionTime": EARLY}),
            &[
                "status.completionTime: Invalid value: \"2026-11-21T12:00:00Z\": cannot set completionTime when there is no",
                "status.completionTime: Invalid value: \"2026-11-21T12:00:00Z\": completionTime cannot be set before",
            ],
        ),
        (
            &plain,
            with(of(complete), json!({"completionTime": LATE})),
            with(of(complete), json!({"completionTime": "2026-11-21T14:00:00Z"})),
            &[
                "status.completionTime: Invalid value: \"2026-11-21T14:00:00Z\": completionTime cannot be mutated",
            ],
        ),
        (
            &plain,
            json!({}),
            json!({"completedIndexes": "0", "failedIndexes": ""}),
            &[
                "status.completedIndexes: Invalid value: \"0\": cannot set non-empty completedIndexes when non-indexed",
                "status.failedIndexes: Invalid value: \"\": cannot set non-null failedIndexes when backoffLimitPerIndex is null",
            ],
        ),
        (
            &indexed,
            json!({"succeeded": 2}),
            json!({"succeeded": 1, "completedIndexes": "3,1"}),
            &[
                "status.succeeded: Invalid value: 1: cannot decrease",
                "status.completedIndexes: Invalid value: \"3,1\": error parsing completedIndexes: non-increasing order",
            ],
        ),
        (
            &per_index,
            json!({"completedIndexes": "0-2"}),
            json!({"completedIndexes": "0-2", "failedIndexes": "2,4"}),
            &[
                "status.failedIndexes: Invalid value: \"2,4\": failedIndexes and completedIndexes overlap at index: 2",
            ],
        ),
        (
            &per_index,
            json!({}),
            json!({"failedIndexes": "7"}),
            &[
                "status.failedIndexes: Invalid value: \"7\": error parsing failedIndexes: too large index",
            ],
        ),
    ] {
        let wrong = wrong(spec, &old, &new);
        assert_eq!(wrong.len(), expected.len(), "{old} {new}: {wrong:#?}");
        for (wrong, expected) in wrong.iter().zip(expected) {
            assert!(wrong.starts_with(expected), "{wrong}\n{expected}");
        }
    }
}
