//! The scenarios of examples/ladder that are about a whole Deployment: where the ladder holds, what
//! it says, and how that ends.
use std::path::Path;

use rekindle_testkit::{Engine, TIMEOUT};
use serde_json::Value;

/// Applies an example, with what it has outside its pods in a folder of this engine's own.
fn play(engine: &Engine, example: &str) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../examples/ladder");
    let manifest = std::fs::read_to_string(folder.join(format!("{example}.yaml"))).unwrap();
    let dependency = dependency(engine).display().to_string();
    engine.apply(&manifest.replace("/run/rekindle-example-dependency", &dependency));
}

fn dependency(engine: &Engine) -> std::path::PathBuf {
    engine.data_dir().join("dependency")
}

/// The pods of an example, all at first being of its only revision.
fn pods_of(engine: &Engine, example: &str) -> Vec<String> {
    let list = engine.kubectl(&["get", "pods", "-l", &format!("app={example}"), "-o", "name"]);
    list.lines().map(|line| line.trim_start_matches("pod/").to_owned()).collect()
}

/// Waits for the ledger of a pod to reach a phase; answers what it says.
fn said(engine: &Engine, pod: &str, phase: &str) -> String {
    let ledger = format!("restartledger/{pod}");
    engine.kubectl(&["wait", "--for=create", &ledger, TIMEOUT]);
    engine.wait_for(&ledger, ".status.phase", phase);
    engine.get(&ledger)["status"]["message"].as_str().unwrap().to_owned()
}

/// The rungs that were asked for, for pods of an example.
fn rungs(engine: &Engine, example: &str) -> Vec<Value> {
    let restarts = engine.get("podrestarts");
    let items = restarts["items"].as_array().unwrap().iter();
    let of_example = items.filter(|r| r["spec"]["ladderName"] == example);
    of_example.map(|restart| restart["spec"]["rung"].clone()).collect()
}

/// The pod of the newest revision, which never starts.
fn stuck_pod(engine: &Engine, example: &str, before: &[String]) -> String {
    let selector = format!("app={example}");
    let waiting = ".status.containerStatuses[0].state.waiting.reason";
    engine.wait_for(&format!("deployment/{example}"), ".status.replicas", "2");
    let new = pods_of(engine, example).into_iter().find(|pod| !before.contains(pod));
    let new = new.unwrap_or_else(|| panic!("no new pod of {selector}"));
    engine.kubectl(&[
        "wait",
        &format!("pod/{new}"),
        &format!("--for=jsonpath={{{waiting}}}"),
        TIMEOUT,
    ]);
    new
}

#[test]
fn an_image_that_cannot_be_had_is_held_and_rolled_back_when_that_is_opted_in() {
    let engine = Engine::start();
    let examples = ["bad-image", "bad-image-rollback"];
    examples.iter().for_each(|example| play(&engine, example));
    let first = examples.map(|example| {
        engine.wait_for(&format!("deployment/{example}"), ".status.availableReplicas", "1");
        pods_of(&engine, example)
    });
    let healthy = r"--for=jsonpath={.metadata.annotations.rekindle\.dev/healthy-since}";
    let of_rollback = "app=bad-image-rollback";
    engine.kubectl(&["wait", "replicasets", "-l", of_rollback, healthy, TIMEOUT]);
    for example in examples {
        let deployment = format!("deployment/{example}");
        engine.kubectl(&["set", "image", &deployment, "app=localhost/no-such-image"]);
    }

    let stuck = stuck_pod(&engine, "bad-image", &first[0]);
    let message = said(&engine, &stuck, "Holding");
    assert!(message.contains("image"), "{message}");
    assert_eq!(rungs(&engine, "bad-image"), Vec::<Value>::new(), "no restart brings an image");
    let available = &engine.get("deployment/bad-image")["status"]["availableReplicas"];
    assert_eq!(*available, 1, "the revision before goes on serving");

    let back = "jsonpath={.spec.template.spec.containers[0].image}=localhost/demo";
    engine.kubectl(&["wait", "deployment/bad-image-rollback", TIMEOUT, "--for", back]);
    engine.kubectl(&["rollout", "status", "deployment/bad-image-rollback", TIMEOUT]);
    let left = pods_of(&engine, "bad-image-rollback"); // the stuck one may not have gone yet
    assert!(left.contains(&first[1][0]), "the first pod was never touched: {left:?}");
    assert_eq!(rungs(&engine, "bad-image-rollback"), ["Rollback"]);
}

#[test]
fn what_new_pods_do_not_help_is_held_with_its_reason_and_recovers_by_itself() {
    let engine = Engine::start_with(&["--max-container-restart-period", "1s"]);
    std::fs::create_dir(dependency(&engine)).unwrap();
    play(&engine, "dependency-down");
    play(&engine, "budget-forbids");

    engine.wait_for("deployment/budget-forbids", ".status.replicas", "1");
    let pod = pods_of(&engine, "budget-forbids").remove(0);
    engine.until_one(&format!("restartledger/{pod}"), |ledger| {
        let message = ledger["status"]["message"].as_str().unwrap_or_default();
        ledger["status"]["phase"] == "Holding"
            && message.contains("violate the pod's disruption budget")
    });
    engine.wait_for_event(&pod, "PodRestartHeld", "disruption budget");
    assert_eq!(pods_of(&engine, "budget-forbids"), [pod], "it is not evicted");

    engine.wait_for("deployment/dependency-down", ".status.replicas", "3");
    let replicas = pods_of(&engine, "dependency-down");
    for pod in &replicas {
        engine.until_one(&format!("restartledger/{pod}"), |ledger| {
            let message = ledger["status"]["message"].as_str().unwrap_or_default();
            // two of three are enough for it to begin
            ledger["status"]["phase"] == "Holding"
                && message.contains("3 of 3 pods of ReplicaSet dependency-down")
        });
    }
    std::fs::write(dependency(&engine).join("up"), "").unwrap();
    engine.wait_for("deployment/dependency-down", ".status.availableReplicas", "3");
    assert_eq!(pods_of(&engine, "dependency-down"), replicas, "the same pods run again");
    assert_eq!(rungs(&engine, "dependency-down"), Vec::<Value>::new());
}
