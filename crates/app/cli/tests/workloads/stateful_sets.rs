//! StatefulSets with real containers and the real kubectl: pods in order, names and claims that
//! stay, rollouts that can be taken back.
use rekindle_testkit::{Engine, TIMEOUT};

const SET: &str = "
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: db}
spec:
  replicas: 2
  serviceName: db
  selector: {matchLabels: {app: db}}
  template:
    metadata: {labels: {app: db}}
    spec:
      terminationGracePeriodSeconds: 5
      containers:
      - name: db
        image: localhost/host
        command: [sh, -c, 'trap \"exit 0\" TERM; hostname >> /data/hosts; touch /up; sleep 100000 & wait']
        lifecycle: {postStart: {exec: {command: [sh, -c, 'until test -e /up; do sleep 0.05; done']}}}
        env: [{name: VERSION, value: one}]
        volumeMounts: [{name: data, mountPath: /data}]
  volumeClaimTemplates:
  - metadata: {name: data}
    spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}
";

fn rolled_out(engine: &Engine) -> String {
    engine.kubectl(&["rollout", "status", "sts/db", TIMEOUT])
}

fn versions(engine: &Engine) -> String {
    let path =
        "jsonpath={range .items[*]}{.metadata.name}={.spec.containers[0].env[0].value} {end}";
    engine.kubectl(&["get", "pods", "-l", "app=db", "--sort-by=.metadata.name", "-o", path])
}

#[test]
fn pods_come_in_order_keep_their_claims_and_roll_to_a_partition_and_back() {
    let engine = Engine::start();
    engine.apply(SET);
    let said = rolled_out(&engine);
    assert!(said.contains("partitioned roll out complete: 2 new pods"), "{said}");
    let born = |pod: &str| engine.get(pod)["status"]["startTime"].as_str().unwrap().to_owned();
    assert!(born("pod/db-0") <= born("pod/db-1"), "in order");
    let shown = engine.kubectl(&["get", "sts"]);
    assert!(shown.contains("READY") && shown.contains("2/2"), "{shown}");
    let read = |pod: &str| engine.kubectl(&["exec", pod, "--", "cat", "/data/hosts"]);
    assert_eq!(read("db-1"), "db-1\n");
    engine.kubectl(&["delete", "pod/db-1"]);
    engine.wait_ready("db-1");
    assert_eq!(read("db-1"), "db-1\ndb-1\n", "the claim is the old one");

    let partition = r#"{"spec": {"updateStrategy": {"rollingUpdate": {"partition": 1}}}}"#;
    engine.kubectl(&["patch", "sts/db", "-p", partition]);
    engine.kubectl(&["set", "env", "sts/db", "VERSION=two"]);
    rolled_out(&engine);
    assert_eq!(versions(&engine), "db-0=one db-1=two ");
    let history = engine.kubectl(&["rollout", "history", "sts/db"]);
    assert!(history.contains("\n1 ") && history.contains("\n2 "), "{history}");
    let whole = partition.replace('1', "0");
    engine.kubectl(&["patch", "sts/db", "-p", &whole]);
    rolled_out(&engine);
    assert_eq!(versions(&engine), "db-0=two db-1=two ");
    engine.kubectl(&["rollout", "undo", "sts/db"]);
    rolled_out(&engine);
    assert_eq!(versions(&engine), "db-0=one db-1=one ");

    engine.kubectl(&["scale", "sts/db", "--replicas=1"]);
    engine.kubectl(&["wait", "--for=delete", "pod/db-1", TIMEOUT]);
    let claims = engine.kubectl(&["get", "pvc", "-o", "name"]);
    assert_eq!(claims, "persistentvolumeclaim/data-db-0\npersistentvolumeclaim/data-db-1\n");
}

#[test]
fn a_broken_revision_stops_at_its_first_pod_and_is_taken_back_without_help() {
    let engine = Engine::start();
    engine.apply(SET);
    rolled_out(&engine);
    let broken = r#"{"spec": {"template": {"spec": {"containers": [{"name": "db", "command": ["false"]}]}}}}"#;
    engine.kubectl(&["patch", "sts/db", "-p", broken]);
    engine.wait_for("sts/db", ".status.updatedReplicas", "1"); // between the two there is no pod of that name
    engine.wait_for(
        "pod/db-1",
        ".status.containerStatuses[0].state.waiting.reason",
        "CrashLoopBackOff",
    );
    engine.wait_for("sts/db", ".status.readyReplicas", "1");
    engine.kubectl(&["rollout", "undo", "sts/db"]);
    rolled_out(&engine);
    engine.wait_for("sts/db", ".status.readyReplicas", "2");
}

#[test]
fn ordinals_begin_where_they_are_told_to_and_claims_go_with_their_pods_when_that_is_asked_for() {
    let engine = Engine::start();
    let retention = "spec:\n  ordinals: {start: 3}\n  persistentVolumeClaimRetentionPolicy: {whenScaled: Delete, whenDeleted: Delete}";
    engine.apply(&SET.replacen("spec:", retention, 1));
    rolled_out(&engine);
    let names = |kind: &str| engine.kubectl(&["get", kind, "-o", "name"]);
    assert_eq!(names("pods"), "pod/db-3\npod/db-4\n");
    assert_eq!(names("pvc"), "persistentvolumeclaim/data-db-3\npersistentvolumeclaim/data-db-4\n");
    engine.kubectl(&["scale", "sts/db", "--replicas=1"]);
    engine.kubectl(&["wait", "--for=delete", "pvc/data-db-4", TIMEOUT]);
    assert_eq!(names("pvc"), "persistentvolumeclaim/data-db-3\n");
    engine.kubectl(&["delete", "sts/db"]);
    engine.kubectl(&["wait", "--for=delete", "pvc/data-db-3", TIMEOUT]);
}
