//! Jobs on real containers, as kubectl users run them.
use rekindle_testkit::{Engine, TIMEOUT};

/// Waits for a condition of a Job.
fn wait(engine: &Engine, job: &str, condition: &str) {
    let condition = format!("--for=condition={condition}");
    engine.kubectl(&["wait", &condition, &format!("job/{job}"), TIMEOUT]);
}

#[test]
fn a_job_made_by_kubectl_runs_to_its_end_is_read_and_goes_with_its_pod() {
    let engine = Engine::start();
    engine.kubectl(&[
        "create",
        "job",
        "sum",
        "--image=localhost/host",
        "--",
        "sh",
        "-c",
        "echo $((20 + 22))",
    ]);
    wait(&engine, "sum", "complete");
    assert_eq!(engine.kubectl(&["logs", "job/sum"]), "42\n");
    let shown = engine.kubectl(&["get", "job", "sum", "--no-headers"]);
    assert_eq!(shown.split_whitespace().collect::<Vec<_>>()[..3], ["sum", "Complete", "1/1"]);
    let described = engine.kubectl(&["describe", "job", "sum"]);
    assert!(described.contains("0 Active (0 Ready) / 1 Succeeded / 0 Failed"), "{described}");
    let status = engine.get("job/sum")["status"].clone();
    assert_eq!(status["uncountedTerminatedPods"], serde_json::json!({}), "{status}");
    engine.kubectl(&["delete", "job", "sum"]);
    engine.kubectl(&["wait", "--for=delete", "pod", "-l", "job-name=sum", TIMEOUT]);
}

#[test]
fn each_pod_of_an_indexed_job_knows_its_index_and_a_killed_engine_loses_none() {
    let mut engine = Engine::start();
    let folder = tempfile::Builder::new().prefix("rekindle-jobs-").tempdir().unwrap();
    engine.apply(&format!(
        "
apiVersion: batch/v1
kind: Job
metadata: {{name: parts}}
spec:
  completionMode: Indexed
  completions: 3
  parallelism: 3
  template:
    spec:
      restartPolicy: Never
      terminationGracePeriodSeconds: 1
      containers:
      - name: part
        image: localhost/host
        command: [sh, -c, 'echo $JOB_COMPLETION_INDEX $(cat /proc/sys/kernel/hostname) >> /notes/parts-$JOB_COMPLETION_INDEX; until test -e /notes/go; do sleep 0.1; done']
        volumeMounts: [{{name: notes, mountPath: /notes}}]
      volumes: [{{name: notes, hostPath: {{path: {}, type: Directory}}}}]
",
        folder.path().display()
    ));
    engine.wait_for("job/parts", ".status.ready", "3");
    engine.kill();
    std::fs::write(folder.path().join("go"), "").unwrap();
    engine.launch(&[]);
    wait(&engine, "parts", "complete");
    let status = engine.get("job/parts")["status"].clone();
    assert_eq!(status["completedIndexes"], "0-2", "{status}");
    assert_eq!((&status["succeeded"], &status["failed"]), (&3.into(), &serde_json::Value::Null));
    for index in 0..3 {
        let note = std::fs::read_to_string(folder.path().join(format!("parts-{index}"))).unwrap();
        assert_eq!(note, format!("{index} parts-{index}\n"), "it ran once");
    }
}

#[test]
fn a_job_whose_pods_fail_too_often_is_failed_and_says_why() {
    let engine = Engine::start();
    engine.apply(
        "
apiVersion: batch/v1
kind: Job
metadata: {name: wrong}
spec:
  backoffLimit: 0
  template:
    spec:
      restartPolicy: Never
      containers: [{name: main, image: localhost/host, command: [sh, -c, exit 3]}]
",
    );
    wait(&engine, "wrong", "failed");
    let status = engine.get("job/wrong")["status"].clone();
    assert_eq!(status["failed"], 1, "{status}");
    engine.wait_for_event("wrong", "BackoffLimitExceeded", "reached the specified backoff limit");
}

/// Jobs of which each has another policy; a pod of the last one ends when a file of its name is
/// there, and not when it is asked to.
const POLICIES: &str = "
apiVersion: batch/v1
kind: Job
metadata: {name: fatal}
spec:
  podFailurePolicy:
    rules: [{action: FailJob, onExitCodes: {operator: In, values: [42]}}]
  template:
    spec:
      restartPolicy: Never
      containers: [{name: main, image: localhost/host, command: [sh, -c, exit 42]}]
---
apiVersion: batch/v1
kind: Job
metadata: {name: parts}
spec:
  completionMode: Indexed
  completions: 3
  parallelism: 3
  backoffLimitPerIndex: 0
  template:
    spec:
      restartPolicy: Never
      containers: [{name: main, image: localhost/host, command: [sh, -c, 'test $JOB_COMPLETION_INDEX != 1']}]
---
apiVersion: batch/v1
kind: Job
metadata: {name: leader}
spec:
  completionMode: Indexed
  completions: 2
  parallelism: 2
  successPolicy: {rules: [{succeededIndexes: '0'}]}
  template:
    spec:
      restartPolicy: Never
      terminationGracePeriodSeconds: 1
      containers: [{name: main, image: localhost/host, command: [sh, -c, 'test $JOB_COMPLETION_INDEX = 0 || sleep 1000']}]
---
apiVersion: batch/v1
kind: Job
metadata: {name: slow}
spec:
  podReplacementPolicy: Failed
  template:
    metadata: {labels: {app: slow}}
    spec:
      restartPolicy: Never
      terminationGracePeriodSeconds: 60
      containers:
      - name: main
        image: localhost/host
        command: [sh, -c, \"trap '' TERM; until test -e /notes/end-$(hostname) -o -e /notes/end; do sleep 0.1; done; exit 1\"]
        volumeMounts: [{name: notes, mountPath: /notes}]
      volumes: [{name: notes, hostPath: {path: FOLDER, type: Directory}}]
";

#[test]
fn policies_of_jobs_decide_about_real_exits() {
    // the folder goes after the engine, whose pods end by what is in it
    let folder = tempfile::Builder::new().prefix("rekindle-jobs-").tempdir().unwrap();
    let engine = Engine::start();
    engine.apply(&POLICIES.replace("FOLDER", &folder.path().display().to_string()));
    wait(&engine, "fatal", "failed");
    let reason = "failed with exit code 42 matching FailJob rule at index 0";
    engine.wait_for_event("fatal", "PodFailurePolicy", reason);
    wait(&engine, "parts", "failed");
    let status = engine.get("job/parts")["status"].clone();
    assert_eq!(
        (&status["completedIndexes"], &status["failedIndexes"]),
        (&"0,2".into(), &"1".into())
    );
    wait(&engine, "leader", "complete");
    let status = engine.get("job/leader")["status"].clone();
    assert_eq!((&status["succeeded"], &status["failed"]), (&1.into(), &serde_json::Value::Null));

    engine.wait_for("job/slow", ".status.ready", "1");
    engine.kubectl(&["delete", "pod", "-l", "app=slow", "--wait=false"]);
    engine.wait_for("job/slow", ".status.terminating", "1");
    let pods = engine.kubectl(&["get", "pods", "-l", "app=slow", "-o", "name"]);
    let pods: Vec<&str> = pods.lines().collect();
    assert_eq!(pods.len(), 1, "none is begun while it ends");
    let end = format!("end-{}", pods[0].trim_start_matches("pod/"));
    std::fs::write(folder.path().join(end), "").unwrap();
    engine.wait_for("job/slow", ".status.failed", "1");
    engine.wait_for("job/slow", ".status.ready", "1");
    std::fs::write(folder.path().join("end"), "").unwrap();
}

const SUSPENDED: &str = "
apiVersion: batch/v1
kind: Job
metadata: {name: later}
spec:
  suspend: true
  template:
    spec:
      restartPolicy: Never
      terminationGracePeriodSeconds: 5
      containers:
      - name: later
        image: localhost/host
        command: [sh, -c, 'trap \"exit 1\" TERM; test -e /notes/end && exit 0; sleep 100000 & wait']
        volumeMounts: [{name: notes, mountPath: /notes}]
      volumes: [{name: notes, hostPath: {path: FOLDER, type: Directory}}]
";

#[test]
fn a_suspended_job_has_no_pods_until_it_is_resumed_and_loses_them_without_failing() {
    // the folder goes after the engine, whose pods end by what is in it
    let folder = tempfile::Builder::new().prefix("rekindle-jobs-").tempdir().unwrap();
    let engine = Engine::start();
    engine.apply(&SUSPENDED.replace("FOLDER", &folder.path().display().to_string()));
    wait(&engine, "later", "suspended");
    let status = engine.get("job/later")["status"].clone();
    assert_eq!(status["startTime"], serde_json::Value::Null, "{status}");
    let suspend = |yes: bool| {
        let patch = format!(r#"{{"spec":{{"suspend":{yes}}}}}"#);
        engine.kubectl(&["patch", "job/later", "-p", &patch]);
    };
    suspend(false);
    engine.wait_for("job/later", ".status.ready", "1");
    engine.wait_for_event("later", "Resumed", "Job resumed");
    suspend(true);
    wait(&engine, "later", "suspended");
    engine.kubectl(&["wait", "--for=delete", "pods", "-l", "job-name=later", TIMEOUT]);
    engine.wait_for_event("later", "Suspended", "Job suspended");

    std::fs::write(folder.path().join("end"), "").unwrap();
    suspend(false);
    wait(&engine, "later", "complete");
    let status = engine.get("job/later")["status"].clone();
    assert_eq!(status["failed"], serde_json::Value::Null, "{status}");
}
