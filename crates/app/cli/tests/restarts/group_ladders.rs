//! Ladders of scope Group: one pod fails, and all pods of the workload restart as one, also when
//! the engine is killed between.
use std::collections::BTreeSet;

use rekindle_testkit::{Engine, TIMEOUT, text};
use serde_json::Value;

use crate::restart_groups::{NAMES, time_of};

/// Fails while there is a file in its volume, and else says when it starts and when it stops.
fn trainer(name: &str, stops_after: u32) -> String {
    format!(
        r#"
apiVersion: v1
kind: Pod
metadata: {{name: {name}, labels: {{job: train}}}}
spec:
  terminationGracePeriodSeconds: 20
  volumes: [{{name: work, emptyDir: {{}}}}]
  containers:
  - name: app
    image: localhost/host
    volumeMounts: [{{name: work, mountPath: /work}}]
    command:
    - sh
    - -c
    - |
      echo started $(date +%s%N)
      trap 'sleep {stops_after}; echo stopped $(date +%s%N); exit 0' TERM
      while [ ! -e /work/poison ]; do sleep 0.1; done
      exit 1
---
"#
    )
}

fn ladder(rungs: &str) -> String {
    format!(
        "
apiVersion: rekindle.dev/v1alpha1
kind: RestartLadder
metadata: {{name: keep}}
spec:
  selector: {{matchLabels: {{job: train}}}}
  scope: Group
  rungs: {rungs}
"
    )
}

/// Three pods run that restart as one, and the second one is given what it fails for.
fn trainers(engine: &Engine, stops_after: [u32; 3], rungs: &str) {
    engine.apply(&ladder(rungs));
    let pods = NAMES.iter().zip(stops_after).map(|(name, seconds)| trainer(name, seconds));
    engine.apply(&pods.collect::<String>());
    NAMES.iter().for_each(|name| engine.wait_ready(name));
    engine.exec_and_end(&["second", "--", "touch", "/work/poison"]);
}

/// The requests of the ladder: those with a selector.
fn groups(engine: &Engine) -> Vec<Value> {
    let all = engine.items("podrestarts");
    all.into_iter().filter(|restart| restart["spec"]["selector"].is_object()).collect()
}

/// All run again in one attempt of the rung Pod, and what ran had stopped before any started.
#[track_caller]
fn all_restarted_as_one(engine: &Engine) {
    NAMES.iter().for_each(|name| engine.wait_ready(name));
    let stops = ["first", "third"].map(|name| time_of(engine, name, "stopped ", &["--previous"]));
    let starts = NAMES.map(|name| time_of(engine, name, "started ", &[]));
    assert!(stops.iter().max() < starts.iter().min(), "{stops:?} {starts:?}");
    for name in ["first", "third"] {
        let count = &engine.get(&format!("pod/{name}"))["status"]["containerStatuses"][0];
        assert_eq!(count["restartCount"], 1, "{name}");
    }
    let groups = groups(engine);
    assert_eq!(groups.len(), 1, "{groups:?}");
    assert_eq!(groups[0]["spec"]["workload"]["name"], "keep/pods");
    assert_eq!(groups[0]["status"]["phase"], "Succeeded", "{}", groups[0]["status"]);
    let ledgers = engine.items("restartledgers");
    assert_eq!(ledgers.len(), 1, "{ledgers:?}");
    assert_eq!(failures(&ledgers[0]), [("first", 0), ("second", 2), ("third", 0)]);
}

/// How many failures the ledger of the group counts of each pod.
fn failures(ledger: &Value) -> Vec<(&str, u64)> {
    let members = ledger["status"]["members"].as_array().unwrap();
    let of = |member: &'_ Value| member["failures"].as_u64().unwrap();
    members.iter().map(|member| (member["podName"].as_str().unwrap(), of(member))).collect()
}

const CONTAINER_THEN_POD: &str = "[{rung: Container, attempts: 1}, {rung: Pod, attempts: 2}]";

#[test]
fn one_pod_fails_and_its_ladder_restarts_all_three_as_one() {
    let engine = Engine::start();
    trainers(&engine, [3, 0, 0], CONTAINER_THEN_POD);
    engine.wait_for_event("first", "LadderStep", "in all pods of the group, as one");
    let group = groups(&engine)[0]["metadata"]["name"].as_str().unwrap().to_owned();
    let request = format!("podrestart/{group}");
    engine.kubectl(&["wait", "--for=condition=Finished", &request, TIMEOUT]);
    all_restarted_as_one(&engine);

    let why = engine.rekindle(&["why", "pod/first"]);
    let said = text(&why.stdout);
    for line in [
        "all pods of group keep/pods restart as one:",
        "first: no failure",
        "second: 2 failures, the last: container \"second/app\" exited with 1",
    ] {
        assert!(said.contains(line), "{line}: {said}");
    }
}

#[test]
fn the_group_of_a_ladder_goes_on_after_its_engine_was_killed_in_the_middle() {
    let mut engine = Engine::start();
    trainers(&engine, [6, 0, 0], CONTAINER_THEN_POD);
    engine.wait_for_event("first", "LadderStep", "in all pods of the group, as one");
    let group = groups(&engine)[0]["metadata"]["name"].as_str().unwrap().to_owned();
    // third has stopped and waits, first takes six seconds
    let third = format!("podrestart/{group}-2");
    engine.kubectl(&["wait", "--for=jsonpath={.status.stoppedAt}", &third, TIMEOUT]);
    engine.kill();
    engine.launch(&[]);
    let request = format!("podrestart/{group}");
    engine.kubectl(&["wait", "--for=condition=Succeeded", &request, TIMEOUT]);
    all_restarted_as_one(&engine);
}

#[test]
fn a_group_that_never_heals_is_exhausted_with_one_ledger() {
    let engine = Engine::start();
    // what is kept is never mended by a restart in place
    let rungs = "[{rung: Containers}, {rung: Pod, emptyDirs: Keep}]";
    trainers(&engine, [0, 0, 0], rungs);
    engine.wait_for_event("first", "LadderExhausted", "");
    let ledgers = engine.items("restartledgers");
    assert_eq!(ledgers.len(), 1, "{ledgers:?}");
    assert_eq!(ledgers[0]["status"]["phase"], "Exhausted");
    let [first, second, third] = failures(&ledgers[0])[..] else { panic!("{ledgers:?}") };
    assert_eq!((first, third), (("first", 0), ("third", 0)));
    // it goes on to fail by itself while all of it is restarted
    assert!(second.1 >= 3, "{second:?}");
    let mut rungs: Vec<String> =
        groups(&engine).iter().map(|group| group["spec"]["rung"].to_string()).collect();
    rungs.sort();
    assert_eq!(rungs, ["\"Containers\"", "\"Pod\""], "one attempt of each for all");
    for name in ["first", "third"] {
        let count = &engine.get(&format!("pod/{name}"))["status"]["containerStatuses"][0];
        assert_eq!(count["restartCount"], 2, "{name}: with each of the two");
    }
}

const TRAINERS: &str = r#"
apiVersion: apps/v1
kind: Deployment
metadata: {name: train}
spec:
  replicas: 3
  selector: {matchLabels: {job: train}}
  template:
    metadata: {labels: {job: train}}
    spec:
      terminationGracePeriodSeconds: 5
      volumes: [{name: work, emptyDir: {}}]
      containers:
      - name: app
        image: localhost/host
        volumeMounts: [{name: work, mountPath: /work}]
        command:
        - sh
        - -c
        - trap 'exit 0' TERM; while [ ! -e /work/poison ]; do sleep 0.1; done; exit 1
"#;

#[test]
fn one_pod_of_a_deployment_fails_and_all_are_replaced_by_one_request() {
    let engine = Engine::start();
    engine.apply(&ladder("[{rung: Recreate}]"));
    engine.apply(TRAINERS);
    let ready = ["rollout", "status", "deployment/train", TIMEOUT];
    engine.kubectl(&ready);
    let uids = || {
        let pods = engine.items("pods").into_iter();
        let there = pods.filter(|pod| pod["metadata"]["deletionTimestamp"].is_null());
        there.map(|pod| pod["metadata"]["uid"].to_string()).collect::<BTreeSet<String>>()
    };
    let before = uids();
    assert_eq!(before.len(), 3);
    let victim = engine.items("pods")[0]["metadata"]["name"].as_str().unwrap().to_owned();
    engine.exec_and_end(&[&victim, "--", "touch", "/work/poison"]);
    let asked = engine.until(&["podrestarts"], |restarts| {
        let mut all = restarts.values();
        all.any(|restart| {
            restart["spec"]["selector"].is_object() && restart["status"]["phase"] == "Succeeded"
        })
    });
    let groups = groups(&engine);
    assert_eq!(groups.len(), 1, "{asked:#?}");
    assert_eq!(groups[0]["spec"]["rung"], "Recreate");
    assert_eq!(groups[0]["spec"]["workload"]["name"], "keep/deployment/train");
    let members = groups[0]["status"]["group"]["members"].as_array().unwrap();
    assert_eq!(members.len(), 3, "{members:#?}");
    assert!(members.iter().all(|member| member["phase"] == "Succeeded"), "{members:#?}");
    engine.kubectl(&ready);
    let after = uids();
    assert_eq!((after.len(), after.intersection(&before).count()), (3, 0), "all are new");
    let ledgers = engine.items("restartledgers");
    assert_eq!(ledgers.len(), 1, "{ledgers:?}");
    assert_eq!(ledgers[0]["status"]["attempts"][0]["rung"], "Recreate");
    assert_eq!(ledgers[0]["status"]["attempts"][0]["at"].as_array().unwrap().len(), 1);
}
