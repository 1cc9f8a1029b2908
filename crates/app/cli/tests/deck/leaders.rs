//! Leader election from inside pods: how long nothing leads when the leader ends.

use std::time::Duration;

use rekindle_testkit::guarded_child::GuardedChild;
use rekindle_testkit::{Engine, until_hung};

use crate::{apply, pods_of};

/// As in the manifests.
const LEASE_DURATION: Duration = Duration::from_secs(6);
const RETRY_PERIOD: Duration = Duration::from_secs(1);
/// What a request or the start of a pod may take on a machine that is busy with other tests.
const SLACK: Duration = Duration::from_secs(3);

fn holder(lease: &serde_json::Value) -> Option<&str> {
    lease["spec"]["holderIdentity"].as_str().filter(|holder| !holder.is_empty())
}

/// Follows a pod's log up to a line that begins so; the rest of it.
fn says(engine: &Engine, pod: &str, begin: &str) -> String {
    let mut command = engine.kubectl_command(&["logs", "--follow", pod, &until_hung()]);
    let mut log = GuardedChild::start(&mut command);
    let mut lines = log.lines().map(Result::unwrap);
    lines.find_map(|line| Some(line.strip_prefix(begin)?.to_owned())).unwrap()
}

/// Ends the leader; what the next one says about the Lease that it took.
fn hand_over(manifest: &str) -> String {
    let engine = Engine::start();
    apply(&engine, manifest);
    engine.kubectl(&["rollout", "status", "deployment/controller", "--timeout=180s"]);
    let lease = "lease/demo-controller";
    let first = engine.until_one(lease, |lease| holder(lease).is_some());
    let first = holder(&first).unwrap().to_owned();
    // the other one has seen who leads
    let second = pods_of(&engine, "controller").into_iter().find(|pod| *pod != first).unwrap();
    assert_eq!(says(&engine, &second, "stands by: "), format!("{first} leads"));
    engine.kubectl(&["delete", "pod", &first, "--wait=false"]);
    let next = |lease: &serde_json::Value| holder(lease).is_some_and(|holder| holder != first);
    let next = engine.until_one(lease, next);
    assert_eq!(next["spec"]["leaseTransitions"], 1, "{next}");
    let next = holder(&next).unwrap();
    let said = says(&engine, next, "leads: ");
    println!("{next} leads: {said}");
    said
}

/// How long it was before the next one led, which it says as `… 6s 20ms ago`.
fn gap(said: &str, begin: &str) -> Duration {
    let (_, gap) = said.split_once(begin).unwrap_or_else(|| panic!("{said}"));
    humantime::parse_duration(gap.strip_suffix(" ago").unwrap()).unwrap()
}

#[test]
fn a_lease_that_is_kept_holds_the_next_leader_up_until_it_is_over() {
    let said = hand_over("leader-before");
    let gap = gap(&said, "renewed the lease ");
    assert!(gap >= LEASE_DURATION, "{gap:?}");
    assert!(gap <= LEASE_DURATION + RETRY_PERIOD + SLACK, "{gap:?}");
}

#[test]
fn a_lease_that_is_given_back_has_a_leader_within_a_retry_period() {
    let said = hand_over("leader-after");
    let gap = gap(&said, "the lease was given back ");
    assert!(gap <= RETRY_PERIOD + SLACK, "{gap:?}");
    assert!(gap < LEASE_DURATION, "{gap:?}");
}
