//! Controllers in processes of their own, on one API: one leads, another stands by and takes over when the leader is stopped or
//! killed; the engine's own stand in the same line, and its next life does not wait for the one before.
#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    unreachable_pub,
    reason = "a black-box test drives processes and files"
)]

mod support;

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};

use rustix::process::{Pid, Signal, kill_process};
use support::{Engine, PATIENCE, TIMEOUT, rekindle, until_hung};

/// Short periods, so that the death of a leader is noticed soon.
const SHORT: [&str; 3] = [
    "--leader-elect-lease-duration=6s",
    "--leader-elect-renew-deadline=5s",
    "--leader-elect-retry-period=500ms",
];
/// Nobody waits for the end of such a lease within a test.
const LONG_PERIODS: [&str; 2] =
    ["--leader-elect-lease-duration=2h", "--leader-elect-renew-deadline=1h"];
const LEASE: [&str; 3] = ["get", "lease/rekindle-controllers", "--namespace=kube-system"];

const WEB: &str = "
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      terminationGracePeriodSeconds: 0
      containers:
      - {name: app, image: localhost/demo, args: [signal]}
";

/// A process of `rekindle controllers`; killed when it is dropped.
struct Candidate {
    child: Child,
    identity: String,
    lines: Receiver<String>,
    /// What it has said and nobody has asked for yet: two pipes have no order between them.
    said: Vec<String>,
}

impl Candidate {
    fn start(engine: &Engine) -> Self {
        let mut child = rekindle()
            .arg("controllers")
            .arg("--kubeconfig")
            .arg(engine.kubeconfig())
            .args(SHORT)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let (sender, lines) = channel();
        pass_on(child.stdout.take().unwrap(), sender.clone());
        pass_on(child.stderr.take().unwrap(), sender);
        let mut candidate = Self { child, identity: String::new(), lines, said: Vec::new() };
        let line = candidate.says("is a candidate");
        candidate.identity = line.split_whitespace().next().unwrap().to_owned();
        candidate
    }

    #[track_caller]
    fn says(&mut self, what: &str) -> String {
        if let Some(at) = self.said.iter().position(|line| line.contains(what)) {
            return self.said.remove(at);
        }
        while let Ok(line) = self.lines.recv_timeout(PATIENCE) {
            if line.contains(what) {
                return line;
            }
            self.said.push(line);
        }
        panic!("nothing about {what:?} in {:#?}", self.said)
    }

    fn stop(mut self) {
        kill_process(Pid::from_child(&self.child), Signal::TERM).unwrap();
        assert!(self.child.wait().unwrap().success());
    }
}

impl Drop for Candidate {
    fn drop(&mut self) {
        let _ended_before = self.child.kill();
        let _reaped_before = self.child.wait();
    }
}

/// Hands lines on to the end, so that nobody blocks on a full pipe.
fn pass_on(from: impl Read + Send + 'static, to: Sender<String>) {
    std::thread::spawn(move || {
        for line in BufReader::new(from).lines().map_while(Result::ok) {
            let _nobody_listens = to.send(line);
        }
    });
}

#[track_caller]
fn wait_for_leader(engine: &Engine, identity: &str) {
    let path = format!("--for=jsonpath={{.spec.holderIdentity}}={identity}");
    // kubectl waits for a field of an object, not for the object
    let mut arguments = vec!["wait", "lease/rekindle-controllers", "--namespace=kube-system"];
    arguments.extend([path.as_str(), TIMEOUT]);
    engine.kubectl(&arguments);
}

/// Watches until each of these was told of the Lease.
#[track_caller]
fn wait_for_events(engine: &Engine, told: &[String]) {
    let of_lease = "--field-selector=reason=LeaderElection,involvedObject.kind=Lease";
    let mut watch = engine
        .kubectl_command(&["get", "events", "--namespace=kube-system", "--watch", of_lease])
        .args([&until_hung(), "-o", "jsonpath={.message}{'\\n'}"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(watch.stdout.take().unwrap()).lines().map_while(Result::ok);
    let mut missing: Vec<&String> = told.iter().collect();
    let all = lines.into_iter().any(|line| {
        missing.retain(|told| !line.contains(told.as_str()));
        missing.is_empty()
    });
    let _ended_before = watch.kill();
    let _reaped_before = watch.wait();
    assert!(all, "not told: {missing:?}");
}

fn transitions(engine: &Engine) -> i64 {
    let printed =
        engine.kubectl(&[&LEASE[..], &["-o", "jsonpath={.spec.leaseTransitions}"]].concat());
    printed.parse().unwrap()
}

/// Deployment and ReplicaSet controller, scheduler and node carry it out.
#[track_caller]
fn scale(engine: &Engine, replicas: &str) {
    engine.kubectl(&["scale", "deployment/web", &format!("--replicas={replicas}")]);
    engine.kubectl(&["rollout", "status", "deployment/web", TIMEOUT]);
    engine.wait_for("deployment/web", ".status.availableReplicas", replicas);
}

#[test]
fn whoever_stands_by_takes_over_from_a_leader_that_is_stopped_or_killed() {
    let mut engine = Engine::prepare();
    engine.launch(&["--no-controllers"]);
    let mut first = Candidate::start(&engine);
    first.says("leads");
    wait_for_leader(&engine, &first.identity);
    engine.apply(WEB);
    scale(&engine, "1");

    let mut second = Candidate::start(&engine);
    second.says("stands by");
    let name_of_first = first.identity.clone();
    first.stop();
    second.says("leads");
    wait_for_leader(&engine, &second.identity);
    scale(&engine, "2");
    wait_for_events(
        &engine,
        &[
            format!("{name_of_first} became leader"),
            format!("{name_of_first} stopped leading"),
            format!("{} became leader", second.identity),
        ],
    );

    let mut third = Candidate::start(&engine);
    third.says("stands by");
    drop(second); // kill -9
    wait_for_leader(&engine, &third.identity);
    scale(&engine, "3");
    let terms = transitions(&engine);
    assert!(terms >= 2, "{terms}");

    // the engine's own controllers stand in the same line
    drop(third);
    engine.kill();
    engine.launch(&LONG_PERIODS);
    wait_for_leader(&engine, "node-1_engine");
    scale(&engine, "1");
    let of_engine = transitions(&engine);
    assert!(of_engine > terms, "{of_engine} after {terms}");

    // its next life knows that the one before is over, and does not wait for the end of its lease
    engine.kill();
    engine.launch(&LONG_PERIODS);
    scale(&engine, "2");
    wait_for_leader(&engine, "node-1_engine");
    assert!(transitions(&engine) > of_engine, "a new term");
}
