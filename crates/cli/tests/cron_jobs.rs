//! CronJobs on real containers, as kubectl users run them.
#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    unreachable_pub,
    reason = "a black-box test drives processes and files"
)]

mod support;

use support::{Engine, text};

#[test]
fn a_cron_job_makes_jobs_in_time_and_by_hand_and_stops_when_it_is_told() {
    let mut engine = Engine::start();
    // `@every` needs no full minute to wait for.
    engine.kubectl(&[
        "create",
        "cronjob",
        "report",
        "--image=localhost/host",
        "--schedule=@every 1s",
        "--restart=Never",
        "--",
        "sh",
        "-c",
        "echo in time",
    ]);
    engine.kubectl(&[
        "wait",
        "--for=jsonpath={.status.lastSuccessfulTime}",
        "cronjob/report",
        "--timeout=60s",
    ]);
    let jobs = engine.get("jobs")["items"].clone();
    let job = &jobs[0]["metadata"];
    let name = job["name"].as_str().unwrap().to_owned();
    let made_for = job["annotations"]["batch.kubernetes.io/cronjob-scheduled-timestamp"].clone();
    assert!(name.starts_with("report-") && made_for.is_string(), "{job}");
    assert_eq!(engine.kubectl(&["logs", &format!("job/{name}")]), "in time\n");
    engine.wait_for_event("report", "SuccessfulCreate", &format!("Created job {name}"));
    engine.wait_for_event("report", "SawCompletedJob", "condition: Complete");

    // No other is made, and none twice, by an engine that starts anew.
    let suspend = ["patch", "cj", "report", "-p", r#"{"spec":{"suspend":true}}"#];
    engine.kubectl(&suspend);
    let made = engine.get("jobs")["items"].as_array().unwrap().len();
    engine.kill();
    engine.launch(&[]);
    engine.kubectl(&["create", "job", "by-hand", "--from=cronjob/report"]);
    engine.kubectl(&["wait", "--for=condition=complete", "job/by-hand", "--timeout=60s"]);
    assert_eq!(engine.kubectl(&["logs", "job/by-hand"]), "in time\n");
    assert_eq!(engine.get("jobs")["items"].as_array().unwrap().len(), made + 1);
    let shown = engine.kubectl(&["get", "cj", "report", "--no-headers"]);
    let cells: Vec<&str> = shown.split_whitespace().collect();
    assert_eq!(cells[..6], ["report", "@every", "1s", "<none>", "True", "0"], "{shown}");
    let described = engine.kubectl(&["describe", "cronjob", "report"]);
    assert!(described.contains("Concurrency Policy:"), "{described}");

    let wrong = engine.kubectl_fails(
        &["create", "cronjob", "wrong", "--image=localhost/host", "--schedule=0 25 * * *"],
        "",
    );
    assert!(wrong.contains("end of range (25) above maximum (23): 25"), "{wrong}");
    let never = engine.try_kubectl(
        &["create", "cronjob", "never", "--image=localhost/host", "--schedule=0 0 31 2 *"],
        "",
    );
    assert!(text(&never.stderr).contains("names a time that never comes"), "{never:?}");
    engine.wait_for_event("never", "InvalidSchedule", "invalid schedule: 0 0 31 2 *");

    engine.kubectl(&["delete", "cronjob", "report"]);
    engine.kubectl(&["wait", "--for=delete", "job", "--all", "--timeout=60s"]);
}
