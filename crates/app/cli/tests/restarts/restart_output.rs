//! `rekindle restart -o`: what a program reads of a restart on standard output, and what is told
//! beside it on standard error.
use rekindle_testkit::{Engine, text};
use serde_json::Value;

const SHOP: &str = "
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      terminationGracePeriodSeconds: 1
      containers: [{name: app, image: localhost/demo, args: [signal]}]
";

const DONE: &str = "
apiVersion: v1
kind: Pod
metadata: {name: done}
spec:
  restartPolicy: Never
  containers: [{name: app, image: localhost/host, command: ['true']}]
";

/// Standard output, standard error and the exit code.
fn restart(engine: &Engine, arguments: &[&str]) -> (String, String, i32) {
    let output = engine.rekindle(&[&["restart"], arguments].concat());
    (text(&output.stdout), text(&output.stderr), output.status.code().unwrap())
}

/// The one object that is printed as JSON.
#[track_caller]
fn object(engine: &Engine, arguments: &[&str], code: i32, beside: &str) -> Value {
    let (printed, told, ended) = restart(engine, &[arguments, &["-o", "json"]].concat());
    assert_eq!(ended, code, "{arguments:?}: {printed}{told}");
    assert!(told.contains(beside), "{arguments:?}: no {beside:?} in {told}");
    serde_json::from_str(&printed).unwrap_or_else(|error| panic!("{error}: {printed}"))
}

#[test]
fn what_is_asked_for_is_printed_as_kubectl_prints_what_it_creates_and_nothing_else() {
    let engine = Engine::start();
    engine.apply(SHOP);
    engine.wait_for("deployment/web", ".status.readyReplicas", "2");
    let pods = engine.kubectl(&["get", "pods", "-l", "app=web", "-o", "name"]);
    let pod = pods.lines().next().unwrap();

    a_dry_run_prints_what_would_be_made(&engine, pod);
    one_is_an_object_several_are_a_list(&engine, pod);
    what_is_refused_is_printed_as_it_ended(&engine);
}

fn a_dry_run_prints_what_would_be_made(engine: &Engine, pod: &str) {
    let would = "would be carried out (server dry run)";
    let taken = object(engine, &[pod, "--dry-run", "--name", "soon"], 0, would);
    assert_eq!(taken["metadata"]["name"], "soon");
    assert_eq!(taken["metadata"].get("managedFields"), None, "{taken}");
    let sent = object(engine, &[pod, "--dry-run=client", "--reason", "a test"], 0, "client dry");
    assert_eq!([&sent["kind"], &sent["spec"]["reason"]], ["PodRestart", "a test"]);
    let several = object(engine, &["deploy/web", "--dry-run"], 0, would);
    assert_eq!(several["items"].as_array().unwrap().len(), 2, "{several}");

    // what cannot be made is not printed
    let (printed, told, code) = restart(engine, &["pod/absent", "-o", "yaml"]);
    assert_eq!((printed.as_str(), code), ("", 1), "{told}");
    let none = object(engine, &["-l", "app=absent"], 0, "no pods to restart");
    assert_eq!(none["items"], serde_json::json!([]));
    assert_eq!(engine.get("podrestarts")["items"], serde_json::json!([]), "nothing was asked");
}

fn one_is_an_object_several_are_a_list(engine: &Engine, pod: &str) {
    let (printed, _, code) = restart(engine, &[pod, "--name", "one", "-o", "name"]);
    assert_eq!((printed.as_str(), code), ("podrestart.rekindle.dev/one\n", 0));
    let done = object(engine, &[pod, "--name", "one", "--wait"], 0, "Succeeded: ");
    assert_eq!([&done["metadata"]["name"], &done["status"]["phase"]], ["one", "Succeeded"]);

    let (printed, told, code) = restart(engine, &["deploy/web", "--name", "all", "-o", "yaml"]);
    assert_eq!(code, 0, "{printed}{told}");
    // what is printed is what kubectl reads
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), &printed).unwrap();
    let path = file.path().to_str().unwrap();
    let phases = engine.kubectl(&["get", "-f", path, "-o", "jsonpath={.items[*].status.phase}"]);
    assert_eq!(phases, "Succeeded Succeeded", "{printed}");
    assert_eq!(printed.matches("\n    phase: Succeeded\n").count(), 2, "as it ended: {printed}");
}

fn what_is_refused_is_printed_as_it_ended(engine: &Engine) {
    engine.apply(DONE);
    engine.wait_for("pod/done", ".status.phase", "Succeeded");
    let refused = object(engine, &["pod/done", "--wait"], 1, "has finished (phase Succeeded)");
    assert_eq!(refused["status"]["phase"], "Refused");
}
