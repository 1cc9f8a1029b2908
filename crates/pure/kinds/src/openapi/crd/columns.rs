//! What `kubectl get` shows of our kinds where the server makes its tables from paths alone. Our
//! own tables show more (`row` of each kind): a list, or the time that is left, is no path.

use serde_json::{Value, json};

/// One column: heading, type, path, priority (1: only with `-o wide`), what it means.
type Shown = (&'static str, &'static str, &'static str, i32, &'static str);

const AGE: Shown = ("Age", "date", ".metadata.creationTimestamp", 0, "When it was made.");

const RESTART_LADDER: &[Shown] = &[
    (
        "Accepted",
        "string",
        ".status.conditions[?(@.type==\"Accepted\")].status",
        0,
        "Whether it can be carried out.",
    ),
    ("Window", "string", ".spec.window", 0, "Attempts count inside this window."),
    ("Exhausted", "string", ".spec.onExhausted", 0, "What is done when every rung was tried."),
    AGE,
];

const POD_RESTART: &[Shown] = &[
    ("Pod", "string", ".spec.podName", 0, "The pod that is to be restarted."),
    ("Rung", "string", ".spec.rung", 0, "What of it is restarted."),
    ("Phase", "string", ".status.phase", 0, "Where the restart is."),
    (
        "Container",
        "string",
        ".spec.containerName",
        1,
        "The one container that is to be restarted, where not all are.",
    ),
    ("Message", "string", ".status.message", 1, "What happened."),
    AGE,
];

const RESTART_LEDGER: &[Shown] = &[
    ("Pod", "string", ".spec.podName", 0, "The pod that carries the identity now."),
    ("Rung", "string", ".status.rung", 0, "The rung the workload is on."),
    ("Phase", "string", ".status.phase", 0, "What the ladder does."),
    ("Failures", "integer", ".status.failuresTotal", 0, "Failures since the ledger was made."),
    ("Next", "string", ".status.nextAttemptAt", 0, "When the next attempt is due."),
    ("Why", "string", ".status.summary", 0, "Why, at a glance."),
    AGE,
    ("Message", "string", ".status.message", 1, "Why, in full."),
];

/// The columns of a kind beside its name; none of a kind that is not ours.
pub(super) fn printer_columns(kind: &str) -> Vec<Value> {
    let shown = match kind {
        "PodRestart" => POD_RESTART,
        "RestartLadder" => RESTART_LADDER,
        "RestartLedger" => RESTART_LEDGER,
        _ => &[],
    };
    let column = |(name, type_, path, priority, description): &Shown| {
        let mut column =
            json!({"name": name, "type": type_, "jsonPath": path, "description": description});
        // A server keeps no priority of 0, and would call the same file a change when it is applied
        // again.
        if *priority != 0 {
            column["priority"] = json!(priority);
        }
        column
    };
    shown.iter().map(column).collect()
}
