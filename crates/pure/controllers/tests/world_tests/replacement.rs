//! PodRestarts of the rungs Recreate, Reschedule and Rollback.

use rekindle_controllers::deployment::rollback::HEALTHY;
use rekindle_controllers::plan::DependentPolicy;
use rekindle_controllers::{ObjectId, ResourceKind, ViewObject, WriteOperation, pods};
use rekindle_types::v1alpha1::{
    PodRestartPhase, PodRestartStatus, ReplacementHold, ReplacementStep,
};
use rekindle_types::{Tick, TickDuration};
use serde_json::{Value, json};

use crate::build::{deployment, pod, replica_set, template};
use crate::world::{World, id};

const BUDGET: &str = "Cannot evict pod as it would violate the pod's disruption budget.";

fn restart(name: &str, spec: Value) -> Value {
    json!({"kind": "PodRestart", "metadata": {"name": name}, "spec": spec})
}

fn status(world: &World, id: &ObjectId) -> PodRestartStatus {
    match &world.api.objects[id] {
        ViewObject::PodRestart(restart) => restart.status.clone().unwrap_or_default(),
        other => panic!("{other:?}"),
    }
}

fn step(world: &World, id: &ObjectId) -> Option<ReplacementStep> {
    status(world, id).replacement.map(|replacement| replacement.step)
}

/// Name and node of each pod.
fn places(world: &World) -> Vec<(String, String)> {
    let place = |pod: &&rekindle_types::held::HeldPod| {
        (pod.metadata.name.clone().unwrap(), pods::node(pod).unwrap_or("-").to_owned())
    };
    world.api.pods().iter().map(place).collect()
}

fn evictions(world: &World) -> usize {
    world.writes.iter().filter(|write| matches!(write, WriteOperation::Evict(_))).count()
}

fn with_nodes(names: &[&str]) -> World {
    let mut world = World::new();
    for name in names {
        world.api.add_node(name, "100", "100Gi", "1000");
    }
    world
}

#[test]
fn a_pod_without_a_controller_comes_back_under_its_name_with_all_that_was_its_own() {
    let mut world = World::with_node();
    let mut naked = pod("web", json!({"app": "web"}));
    naked["metadata"]["annotations"] = json!({"team": "shop"});
    let web = world.create(naked);
    world.converge();
    let before = world.api.objects[&web].clone();
    let request = world.create(restart("again", json!({"podName": "web", "rung": "Recreate"})));
    world.converge();
    let (ViewObject::Pod(before), ViewObject::Pod(after)) = (&before, &world.api.objects[&web])
    else {
        panic!("pods")
    };
    assert_ne!(before.metadata.uid, after.metadata.uid);
    assert_eq!(before.metadata.labels, after.metadata.labels);
    assert_eq!(before.metadata.annotations, after.metadata.annotations);
    assert_eq!(before.spec, after.spec);
    let status = status(&world, &request);
    assert_eq!(status.phase, Some(PodRestartPhase::Succeeded));
    assert_eq!(status.message.as_deref(), Some("pod web on node-1 took its place"));
    let replacement = status.replacement.unwrap();
    assert_eq!(replacement.new_pod_uid, after.metadata.uid);
    assert_eq!(replacement.pod, None, "the kept pod is not needed any more");
}

#[test]
fn what_cannot_be_replaced_is_refused_with_the_reason() {
    let mut world = World::with_node();
    let mut mirror = pod("mirror", json!({}));
    mirror["metadata"]["annotations"] = json!({"kubernetes.io/config.mirror": "hash"});
    world.create(mirror);
    world.create(json!({"kind": "DaemonSet", "metadata": {"name": "agent"}, "spec": {
        "selector": {"matchLabels": {"app": "agent"}}, "template": template("agent", "one")}}));
    let going = world.create(pod("going", json!({})));
    world.converge();
    world.api.user_deletes(&going, DependentPolicy::Default);
    let mut names = world.api.pods().into_iter().filter_map(|pod| pod.metadata.name.clone());
    let daemon = names.find(|name| name.starts_with("agent-")).unwrap();
    let of_daemon_set = format!("pod shop/{daemon} is of DaemonSet agent: it has no other node");
    for (pod, rung, message) in [
        ("mirror", "Recreate", "pod shop/mirror is a static pod: its node alone can replace it"),
        (&daemon, "Reschedule", &of_daemon_set),
        ("going", "Recreate", "pod shop/going is terminating"),
        ("mirror", "Rollback", "pod shop/mirror cannot be rolled back: it is not of a Deployment"),
    ] {
        let name = format!("{pod}-{}", rung.to_lowercase());
        let request = world.create(restart(&name, json!({"podName": pod, "rung": rung})));
        world.settle();
        let status = status(&world, &request);
        assert_eq!(status.phase, Some(PodRestartPhase::Refused), "{pod}");
        assert_eq!(status.message.as_deref(), Some(message));
    }
    assert_eq!(evictions(&world), 0);
}

#[test]
fn a_refused_eviction_is_tried_again_ever_more_rarely_until_it_is_granted() {
    let mut world = World::with_node();
    world.create(pod("web", json!({"app": "web"})));
    world.create(budget(json!({"minAvailable": 1})));
    world.converge();
    world.api.refuse_eviction = Some(BUDGET.to_owned());
    let request = world.create(restart("again", json!({"podName": "web", "rung": "Recreate"})));
    world.advance(TickDuration::from_millis(600_500));
    let held = status(&world, &request);
    assert_eq!(held.phase, Some(PodRestartPhase::Running));
    assert_eq!((held.message.as_deref(), held.started_at), (Some(BUDGET), None));
    assert_eq!(step(&world, &request), Some(ReplacementStep::Held));
    assert!((20..=40).contains(&evictions(&world)), "{} evictions", evictions(&world));
    world.api.refuse_eviction = None;
    world.converge();
    world.advance(TickDuration::from_secs(31));
    world.converge();
    assert_eq!(status(&world, &request).phase, Some(PodRestartPhase::Succeeded));
}

/// A disruption budget over the pods with the label `app: web`.
fn budget(mut spec: Value) -> Value {
    spec["selector"] = json!({"matchLabels": {"app": "web"}});
    json!({"kind": "PodDisruptionBudget", "metadata": {"name": "web", "generation": 1}, "spec": spec})
}

#[test]
fn what_a_budget_held_goes_on_when_the_budget_lets_it_or_is_deleted() {
    let of_generation_2 = |key: &'static str, value: Value| {
        move |budget: &mut Value| {
            budget["metadata"]["generation"] = json!(2);
            budget["spec"][key] = value.clone();
        }
    };
    let set = |world: &mut World, change: &dyn Fn(&mut Value)| {
        world.api.change(&id(ResourceKind::PodDisruptionBudget, "web"), change);
    };
    type Change<'a> = &'a dyn Fn(&mut World);
    // (what changes, how many it wants, whether the pods are ready)
    let changes: [(&str, i32, &str, Change<'_>); 4] = [
        ("it is deleted", 1, "False", &|world| {
            world.api.user_deletes(
                &id(ResourceKind::PodDisruptionBudget, "web"),
                DependentPolicy::Default,
            );
        }),
        ("it wants fewer pods", 2, "True", &|world| {
            set(world, &of_generation_2("minAvailable", json!(1)));
        }),
        ("it lets all go that are not ready", 1, "False", &|world| {
            set(world, &of_generation_2("unhealthyPodEvictionPolicy", json!("AlwaysAllow")));
        }),
        ("it has what it wants", 1, "False", &|world| {
            world.set_ready(&id(ResourceKind::Pod, "other"), "True");
        }),
    ];
    for (story, wanted, ready, change) in changes {
        let mut world = World::with_node();
        for name in ["web", "other"] {
            world.create(pod(name, json!({"app": "web"})));
        }
        world.create(budget(json!({"minAvailable": wanted})));
        world.converge();
        for name in ["web", "other"] {
            world.set_ready(&id(ResourceKind::Pod, name), ready);
        }
        world.api.refuse_eviction = Some(BUDGET.to_owned());
        let request = world.create(restart("again", json!({"podName": "web", "rung": "Recreate"})));
        world.advance(TickDuration::from_secs(310));
        assert_eq!(step(&world, &request), Some(ReplacementStep::Held));
        assert!(evictions(&world) < 20, "{story}: {} evictions", evictions(&world));
        world.api.refuse_eviction = None;
        change(&mut world);
        world.advance(TickDuration::from_secs(5));
        assert_eq!(step(&world, &request), Some(ReplacementStep::Evicting), "{story}");
    }
}

/// The node's word about itself.
fn node_says(world: &mut World, node: &str, ready: &str) {
    world.api.change(&id(ResourceKind::Node, node), |node| {
        node["status"]["conditions"] = json!([{"type": "Ready", "status": ready}]);
    });
}

#[test]
fn a_request_that_waits_for_an_agent_that_does_not_answer_says_so() {
    for rung in ["Pod", "Recreate", "Reschedule"] {
        let mut world = with_nodes(&["n1", "n2"]);
        world.create(pod("web", json!({})));
        world.converge();
        node_says(&mut world, "n1", "Unknown");
        world.settle();
        let request = world.create(restart("again", json!({"podName": "web", "rung": rung})));
        world.settle();
        let told = status(&world, &request).message.unwrap_or_default();
        assert!(told.contains("node n1 is not ready"), "{rung}: {told}");
        if rung != "Pod" {
            node_says(&mut world, "n1", "True");
            world.converge(); // the pod ends now
            assert_eq!(status(&world, &request).phase, Some(PodRestartPhase::Succeeded));
        }
    }
    // one that was asked for before
    let mut world = with_nodes(&["n1"]);
    world.create(pod("web", json!({})));
    world.converge();
    let request = world.create(restart("again", json!({"podName": "web", "rung": "Recreate"})));
    world.settle();
    assert_eq!(step(&world, &request), Some(ReplacementStep::Evicting));
    node_says(&mut world, "n1", "Unknown");
    world.settle();
    let told = status(&world, &request).message.unwrap_or_default();
    assert!(told.contains("node n1 is not ready: the pod does not end"), "{told}");
}

#[test]
fn a_held_request_ends_when_its_pod_is_deleted_and_does_not_bring_it_back() {
    let mut world = World::with_node();
    let web = world.create(pod("web", json!({})));
    world.converge();
    world.api.refuse_eviction = Some(BUDGET.to_owned());
    let request = world.create(restart("again", json!({"podName": "web", "rung": "Recreate"})));
    world.advance(TickDuration::from_millis(500));
    assert_eq!(step(&world, &request), Some(ReplacementStep::Held));
    world.api.user_deletes(&web, DependentPolicy::Default);
    world.converge();
    assert_eq!(status(&world, &request).phase, Some(PodRestartPhase::Failed));
    assert_eq!(places(&world), []);
}

#[test]
fn a_held_request_of_a_ladder_is_withdrawn_when_the_pod_is_well_and_a_persons_is_not() {
    for (ladder, expected) in
        [(json!("web"), PodRestartPhase::Withdrawn), (Value::Null, PodRestartPhase::Running)]
    {
        let mut world = World::with_node();
        let web = world.create(pod("web", json!({})));
        world.converge();
        world.set_ready(&web, "False");
        world.api.refuse_eviction = Some(BUDGET.to_owned());
        let spec = json!({"podName": "web", "rung": "Recreate", "ladderName": ladder});
        let request = world.create(restart("again", spec));
        world.advance(TickDuration::from_millis(5_500));
        assert_eq!(step(&world, &request), Some(ReplacementStep::Held));
        world.set_ready(&web, "True");
        world.advance(TickDuration::from_secs(60));
        assert_eq!(status(&world, &request).phase, Some(expected), "{ladder}");
    }
}

#[test]
fn what_holds_a_replacement_back_and_since_when_is_in_its_status() {
    let mut world = with_nodes(&["n1"]);
    world.create(replica_set("web", 1));
    world.converge();
    let old = places(&world).remove(0).0;
    let begin = world.api.now.to_time();
    let request = world.create(restart("away", json!({"podName": old, "rung": "Reschedule"})));
    let held = |world: &World| {
        let replacement = status(world, &request).replacement.unwrap();
        (replacement.held_by, replacement.held_since)
    };
    world.advance(TickDuration::from_secs(120));
    assert_eq!(held(&world), (Some(ReplacementHold::NoOtherNode), Some(begin)));
    // a request that a version without these fields has held back says so when it is tried again
    world.api.change(&request, |request| {
        let replacement = request["status"]["replacement"].as_object_mut().unwrap();
        replacement.remove("heldBy");
        replacement.remove("heldSince");
    });
    world.advance(TickDuration::from_secs(35));
    let (by, since) = held(&world);
    assert_eq!(by, Some(ReplacementHold::NoOtherNode));
    assert!(
        since.is_some_and(|since| Tick::from(&since) > world.api.now - TickDuration::from_secs(35))
    );
    world.api.refuse_eviction = Some(BUDGET.to_owned());
    world.api.add_node("n2", "100", "100Gi", "1000");
    world.settle();
    world.advance(TickDuration::from_secs(6));
    let by_budget = held(&world);
    assert_eq!(by_budget.0, Some(ReplacementHold::DisruptionBudget));
    world.advance(TickDuration::from_secs(60));
    assert_eq!(held(&world), by_budget, "it was tried again, and is held by the same since");
    world.api.refuse_eviction = None;
    world.advance(TickDuration::from_secs(60));
    world.converge();
    assert_eq!(status(&world, &request).phase, Some(PodRestartPhase::Succeeded));
    assert_eq!(held(&world), (None, None));
}

#[test]
fn a_request_fails_at_its_deadline() {
    let mut world = World::with_node();
    world.create(pod("web", json!({})));
    world.converge();
    world.api.refuse_eviction = Some(BUDGET.to_owned());
    let spec = json!({"podName": "web", "rung": "Recreate", "deadlineSeconds": 20});
    let request = world.create(restart("held", spec));
    world.advance(TickDuration::from_secs(21));
    let held = status(&world, &request);
    assert_eq!(held.phase, Some(PodRestartPhase::Failed));
    assert_eq!(held.message, Some(format!("held back until its deadline: {BUDGET}")));

    world.api.refuse_eviction = None;
    let spec = json!({"podName": "web", "rung": "Recreate", "deadlineSeconds": 20});
    let request = world.create(restart("slow", spec));
    world.settle();
    world.kubelet(); // the old pod ends, the new one never gets ready
    world.advance(TickDuration::from_secs(21));
    let slow = status(&world, &request);
    assert_eq!(slow.phase, Some(PodRestartPhase::Failed));
    let late = "pod web, which took its place on node-1, was not ready in time";
    assert_eq!(slow.message.as_deref(), Some(late));
}

#[test]
fn two_pods_of_a_set_that_are_evicted_together_get_a_successor_each() {
    let mut world = World::with_node();
    world.create(replica_set("web", 3));
    world.converge();
    let old: Vec<String> = places(&world).into_iter().map(|(name, _)| name).collect();
    let requests: Vec<ObjectId> = old[..2]
        .iter()
        .map(|name| world.create(restart(name, json!({"podName": name, "rung": "Recreate"}))))
        .collect();
    world.converge();
    let new: Vec<Option<String>> = requests
        .iter()
        .map(|request| {
            let status = status(&world, request);
            assert_eq!(status.phase, Some(PodRestartPhase::Succeeded), "{:?}", status.message);
            status.replacement.unwrap().new_pod_name
        })
        .collect();
    assert_ne!(new[0], new[1]);
    let left: Vec<String> = places(&world).into_iter().map(|(name, _)| name).collect();
    assert_eq!(left.len(), 3);
    assert!(left.contains(&old[2]), "the third pod was left alone");
    assert!(new.iter().flatten().all(|name| left.contains(name) && !old.contains(name)));
}

#[test]
fn a_pod_of_a_stateful_set_is_replaced_by_the_one_of_its_name() {
    let mut world = World::with_node();
    let set = world.create(json!({"kind": "StatefulSet", "metadata": {"name": "web"}, "spec": {
        "replicas": 3, "serviceName": "web", "podManagementPolicy": "Parallel",
        "selector": {"matchLabels": {"app": "web"}}, "template": template("web", "one")}}));
    world.converge();
    let request = world.create(restart("again", json!({"podName": "web-0", "rung": "Recreate"})));
    world.settle(); // evicted; it still ends
    world.api.change(&set, |set| set["spec"]["replicas"] = json!(4));
    world.settle();
    assert!(world.api.objects.contains_key(&id(ResourceKind::Pod, "web-3")));
    assert_eq!(step(&world, &request), Some(ReplacementStep::Evicting));
    world.converge();
    let done = status(&world, &request);
    assert_eq!(done.phase, Some(PodRestartPhase::Succeeded));
    assert_eq!(done.replacement.unwrap().new_pod_name.as_deref(), Some("web-0"));
}

/// Controllers on another machine than the API, with a clock that is ahead of it.
#[test]
fn what_is_known_by_its_name_or_node_is_found_whatever_clock_dated_it() {
    for (kind, spec) in
        [("StatefulSet", json!({"replicas": 1, "serviceName": "web"})), ("DaemonSet", json!({}))]
    {
        let mut world = with_nodes(&["n1"]);
        let mut spec = spec;
        spec["selector"] = json!({"matchLabels": {"app": "web"}});
        spec["template"] = template("web", "one");
        world.create(json!({"kind": kind, "metadata": {"name": "web"}, "spec": spec}));
        world.converge();
        let old = places(&world).remove(0).0;
        let request = world.create(restart("again", json!({"podName": old, "rung": "Recreate"})));
        world.settle();
        let ahead = (world.api.now + TickDuration::from_secs(30)).to_time();
        world.api.change(&request, |request| {
            request["status"]["replacement"]["since"] = json!(ahead);
        });
        world.converge();
        let status = status(&world, &request);
        assert_eq!(status.phase, Some(PodRestartPhase::Succeeded), "{kind}: {:?}", status.message);
    }
}

#[test]
fn a_pod_that_ends_late_in_its_grace_period_leaves_the_new_one_its_time() {
    let mut world = World::with_node();
    let mut slow = template("web", "one");
    slow["spec"]["terminationGracePeriodSeconds"] = json!(900);
    let set = world.create(json!({"kind": "StatefulSet", "metadata": {"name": "web"}, "spec": {
        "replicas": 1, "serviceName": "web", "selector": {"matchLabels": {"app": "web"}}, "template": slow}}));
    world.converge();
    let request = world.create(restart("again", json!({"podName": "web-0", "rung": "Recreate"})));
    world.settle();
    world.advance(TickDuration::from_secs(700));
    assert_eq!(step(&world, &request), Some(ReplacementStep::Evicting));
    // what comes after it has a shorter one
    world.api.change(&set, |set| {
        set["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] = json!(1);
    });
    world.kubelet();
    world.settle();
    assert_eq!(step(&world, &request), Some(ReplacementStep::Starting));
    assert_eq!(status(&world, &request).phase, Some(PodRestartPhase::Running));
    world.advance(TickDuration::from_secs(790));
    assert_eq!(status(&world, &request).phase, Some(PodRestartPhase::Running));
    world.advance(TickDuration::from_secs(20));
    assert_eq!(status(&world, &request).phase, Some(PodRestartPhase::Failed), "after 25 minutes");
}

#[test]
fn a_pod_of_a_daemon_set_is_replaced_by_the_one_on_its_node() {
    let mut world = with_nodes(&["n1"]);
    world.create(json!({"kind": "DaemonSet", "metadata": {"name": "agent"}, "spec": {
        "selector": {"matchLabels": {"app": "agent"}}, "template": template("agent", "one")}}));
    world.converge();
    let old = places(&world).remove(0).0;
    let request = world.create(restart("again", json!({"podName": old, "rung": "Recreate"})));
    world.settle(); // evicted; it still ends
    world.api.add_node("n2", "100", "100Gi", "1000");
    world.settle();
    assert_eq!(places(&world).len(), 2);
    assert_eq!(step(&world, &request), Some(ReplacementStep::Evicting));
    world.converge();
    let done = status(&world, &request);
    assert_eq!(done.phase, Some(PodRestartPhase::Succeeded));
    let new = done.replacement.unwrap().new_pod_name.unwrap();
    assert!(places(&world).contains(&(new, "n1".to_owned())));
}

#[test]
fn a_node_is_avoided_by_the_whole_workload_until_the_time_is_over() {
    let mut world = with_nodes(&["bad", "good"]);
    world.create(replica_set("web", 1));
    world.converge();
    assert_eq!(places(&world)[0].1, "bad", "the first by name");
    let old = places(&world)[0].0.clone();
    let spec = json!({"podName": old, "rung": "Reschedule", "avoidNodeFor": "20m"});
    let request = world.create(restart("away", spec));
    world.converge();
    assert_eq!(status(&world, &request).phase, Some(PodRestartPhase::Succeeded));
    assert_eq!(places(&world)[0].1, "good");

    world.advance(TickDuration::from_secs(11 * 60)); // longer than a finished request stays
    world
        .api
        .change(&id(ResourceKind::ReplicaSet, "web"), |set| set["spec"]["replicas"] = json!(3));
    world.converge();
    assert!(places(&world).iter().all(|(_, node)| node == "good"), "{:?}", places(&world));

    world.advance(TickDuration::from_secs(10 * 60));
    assert!(!world.api.objects.contains_key(&request), "it is not needed any more");
    world
        .api
        .change(&id(ResourceKind::ReplicaSet, "web"), |set| set["spec"]["replicas"] = json!(4));
    world.converge();
    assert!(places(&world).iter().any(|(_, node)| node == "bad"), "{:?}", places(&world));
}

#[test]
fn a_pod_whose_only_other_node_went_comes_back_to_the_one_that_it_left() {
    let mut world = with_nodes(&["bad", "good"]);
    let web = world.create(pod("web", json!({})));
    world.converge();
    let spec = json!({"podName": "web", "rung": "Reschedule", "avoidNodeFor": "5m"});
    world.create(restart("away", spec));
    world.settle(); // evicted; it still ends
    let good =
        ObjectId::new(ResourceKind::Node, rekindle_controllers::NamespacedName::new("", "good"));
    world.api.user_deletes(&good, DependentPolicy::Default);
    world.converge();
    assert_eq!(places(&world), [("web".to_owned(), "bad".to_owned())]);
    // a later restart does not carry the exclusion on
    world.advance(TickDuration::from_secs(5 * 60));
    world.create(restart("again", json!({"podName": "web", "rung": "Recreate"})));
    world.converge();
    let ViewObject::Pod(pod) = &world.api.objects[&web] else { panic!("a pod") };
    assert_eq!(pod.spec.as_ref().unwrap().affinity, None);
}

/// What a pod keeps away from is written in it, and stays there when the time is over.
#[test]
fn a_ladder_moves_a_pod_back_as_soon_as_its_first_node_is_not_avoided_any_more() {
    let mut world = with_nodes(&["bad", "good"]);
    let web = world.create(pod("web", json!({})));
    world.converge();
    let spec = |minutes: &str, ladder: Value| json!({"podName": "web", "rung": "Reschedule", "avoidNodeFor": minutes, "ladderName": ladder});
    world.create(restart("away", spec("20m", Value::Null)));
    world.converge();
    assert_eq!(places(&world), [("web".to_owned(), "good".to_owned())]);
    world.set_ready(&web, "False");
    let back = world.create(restart("back", spec("5m", json!("web"))));
    world.settle();
    assert_eq!(step(&world, &back), Some(ReplacementStep::Held), "there is nowhere to go");
    world.advance(TickDuration::from_secs(21 * 60));
    world.converge();
    assert_eq!(status(&world, &back).phase, Some(PodRestartPhase::Succeeded));
    assert_eq!(places(&world), [("web".to_owned(), "bad".to_owned())]);
}

#[test]
fn a_person_moves_a_pod_back_when_there_is_no_other_node() {
    let mut world = with_nodes(&["bad", "good"]);
    world.create(pod("web", json!({})));
    world.converge();
    for (name, node, avoided) in
        [("away", "good", "2h"), ("back", "bad", "5m"), ("away-again", "good", "1h")]
    {
        let spec = json!({"podName": "web", "rung": "Reschedule", "avoidNodeFor": avoided});
        let request = world.create(restart(name, spec));
        world.converge();
        assert_eq!(status(&world, &request).phase, Some(PodRestartPhase::Succeeded));
        assert_eq!(places(&world), [("web".to_owned(), node.to_owned())]);
    }
}

/// A Deployment whose first revision was healthy, or not, and whose second one is rolled out;
/// answers a pod of the second.
fn rolled_out(first: Option<&str>) -> (World, String) {
    let mut world = World::with_node();
    let web = world.create(deployment("web", 1, "one"));
    world.converge();
    let set = world.api.ids(ResourceKind::ReplicaSet, "shop").remove(0);
    if let Some(since) = first {
        world.api.change(&set, |set| set["metadata"]["annotations"][HEALTHY] = json!(since));
    }
    world.api.change(&web, |web| {
        web["spec"]["template"]["spec"]["containers"][0]["image"] = json!("two");
    });
    world.converge();
    let pod = places(&world).remove(0).0;
    (world, pod)
}

fn image(world: &World) -> String {
    let spec = world.deployment("web").spec.template.spec.clone().unwrap();
    spec.containers[0].image.clone().unwrap()
}

#[test]
fn a_rollback_gives_the_template_of_a_healthy_revision_again_once() {
    let (mut world, pod) = rolled_out(Some("2026-01-01T00:00:00Z"));
    let spec = json!({"podName": pod, "rung": "Rollback"});
    let request = world.create(restart("back", spec.clone()));
    let second = world.create(restart("back-too", spec));
    world.converge();
    assert_eq!(image(&world), "one");
    let done = status(&world, &request);
    assert_eq!(done.phase, Some(PodRestartPhase::Succeeded), "{:?}", done.message);
    let second = status(&world, &second).phase;
    assert!(second.is_some_and(PodRestartPhase::is_final), "another pod's request goes no further");
    let templates = world.replica_sets().len();
    assert_eq!(templates, 2, "no revision was made for it");
}

/// The pods that failed go with their revision, and the request after ten minutes: the event stays
/// for an hour.
#[test]
fn a_rollback_is_told_of_the_deployment_with_its_reason() {
    let image = "container \"app\" waits for its image \"two\", which cannot be had";
    for (says, more) in [
        ("(PodRestart back)", json!({})),
        ("(PodRestart back): the shop is down", json!({"reason": "the shop is down"})),
        (
            "(PodRestart back): ladder \"web\": container \"app\" waits for its image \"two\", which cannot be had",
            json!({"reason": image, "ladderName": "web"}),
        ),
    ] {
        let (mut world, pod) = rolled_out(Some("2026-01-01T00:00:00Z"));
        let mut spec = json!({"podName": pod, "rung": "Rollback"});
        spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        world.create(restart("back", spec));
        world.converge();
        let mut said = world.said();
        said.retain(|event| event.starts_with("DeploymentRollback: "));
        let expected =
            format!("DeploymentRollback: Rolled back deployment \"web\" to revision 1 {says}");
        assert_eq!(said, [expected]);
    }
}

#[test]
fn a_rollback_that_does_not_get_through_is_given_up() {
    let (mut world, pod) = rolled_out(Some("2026-01-01T00:00:00Z"));
    let sets = world.api.ids(ResourceKind::ReplicaSet, "shop");
    let is_second = |id: &&ObjectId| pod.starts_with(&id.name.name);
    let second = sets.iter().find(is_second).unwrap().name.name.clone();
    let first = sets.iter().find(|id| !is_second(id)).unwrap().name.name.clone();
    let request = world.create(restart("back", json!({"podName": pod, "rung": "Rollback"})));
    world.api.change(&request, |r| {
        r["status"] = json!({
            "phase": "Running",
            "startedAt": "1970-01-02T00:00:00Z", // every write since was refused
            "rollback": {
                "deploymentName": "web", "fromReplicaSet": second, "toReplicaSet": first,
                "toRevision": 1,
            },
        });
    });
    world.converge();
    let status = status(&world, &request);
    assert_eq!(status.phase, Some(PodRestartPhase::Failed));
    assert_eq!(status.message.as_deref(), Some("Deployment web could not be changed in time"));
    assert_eq!(image(&world), "two");
}

#[test]
fn a_revision_that_was_never_healthy_is_not_gone_back_to() {
    let (mut world, pod) = rolled_out(None);
    let request = world.create(restart("back", json!({"podName": pod, "rung": "Rollback"})));
    world.converge();
    assert_eq!(status(&world, &request).phase, Some(PodRestartPhase::Refused));
    assert_eq!(image(&world), "two");
}

#[test]
fn a_revision_whose_pods_no_node_takes_is_gone_back_from() {
    let (mut world, pod) = rolled_out(Some("2026-01-01T00:00:00Z"));
    let huge = ObjectId::new(
        ResourceKind::Pod,
        rekindle_controllers::NamespacedName::new("shop", pod.as_str()),
    );
    world.api.change(&huge, |pod| {
        pod["spec"].as_object_mut().unwrap().remove("nodeName");
        pod["spec"]["containers"][0]["resources"] = json!({"requests": {"memory": "900Gi"}});
        pod["status"] = json!({"phase": "Pending"});
    });
    world.settle();
    let request = world.create(restart("back", json!({"podName": pod, "rung": "Rollback"})));
    world.converge();
    let done = status(&world, &request);
    assert_eq!(done.phase, Some(PodRestartPhase::Succeeded), "{:?}", done.message);
    assert_eq!(image(&world), "one");
}

#[test]
fn a_stateful_set_avoids_the_node_also_when_it_has_a_controller_itself() {
    for controller in [None, Some("database")] {
        let mut world = with_nodes(&["bad", "good"]);
        let mut set = json!({
            "kind": "StatefulSet",
            "metadata": {"name": "web"},
            "spec": {
                "replicas": 1,
                "serviceName": "web",
                "selector": {"matchLabels": {"app": "web"}},
                "template": template("web", "one"),
            },
        });
        if let Some(name) = controller {
            let boss =
                world.create(json!({"kind": "Service", "metadata": {"name": name}, "spec": {}}));
            set["metadata"]["ownerReferences"] = json!([{
                "apiVersion": "v1", "kind": "Service", "name": name, "controller": true,
                "uid": world.api.objects[&boss].uid(),
            }]);
        }
        world.create(set);
        world.converge();
        assert_eq!(places(&world), [("web-0".to_owned(), "bad".to_owned())]);
        let request =
            world.create(restart("away", json!({"podName": "web-0", "rung": "Reschedule"})));
        world.converge();
        assert_eq!(places(&world), [("web-0".to_owned(), "good".to_owned())], "{controller:?}");
        assert_eq!(status(&world, &request).phase, Some(PodRestartPhase::Succeeded));
    }
}
