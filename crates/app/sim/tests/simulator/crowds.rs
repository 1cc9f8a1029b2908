//! Crowds that fail together: however many wait for a ladder's budget, it comes to each of them.

use rekindle_sim::{Scenario, ScenarioPolicy};
use rekindle_types::TickDuration;
use serde_json::json;

const fn minutes(minutes: u64) -> TickDuration {
    TickDuration::from_secs(minutes * 60)
}

/// So many pods break five minutes after the beginning, and crash at once until the rung Pod mends
/// them.
fn crowd(pods: u64, exits_after: &str) -> Scenario {
    let script = json!({
        "apiVersion": "rekindle.dev/v1alpha1", "kind": "Scenario",
        "spec": {
            "for": "2h", "nodes": 3,
            "behaviours": [{
                "matchLabels": {"app": "crowd"}, "from": "5m",
                "exits": {"code": 1, "after": exits_after}, "mendedBy": "Pod",
            }],
        },
    });
    let ladder = json!({
        "apiVersion": "rekindle.dev/v1alpha1", "kind": "RestartLadder", "metadata": {"name": "crowd"},
        "spec": {
            "selector": {"matchLabels": {"app": "crowd"}}, "window": "4m",
            "rungs": [
                {"rung": "Container", "attempts": 2}, {"rung": "Pod", "attempts": 2},
                {"rung": "Recreate", "attempts": 1},
            ],
            "budget": {"maxConcurrent": 1, "perMinute": 1},
        },
    });
    let pods = (0..pods).map(|number| {
        json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": format!("c{number}"), "labels": {"app": "crowd"}},
            "spec": {
                "terminationGracePeriodSeconds": 1,
                "containers": [{"name": "app", "image": "web:1"}],
            },
        })
    });
    Scenario::from_documents([script, ladder].into_iter().chain(pods).collect()).unwrap()
}

#[test]
fn a_crowd_larger_than_the_rate_allows_within_the_window_is_mended_as_fast_as_the_rate_allows() {
    // (pods, the app runs so long before it ends): at one restart a minute the window of four
    // minutes lets four through
    for (pods, exits_after) in [(12, "1s"), (10, "15s")] {
        let mut scenario = crowd(pods, exits_after);
        // broken after five minutes, due two minutes later; a backoff of five minutes may be
        // between a pod and its turn
        scenario.set_duration("the test", minutes(5 + 2 + pods + 10)).unwrap();
        let outcome = scenario.play(1, &ScenarioPolicy::AsWritten).unwrap();
        assert_eq!(outcome.broken_promise, None);
        let all = usize::try_from(pods).unwrap();
        assert_eq!((outcome.pods, outcome.ready), (all, all), "{pods} that run for {exits_after}");
    }
}
