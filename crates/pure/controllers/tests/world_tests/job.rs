//! The Job controller: documentation, "Jobs"; API reference of batch/v1.

use k8s_openapi::api::batch::v1::{Job, JobStatus};
use rekindle_controllers::plan::DependentPolicy;
use rekindle_controllers::{ResourceKind, ViewObject, pods};
use rekindle_types::TickDuration;
use rekindle_types::held::HeldPod;
use serde_json::json;

use crate::build::{job, pod};
use crate::world::{World, id};

const FINALIZER: &str = "batch.kubernetes.io/job-tracking";
const INDEX: &str = "batch.kubernetes.io/job-completion-index";

pub(crate) fn read<'a>(world: &'a World, name: &str) -> &'a Job {
    match &world.api.objects[&id(ResourceKind::Job, name)] {
        ViewObject::Job(job) => job,
        other => panic!("{other:?}"),
    }
}

pub(crate) fn status(world: &World, name: &str) -> JobStatus {
    read(world, name).status.clone().unwrap_or_default()
}

/// The conditions that are True, in order, with their reasons.
pub(crate) fn conditions(world: &World, name: &str) -> Vec<String> {
    let status = status(world, name);
    let conditions = status.conditions.into_iter().flatten().filter(|c| c.status == "True");
    conditions.map(|c| format!("{}: {}", c.type_, c.reason.unwrap_or_default())).collect()
}

/// Ends the pods that `which` picks, and lets the controllers see it.
fn end(world: &mut World, phase: &str, which: impl Fn(&HeldPod) -> bool) {
    let picked: Vec<_> = world
        .api
        .pods()
        .into_iter()
        .filter(|pod| pods::is_active(pod) && which(pod))
        .map(|pod| id(ResourceKind::Pod, pod.metadata.name.as_deref().unwrap()))
        .collect();
    let at = world.api.now.to_time();
    for pod in picked {
        world.api.change(&pod, |pod| {
            pod["status"]["phase"] = json!(phase);
            pod["status"]["conditions"] =
                json!([{"type": "Ready", "status": "False", "lastTransitionTime": at}]);
        });
    }
    world.settle();
}

pub(crate) fn index(pod: &HeldPod) -> String {
    pod.metadata.annotations.as_ref().and_then(|a| a.get(INDEX)).cloned().unwrap_or_default()
}

pub(crate) fn active(world: &World) -> usize {
    world.api.pods().iter().filter(|pod| pods::is_active(pod)).count()
}

pub(crate) fn start(spec: serde_json::Value) -> World {
    let mut world = World::with_node();
    world.create(job("sum", spec));
    world.converge();
    world
}

#[test]
fn while_a_pod_is_refused_the_others_are_counted() {
    let mut world = start(json!({"completions": 4, "parallelism": 2}));
    world.api.refuse_creation = Some((ResourceKind::Pod, "quota exceeded".to_owned()));
    world.api.change(&id(ResourceKind::Job, "sum"), |job| job["spec"]["parallelism"] = json!(3));
    world.advance(TickDuration::from_secs(1));
    let one = world.api.ids(ResourceKind::Pod, "shop")[0].clone();
    world.set_ready(&one, "False");
    world.advance(TickDuration::from_secs(1));
    assert_eq!((status(&world, "sum").active, status(&world, "sum").ready), (Some(2), Some(1)));
    world.api.refuse_creation = None;
    world.converge();
    assert_eq!((status(&world, "sum").active, status(&world, "sum").ready), (Some(3), Some(3)));
}

#[test]
fn a_job_is_complete_when_as_many_pods_succeeded_as_asked_for() {
    let mut world = start(json!({"completions": 3, "parallelism": 2}));
    assert_eq!(active(&world), 2);
    assert_eq!((status(&world, "sum").active, status(&world, "sum").ready), (Some(2), Some(2)));
    end(&mut world, "Succeeded", |_| true);
    assert_eq!(active(&world), 1, "only one is missing");
    world.converge();
    assert_eq!(conditions(&world, "sum"), [""; 0]);
    end(&mut world, "Succeeded", |_| true);
    world.converge();
    let status = status(&world, "sum");
    assert_eq!((status.succeeded, status.failed, status.active), (Some(3), None, None));
    assert_eq!(
        conditions(&world, "sum"),
        ["SuccessCriteriaMet: CompletionsReached", "Complete: CompletionsReached"]
    );
    assert!(status.start_time.is_some() && status.completion_time.is_some());
    assert_eq!(status.uncounted_terminated_pods, Some(Default::default()));
    assert_eq!(world.api.pods().len(), 3, "they stay to be looked at");
    assert!(
        world.api.pods().iter().all(|pod| pod.metadata.finalizers.iter().flatten().count() == 0)
    );
    assert_eq!(world.said().last().map(String::as_str), Some("Completed: Job completed"));
}

#[test]
fn a_work_queue_is_complete_when_one_succeeded_and_none_runs() {
    let mut world = start(json!({"parallelism": 3}));
    assert_eq!(active(&world), 3);
    let first = world.api.pods()[0].metadata.name.clone();
    end(&mut world, "Succeeded", |pod| pod.metadata.name == first);
    world.converge();
    assert_eq!((active(&world), world.api.pods().len()), (2, 3), "nothing more is begun");
    end(&mut world, "Succeeded", |_| true);
    world.converge();
    assert_eq!(status(&world, "sum").succeeded, Some(3));
    assert!(conditions(&world, "sum").contains(&"Complete: CompletionsReached".to_owned()));
}

#[test]
fn each_index_of_an_indexed_job_gets_a_pod_that_knows_it() {
    let mut world = start(json!({"completionMode": "Indexed", "completions": 4, "parallelism": 3}));
    let mut seen: Vec<_> = world.api.pods().into_iter().map(index).collect();
    seen.sort();
    assert_eq!(seen, ["0", "1", "2"]);
    let first = world.api.pods().into_iter().find(|pod| index(pod) == "1").unwrap().clone();
    let spec = first.spec.as_ref().unwrap();
    assert_eq!(spec.hostname.as_deref(), Some("sum-1"));
    assert!(first.metadata.name.as_deref().unwrap().starts_with("sum-1-"));
    assert_eq!(first.metadata.labels.as_ref().unwrap()[INDEX], "1");
    let whole = &world.api.values[&id(ResourceKind::Pod, first.metadata.name.as_deref().unwrap())];
    assert_eq!(whole["spec"]["containers"][0]["env"][0]["name"], "JOB_COMPLETION_INDEX");
    end(&mut world, "Succeeded", |pod| index(pod) != "1");
    world.converge();
    assert_eq!(status(&world, "sum").completed_indexes.as_deref(), Some("0,2"));
    end(&mut world, "Failed", |pod| index(pod) == "1");
    world.advance(TickDuration::from_secs(11));
    world.converge();
    let again: Vec<_> =
        world.api.pods().into_iter().filter(|pod| pods::is_active(pod)).map(index).collect();
    assert!(again.contains(&"1".to_owned()), "an index is tried again: {again:?}");
    end(&mut world, "Succeeded", |_| true);
    world.converge();
    let status = status(&world, "sum");
    assert_eq!(status.completed_indexes.as_deref(), Some("0-3"));
    assert_eq!((status.succeeded, status.failed), (Some(4), Some(1)));
    assert!(conditions(&world, "sum").contains(&"Complete: CompletionsReached".to_owned()));
}

#[test]
fn failed_pods_are_replaced_ever_later_until_the_limit() {
    let mut world = start(json!({"completions": 1, "backoffLimit": 2}));
    for (failures, wait) in [(1, 10), (2, 20)] {
        end(&mut world, "Failed", |_| true);
        world.advance(TickDuration::from_secs(wait - 1));
        assert_eq!(active(&world), 0, "{failures} failures: not yet");
        world.advance(TickDuration::from_secs(2));
        assert_eq!(active(&world), 1, "{failures} failures: now");
        assert_eq!(status(&world, "sum").failed, Some(failures));
    }
    end(&mut world, "Failed", |_| true);
    world.converge();
    assert_eq!(
        conditions(&world, "sum"),
        ["FailureTarget: BackoffLimitExceeded", "Failed: BackoffLimitExceeded"]
    );
    assert_eq!(status(&world, "sum").failed, Some(3));
    assert_eq!(status(&world, "sum").completion_time, None);
    assert_eq!(
        world.said().last().map(String::as_str),
        Some("BackoffLimitExceeded: Job has reached the specified backoff limit")
    );
}

#[test]
fn restarts_in_place_count_against_the_limit() {
    let mut world = World::with_node();
    let mut restarting = job("sum", json!({"completions": 1, "backoffLimit": 2}));
    restarting["spec"]["template"]["spec"]["restartPolicy"] = json!("OnFailure");
    world.create(restarting);
    world.converge();
    let name = world.api.pods()[0].metadata.name.clone().unwrap();
    for (restarts, still) in [(1, 1), (2, 0)] {
        world.api.change(&id(ResourceKind::Pod, &name), |pod| {
            pod["status"]["containerStatuses"] = json!([{"name": "main", "image": "",
                "imageID": "", "ready": true, "restartCount": restarts}]);
        });
        world.settle();
        assert_eq!(active(&world), still, "{restarts} restarts");
    }
    world.converge();
    assert!(conditions(&world, "sum").contains(&"Failed: BackoffLimitExceeded".to_owned()));
}

#[test]
fn a_job_beyond_its_deadline_fails_and_its_pods_end() {
    let mut world = start(json!({"completions": 2, "parallelism": 2, "activeDeadlineSeconds": 60}));
    world.advance(TickDuration::from_secs(55));
    assert_eq!(conditions(&world, "sum"), [""; 0]);
    world.advance(TickDuration::from_secs(5));
    assert_eq!(conditions(&world, "sum"), ["FailureTarget: DeadlineExceeded"], "pods still end");
    world.converge();
    assert_eq!(
        conditions(&world, "sum"),
        ["FailureTarget: DeadlineExceeded", "Failed: DeadlineExceeded"]
    );
    assert_eq!((active(&world), status(&world, "sum").failed), (0, Some(2)));
}

#[test]
fn a_deadline_that_lies_beyond_all_times_never_comes() {
    // in microseconds it does not fit into 64 bits by little
    for seconds in [18_446_744_073_710_i64, i64::MAX] {
        let mut world = start(json!({"completions": 1, "activeDeadlineSeconds": seconds}));
        world.advance(TickDuration::from_secs(60));
        assert_eq!((conditions(&world, "sum"), active(&world)), (vec![], 1));
    }
}

#[test]
fn a_suspended_job_has_no_pods_and_its_clock_begins_anew_when_it_goes_on() {
    let mut world = start(json!({"completions": 2, "parallelism": 2, "suspend": true}));
    assert_eq!(world.api.pods().len(), 0);
    assert_eq!(conditions(&world, "sum"), ["Suspended: JobSuspended"]);
    assert_eq!(status(&world, "sum").start_time, None);
    let job = id(ResourceKind::Job, "sum");
    world.api.change(&job, |job| job["spec"]["suspend"] = json!(false));
    world.converge();
    let began = status(&world, "sum").start_time.unwrap();
    assert_eq!((conditions(&world, "sum").len(), active(&world)), (0, 2));
    world.api.change(&job, |job| job["spec"]["suspend"] = json!(true));
    world.converge();
    assert_eq!(world.api.pods().len(), 0);
    let suspended = status(&world, "sum");
    assert_eq!(suspended.failed, None, "a suspension is no failure");
    assert_eq!(suspended.start_time, None);
    world.advance(TickDuration::from_secs(100));
    world.api.change(&job, |job| job["spec"]["suspend"] = json!(false));
    world.converge();
    assert!(status(&world, "sum").start_time.unwrap().0 > began.0);
    end(&mut world, "Succeeded", |_| true);
    world.converge();
    assert_eq!(status(&world, "sum").succeeded, Some(2));
    let said = world.said();
    let told = |text: &str| said.iter().filter(|line| line.starts_with(text)).count();
    assert_eq!((told("Suspended"), told("Resumed")), (2, 2));
}

#[test]
fn a_smaller_parallelism_ends_pods_and_counts_no_failure() {
    let mut world = start(json!({"completions": 5, "parallelism": 4}));
    world.api.change(&id(ResourceKind::Job, "sum"), |job| job["spec"]["parallelism"] = json!(1));
    world.converge();
    assert_eq!((active(&world), world.api.pods().len()), (1, 1));
    assert_eq!(status(&world, "sum").failed, None);
}

#[test]
fn a_pod_deleted_by_somebody_is_a_failure_and_is_replaced() {
    let mut world = start(json!({"completions": 1}));
    let name = world.api.pods()[0].metadata.name.clone().unwrap();
    world.api.user_deletes(&id(ResourceKind::Pod, &name), DependentPolicy::Background);
    world.converge();
    assert_eq!((active(&world), status(&world, "sum").failed), (1, Some(1)));
    assert!(
        !world.api.objects.contains_key(&id(ResourceKind::Pod, &name)),
        "nothing holds it any more"
    );
}

#[test]
fn a_finished_job_goes_with_its_pods_when_its_time_is_over() {
    let mut world = start(json!({"completions": 1, "ttlSecondsAfterFinished": 30}));
    end(&mut world, "Succeeded", |_| true);
    world.advance(TickDuration::from_secs(29));
    assert_eq!(world.api.ids(ResourceKind::Job, "shop").len(), 1);
    world.advance(TickDuration::from_secs(2));
    world.converge();
    assert_eq!((world.api.ids(ResourceKind::Job, "shop").len(), world.api.pods().len()), (0, 0));
}

#[test]
fn a_deleted_job_lets_its_pods_go() {
    for (propagation, left) in [
        (DependentPolicy::Background, 0),
        (DependentPolicy::Foreground, 0),
        (DependentPolicy::Orphan, 2),
    ] {
        let mut world = start(json!({"completions": 2, "parallelism": 2}));
        world.api.user_deletes(&id(ResourceKind::Job, "sum"), propagation);
        world.converge();
        assert_eq!(world.api.ids(ResourceKind::Job, "shop").len(), 0, "{propagation:?}");
        assert_eq!(world.api.pods().len(), left, "{propagation:?}");
        for pod in world.api.pods() {
            assert_eq!(pod.metadata.finalizers.iter().flatten().count(), 0, "{propagation:?}");
        }
    }
}

#[test]
fn an_adopted_pod_is_tracked_and_counts() {
    let mut world = World::with_node();
    world.create(pod("stray", json!({"app": "sum"})));
    world.create(job("sum", json!({"completions": 1})));
    world.converge();
    assert_eq!(world.api.pods().len(), 1);
    assert_eq!(world.api.pods()[0].metadata.finalizers, Some(vec![FINALIZER.to_owned()]));
    end(&mut world, "Succeeded", |_| true);
    world.converge();
    assert_eq!(status(&world, "sum").succeeded, Some(1));
}

#[test]
fn more_successes_than_asked_for_are_worth_a_warning() {
    let mut world = start(json!({"completions": 1}));
    let spare = world.create(pod("spare", json!({"app": "sum"})));
    world.api.change(&spare, |pod| pod["status"]["phase"] = json!("Succeeded"));
    end(&mut world, "Succeeded", |_| true);
    world.converge();
    assert_eq!(status(&world, "sum").succeeded, Some(2));
    let end: Vec<_> = world.said().into_iter().rev().take(2).collect();
    assert_eq!(
        end,
        [
            "Completed: Job completed",
            "TooManySucceededPods: Too many succeeded pods running after completion count reached",
        ]
    );
}
