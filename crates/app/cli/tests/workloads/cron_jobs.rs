//! CronJobs on real containers, as kubectl users run them.
use std::collections::BTreeSet;
use std::process::Command;

use rekindle_testkit::{Engine, Objects, TIMEOUT, is, text};
use serde_json::Value;

/// The time that a Job was made for, if a CronJob made it by itself.
fn scheduled(job: &Value) -> Option<&str> {
    job["metadata"]["annotations"]["batch.kubernetes.io/cronjob-scheduled-timestamp"].as_str()
}

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
    // The Jobs that are looked at stay, however slow the machine is: one is made each second.
    let keep = r#"{"spec":{"successfulJobsHistoryLimit":1000}}"#;
    engine.kubectl(&["patch", "cj", "report", "-p", keep]);
    let done = "--for=jsonpath={.status.lastSuccessfulTime}";
    engine.kubectl(&["wait", done, "cronjob/report", TIMEOUT]);
    let jobs = engine.until(&["jobs"], |jobs| jobs.values().any(|job| is(job, "Complete")));
    let (name, job) = jobs.iter().find(|(_, job)| is(job, "Complete")).unwrap();
    assert!(name.starts_with("report-") && scheduled(job).is_some(), "{job}");
    assert_eq!(engine.kubectl(&["logs", &format!("job/{name}")]), "in time\n");
    engine.wait_for_event("report", "SuccessfulCreate", &format!("Created job {name}"));
    engine.wait_for_event("report", "SawCompletedJob", "condition: Complete");

    // No other is made, and none twice, by an engine that starts anew: what is made from now on was
    // made for a time before it.
    let suspend = ["patch", "cj", "report", "-p", r#"{"spec":{"suspend":true}}"#];
    engine.kubectl(&suspend);
    let last = text(&Command::new("date").args(["-u", "+%FT%TZ"]).output().unwrap().stdout);
    engine.kill();
    engine.launch(&[]);
    engine.kubectl(&["create", "job", "by-hand", "--from=cronjob/report"]);
    engine.kubectl(&["wait", "--for=condition=complete", "job/by-hand", TIMEOUT]);
    assert_eq!(engine.kubectl(&["logs", "job/by-hand"]), "in time\n");
    let jobs = engine.get("jobs")["items"].clone();
    let times: Vec<&str> = jobs.as_array().unwrap().iter().filter_map(scheduled).collect();
    assert!(times.contains(&scheduled(job).unwrap()), "{times:?}");
    assert!(times.iter().all(|time| *time <= last.trim()), "after {last}: {times:?}");
    let different: BTreeSet<_> = times.iter().collect();
    assert_eq!(different.len(), times.len(), "one for each time: {times:?}");
    engine.until_one("cronjob/report", |report| {
        report["status"]["active"].as_array().is_none_or(Vec::is_empty)
    });
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
    engine.kubectl(&["wait", "--for=delete", "job", "--all", TIMEOUT]);
}

/// It is due each second; what it makes ends when it is told to.
const CONCURRENT: &str = r#"
apiVersion: batch/v1
kind: CronJob
metadata: {name: NAME}
spec:
  schedule: "@every 1s"
  concurrencyPolicy: POLICY
  jobTemplate:
    spec:
      template:
        spec:
          restartPolicy: Never
          terminationGracePeriodSeconds: 1
          containers:
          - name: work
            image: localhost/host
            command: [sh, -c, 'trap "exit 1" TERM; sleep 100000 & wait']
"#;

#[test]
fn a_run_beside_another_one_is_left_out_or_takes_its_place_as_the_policy_says() {
    let engine = Engine::start();
    for (name, policy) in [("patient", "Forbid"), ("impatient", "Replace")] {
        engine.apply(&CONCURRENT.replace("NAME", name).replace("POLICY", policy));
    }
    let jobs_of = |jobs: &Objects, cron_job: &str| -> Vec<String> {
        let owned = |job: &Value| job["metadata"]["ownerReferences"][0]["name"] == cron_job;
        jobs.iter().filter(|(_, job)| owned(job)).map(|(name, _)| name.clone()).collect()
    };
    let both = engine.until(&["jobs"], |jobs| {
        ["patient", "impatient"].iter().all(|of| !jobs_of(jobs, of).is_empty())
    });
    engine.wait_for_event("patient", "JobAlreadyActive", "concurrency policy is Forbid");
    let first = jobs_of(&both, "impatient");
    let later = engine.until(&["jobs"], |jobs| {
        let now = jobs_of(jobs, "impatient");
        let replaced = !now.is_empty() && now.iter().all(|job| !first.contains(job));
        replaced && !jobs_of(jobs, "patient").is_empty()
    });
    assert_eq!(jobs_of(&later, "patient"), jobs_of(&both, "patient"), "it goes on alone");
    let active = engine.get("cronjob/patient")["status"]["active"].clone();
    assert_eq!(active.as_array().map(Vec::len), Some(1), "{active}");
}
