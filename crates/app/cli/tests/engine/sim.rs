//! `rekindle sim` as a user runs it: no engine, no root, no other program.
#![allow(clippy::disallowed_methods, reason = "a black-box test starts processes")]

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use rekindle_testkit::rekindle_path;
use serde_json::Value;

fn examples() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../examples/sim")
}

fn sim(args: &[&str]) -> Output {
    Command::new(rekindle_path()).arg("sim").args(args).current_dir(examples()).output().unwrap()
}

fn json(args: &[&str]) -> Value {
    let output = sim(&[args, &["-o", "json"]].concat());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Six starts with the first five waits, 310 s together, and one every 300 s.
#[test]
fn a_container_that_crashes_at_once_is_restarted_as_often_as_upstream_does() {
    let report = json(&["crash-loop.yaml", "--for", "1d"]);
    assert_eq!(report["restarts"], 6 + (86_400 - 310) / 300);
    assert_eq!(report["policies"][0]["restartsByPod"]["default/crash"], report["restarts"]);
    assert_eq!(report["policies"][0]["brokenPromise"], Value::Null);
}

#[test]
fn the_same_seed_gives_the_same_report_and_another_seed_another_trace() {
    let run = |seed| json(&["zone-failure.yaml", "--seed", seed]);
    let first = run("7");
    assert_eq!(first, run("7"));
    assert_ne!(first["policies"][0]["traceHash"], run("8")["policies"][0]["traceHash"]);
}

#[test]
fn ladders_are_compared_with_none_side_by_side() {
    let ladders = ["--ladder", "ladder.yaml", "--ladder", "ladder-rollback.yaml"];
    let report = json(&[&["bad-rollout.yaml"][..], &ladders[..]].concat());
    let policies = report["policies"].as_array().unwrap();
    let names: Vec<&Value> = policies.iter().map(|policy| &policy["policy"]).collect();
    assert_eq!(names, ["no ladder", "ladder.yaml", "ladder-rollback.yaml"]);
    for policy in policies {
        assert_eq!((&policy["pods"], &policy["readyPods"]), (&8.into(), &8.into()), "{policy}");
        assert!(policy["timeToRecoverySeconds"].as_f64().unwrap() > 0.0, "{policy}");
    }
    assert_eq!(policies[0]["rungs"], serde_json::json!({}));
}

#[test]
fn a_page_has_a_plot_for_each_policy_and_nothing_from_elsewhere() {
    let output =
        sim(&["dependency-down.yaml", "--ladder", "ladder.yaml", "-o", "html", "--for", "2h"]);
    let page = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(page.matches("<svg").count(), 6, "three plots for each of two policies");
    assert!(page.contains("<h2>no ladder</h2>") && page.contains("<h2>ladder.yaml</h2>"));
    assert!(!page.contains("<script") && !page.contains("http"), "it stands on its own");
}

/// 50 s without a heartbeat, 300 s of toleration, and a node every 10 s.
#[test]
fn a_lost_zone_is_seen_as_missing_pods_until_they_run_elsewhere() {
    let report = json(&["zone-failure.yaml", "--nodes", "20"]);
    let policy = &report["policies"][0];
    let outage = &policy["outages"][0];
    assert_eq!((&outage["fromSeconds"], &outage["missing"]), (&600.0.into(), &6.into()));
    let until = outage["untilSeconds"].as_f64().unwrap();
    assert!((1_000.0..1_010.0).contains(&until), "{outage}");
    assert_eq!((&policy["restarts"], &policy["readyPods"]), (&0.into(), &20.into()));
}

#[test]
fn a_bad_scenario_gets_one_clear_error_with_the_path_of_the_field() {
    let folder = tempfile::tempdir().unwrap();
    let cases = [
        ("spec: {for: soon}", "spec.for: \"soon\" is no duration"),
        ("spec: {for: 1h, nodes: 5000}", "spec.nodes: give 1 to 1000"),
        ("spec: {for: 1h, changes: [{at: 1m}]}", "spec.changes[0]: give one of apply, scale"),
        (
            "spec: {for: 1h, nodeLoss: [{share: 200%, from: 1m}]}",
            "spec.nodeLoss[0].share: \"200%\" is no share",
        ),
    ];
    for (spec, expected) in cases {
        let file = folder.path().join("scenario.yaml");
        let pod = "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec: {containers: [{name: a, image: a}]}";
        let text =
            format!("apiVersion: rekindle.dev/v1alpha1\nkind: Scenario\n{spec}\n---\n{pod}\n");
        std::fs::write(&file, text).unwrap();
        let output = sim(&[file.to_str().unwrap()]);
        let error = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{error}");
        assert!(error.contains(expected), "{spec}: {error}");
    }
}

#[test]
fn what_the_command_line_says_of_nodes_is_refused_by_its_flag() {
    let scenario =
        "spec: {for: 1h, nodes: 2, behaviours: [{nodes: [node-1], exits: {code: 1, after: 1s}}]}";
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("scenario.yaml");
    let pod =
        "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec: {containers: [{name: a, image: a}]}";
    let head = "apiVersion: rekindle.dev/v1alpha1\nkind: Scenario";
    std::fs::write(&file, format!("{head}\n{scenario}\n---\n{pod}\n")).unwrap();
    for (nodes, expected) in [
        ("0", "rekindle: --nodes: give 1 to 1000\n"),
        (
            "1",
            "rekindle: --nodes: spec.behaviours[0].nodes[0]: there is no node \"node-1\": the only node is node-0 (spec.nodes, --nodes)\n",
        ),
    ] {
        let output = sim(&[file.to_str().unwrap(), "--nodes", nodes]);
        assert_eq!(String::from_utf8(output.stderr).unwrap(), expected);
    }
}

#[test]
fn a_report_that_cannot_be_written_is_an_error_and_one_that_nobody_reads_is_none() {
    let play = |stdout: Stdio| {
        let mut program = Command::new(rekindle_path());
        let program = program.args(["sim", "crash-loop.yaml", "--for", "10m"]);
        program.current_dir(examples()).stdout(stdout).output().unwrap()
    };
    let full = play(std::fs::File::options().write(true).open("/dev/full").unwrap().into());
    let error = String::from_utf8(full.stderr).unwrap();
    assert_eq!(full.status.code(), Some(1), "{error}");
    assert!(error.starts_with("rekindle: write the report: "), "{error}");
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let closed = play(writer.into());
    assert_eq!(closed.status.code(), Some(0));
    assert_eq!(String::from_utf8(closed.stderr).unwrap(), "");
}

#[test]
fn what_fails_under_one_policy_is_named_and_the_policies_before_it_are_shown() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("wrong.yaml");
    let ladder = "apiVersion: rekindle.dev/v1alpha1\nkind: RestartLadder\nmetadata: {name: a}\nspec: {selector: {}, rungs: []}\n";
    std::fs::write(&file, ladder).unwrap();
    let wrong = file.to_str().unwrap();
    let output = sim(&["crash-loop.yaml", "--for", "10m", "--ladder", wrong]);
    let (table, error) =
        [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap()).into();
    assert_eq!(output.status.code(), Some(1), "{error}");
    assert!(table.lines().nth(1).unwrap().starts_with("no ladder"), "{table}");
    assert!(error.contains(&format!("scenario crash-loop.yaml, {wrong}: ")), "{error}");
}
