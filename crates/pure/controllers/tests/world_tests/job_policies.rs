//! The policies of Jobs: documentation, "Jobs": pod failure policy (KEP-3329), backoff limit per
//! index (KEP-3850), success policy (KEP-3998), pod replacement policy (KEP-3939), managed by
//! (KEP-4368).

use rekindle_controllers::plan::DependentPolicy;
use rekindle_controllers::{ResourceKind, pods};
use rekindle_types::TickDuration;
use rekindle_types::held::HeldPod;
use serde_json::{Value, json};

use crate::build::job;
use crate::job::{active, conditions, index, start, status};
use crate::world::{World, id};

const FAILURES: &str = "batch.kubernetes.io/job-index-failure-count";
const IGNORED: &str = "batch.kubernetes.io/job-index-ignored-failure-count";

/// Ends the active pods that `which` picks: with an exit code, and perhaps under a condition.
fn exit(world: &mut World, code: i32, condition: Option<&str>, which: impl Fn(&HeldPod) -> bool) {
    let picked: Vec<_> = world
        .api
        .pods()
        .into_iter()
        .filter(|pod| pods::is_active(pod) && which(pod))
        .map(|pod| id(ResourceKind::Pod, pod.metadata.name.as_deref().unwrap()))
        .collect();
    let at = world.api.now.to_time();
    let phase = if code == 0 { "Succeeded" } else { "Failed" };
    for pod in picked {
        world.api.change(&pod, |pod| {
            pod["status"] = json!({
                "phase": phase,
                "containerStatuses": [{"name": "main", "image": "", "imageID": "", "ready": false,
                    "restartCount": 0,
                    "state": {"terminated": {"exitCode": code, "finishedAt": at}}}],
                "conditions": condition.map(|type_| json!([{"type": type_, "status": "True"}])),
            });
        });
    }
    world.settle();
}

fn with_policy(rules: Value, more: &Value) -> World {
    let mut spec = json!({"completions": 1, "podReplacementPolicy": "Failed",
        "podFailurePolicy": {"rules": rules}});
    for (name, value) in more.as_object().unwrap() {
        spec[name] = value.clone();
    }
    start(spec)
}

fn indexed(more: &Value) -> World {
    let mut spec = json!({"completionMode": "Indexed", "completions": 3, "parallelism": 3,
        "backoffLimit": i32::MAX});
    for (name, value) in more.as_object().unwrap() {
        spec[name] = value.clone();
    }
    start(spec)
}

fn of_index(wanted: &'static str) -> impl Fn(&HeldPod) -> bool {
    move |pod| index(pod) == wanted
}

fn failed_indexes(world: &World) -> Option<String> {
    status(world, "sum").failed_indexes
}

/// The annotation of the active pod of an index.
fn note(world: &World, of: &str, key: &str) -> Option<String> {
    let pods = world.api.pods();
    let pod = pods.into_iter().find(|pod| pods::is_active(pod) && index(pod) == of)?;
    pod.metadata.annotations.as_ref()?.get(key).cloned()
}

#[test]
fn the_first_rule_that_matches_a_failure_decides_what_it_does() {
    let rules = || {
        json!([
            {"action": "FailJob", "onExitCodes": {"operator": "In", "values": [42], "containerName": "main"}},
            {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]},
            {"action": "Count", "onExitCodes": {"operator": "NotIn", "values": [1, 2]}},
        ])
    };
    /// Exit code, condition of the pod, pods that count as failed, conditions of the Job.
    type Case = (i32, Option<&'static str>, Option<i32>, &'static [&'static str]);
    let cases: [Case; 4] = [
        (3, None, Some(1), &[]),
        (1, None, Some(1), &[]), // none matches: it counts
        (1, Some("DisruptionTarget"), None, &[]),
        (
            42,
            Some("DisruptionTarget"),
            Some(1),
            &["FailureTarget: PodFailurePolicy", "Failed: PodFailurePolicy"],
        ),
    ];
    for (code, condition, failed, ends) in cases {
        let mut world = with_policy(rules(), &json!({}));
        let name = world.api.pods()[0].metadata.name.clone().unwrap();
        exit(&mut world, code, condition, |_| true);
        world.advance(TickDuration::from_secs(11));
        world.converge();
        assert_eq!(status(&world, "sum").failed, failed, "exit {code}, {condition:?}");
        assert_eq!(conditions(&world, "sum"), ends, "exit {code}, {condition:?}");
        assert_eq!(
            active(&world),
            usize::from(ends.is_empty()),
            "it is replaced unless it is fatal"
        );
        assert!(world.api.pods().iter().all(
            |pod| pods::is_active(pod) || pod.metadata.finalizers.iter().flatten().count() == 0
        ));
        if !ends.is_empty() {
            let message = format!(
                "PodFailurePolicy: Container main for pod shop/{name} failed with exit code 42 matching FailJob rule at index 0"
            );
            assert_eq!(world.said().last(), Some(&message));
        }
    }
}

#[test]
fn ignored_failures_never_use_up_the_limit() {
    let rules = json!([{"action": "Ignore", "onExitCodes": {"operator": "In", "values": [7]}}]);
    let mut world = with_policy(rules, &json!({"backoffLimit": 0}));
    for _ in 0..3 {
        exit(&mut world, 7, None, |_| true);
        world.advance(TickDuration::from_secs(700));
        assert_eq!((active(&world), status(&world, "sum").failed), (1, None));
    }
    exit(&mut world, 8, None, |_| true);
    world.converge();
    assert!(conditions(&world, "sum").contains(&"Failed: BackoffLimitExceeded".to_owned()));
}

#[test]
fn each_index_has_its_own_limit_and_the_others_go_on() {
    let mut world = indexed(&json!({"backoffLimitPerIndex": 1}));
    assert_eq!(note(&world, "1", FAILURES).as_deref(), Some("0"));
    exit(&mut world, 1, None, of_index("1"));
    world.advance(TickDuration::from_secs(9));
    assert_eq!(note(&world, "1", FAILURES), None, "it waits");
    assert_eq!(failed_indexes(&world).as_deref(), Some(""));
    world.advance(TickDuration::from_secs(2));
    assert_eq!(note(&world, "1", FAILURES).as_deref(), Some("1"));
    assert_eq!(status(&world, "sum").failed, Some(1));
    exit(&mut world, 1, None, of_index("1"));
    world.advance(TickDuration::from_secs(100));
    assert_eq!(failed_indexes(&world).as_deref(), Some("1"));
    assert_eq!((active(&world), conditions(&world, "sum").len()), (2, 0));
    exit(&mut world, 0, None, |_| true);
    world.converge();
    let status = status(&world, "sum");
    assert_eq!(status.completed_indexes.as_deref(), Some("0,2"));
    assert_eq!((status.succeeded, status.failed), (Some(2), Some(2)));
    assert_eq!(
        conditions(&world, "sum"),
        ["FailureTarget: FailedIndexes", "Failed: FailedIndexes"]
    );
    assert_eq!(
        world.said().last().map(String::as_str),
        Some("FailedIndexes: Job has failed indexes")
    );
}

#[test]
fn too_many_failed_indexes_give_the_job_up() {
    let mut world = indexed(&json!({"backoffLimitPerIndex": 0, "maxFailedIndexes": 1}));
    exit(&mut world, 1, None, of_index("2"));
    world.converge();
    assert_eq!((failed_indexes(&world).as_deref(), active(&world)), (Some("2"), 2));
    exit(&mut world, 1, None, of_index("0"));
    world.converge();
    assert_eq!((failed_indexes(&world).as_deref(), active(&world)), (Some("0,2"), 0));
    assert_eq!(
        conditions(&world, "sum"),
        ["FailureTarget: MaxFailedIndexesExceeded", "Failed: MaxFailedIndexesExceeded"]
    );
    assert_eq!(status(&world, "sum").failed, Some(3), "the one that was ended counts");
}

#[test]
fn an_index_is_failed_by_rule_and_what_is_ignored_is_told_apart() {
    let rules = json!([
        {"action": "FailIndex", "onExitCodes": {"operator": "In", "values": [9]}},
        {"action": "Ignore", "onExitCodes": {"operator": "In", "values": [7]}},
    ]);
    let mut world = indexed(&json!({"backoffLimitPerIndex": 3, "podReplacementPolicy": "Failed",
        "podFailurePolicy": {"rules": rules}}));
    exit(&mut world, 9, None, of_index("0"));
    exit(&mut world, 7, None, of_index("1"));
    world.advance(TickDuration::from_secs(11));
    assert_eq!(failed_indexes(&world).as_deref(), Some("0"));
    assert_eq!(note(&world, "1", FAILURES).as_deref(), Some("0"));
    assert_eq!(note(&world, "1", IGNORED).as_deref(), Some("1"));
    assert_eq!(status(&world, "sum").failed, Some(1));
    exit(&mut world, 1, None, of_index("1"));
    world.advance(TickDuration::from_secs(19));
    assert_eq!(note(&world, "1", FAILURES), None, "both count for the wait");
    world.advance(TickDuration::from_secs(2));
    assert_eq!(note(&world, "1", FAILURES).as_deref(), Some("1"));
}

#[test]
fn a_job_whose_success_policy_is_met_ends_what_runs_still() {
    let policy = json!({"rules": [{"succeededIndexes": "1", "succeededCount": 1}]});
    let mut world = indexed(&json!({"successPolicy": policy}));
    exit(&mut world, 0, None, of_index("2"));
    world.converge();
    assert_eq!(conditions(&world, "sum"), [""; 0]);
    exit(&mut world, 0, None, of_index("1"));
    assert_eq!(conditions(&world, "sum"), ["SuccessCriteriaMet: SuccessPolicy"], "one ends still");
    world.converge();
    assert_eq!(
        conditions(&world, "sum"),
        ["SuccessCriteriaMet: SuccessPolicy", "Complete: SuccessPolicy"]
    );
    let status = status(&world, "sum");
    assert_eq!((status.succeeded, status.failed, active(&world)), (Some(2), None, 0));
    assert_eq!(status.conditions.unwrap()[1].message.as_deref(), Some("Matched rules at index 0"));
}

/// One by one they were more than memory holds.
#[test]
fn any_number_of_indexes_can_be_asked_for_and_done() {
    let policy = json!({"rules": [{"succeededIndexes": "0-1999999998"}, {"succeededIndexes": "0-1999999999"}]});
    let spec = json!({"completions": 2_000_000_009, "parallelism": 2, "successPolicy": policy,
        "backoffLimitPerIndex": 1});
    let mut world = indexed(&spec);
    assert_eq!(active(&world), 2);
    world.api.change(&id(ResourceKind::Job, "sum"), |job| {
        job["status"]["completedIndexes"] = json!("0-1000000000,1000000002-1999999997");
        job["status"]["failedIndexes"] = json!("1999999999");
    });
    world.converge();
    let mut places: Vec<String> =
        world.api.pods().into_iter().filter(|pod| pods::is_active(pod)).map(index).collect();
    places.sort();
    assert_eq!(places, ["1000000001", "1999999998"]);
    assert_eq!(status(&world, "sum").succeeded, Some(1_999_999_997));
    exit(&mut world, 0, None, of_index("1000000001"));
    assert_eq!(conditions(&world, "sum"), [""; 0]);
    exit(&mut world, 0, None, of_index("1999999998"));
    world.converge();
    let ends = ["SuccessCriteriaMet: SuccessPolicy", "Complete: SuccessPolicy"];
    assert_eq!(conditions(&world, "sum"), ends);
    let status = status(&world, "sum");
    assert_eq!(status.completed_indexes.as_deref(), Some("0-1999999998"));
    assert_eq!(status.conditions.unwrap()[1].message.as_deref(), Some("Matched rules at index 0"));
}

#[test]
fn a_pod_that_is_being_deleted_is_replaced_once_it_has_ended() {
    for (policy, while_it_ends, counted) in
        [("TerminatingOrFailed", 1, Some(1)), ("Failed", 0, None)]
    {
        let mut world = start(json!({"completions": 1, "podReplacementPolicy": policy}));
        let name = world.api.pods()[0].metadata.name.clone().unwrap();
        world.api.user_deletes(&id(ResourceKind::Pod, &name), DependentPolicy::Background);
        world.settle();
        world.advance(TickDuration::from_secs(5));
        assert_eq!(active(&world), while_it_ends, "{policy}");
        assert_eq!(status(&world, "sum").failed, counted, "{policy}");
        let pod = id(ResourceKind::Pod, &name);
        if world.api.objects.contains_key(&pod) {
            world.api.change(&pod, |pod| pod["status"]["phase"] = json!("Failed"));
        }
        world.advance(TickDuration::from_secs(60));
        world.converge();
        assert_eq!((active(&world), status(&world, "sum").failed), (1, Some(1)), "{policy}");
        assert!(!world.api.objects.contains_key(&pod), "{policy}");
    }
}

#[test]
fn a_pod_that_never_came_to_a_node_has_ended_when_it_is_deleted() {
    let mut world = World::new();
    world.create(job("sum", json!({"completions": 1, "podReplacementPolicy": "Failed"})));
    world.settle();
    let name = world.api.pods()[0].metadata.name.clone().unwrap();
    world.api.user_deletes(&id(ResourceKind::Pod, &name), DependentPolicy::Background);
    world.advance(TickDuration::from_secs(60));
    assert_eq!((active(&world), status(&world, "sum").failed), (1, Some(1)));
    assert!(!world.api.objects.contains_key(&id(ResourceKind::Pod, &name)));
}

#[test]
fn a_job_of_another_controller_is_left_alone_but_for_its_time() {
    let ttl =
        json!({"completions": 1, "managedBy": "example.com/queue", "ttlSecondsAfterFinished": 30});
    let mut world = start(ttl);
    assert_eq!(world.api.pods().len(), 0);
    assert_eq!(status(&world, "sum"), Default::default());
    let now = world.api.now.to_time();
    world.api.change(&id(ResourceKind::Job, "sum"), |job| {
        job["status"]["conditions"] =
            json!([{"type": "Complete", "status": "True", "lastTransitionTime": now}]);
    });
    world.advance(TickDuration::from_secs(31));
    assert_eq!(world.api.ids(ResourceKind::Job, "shop").len(), 0);
    let world = start(json!({"completions": 1, "managedBy": "kubernetes.io/job-controller"}));
    assert_eq!(active(&world), 1);
}

#[test]
fn an_eviction_by_the_ladder_is_a_failure_unless_the_policy_ignores_disruptions() {
    let ignore = json!([{"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}]);
    for (policy, failed) in [(None, Some(1)), (Some(ignore), None)] {
        let mut world = match policy {
            None => start(json!({"completions": 1})),
            Some(rules) => with_policy(rules, &json!({})),
        };
        let name = world.api.pods()[0].metadata.name.clone().unwrap();
        let pod = id(ResourceKind::Pod, &name);
        // What the Eviction API does, and the kubelet after it.
        world.api.change(&pod, |pod| {
            pod["status"]["conditions"] = json!([{"type": "DisruptionTarget", "status": "True",
                "reason": "EvictionByEvictionAPI"}]);
        });
        world.api.user_deletes(&pod, DependentPolicy::Background);
        world.api.change(&pod, |pod| pod["status"]["phase"] = json!("Failed"));
        world.advance(TickDuration::from_secs(11));
        world.converge();
        assert_eq!((active(&world), status(&world, "sum").failed), (1, failed));
    }
}

#[test]
fn a_pod_that_ended_after_somebody_took_its_finalizer_counts_for_nothing() {
    let mut world = start(json!({"completions": 1}));
    let name = world.api.pods()[0].metadata.name.clone().unwrap();
    world.api.change(&id(ResourceKind::Pod, &name), |pod| {
        pod["metadata"]["finalizers"] = json!([]);
        pod["status"]["phase"] = json!("Succeeded");
    });
    world.settle();
    world.converge();
    assert_eq!((active(&world), status(&world, "sum").succeeded), (1, None), "as upstream");
}
