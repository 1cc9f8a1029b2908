//! CronJobs and Jobs through the real API, controllers and pods, in virtual time.

use rekindle_pod::PodConfig;
use rekindle_sim::{Behaviour, ExitRule, World};
use rekindle_types::TickDuration;
use serde_json::{Value, json};

const HOUR: TickDuration = TickDuration::from_secs(3_600);

fn ending(labels: &[(&str, &str)], code: u8) -> Behaviour {
    let exits = ExitRule { code, after: TickDuration::from_secs(2), oom: false };
    let match_labels =
        labels.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
    Behaviour { match_labels, exits: Some(exits), ..Behaviour::default() }
}

fn job_spec(app: &str) -> Value {
    json!({
        "template": {
            "metadata": {"labels": {"app": app}},
            "spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "app:1"}]},
        },
    })
}

fn cron_job(name: &str, schedule: &str) -> Value {
    json!({
        "apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": name},
        "spec": {"schedule": schedule, "timeZone": "Europe/Berlin", "jobTemplate": {"spec": job_spec(name)}},
    })
}

#[test]
fn days_of_a_schedule_leave_its_history_and_nothing_else() {
    let play = |seed| {
        let behaviours = vec![ending(&[("app", "hourly")], 0), ending(&[("app", "wrong")], 1)];
        let mut world = World::new(seed, 2, behaviours, PodConfig::default()).unwrap();
        world.apply(&cron_job("hourly", "0 * * * *")).unwrap();
        let mut wrong = cron_job("wrong", "30 2,14 * * *");
        wrong["spec"]["jobTemplate"]["spec"]["backoffLimit"] = json!(1);
        world.apply(&wrong).unwrap();
        // Half past, when none has just begun.
        world.run_until(HOUR.saturating_mul(48) + TickDuration::from_secs(1_800)).unwrap();
        assert_eq!(world.broken_promise(), None);
        // Three Jobs that succeeded, with a pod each, and one that failed, with the two pods that
        // it tried.
        assert_eq!(
            world.readiness(),
            (5, 0),
            "{:#?}",
            world.trace().last_lines().collect::<Vec<_>>()
        );
        (world.trace().hash(), world.figures())
    };
    let (hash, figures) = play(3);
    assert_eq!(hash, play(3).0);
    // 52 Jobs, and no reconcile without an end: a Job takes some twenty writes from its creation to
    // its deletion.
    assert!((500..3_000).contains(&figures.writes), "{figures:?}");
}
