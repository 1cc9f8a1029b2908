//! Nobody reads any more what a command writes, as behind `| head` or when Ctrl-C ends a `tee`,
//! too.
use std::io::{BufRead, BufReader, PipeWriter};
use std::process::{Command, Stdio};

use rekindle_testkit::{Engine, TIMEOUT, rekindle, text};
use rustix::process::{Pid, Signal, kill_process};

/// The end of a pipe that nobody reads.
fn unread() -> PipeWriter {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    writer
}

#[track_caller]
fn succeeds_unread(command: &mut Command) {
    let ended = command.stdout(unread()).output().unwrap();
    let said = text(&ended.stderr);
    assert_eq!((ended.status.code(), said.as_str()), (Some(0), ""), "{command:?}");
}

const SHOP: &str = "
apiVersion: apps/v1
kind: Deployment
metadata: {name: shop}
spec:
  replicas: 2
  selector: {matchLabels: {app: shop}}
  template:
    metadata: {labels: {app: shop}}
    spec:
      terminationGracePeriodSeconds: 1
      containers: [{name: app, image: localhost/demo, args: [signal]}]
";

#[test]
fn definitions_that_nobody_reads_to_their_end_are_no_error() {
    succeeds_unread(rekindle().arg("crds"));
}

#[test]
fn what_was_begun_is_done_to_its_end() {
    let engine = Engine::start();
    engine.apply(SHOP);
    engine.wait_for("deployment/shop", ".status.availableReplicas", "2");
    for arguments in
        [["status"].as_slice(), &["why", "deploy/shop"], &["restart", "deploy/shop", TIMEOUT]]
    {
        succeeds_unread(rekindle().args(arguments).arg("--data-dir").arg(engine.data_dir()));
    }
    let pods = engine.get("pods");
    let restarts = pods["items"].as_array().unwrap().iter();
    let restarts: Vec<_> = restarts
        .map(|pod| pod["status"]["containerStatuses"][0]["restartCount"].as_i64())
        .collect();
    assert_eq!(restarts, [Some(1), Some(1)], "each pod was restarted");
}

#[test]
fn an_engine_that_nobody_reads_applies_its_manifests_and_ends_its_pods() {
    let engine = Engine::prepare();
    let manifest = engine.data_dir().join("app.yaml");
    std::fs::write(&manifest, SHOP).unwrap();
    let mut up = engine.up_command(&["-f", manifest.to_str().unwrap()]);
    // its log goes nowhere, too
    up.env("RUST_LOG", "debug").stdin(Stdio::null()).stdout(Stdio::piped()).stderr(unread());
    let mut up = up.spawn().unwrap();
    let mut first = String::new();
    BufReader::new(up.stdout.take().unwrap()).read_line(&mut first).unwrap();
    assert!(first.starts_with("API "), "{first}");
    engine.kubectl(&["wait", "--for=create", "deployment/shop", TIMEOUT]);
    engine.wait_for("deployment/shop", ".status.availableReplicas", "2");
    kill_process(Pid::from_child(&up), Signal::INT).unwrap();
    assert_eq!(up.wait().unwrap().code(), Some(0));
    let left = text(&engine.rekindle(&["down"]).stdout);
    assert!(!left.contains("ended pod"), "{left}");
}
