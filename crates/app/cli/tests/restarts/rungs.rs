//! The ladder's higher rungs on real containers: a new pod, a budget that forbids it, and the end.
use rekindle_testkit::{Engine, TIMEOUT};
use serde_json::Value;

/// What crashes in the first pod that ever saw its folder, and runs in every later one.
const SICK: &str = r#"
      terminationGracePeriodSeconds: 2
      containers:
      - name: app
        image: localhost/host
        command: [sh, -c, '[ -e /kept/first ] || echo $UID_OF_POD > /kept/first; [ "$(cat /kept/first)" = $UID_OF_POD ] && exit 3; trap "exit 0" TERM; sleep 1000 & wait']
        env: [{name: UID_OF_POD, valueFrom: {fieldRef: {fieldPath: metadata.uid}}}]
        volumeMounts: [{name: kept, mountPath: /kept}]
      volumes:
      - {name: kept, hostPath: {path: FOLDER, type: DirectoryOrCreate}}
"#;

const LADDER: &str = "
apiVersion: rekindle.dev/v1alpha1
kind: RestartLadder
metadata: {name: sick}
spec:
  selector: {matchLabels: {app: sick}}
  rungs: [{rung: Container, attempts: 1}, {rung: Recreate, attempts: 1}]
";

/// The spec that crashes, with a folder of this engine's own.
fn sick(engine: &Engine) -> String {
    SICK.replace("FOLDER", &engine.data_dir().join("kept").display().to_string())
}

/// The only object of a kind.
fn only(engine: &Engine, kind: &str) -> Value {
    let list = engine.get(kind);
    let items = list["items"].as_array().unwrap();
    assert_eq!(items.len(), 1, "{kind}: {items:?}");
    items[0].clone()
}

fn attempts_of(ledger: &Value, rung: &str) -> usize {
    let attempts = ledger["status"]["attempts"].as_array().unwrap();
    let of_rung = attempts.iter().filter(|attempts| attempts["rung"] == rung);
    of_rung.map(|attempts| attempts["at"].as_array().unwrap().len()).sum()
}

#[test]
fn a_pod_that_nobody_manages_is_created_again_with_its_history_over_a_kill_9() {
    let mut engine = Engine::start();
    engine.apply(LADDER);
    let spec = sick(&engine).replace("\n      ", "\n  ");
    engine.apply(&format!(
        "apiVersion: v1\nkind: Pod\nmetadata: {{name: sick, labels: {{app: sick}}}}\nspec:{spec}"
    ));
    engine.wait_for_event("sick", "LadderStep", "replacing the pod by a new one (1 of 1)");
    // wherever between the decision and the new pod that is
    engine.kill();
    engine.launch(&[]);
    engine.wait_ready("sick");
    engine.until(&["podrestarts"], |restarts| {
        restarts.values().any(|restart| restart["status"]["phase"] == "Succeeded")
    });
    let restart = only(&engine, "podrestarts");
    let pod = engine.get("pod/sick");
    let replacement = &restart["status"]["replacement"];
    assert_eq!(replacement["newPodUID"], pod["metadata"]["uid"]);
    assert_ne!(replacement["podUID"], pod["metadata"]["uid"]);
    engine.wait_for("restartledger/sick", ".spec.podUID", pod["metadata"]["uid"].as_str().unwrap());
    let ledger = engine.get("restartledger/sick");
    assert_eq!((attempts_of(&ledger, "Container"), attempts_of(&ledger, "Recreate")), (1, 1));
    assert_eq!(ledger["status"]["failuresTotal"], 2);
}

#[test]
fn a_disruption_budget_holds_a_new_pod_back_and_says_so() {
    let engine = Engine::start();
    engine.apply(
        "
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: sick}
spec: {minAvailable: 1, selector: {matchLabels: {app: sick}}}
",
    );
    engine.apply(LADDER);
    let spec = sick(&engine);
    engine.apply(&format!(
        "apiVersion: apps/v1\nkind: Deployment\nmetadata: {{name: sick}}\nspec:\n  replicas: 1\n  selector: {{matchLabels: {{app: \
         sick}}}}\n  template:\n    metadata: {{labels: {{app: sick}}}}\n    spec:{spec}"
    ));
    engine.wait_for("deployment/sick", ".status.replicas", "1");
    let first = only(&engine, "pods");
    let ledger = format!("restartledger/{}", first["metadata"]["name"].as_str().unwrap());
    engine.kubectl(&["wait", "--for=create", &ledger, TIMEOUT]);
    let words = "violate the pod's disruption budget";
    let told = |it: &Value| it["status"]["message"].as_str().is_some_and(|it| it.contains(words));
    engine.until_one(&ledger, |ledger| ledger["status"]["phase"] == "Holding" && told(ledger));
    engine.until(&["podrestarts"], |restarts| {
        restarts.values().any(|it| it["status"]["replacement"]["step"] == "Held" && told(it))
    });
    let held = only(&engine, "podrestarts");
    engine.kubectl(&["delete", "poddisruptionbudget", "sick"]);
    engine.kubectl(&["wait", "--for=condition=Available", "deployment/sick", TIMEOUT]);
    let name = held["metadata"]["name"].as_str().unwrap();
    engine.wait_for(&format!("podrestart/{name}"), ".status.phase", "Succeeded");
    let gone = format!("pod/{}", first["metadata"]["name"].as_str().unwrap());
    engine.kubectl(&["wait", "--for=delete", &gone, TIMEOUT]);
    let second = only(&engine, "pods");
    let ledger = only(&engine, "restartledgers");
    assert_eq!(ledger["metadata"]["name"], first["metadata"]["name"], "named as its first pod");
    engine.until_one(
        &format!("restartledger/{}", ledger["metadata"]["name"].as_str().unwrap()),
        |it| {
            it["spec"]["podName"] == second["metadata"]["name"] // and the second one's now
        },
    );
    assert_eq!(attempts_of(&ledger, "Recreate"), 1);
}

#[test]
fn a_pod_whose_ladder_is_exhausted_ends_as_failed_with_its_grace_period() {
    let engine = Engine::start();
    let ladder = LADDER.replace(", {rung: Recreate, attempts: 1}]", "]\n  onExhausted: Fail");
    engine.apply(&ladder);
    engine.apply(
        "
apiVersion: v1
kind: Pod
metadata: {name: sick, labels: {app: sick}}
spec:
  terminationGracePeriodSeconds: 20
  containers:
  - {name: app, image: localhost/host, command: [sh, -c, 'sleep 0.3; exit 3']}
  - {name: other, image: localhost/host, command: [sh, -c, 'trap \"exit 5\" TERM; sleep 1000 & wait']}
",
    );
    engine.wait_for("pod/sick", ".status.phase", "Failed");
    let other = ".status.containerStatuses[1].state.terminated.exitCode";
    engine.wait_for("pod/sick", other, "5"); // it heard SIGTERM and had its time
    let pod = engine.get("pod/sick");
    assert_eq!(pod["status"]["reason"], "LadderExhausted", "{:#}", pod["status"]);
    let message = pod["status"]["message"].as_str().unwrap();
    assert!(
        message.contains("every rung was tried (Container 1): the pod is ended as Failed"),
        "{message}"
    );
    assert!(pod["metadata"]["deletionTimestamp"].is_null(), "it stays to be looked at");
}
