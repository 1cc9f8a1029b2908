//! A pod that is well although processes in one of its containers were killed for lack of memory.

use expect_test::expect;
use rekindle_types::reasons::event::OOM_KILLING;
use rekindle_why::{explain_pod, render};
use serde_json::json;

use crate::support::{NOW, event, evidence, pod};

const WORDS: &str =
    "Processes of the container were killed for lack of memory; the container goes on without them";

#[test]
fn kills_in_a_container_that_runs_on_are_told() {
    let running =
        pod(json!({"ready": true, "state": {"running": {"startedAt": "2026-11-01T12:00:00Z"}}}));
    let killing = event(OOM_KILLING, Some("app"), WORDS, 3);
    expect![[r#"
        pod shop/web: healthy
          it runs and is ready; nothing has ended; processes of container "app" were killed for lack of memory 3 times, last at 2026-11-21 11:57:59Z, and it runs on

        What happened
          2026-11-01 12:00:00Z  placed on node-1
          2026-11-21 11:00:00Z  container "app": OOMKilling: Processes of the container were killed for lack of memory; the container goes on without them (3 times until 2026-11-21 11:57:59Z, every 28m59s)

        What would help
          - raise resources.limits.memory of container "app", or make it use less: what was killed in it may be missing
    "#]]
        .assert_eq(&render(&explain_pod(&evidence(running, vec![killing]), NOW), NOW));
}

#[test]
fn kills_of_a_run_before_are_not_told_of_this_one() {
    let running =
        pod(json!({"ready": true, "state": {"running": {"startedAt": "2026-11-21T11:59:00Z"}}}));
    let killing = event(OOM_KILLING, Some("app"), WORDS, 3);
    let account = explain_pod(&evidence(running, vec![killing]), NOW);
    assert_eq!(account.summary, "it runs and is ready; nothing has ended");
}
