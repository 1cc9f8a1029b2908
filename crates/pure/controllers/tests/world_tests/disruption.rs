//! Disruption budgets: their arithmetic, and what becomes of evictions. Cases are from "Specifying
//! a Disruption Budget for your Application", "Disruptions" (Kubernetes documentation) and
//! upstream's `disruption_test.go`.

use k8s_openapi::api::policy::v1::PodDisruptionBudgetStatus;
use rekindle_controllers::{ObjectId, ResourceKind, ViewObject};
use rekindle_types::{Tick, TickDuration};
use serde_json::{Value, json};

use crate::build::{deployment, pod, replica_set};
use crate::world::{World, id};

fn budget(name: &str, app: &str, mut spec: Value) -> Value {
    spec["selector"] = json!({"matchLabels": {"app": app}});
    json!({"kind": "PodDisruptionBudget", "metadata": {"name": name, "generation": 1}, "spec": spec})
}

fn status(world: &World, name: &str) -> PodDisruptionBudgetStatus {
    match &world.api.objects[&id(ResourceKind::PodDisruptionBudget, name)] {
        ViewObject::PodDisruptionBudget(budget) => budget.status.clone().unwrap_or_default(),
        other => panic!("{other:?}"),
    }
}

/// Expected pods, desired healthy, healthy, allowed, and the condition.
fn shown(world: &World, name: &str) -> (i32, i32, i32, i32, String) {
    let status = status(world, name);
    let condition = status.conditions.unwrap_or_default().remove(0);
    let said = match condition.message.as_str() {
        "" => condition.reason,
        message => format!("{}: {message}", condition.reason),
    };
    let count = |value: Option<i32>| value.unwrap_or(-1);
    (
        count(status.expected_pods),
        count(status.desired_healthy),
        count(status.current_healthy),
        count(status.disruptions_allowed),
        said,
    )
}

/// The Eviction API has granted the eviction of this pod, and not deleted it yet.
fn grant(world: &mut World, budget: &str, pod: &str) {
    let at: Tick = world.api.now;
    world.api.change(&id(ResourceKind::PodDisruptionBudget, budget), |budget| {
        let left = budget["status"]["disruptionsAllowed"].as_i64().unwrap();
        budget["status"]["disruptionsAllowed"] = json!(left - 1);
        budget["status"]["disruptedPods"][pod] = json!(at.to_time());
    });
}

fn pods_of(world: &World) -> Vec<ObjectId> {
    world.api.ids(ResourceKind::Pod, "shop")
}

#[test]
fn the_arithmetic_is_that_of_the_documentation() {
    for (replicas, spec, ready, expected) in [
        // a percentage rounds up: of 7 pods at 50 % four must be available
        (7, json!({"minAvailable": "50%"}), 7, (7, 4, 7, 3, "SufficientPods")),
        (7, json!({"minAvailable": "50%"}), 4, (7, 4, 4, 0, "InsufficientPods")),
        (7, json!({"maxUnavailable": "30%"}), 7, (7, 4, 7, 3, "SufficientPods")),
        (3, json!({"minAvailable": 2}), 3, (3, 2, 3, 1, "SufficientPods")),
        (3, json!({"maxUnavailable": 1}), 3, (3, 2, 3, 1, "SufficientPods")),
        (3, json!({"maxUnavailable": 1}), 1, (3, 2, 1, 0, "InsufficientPods")),
        (3, json!({"maxUnavailable": 5}), 3, (3, 0, 3, 3, "SufficientPods")),
        (3, json!({"maxUnavailable": 0}), 3, (3, 3, 3, 0, "InsufficientPods")),
        (3, json!({"minAvailable": "100%"}), 3, (3, 3, 3, 0, "InsufficientPods")),
        (1, json!({"minAvailable": "1%"}), 1, (1, 1, 1, 0, "InsufficientPods")),
        (1, json!({"maxUnavailable": "1%"}), 1, (1, 0, 1, 1, "SufficientPods")),
        (3, json!({}), 3, (0, 0, 3, 0, "InsufficientPods")),
        (0, json!({"minAvailable": 0}), 0, (0, 0, 0, 0, "InsufficientPods")),
    ] {
        let case = format!("{replicas} replicas, {ready} ready, {spec}");
        let mut world = World::with_node();
        world.create(deployment("web", replicas, "one"));
        world.create(budget("web", "web", spec));
        world.settle();
        for id in pods_of(&world).into_iter().take(ready) {
            world.set_ready(&id, "True");
        }
        world.settle();
        let (a, b, c, d, reason) = expected;
        assert_eq!(shown(&world, "web"), (a, b, c, d, reason.to_owned()), "{case}");
        assert_eq!(status(&world, "web").observed_generation, Some(1), "{case}");
    }
}

#[test]
fn the_scale_is_that_of_the_topmost_workload_and_all_workloads_count() {
    let mut world = World::with_node();
    for name in ["a", "b"] {
        let mut set = replica_set(name, 2);
        set["spec"]["template"]["metadata"]["labels"]["tier"] = "back".into();
        world.create(set);
    }
    let mut spec = budget("both", "", json!({"maxUnavailable": 1}));
    spec["spec"]["selector"] = json!({"matchLabels": {"tier": "back"}});
    world.create(spec);
    world.converge();
    assert_eq!(shown(&world, "both"), (4, 3, 4, 1, "SufficientPods".to_owned()));
    // a workload that grows is seen before its pods are there
    world.api.change(&id(ResourceKind::ReplicaSet, "a"), |set| set["spec"]["replicas"] = json!(6));
    world.settle();
    assert_eq!(shown(&world, "both"), (8, 7, 4, 0, "InsufficientPods".to_owned()));
}

#[test]
fn every_workload_is_asked_for_its_scale() {
    for (kind, more) in [
        ("Deployment", json!({})),
        ("ReplicaSet", json!({})),
        ("StatefulSet", json!({"serviceName": "web", "podManagementPolicy": "Parallel"})),
        ("ReplicationController", json!({"selector": {"app": "web"}})),
    ] {
        let mut workload = deployment("web", 3, "one");
        workload["kind"] = json!(kind);
        for (field, value) in more.as_object().unwrap() {
            workload["spec"][field] = value.clone();
        }
        if kind != "Deployment" {
            workload["spec"].as_object_mut().unwrap().remove("strategy");
        }
        let mut world = World::with_node();
        world.create(workload);
        world.create(budget("web", "web", json!({"maxUnavailable": 1})));
        world.converge();
        assert_eq!(shown(&world, "web"), (3, 2, 3, 1, "SufficientPods".to_owned()), "{kind}");
        world.set_ready(&pods_of(&world)[0].clone(), "False");
        world.settle();
        assert_eq!(shown(&world, "web"), (3, 2, 2, 0, "InsufficientPods".to_owned()), "{kind}");
    }
}

/// The pods of both ReplicaSets are the Deployment's: they count, and its scale once.
#[test]
fn a_rollout_does_not_change_what_a_budget_expects() {
    let mut world = World::with_node();
    world.create(deployment("web", 4, "one"));
    world.create(budget("web", "web", json!({"maxUnavailable": 2})));
    world.converge();
    assert_eq!(shown(&world, "web"), (4, 2, 4, 2, "SufficientPods".to_owned()));
    world.api.change(&id(ResourceKind::Deployment, "web"), |web| {
        web["spec"]["template"]["spec"]["containers"][0]["image"] = json!("two");
    });
    world.settle();
    let going: Vec<ObjectId> = pods_of(&world)
        .into_iter()
        .filter(|pod| world.api.objects[pod].meta().deletion_timestamp.is_some())
        .collect();
    going.iter().for_each(|pod| world.kubelet_at(pod));
    world.settle();
    let sets = world.replica_sets();
    let all: Vec<i32> = sets.iter().map(|set| set.spec.replicas.unwrap()).collect();
    assert_eq!(all.iter().sum::<i32>(), 5, "in the middle: {all:?}");
    assert_eq!(shown(&world, "web"), (4, 2, 3, 1, "SufficientPods".to_owned()));
    world.converge();
    assert_eq!(shown(&world, "web"), (4, 2, 4, 2, "SufficientPods".to_owned()));
}

#[test]
fn unmanaged_pods_count_for_a_plain_minimum_only() {
    let mut world = World::with_node();
    for name in ["a", "b"] {
        world.create(pod(name, json!({"app": "bare"})));
    }
    world.create(budget("plain", "bare", json!({"minAvailable": 1})));
    world.create(budget("percent", "bare", json!({"minAvailable": "50%"})));
    world.converge();
    assert_eq!(shown(&world, "plain"), (2, 1, 2, 1, "SufficientPods".to_owned()));
    assert_eq!(shown(&world, "percent"), (0, 0, 2, 0, "InsufficientPods".to_owned()));
    let said = world.said();
    assert!(
        said.iter().any(|text| text.starts_with("UnmanagedPods: Pods selected by this")),
        "{said:?}"
    );
    let twice =
        "MultiplePodDisruptionBudgets: Pod \"shop\"/\"a\" matches multiple PodDisruptionBudgets.";
    assert!(said.iter().any(|text| text.starts_with(twice)), "{said:?}");
}

#[test]
fn a_pod_whose_controller_cannot_be_asked_fails_the_sync() {
    for (owner, message) in [
        (
            json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "gone", "uid": "gone"}),
            "found no controllers for pod \"a\"",
        ),
        (
            json!({"apiVersion": "example.com/v1", "kind": "Widget", "name": "w", "uid": "w"}),
            "no matches for kind \"Widget\" in version \"example.com/v1\"",
        ),
        (
            json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "c", "uid": "c"}),
            "configmaps does not implement the scale subresource",
        ),
    ] {
        let mut world = World::with_node();
        let mut pod = pod("a", json!({"app": "web"}));
        pod["metadata"]["ownerReferences"] = json!([owner]);
        pod["metadata"]["ownerReferences"][0]["controller"] = true.into();
        world.create(pod);
        world.create(budget("web", "web", json!({"maxUnavailable": 1})));
        // the garbage collector would take the pod of a controller that is gone: only the budget is
        // looked at
        while world.watch_next(ResourceKind::Pod)
            || world.watch_next(ResourceKind::PodDisruptionBudget)
        {}
        let key = rekindle_controllers::ControllerKey::Disruption(
            id(ResourceKind::PodDisruptionBudget, "web").name,
        );
        world.work(&key, |_| crate::world::Answer::Arrives);
        let (_, _, _, allowed, said) = shown(&world, "web");
        assert_eq!((allowed, said), (0, format!("SyncFailed: {message}")));
        let event = format!(
            "CalculateExpectedPodCountFailed: Failed to calculate the number of expected pods: {message}"
        );
        assert_eq!(world.said(), [event]);
        world.writes.clear();
        world.work(&key, |_| crate::world::Answer::Arrives);
        assert_eq!(world.writes, [], "what failed once is not written again");
    }
}

#[test]
fn a_budget_over_nothing_says_so_and_allows_nothing() {
    let mut world = World::new();
    world.create(budget("nobody", "ghost", json!({"minAvailable": 0})));
    world.converge();
    assert_eq!(shown(&world, "nobody"), (0, 0, 0, 0, "InsufficientPods".to_owned()));
    assert_eq!(world.said(), ["NoPods: No matching pods found"], "once");
}

#[test]
fn a_granted_eviction_is_not_counted_healthy_until_it_is_seen_or_two_minutes_have_passed() {
    let mut world = World::with_node();
    world.create(deployment("web", 3, "one"));
    world.create(budget("web", "web", json!({"minAvailable": 1})));
    world.converge();
    assert_eq!(status(&world, "web").disruptions_allowed, Some(2));
    let first = pods_of(&world)[0].name.name.clone();
    grant(&mut world, "web", &first);
    world.advance(TickDuration::from_secs(100));
    assert_eq!(shown(&world, "web"), (3, 1, 2, 1, "SufficientPods".to_owned()));
    assert!(status(&world, "web").disrupted_pods.unwrap().contains_key(&first));
    world.advance(TickDuration::from_secs(21));
    assert_eq!(shown(&world, "web"), (3, 1, 3, 2, "SufficientPods".to_owned()));
    assert_eq!(status(&world, "web").disrupted_pods, None);
    let said = world.said();
    let late = "NotDeleted: Pod was expected by PDB shop/web to be deleted but it wasn't";
    assert!(said.iter().any(|text| text == late), "{said:?}");
}

#[test]
fn a_pod_that_goes_leaves_the_list_and_its_replacement_gives_the_disruption_back() {
    let mut world = World::with_node();
    world.create(deployment("web", 2, "one"));
    world.create(budget("web", "web", json!({"maxUnavailable": 1})));
    world.converge();
    let first = pods_of(&world)[0].clone();
    grant(&mut world, "web", &first.name.name);
    world.api.user_deletes(&first, rekindle_controllers::plan::DependentPolicy::Default);
    world.settle();
    assert_eq!(status(&world, "web").disrupted_pods, None);
    assert_eq!(shown(&world, "web"), (2, 1, 1, 0, "InsufficientPods".to_owned()));
    world.converge();
    assert_eq!(shown(&world, "web"), (2, 1, 2, 1, "SufficientPods".to_owned()));
}

#[test]
fn an_eviction_of_a_pod_that_was_not_seen_yet_is_remembered_for_two_minutes() {
    let mut world = World::with_node();
    world.create(deployment("web", 2, "one"));
    world.create(budget("web", "web", json!({"maxUnavailable": 1})));
    world.converge();
    grant(&mut world, "web", "not-seen");
    world.advance(TickDuration::from_secs(100));
    assert!(status(&world, "web").disrupted_pods.unwrap().contains_key("not-seen"));
    assert_eq!(shown(&world, "web"), (2, 1, 2, 1, "SufficientPods".to_owned()));
    world.advance(TickDuration::from_secs(21));
    assert_eq!(status(&world, "web").disrupted_pods, None);
}

#[test]
fn a_status_that_is_right_is_not_written_again() {
    let mut world = World::with_node();
    world.create(deployment("web", 2, "one"));
    world.create(budget("web", "web", json!({"maxUnavailable": 1})));
    world.converge();
    let version = world.api.version;
    let pod = pods_of(&world)[0].clone();
    world.api.change(&pod, |pod| pod["status"]["message"] = json!("nothing that matters"));
    world.settle();
    assert_eq!(world.api.version, version + 1, "only the change of the pod itself");
}

#[test]
fn a_selector_that_changes_covers_other_pods_at_once() {
    let mut world = World::with_node();
    world.create(deployment("web", 2, "one"));
    world.create(deployment("db", 3, "one"));
    let moving = world.create(budget("moving", "web", json!({"maxUnavailable": 1})));
    world.converge();
    assert_eq!(status(&world, "moving").expected_pods, Some(2));
    world
        .api
        .change(&moving, |budget| budget["spec"]["selector"]["matchLabels"]["app"] = "db".into());
    world.settle();
    assert_eq!(shown(&world, "moving"), (3, 2, 3, 1, "SufficientPods".to_owned()));
    assert_eq!(status(&world, "moving").observed_generation, Some(2));
    world.api.change(&moving, |budget| budget["spec"]["selector"] = json!({}));
    world.settle();
    assert_eq!(status(&world, "moving").expected_pods, Some(5), "an empty selector covers all");
}

#[test]
fn a_condition_that_a_pod_goes_is_taken_back_when_it_stays() {
    let mut world = World::with_node();
    for (name, reason) in [("evicted", "EvictionByEvictionAPI"), ("node", "TerminationByKubelet")] {
        world.create(pod(name, json!({})));
        let since = world.api.now.to_time();
        world.api.change(&id(ResourceKind::Pod, name), |pod| {
            pod["status"]["phase"] = json!("Running");
            pod["status"]["hostIP"] = json!("10.0.0.1");
            pod["status"]["conditions"] = json!([
                {"type": "Ready", "status": "True"},
                {"type": "DisruptionTarget", "status": "True", "reason": reason, "lastTransitionTime": since},
            ]);
        });
    }
    let condition = |world: &World, name: &str| match &world.api.objects
        [&id(ResourceKind::Pod, name)]
    {
        ViewObject::Pod(pod) => {
            rekindle_controllers::pods::condition(pod, "DisruptionTarget").unwrap().status.clone()
        }
        other => panic!("{other:?}"),
    };
    world.advance(TickDuration::from_secs(119));
    assert_eq!(condition(&world, "evicted"), "True");
    world.advance(TickDuration::from_secs(2));
    assert_eq!(condition(&world, "evicted"), "False");
    let status = &world.api.values[&id(ResourceKind::Pod, "evicted")]["status"];
    assert_eq!(status["hostIP"], "10.0.0.1", "the rest of its status stays");
    world.advance(TickDuration::from_secs(600));
    assert_eq!(condition(&world, "node"), "True", "the node may take any time");
}
