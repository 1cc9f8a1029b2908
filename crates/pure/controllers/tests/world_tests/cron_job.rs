//! The CronJob controller in virtual time: documentation, "CronJob"; API reference of batch/v1.

use k8s_openapi::api::batch::v1::{CronJob, CronJobStatus, Job};
use rekindle_controllers::plan::DependentPolicy;
use rekindle_controllers::{ClusterView, ControllerKey, ResourceKind, ViewObject};
use rekindle_types::{Tick, TickDuration};
use serde_json::{Value, json};

use crate::world::{Answer, World, id};

const HOUR: TickDuration = TickDuration::from_secs(3600);
const MINUTE: TickDuration = TickDuration::from_secs(60);

/// A time of day in UTC.
fn at(text: &str) -> Tick {
    let time: k8s_openapi::apimachinery::pkg::apis::meta::v1::Time =
        serde_json::from_value(json!(text)).unwrap();
    Tick::from(&time)
}

/// A world at a time with a CronJob `report`.
fn start(now: &str, schedule: &str, spec: Value) -> World {
    let mut world = World::with_node();
    world.api.now = at(now);
    let pods = json!({"restartPolicy": "Never", "containers": [{"name": "main", "image": "a"}]});
    let mut whole = json!({
        "schedule": schedule,
        "concurrencyPolicy": "Allow",
        "successfulJobsHistoryLimit": 3,
        "failedJobsHistoryLimit": 1,
        "jobTemplate": {
            "metadata": {"labels": {"app": "report"}, "annotations": {"team": "sums"}},
            "spec": {"completions": 1, "parallelism": 1, "selector": {"matchLabels": {"app": "report"}},
                "template": {"metadata": {"labels": {"app": "report"}}, "spec": pods}},
        },
    });
    for (name, value) in spec.as_object().unwrap() {
        whole[name] = value.clone();
    }
    world.create(json!({"kind": "CronJob", "metadata": {"name": "report"}, "spec": whole}));
    world.settle();
    world
}

fn status(world: &World) -> CronJobStatus {
    read(world).status.clone().unwrap_or_default()
}

fn read(world: &World) -> &CronJob {
    match &world.api.objects[&id(ResourceKind::CronJob, "report")] {
        ViewObject::CronJob(cron) => cron,
        other => panic!("{other:?}"),
    }
}

fn jobs(world: &World) -> Vec<&Job> {
    let jobs = world.api.objects.values().filter_map(|object| match object {
        ViewObject::Job(job) => Some(job.as_ref()),
        _ => None,
    });
    jobs.collect()
}

/// The times that the Jobs were made for, as they say themselves.
fn times(world: &World) -> Vec<String> {
    let of = |job: &Job| {
        let annotations = job.metadata.annotations.clone().unwrap_or_default();
        annotations["batch.kubernetes.io/cronjob-scheduled-timestamp"].clone()
    };
    let mut times: Vec<String> = jobs(world).into_iter().map(of).collect();
    times.sort();
    times
}

/// Ends every Job that runs.
fn end(world: &mut World, condition: &str) {
    let running: Vec<_> = jobs(world)
        .into_iter()
        .filter(|job| job.status.iter().all(|status| status.conditions.is_none()))
        .map(|job| id(ResourceKind::Job, job.metadata.name.as_deref().unwrap()))
        .collect();
    let now = world.api.now.to_time();
    for job in running {
        world.api.change(&job, |job| {
            job["status"]["startTime"] = json!(now);
            if condition == "Complete" {
                job["status"]["completionTime"] = json!(now);
            }
            job["status"]["conditions"] =
                json!([{"type": condition, "status": "True", "lastTransitionTime": now}]);
        });
    }
    world.settle();
}

fn told(world: &World, text: &str) -> usize {
    world.said().iter().filter(|line| line.starts_with(text)).count()
}

#[test]
fn each_time_that_comes_makes_one_job_that_is_told_its_time() {
    let mut world = start("2026-11-21T16:30:10Z", "*/5 * * * *", json!({}));
    world.advance(MINUTE);
    assert_eq!(times(&world), [""; 0]);
    world.advance(MINUTE.saturating_mul(4));
    assert_eq!(times(&world), ["2026-11-21T16:35:00Z"]);
    let job = jobs(&world)[0].clone();
    let minute = at("2026-11-21T16:35:00Z").as_micros() / 60_000_000;
    assert_eq!(job.metadata.name, Some(format!("report-{minute}")));
    assert_eq!(job.metadata.labels, Some([("app".to_owned(), "report".to_owned())].into()));
    assert_eq!(job.metadata.annotations.unwrap()["team"], "sums");
    let owner = &job.metadata.owner_references.unwrap()[0];
    assert_eq!((owner.kind.as_str(), owner.controller), ("CronJob", Some(true)));
    let running = status(&world);
    assert_eq!(running.active.unwrap()[0].uid, job.metadata.uid);
    assert_eq!(Tick::from(&running.last_schedule_time.unwrap()), at("2026-11-21T16:35:00Z"));
    assert_eq!(told(&world, &format!("SuccessfulCreate: Created job report-{minute}")), 1);
    end(&mut world, "Complete");
    let done = status(&world);
    assert_eq!((done.active, done.last_successful_time.is_some()), (None, true));
    let message =
        format!("SawCompletedJob: Saw completed job: report-{minute}, condition: Complete");
    assert_eq!(told(&world, &message), 1);
    world.advance(MINUTE.saturating_mul(10));
    assert_eq!(jobs(&world).len(), 3);
    assert_eq!(told(&world, "UnexpectedJob"), 0);
}

#[test]
fn clocks_that_change_leave_times_out_and_bring_them_twice() {
    let berlin = json!({"timeZone": "Europe/Berlin", "successfulJobsHistoryLimit": 10});
    let over = |now: &str, schedule: &str| {
        let mut world = start(now, schedule, berlin.clone());
        for _ in 0..48 {
            world.advance(HOUR);
            end(&mut world, "Complete");
        }
        times(&world)
    };
    // 2026-03-29, 02:00 is 03:00.
    assert_eq!(over("2026-03-28T12:00:00Z", "30 2 * * *"), ["2026-03-30T02:30:00+02:00"]);
    assert_eq!(
        over("2026-03-28T12:00:00Z", "0 3 * * *"),
        ["2026-03-29T03:00:00+02:00", "2026-03-30T03:00:00+02:00"]
    );
    // 2026-10-25, 03:00 is 02:00.
    assert_eq!(
        over("2026-10-24T12:00:00Z", "30 2 * * *"),
        ["2026-10-25T02:30:00+01:00", "2026-10-25T02:30:00+02:00", "2026-10-26T02:30:00+01:00"]
    );
}

#[test]
fn forbid_waits_for_the_job_before_and_replace_ends_it() {
    for (policy, expected, told_so) in [
        ("Allow", 2, "SuccessfulCreate"),
        (
            "Forbid",
            1,
            "JobAlreadyActive: Not starting job because prior execution is running and concurrency policy is Forbid",
        ),
        ("Replace", 1, "SuccessfulDelete: Deleted job report-"),
    ] {
        let now = "2026-11-21T16:30:10Z";
        let mut world = start(now, "*/5 * * * *", json!({"concurrencyPolicy": policy}));
        world.advance(MINUTE.saturating_mul(5));
        let first = times(&world);
        world.advance(MINUTE.saturating_mul(5));
        assert_eq!(times(&world).len(), expected, "{policy}");
        assert!(told(&world, told_so) > 0, "{policy}: {:?}", world.said());
        assert_eq!(status(&world).active.map_or(0, |active| active.len()), expected, "{policy}");
        match policy {
            "Forbid" => {
                assert_eq!(times(&world), first);
                end(&mut world, "Failed");
                // The time that passed meanwhile is made up for.
                assert_eq!(times(&world), ["2026-11-21T16:35:00Z", "2026-11-21T16:40:00Z"]);
            }
            "Replace" => assert_eq!(times(&world), ["2026-11-21T16:40:00Z"]),
            _ => {}
        }
    }
}

#[test]
fn of_missed_times_the_last_is_made_up_for_unless_it_is_too_old() {
    // Down from 16:00 on, for ten hours and twenty minutes.
    let after_rest = |schedule: &str, spec: Value| {
        let mut world = start("2026-11-21T15:59:00Z", schedule, spec);
        world.api.now = at("2026-11-22T02:20:00Z");
        world.view = ClusterView::new();
        world.queue.clear();
        world.timers.clear();
        for kind in ResourceKind::ALL {
            world.relist(kind, 0);
        }
        world.settle();
        world
    };
    let world = after_rest("0 * * * *", json!({}));
    assert_eq!(times(&world), ["2026-11-22T02:00:00Z"]);
    assert_eq!(told(&world, "TooManyMissedTimes"), 0);
    let world = after_rest("*/2 * * * *", json!({}));
    assert_eq!(times(&world), ["2026-11-22T02:20:00Z"]);
    assert_eq!(
        told(
            &world,
            "TooManyMissedTimes: too many missed start times. Set or decrease .spec.startingDeadlineSeconds or check clock skew"
        ),
        1
    );
    let mut world = after_rest("0 * * * *", json!({"startingDeadlineSeconds": 600}));
    assert_eq!(times(&world), [""; 0], "20 minutes are too late");
    world.advance(MINUTE.saturating_mul(41));
    assert_eq!(times(&world), ["2026-11-22T03:00:00Z"]);
    let world = after_rest("@every 7m", json!({}));
    assert_eq!(times(&world), ["2026-11-22T02:15:00Z"], "counted from its creation at 15:59");
}

#[test]
fn a_suspended_one_makes_none_and_makes_up_when_it_goes_on() {
    let mut world = start("2026-11-21T16:30:10Z", "0 * * * *", json!({"suspend": true}));
    world.advance(HOUR.saturating_mul(3));
    assert_eq!(times(&world), [""; 0]);
    let cron = id(ResourceKind::CronJob, "report");
    world.api.change(&cron, |cron| cron["spec"]["suspend"] = json!(false));
    world.settle();
    assert_eq!(times(&world), ["2026-11-21T19:00:00Z"]);
}

/// Upstream: `updateCronJob` looks again at the next time of the new schedule only.
#[test]
fn a_new_schedule_or_zone_makes_up_for_no_time_before_it() {
    let cases = [
        (json!({"schedule": "0 5 * * *"}), "2026-11-22T05:00:00Z"),
        (json!({"schedule": "* 5 * * *"}), "2026-11-22T05:00:00Z"),
        (json!({"schedule": "30 10 * * *"}), "2026-11-21T10:30:00Z"),
        (json!({"timeZone": "America/New_York"}), "2026-11-22T03:00:00-05:00"),
        (json!({"schedule": "@every 3h"}), "2026-11-21T12:00:00Z"),
    ];
    for (change, next) in cases {
        let mut world = start("2026-11-21T02:00:10Z", "0 3 * * *", json!({}));
        world.advance(HOUR);
        end(&mut world, "Complete");
        world.advance(HOUR.saturating_mul(7));
        assert_eq!(times(&world), ["2026-11-21T03:00:00Z"]);
        let cron = id(ResourceKind::CronJob, "report");
        world.api.change(&cron, |cron| {
            for (field, value) in change.as_object().unwrap() {
                cron["spec"][field] = value.clone();
            }
        });
        world.settle();
        // A change of something else, or the end of a Job, brings another look.
        world.api.change(&cron, |cron| cron["metadata"]["labels"] = json!({"a": "b"}));
        world.settle();
        assert_eq!(times(&world), ["2026-11-21T03:00:00Z"], "{change}");
        let due = at(next).since(world.api.now) + MINUTE;
        world.advance(due);
        assert_eq!(times(&world)[..2], ["2026-11-21T03:00:00Z", next], "{change}");
        assert_eq!(told(&world, "TooManyMissedTimes"), 0, "{change}");
    }
}

#[test]
fn what_is_finished_stays_as_long_as_the_history_is() {
    let limits = json!({"successfulJobsHistoryLimit": 2, "failedJobsHistoryLimit": 1});
    let mut world = start("2026-11-21T16:00:10Z", "0 * * * *", limits);
    for condition in ["Complete", "Failed", "Complete", "Failed", "Complete"] {
        world.advance(HOUR);
        end(&mut world, condition);
    }
    assert_eq!(
        times(&world),
        ["2026-11-21T19:00:00Z", "2026-11-21T20:00:00Z", "2026-11-21T21:00:00Z"]
    );
    assert_eq!(told(&world, "SuccessfulDelete"), 2);
}

#[test]
fn a_schedule_that_never_comes_and_an_unknown_zone_are_told() {
    let mut world = start("2026-11-21T16:30:10Z", "59 23 31 2 *", json!({}));
    world.advance(HOUR.saturating_mul(24));
    assert_eq!(times(&world), [""; 0]);
    let said = "InvalidSchedule: invalid schedule: 59 23 31 2 * : time difference between two schedules is less than 1 second";
    assert_eq!(told(&world, said), 1);
    let world = start("2026-11-21T16:30:10Z", "* * * * *", json!({"timeZone": "Mars/Olympus"}));
    let said =
        "UnknownTimeZone: invalid timeZone: \"Mars/Olympus\": unknown time zone Mars/Olympus";
    assert_eq!(told(&world, said), 1);
    let world = start("2026-11-21T16:30:10Z", "often", json!({}));
    let said = "UnparseableSchedule: unparseable schedule: \"often\" : expected exactly 5 fields, found 1: [often]";
    assert_eq!(told(&world, said), 1);
}

#[test]
fn a_job_that_somebody_deletes_is_missed_and_one_that_is_no_business_of_it_is_told() {
    let mut world = start("2026-11-21T16:30:10Z", "*/5 * * * *", json!({}));
    world.advance(MINUTE.saturating_mul(5));
    let job = jobs(&world)[0].clone();
    let name = job.metadata.name.clone().unwrap();
    let owners = serde_json::to_value(&job.metadata.owner_references).unwrap();
    let spec = serde_json::to_value(&job.spec).unwrap();
    world.api.user_deletes(&id(ResourceKind::Job, &name), DependentPolicy::Background);
    world.settle();
    assert_eq!(status(&world).active, None);
    assert_eq!(told(&world, &format!("MissingJob: Active job went missing: {name}")), 1);
    assert_eq!(jobs(&world).len(), 0, "its time was served");
    world.create(json!({"kind": "Job", "spec": spec,
        "metadata": {"name": "stray", "ownerReferences": owners}}));
    world.settle();
    let said = "UnexpectedJob: Saw a job that the controller did not create or forgot: stray";
    assert!(told(&world, said) > 0);
    assert_eq!(status(&world).active, None);
}

/// The annotation of any Job that names the CronJob as its controller was believed, and what came
/// since that time was made up for.
#[test]
fn a_job_that_says_it_is_for_a_time_before_the_cron_job_is_not_believed() {
    let mut world =
        start("2026-11-21T16:30:10Z", "30 0 * * 0", json!({"timeZone": "America/St_Johns"}));
    let uid = read(&world).metadata.uid.clone();
    let early = at("2010-11-07T02:30:00Z");
    let name = format!("report-{}", early.as_micros() / 60_000_000);
    world.create(json!({"kind": "Job", "metadata": {"name": name,
        "annotations": {"batch.kubernetes.io/cronjob-scheduled-timestamp": "2010-11-07T02:30:00Z"},
        "ownerReferences": [{"apiVersion": "batch/v1", "kind": "CronJob", "name": "report", "uid": uid,
            "controller": true}]},
        "spec": {"selector": {"matchLabels": {"app": "early"}}, "template": {
            "metadata": {"labels": {"app": "early"}},
            "spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "a"}]}}}}));
    world.settle();
    assert_eq!(status(&world).last_schedule_time, None);
    assert_eq!((jobs(&world).len(), status(&world).active), (1, None));
    let said =
        format!("UnexpectedJob: Saw a job that the controller did not create or forgot: {name}");
    assert!(told(&world, &said) > 0);
}

/// A restore or a migration brings `lastScheduleTime` along. The Job for the last missed time was
/// not believed, so that the time was never served: 409 Jobs in ten seconds, and two at once under
/// `Forbid`.
#[test]
fn a_last_time_from_before_its_creation_makes_one_job_for_the_last_missed_time() {
    for (policy, limit) in [("Allow", 0), ("Forbid", 0), ("Forbid", 3), ("Replace", 0)] {
        let spec = json!({"concurrencyPolicy": policy, "successfulJobsHistoryLimit": limit});
        let mut world = start("2026-11-21T16:30:10Z", "*/10 * * * *", spec);
        world.api.change(&id(ResourceKind::CronJob, "report"), |cron| {
            cron["status"] = json!({"lastScheduleTime": "2026-11-21T14:00:00Z"});
        });
        world.settle();
        assert_eq!(times(&world), ["2026-11-21T16:30:00Z"], "{policy}");
        assert_eq!(status(&world).active.map(|active| active.len()), Some(1), "{policy}");
        for _ in 0..20 {
            world.advance(TickDuration::from_secs(1));
            end(&mut world, "Complete");
        }
        let last = Tick::from(&status(&world).last_schedule_time.unwrap());
        assert_eq!(last, at("2026-11-21T16:30:00Z"), "{policy}");
        let made = "SuccessfulCreate: Created job";
        assert_eq!(told(&world, made), 1, "{policy}: {:?}", world.said());
        assert_eq!(told(&world, "UnexpectedJob"), 0, "{policy}");
        world.advance(MINUTE.saturating_mul(10));
        assert_eq!(told(&world, made), 2, "{policy}: the next time comes");
    }
}

#[test]
fn a_job_that_is_deleted_before_the_next_look_has_served_its_time() {
    let mut world = start("2026-11-21T16:30:10Z", "*/5 * * * *", json!({}));
    world.api.now = at("2026-11-21T16:35:00Z");
    let key = ControllerKey::CronJob(id(ResourceKind::CronJob, "report").name);
    world.work(&key, |_| Answer::Arrives);
    let name = jobs(&world)[0].metadata.name.clone().unwrap();
    world.api.user_deletes(&id(ResourceKind::Job, &name), DependentPolicy::Background);
    while world.watch_next(ResourceKind::Job) {}
    world.advance(MINUTE);
    assert_eq!(told(&world, "SuccessfulCreate: Created job"), 1, "{:?}", world.said());
}

#[test]
fn a_job_for_a_time_to_come_does_not_serve_it() {
    let mut world = start("2026-11-21T16:30:10Z", "*/5 * * * *", json!({}));
    let uid = read(&world).metadata.uid.clone();
    let later = at("2027-01-01T00:00:00Z");
    let name = format!("report-{}", later.as_micros() / 60_000_000);
    world.create(json!({"kind": "Job", "metadata": {"name": name,
        "annotations": {"batch.kubernetes.io/cronjob-scheduled-timestamp": "2027-01-01T00:00:00Z"},
        "ownerReferences": [{"apiVersion": "batch/v1", "kind": "CronJob", "name": "report", "uid": uid,
            "controller": true}]},
        "spec": {"suspend": true, "selector": {"matchLabels": {"app": "later"}}, "template": {
            "metadata": {"labels": {"app": "later"}},
            "spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "a"}]}}}}));
    world.settle();
    assert_eq!(status(&world).last_schedule_time, None);
    world.advance(MINUTE.saturating_mul(5));
    assert_eq!(jobs(&world).len(), 2, "the schedule goes on");
}

#[test]
fn its_jobs_go_with_it() {
    let mut world = start("2026-11-21T16:30:10Z", "*/5 * * * *", json!({}));
    world.advance(MINUTE.saturating_mul(5));
    world.api.user_deletes(&id(ResourceKind::CronJob, "report"), DependentPolicy::Background);
    world.converge();
    assert_eq!((jobs(&world).len(), world.api.pods().len()), (0, 0));
}

#[test]
fn a_time_makes_one_job_wherever_the_controller_stops() {
    for stops_after in 0..12 {
        let mut world = start("2026-11-21T16:30:10Z", "*/5 * * * *", json!({}));
        let mut left = stops_after;
        world.api.now = at("2026-11-21T16:35:01Z");
        let due: Vec<_> = world.timers.keys().cloned().collect();
        world.queue.extend(due);
        // Works until its writes are used up, loses one answer, and starts anew.
        while let Some(key) = world.queue.pop_first() {
            world.work(&key, |_| {
                left -= 1;
                match left {
                    0 => Answer::IsLost,
                    left if left < 0 => Answer::NeverSent,
                    _ => Answer::Arrives,
                }
            });
            if left < 0 {
                break;
            }
        }
        world.view = ClusterView::new();
        world.queue.clear();
        world.timers.clear();
        for kind in ResourceKind::ALL {
            world.relist(kind, 0);
        }
        world.settle();
        world.advance(MINUTE);
        assert_eq!(times(&world), ["2026-11-21T16:35:00Z"], "stopped after {stops_after}");
        let status = status(&world);
        assert_eq!(status.active.map(|active| active.len()), Some(1), "after {stops_after}");
        assert_eq!(Tick::from(&status.last_schedule_time.unwrap()), at("2026-11-21T16:35:00Z"));
        assert_eq!(told(&world, "UnexpectedJob"), 0);
    }
}
