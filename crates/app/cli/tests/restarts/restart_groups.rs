//! Pods that are restarted as one: all of them stop before any starts again, also when the engine
//! is killed between.
use rekindle_testkit::{Engine, TIMEOUT, text};
use serde_json::Value;

/// Says when it starts and when it stops. The first pods take their time to stop: without a barrier
/// the last one would run again long before.
fn trainer(name: &str, stops_after: u32) -> String {
    format!(
        r#"
apiVersion: v1
kind: Pod
metadata: {{name: {name}, labels: {{job: train}}}}
spec:
  terminationGracePeriodSeconds: 20
  containers:
  - name: app
    image: localhost/host
    command:
    - sh
    - -c
    - |
      echo started $(date +%s%N)
      trap 'sleep {stops_after}; echo stopped $(date +%s%N); exit 0' TERM
      while :; do sleep 0.1; done
---
"#
    )
}

pub const NAMES: [&str; 3] = ["first", "second", "third"];

fn trainers(engine: &Engine) {
    let [first, second, third] = NAMES;
    engine.apply(&(trainer(first, 6) + &trainer(second, 1) + &trainer(third, 0)));
    NAMES.iter().for_each(|name| engine.wait_ready(name));
}

/// The nanosecond that the last line of a pod's log with this word tells.
pub fn time_of(engine: &Engine, pod: &str, word: &str, arguments: &[&str]) -> u128 {
    let log = engine.kubectl(&[&["logs", pod], arguments].concat());
    let line = log.lines().rev().find_map(|line| line.strip_prefix(word));
    line.unwrap_or_else(|| panic!("{pod} {arguments:?}: no {word} in {log}"))
        .trim()
        .parse()
        .unwrap()
}

fn restart_counts(engine: &Engine) -> [i64; 3] {
    NAMES.map(|name| {
        let pod = engine.get(&format!("pod/{name}"));
        pod["status"]["containerStatuses"][0]["restartCount"].as_i64().unwrap()
    })
}

/// Each pod was restarted once, and the first start came after the last stop.
#[track_caller]
fn all_stopped_before_any_started(engine: &Engine) {
    assert_eq!(restart_counts(engine), [1, 1, 1]);
    let stops = NAMES.map(|name| time_of(engine, name, "stopped ", &["--previous"]));
    let starts = NAMES.map(|name| time_of(engine, name, "started ", &[]));
    assert!(stops.iter().max() < starts.iter().min(), "{stops:?} {starts:?}");
}

fn members(restart: &Value) -> Vec<(&str, &str)> {
    let members = restart["status"]["group"]["members"].as_array().unwrap();
    let of = |m: &'_ Value, field: &str| m[field].as_str().map(str::to_owned);
    assert!(members.iter().all(|m| of(m, "stoppedAt").is_some()), "{members:?}");
    members.iter().map(|m| (m["podName"].as_str().unwrap(), m["phase"].as_str().unwrap())).collect()
}

#[test]
fn pods_that_are_restarted_together_have_all_stopped_before_any_starts() {
    let engine = Engine::start();
    trainers(&engine);
    let ahead = engine.rekindle(&["restart", "-l", "job=train", "--together", "--dry-run"]);
    let said = text(&ahead.stdout);
    assert!(said.contains("a restart of rung Pod as one would be carried out"), "{said}");

    let line = ["restart", "-l", "job=train", "--together", "--name", "again", TIMEOUT];
    let done = engine.rekindle(&line);
    let said = format!("{}{}", text(&done.stdout), text(&done.stderr));
    assert!(done.status.success(), "{said}");
    assert!(said.contains("3 pods running again, after all had stopped"), "{said}");
    for name in NAMES {
        assert!(said.contains(&format!("pod/{name} Succeeded: ")), "{said}");
    }
    all_stopped_before_any_started(&engine);
    let restart = engine.get("podrestart/again");
    assert_eq!(members(&restart), NAMES.map(|name| (name, "Succeeded")));

    let again = engine.rekindle(&line);
    assert!(text(&again.stdout).contains("unchanged"), "{}", text(&again.stdout));
    assert_eq!(restart_counts(&engine), [1, 1, 1], "done once");
    let table = engine.kubectl(&["get", "podrestart", "again"]);
    assert!(table.contains("job=train"), "{table}");
}

#[test]
fn a_group_stays_stopped_while_the_engine_is_killed_and_starts_when_all_have_stopped() {
    let mut engine = Engine::start();
    trainers(&engine);
    engine.apply(
        "
apiVersion: rekindle.dev/v1alpha1
kind: PodRestart
metadata: {name: again}
spec: {selector: {matchLabels: {job: train}}}
",
    );
    engine.wait_for("podrestart/again", ".status.group.stage", "Stopping");
    // third has stopped and waits, first takes six seconds
    engine.kubectl(&["wait", "--for=jsonpath={.status.stoppedAt}", "podrestart/again-2", TIMEOUT]);
    let single = engine.rekindle(&["restart", "pod/third", "--wait", TIMEOUT]);
    assert!(!single.status.success(), "its group restarts it");
    let said = format!("{}{}", text(&single.stdout), text(&single.stderr));
    assert!(said.contains("restart again-2 of pod third is in progress"), "{said}");
    engine.kill();
    engine.launch(&[]);
    engine.kubectl(&["wait", "--for=condition=Succeeded", "podrestart/again", TIMEOUT]);
    all_stopped_before_any_started(&engine);
}

#[test]
fn a_member_that_does_not_stop_in_time_fails_the_group_and_the_others_run_again() {
    let engine = Engine::start();
    engine.apply(&(trainer("first", 15) + &trainer("third", 0)));
    ["first", "third"].iter().for_each(|name| engine.wait_ready(name));
    engine.apply(
        "
apiVersion: rekindle.dev/v1alpha1
kind: PodRestart
metadata: {name: again}
spec: {selector: {matchLabels: {job: train}}, deadlineSeconds: 3}
",
    );
    engine.kubectl(&["wait", "--for=condition=Finished", "podrestart/again", TIMEOUT]);
    let status = engine.get("podrestart/again")["status"].clone();
    assert_eq!(status["phase"], "Failed", "{status}");
    let message = status["message"].as_str().unwrap();
    assert!(message.starts_with("first had not stopped within the deadline of 3s"), "{message}");
    engine.wait_for("pod/third", ".status.containerStatuses[0].restartCount", "1");
    engine.wait_ready("third");
    engine.wait_for("pod/first", ".status.containerStatuses[0].restartCount", "1");
    engine.wait_ready("first");
}
