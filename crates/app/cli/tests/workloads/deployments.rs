//! Deployments with real containers and the real kubectl: a rollout that is paused, one that fits
//! no two versions beside each other, and one that gets nowhere.
use rekindle_testkit::{Engine, TIMEOUT, is};
use serde_json::Value;

const WEB: &str = "
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      terminationGracePeriodSeconds: 5
      containers:
      - name: web
        image: localhost/host
        command: [sh, -c, 'trap \"exit 0\" TERM; sleep 100000 & wait']
        env: [{name: VERSION, value: one}]
";

/// One pod at a time can hold the lock; whoever does not get it at once fails.
const EXCLUSIVE: &str = "
apiVersion: apps/v1
kind: Deployment
metadata: {name: single}
spec:
  replicas: 1
  strategy: {type: Recreate}
  selector: {matchLabels: {app: single}}
  template:
    metadata: {labels: {app: single}}
    spec:
      terminationGracePeriodSeconds: 5
      containers:
      - name: single
        image: localhost/host
        command: [sh, -c, 'trap \"sleep 0.3; exit 0\" TERM; exec 9>/shared/lock; flock -n 9 || exit 1; touch /up; sleep 100000 & wait']
        readinessProbe: {exec: {command: [test, -e, /up]}, periodSeconds: 1}
        env: [{name: VERSION, value: one}]
        volumeMounts: [{name: shared, mountPath: /shared}]
      volumes: [{name: shared, hostPath: {path: FOLDER, type: Directory}}]
";

fn rolled_out(engine: &Engine, deployment: &str) -> String {
    engine.kubectl(&["rollout", "status", &format!("deployment/{deployment}"), TIMEOUT])
}

/// What the variables of each pod say that is not on its way out.
fn versions(engine: &Engine) -> Vec<String> {
    let pods = engine.get("pods")["items"].clone();
    let stays = |pod: &&Value| pod["metadata"]["deletionTimestamp"].is_null();
    let version = |pod: &Value| {
        let env = pod["spec"]["containers"][0]["env"].as_array().unwrap();
        env.iter().map(|variable| variable["value"].as_str().unwrap()).collect::<Vec<_>>().join(" ")
    };
    pods.as_array().unwrap().iter().filter(stays).map(version).collect()
}

#[test]
fn a_paused_rollout_gathers_changes_scales_what_is_there_and_goes_on_at_once() {
    let engine = Engine::start();
    engine.apply(WEB);
    rolled_out(&engine, "web");
    engine.kubectl(&["rollout", "pause", "deployment/web"]);
    engine.kubectl(&["set", "env", "deployment/web", "VERSION=two"]);
    engine.kubectl(&["set", "env", "deployment/web", "ALSO=three"]);
    engine.kubectl(&["scale", "deployment/web", "--replicas=3"]);
    let paused = engine.until_one("deployment/web", |web| {
        web["status"]["observedGeneration"] == web["metadata"]["generation"]
            && web["status"]["availableReplicas"] == 3
    });
    let conditions = paused["status"]["conditions"].as_array().unwrap();
    let progressing = conditions.iter().find(|c| c["type"] == "Progressing").unwrap();
    assert_eq!(progressing["reason"], "DeploymentPaused", "{progressing}");
    assert_eq!(paused["status"]["updatedReplicas"], Value::Null, "{paused}");
    assert_eq!(versions(&engine), ["one"; 3]);
    let refused = engine.kubectl_fails(&["rollout", "restart", "deployment/web"], "");
    assert!(refused.contains("paused"), "{refused}");

    engine.kubectl(&["rollout", "resume", "deployment/web"]);
    rolled_out(&engine, "web");
    assert_eq!(versions(&engine), ["two three"; 3]);
    let sets = engine.kubectl(&["get", "replicasets", "-o", "name"]);
    assert_eq!(sets.lines().count(), 2, "both changes are one revision: {sets}");
}

#[test]
fn recreate_never_runs_two_versions_beside_each_other() {
    // the folder goes after the engine, whose pods hold what is in it
    let folder = tempfile::Builder::new().prefix("rekindle-lock-").tempdir().unwrap();
    let engine = Engine::start();
    engine.apply(&EXCLUSIVE.replace("FOLDER", &folder.path().display().to_string()));
    rolled_out(&engine, "single");
    let first = engine.get("pods")["items"][0].clone();
    engine.kubectl(&["set", "env", "deployment/single", "VERSION=two"]);
    rolled_out(&engine, "single");
    let second = engine
        .until(&["pods"], |pods| pods.len() == 1 && pods.values().all(|pod| is(pod, "Ready")));
    let second = second.into_values().next().unwrap();
    assert_ne!(first["metadata"]["uid"], second["metadata"]["uid"]);
    assert_eq!(second["status"]["containerStatuses"][0]["restartCount"], 0, "it had the lock");
}

#[test]
fn a_rollout_that_gets_nowhere_is_said_to_and_is_taken_back() {
    let engine = Engine::start();
    engine.apply(WEB);
    rolled_out(&engine, "web");
    let broken = r#"{"spec": {"progressDeadlineSeconds": 1, "template": {"spec": {"containers": [{"name": "web", "image": "localhost/no-such-image"}]}}}}"#;
    engine.kubectl(&["patch", "deployment/web", "-p", broken]);
    let said = engine.kubectl_fails(&["rollout", "status", "deployment/web", TIMEOUT], "");
    assert!(said.contains("deployment \"web\" exceeded its progress deadline"), "{said}");
    let web = engine.get("deployment/web");
    assert!(is(&web, "Available"), "the two of before stay: {web}");
    assert_eq!(web["status"]["availableReplicas"], 2, "{web}");

    let patient = r#"{"spec": {"progressDeadlineSeconds": 600}}"#;
    engine.kubectl(&["patch", "deployment/web", "-p", patient]);
    engine.kubectl(&["rollout", "undo", "deployment/web"]);
    rolled_out(&engine, "web");
    let web = engine.until_one("deployment/web", |web| is(web, "Progressing"));
    assert_eq!(web["status"]["availableReplicas"], 2, "{web}");
    assert_eq!(versions(&engine), ["one"; 2]);
}
