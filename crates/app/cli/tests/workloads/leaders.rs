//! Controllers in processes of their own, on one API: one leads, another stands by and takes over
//! when the leader is stopped or killed; the engine's own stand in the same line, and its next life
//! does not wait for the one before.
use std::process::Stdio;
use std::sync::mpsc::Receiver;

use rekindle_testkit::guarded_child::GuardedChild;
use rekindle_testkit::{Engine, PATIENCE, TIMEOUT, rekindle};
use rustix::process::{Pid, Signal, kill_process};

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
    child: GuardedChild,
    identity: String,
    lines: Receiver<String>,
    /// What it has said and nobody has asked for yet: two pipes have no order between them.
    said: Vec<String>,
}

impl Candidate {
    fn start(engine: &Engine) -> Self {
        let mut command = rekindle();
        command.arg("controllers").arg("--kubeconfig").arg(engine.kubeconfig()).args(SHORT);
        let mut child = GuardedChild::start(command.stderr(Stdio::piped()));
        let lines = child.all_lines();
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
        kill_process(Pid::from_child(&self.child.0), Signal::TERM).unwrap();
        assert!(self.child.0.wait().unwrap().success());
    }
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
    engine.until(&["events", "--namespace=kube-system", of_lease], |events| {
        let messages = || events.values().filter_map(|event| event["message"].as_str());
        told.iter().all(|told| messages().any(|message| message.contains(told.as_str())))
    });
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
