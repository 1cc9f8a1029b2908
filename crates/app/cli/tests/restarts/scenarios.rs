//! The scenarios of examples/ladder on real containers: what breaks a pod, how far its ladder
//! climbs, and that it says so.
use std::path::Path;

use rekindle_testkit::{Engine, TIMEOUT};
use serde_json::Value;

/// Applies an example that makes one pod of its own name; answers the pod's UID.
fn play(engine: &Engine, example: &str) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../examples/ladder");
    let file = folder.join(format!("{example}.yaml"));
    engine.kubectl(&["apply", "-f", file.to_str().unwrap()]);
    let pod = engine.get(&format!("pod/{example}"));
    pod["metadata"]["uid"].as_str().unwrap().to_owned()
}

/// What an example remembers outside its pod, taken away also when the test fails.
struct Marks(Vec<String>);

impl Drop for Marks {
    fn drop(&mut self) {
        for name in &self.0 {
            // absent when the example did not come so far
            drop(std::fs::remove_file(Path::new("/run/rekindle-example-seeded").join(name)));
        }
    }
}

/// The rungs above Container that a pod's requests were for.
fn restarts_of(engine: &Engine, pod: &str) -> Vec<Value> {
    let restarts = engine.get("podrestarts");
    let items = restarts["items"].as_array().unwrap();
    let of_pod = items.iter().filter(|restart| restart["spec"]["podName"] == pod);
    of_pod.map(|restart| restart["spec"]["rung"].clone()).collect()
}

#[test]
fn what_lives_in_the_pods_shared_context_is_healed_once_by_the_rung_that_throws_it_away() {
    let engine = Engine::start();
    let mut marks = Marks(Vec::new());
    let examples = [
        ("full-shared-memory", "shm", "Pod"),
        ("leaked-address", "net", "Pod"),
        ("init-state", "init", "Pod"),
        ("stuck-sidecar", "sidecar", "Containers"),
    ];
    let uids = examples.map(|(example, mark, _)| {
        let uid = play(&engine, example);
        marks.0.push(format!("{mark}-{uid}"));
        uid
    });
    for ((example, _, rung), uid) in examples.iter().zip(uids) {
        let ledger = format!("restartledger/{example}");
        engine.kubectl(&["wait", "--for=create", &ledger, TIMEOUT]);
        engine.wait_for(&ledger, ".status.rung", rung);
        // the ledger says first what is asked for then
        engine.until(&["podrestarts"], |restarts| {
            let mut of_pod = restarts.values().filter(|it| it["spec"]["podName"] == *example);
            of_pod.any(|restart| restart["status"]["phase"] == "Succeeded")
        });
        engine.wait_ready(example);
        engine.wait_for_event(example, "LadderStep", "(1 of 1)");
        assert_eq!(engine.get(&format!("pod/{example}"))["metadata"]["uid"], uid, "{example}");
        assert_eq!(restarts_of(&engine, example), [*rung], "{example}");
        let ledger = engine.get(&ledger);
        assert_eq!(ledger["status"]["failuresTotal"], 2, "{example}: {:#}", ledger["status"]);
    }
}

#[test]
fn where_no_restart_helps_the_ladder_holds_or_ends_and_says_why() {
    let engine = Engine::start();
    for example in ["out-of-memory", "exhausted"] {
        play(&engine, example);
    }
    let said = |example: &str, phase: &str| {
        let ledger = format!("restartledger/{example}");
        engine.kubectl(&["wait", "--for=create", &ledger, TIMEOUT]);
        engine.wait_for(&ledger, ".status.phase", phase);
        engine.get(&ledger)["status"]["message"].as_str().unwrap().to_owned()
    };
    let message = said("out-of-memory", "Holding");
    assert!(message.contains("raise its memory limit"), "{message}");
    assert!(restarts_of(&engine, "out-of-memory").is_empty(), "it climbs nowhere");

    let message = said("exhausted", "Exhausted");
    assert!(message.contains("exited with 4"), "{message}");
    assert!(message.contains("every rung was tried (Container 1, Pod 1)"), "{message}");
    engine.wait_for_event("exhausted", "LadderExhausted", "every rung was tried");
    assert_eq!(restarts_of(&engine, "exhausted"), ["Pod"]);
}
