//! PodRestarts that no node answers, and their end.

use rekindle_controllers::plan::DependentPolicy;
use rekindle_controllers::{ObjectId, ResourceKind, ViewObject};
use rekindle_types::TickDuration;
use rekindle_types::v1alpha1::{PodRestartPhase, PodRestartStatus};
use serde_json::{Value, json};

use crate::build::pod;
use crate::world::{World, id};

fn restart(name: &str, spec: Value) -> Value {
    json!({"kind": "PodRestart", "metadata": {"name": name}, "spec": spec})
}

fn status(world: &World, id: &ObjectId) -> PodRestartStatus {
    match &world.api.objects[id] {
        ViewObject::PodRestart(restart) => restart.status.clone().unwrap_or_default(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_request_that_no_node_can_answer_is_refused_with_the_reason() {
    let mut world = World::new();
    world.create(pod("waiting", json!({})));
    let uid = world.api.objects[&id(ResourceKind::Pod, "waiting")].uid().to_owned();
    for (name, spec, message) in [
        ("none", json!({"podName": "ghost"}), "there is no pod shop/ghost".to_owned()),
        (
            "other",
            json!({"podName": "waiting", "podUID": "old"}),
            format!("pod shop/waiting has UID {uid}, the request is for old: it was re-created"),
        ),
        (
            "unscheduled",
            json!({"podName": "waiting"}),
            "pod shop/waiting is not on a node yet: there is nothing to restart".to_owned(),
        ),
    ] {
        let request = world.create(restart(name, spec));
        world.settle();
        let status = status(&world, &request);
        assert_eq!(status.phase, Some(PodRestartPhase::Refused), "{name}");
        assert_eq!(status.message, Some(message), "{name}");
    }
}

/// On a cluster whose API server does not look at names. To ask for a pod without a name is to ask
/// for all pods.
#[test]
fn a_request_that_names_no_pod_is_refused_and_nothing_is_asked_for() {
    let mut world = World::new();
    for (name, spec, message) in [
        ("empty", json!({"podName": ""}), "spec.podName is empty"),
        ("absent", json!({}), "spec.podName is empty"),
        ("operator", json!({"podName": "", "rung": "Recreate"}), "spec.podName is empty"),
        (
            "path",
            json!({"podName": "A_b/../c"}),
            "spec.podName: \"A_b/../c\": a lowercase RFC 1123",
        ),
        ("long", json!({"podName": "a".repeat(254)}), "must be no more than 253 characters"),
    ] {
        let request = world.create(restart(name, spec));
        world.settle();
        let status = status(&world, &request);
        assert_eq!(status.phase, Some(PodRestartPhase::Refused), "{name}");
        let told = status.message.unwrap_or_default();
        assert!(told.contains(message), "{name}: {told}");
        assert!(told.len() < 700, "{name}: {told}");
    }
}

#[test]
fn a_request_for_a_pod_on_a_node_is_the_nodes_until_the_pod_goes() {
    let mut world = World::with_node();
    let web = world.create(pod("web", json!({})));
    world.converge();
    let request = world.create(restart("again", json!({"podName": "web"})));
    world.settle();
    assert_eq!(status(&world, &request).phase, None, "the node answers");
    world.api.change(&request, |r| r["status"] = json!({"phase": "Running"}));
    world.api.user_deletes(&web, DependentPolicy::Default);
    world.converge();
    let status = status(&world, &request);
    assert_eq!(status.phase, Some(PodRestartPhase::Failed));
    assert_eq!(status.message.as_deref(), Some("pod shop/web was deleted meanwhile"));
}

/// As of a StatefulSet: the next pod of the name is not what the request was begun for, and takes
/// no more of any budget for it.
#[test]
fn a_request_whose_pod_made_room_for_another_of_its_name_is_failed() {
    for named in ["spec", "status"] {
        let mut world = World::with_node();
        let web = world.create(pod("web", json!({})));
        world.converge();
        let first = world.api.objects[&web].uid().to_owned();
        let mut asked = restart("again", json!({"podName": "web"}));
        if named == "spec" {
            asked["spec"]["podUID"] = json!(first);
        }
        let request = world.create(asked);
        world.api.change(&request, |r| {
            r["status"] = json!({"phase": "Running"});
            r[named]["podUID"] = json!(first);
        });
        world.settle();
        // both are seen at once: the name is never free
        world.api.user_deletes(&web, DependentPolicy::Default);
        world.kubelet();
        world.create(pod("web", json!({})));
        world.settle();
        let status = status(&world, &request);
        assert_eq!(status.phase, Some(PodRestartPhase::Failed), "{named}");
        assert_eq!(
            status.message.as_deref(),
            Some("pod shop/web was deleted meanwhile: the one of that name is another")
        );
    }
}

#[test]
fn a_request_seen_before_its_pod_is_not_refused() {
    let mut world = World::with_node();
    world.create(pod("web", json!({})));
    let request = world.create(restart("again", json!({"podName": "web"})));
    while world.watch_next(ResourceKind::PodRestart) {} // the watch of pods lags behind
    let key = world.queue.pop_first().unwrap();
    world.work(&key, |_| crate::world::Answer::Arrives);
    assert_eq!(status(&world, &request).phase, None);
}

#[test]
fn a_finished_request_goes_after_ten_minutes_unless_a_ledger_waits_for_it() {
    let mut world = World::new();
    let request = world.create(restart("old", json!({"podName": "ghost"})));
    world.advance(TickDuration::from_secs(599));
    assert!(world.api.objects.contains_key(&request));
    world.advance(TickDuration::from_secs(2));
    assert!(!world.api.objects.contains_key(&request));

    let request = world.create(restart("awaited", json!({"podName": "ghost"})));
    let ledger = world.create(json!({"kind": "RestartLedger", "metadata": {"name": "ghost"},
        "spec": {"ladderName": "l", "podName": "ghost", "podUID": "u"},
        "status": {"failuresTotal": 1, "pendingRestart": "awaited"}}));
    world.advance(TickDuration::from_secs(1100));
    assert!(world.api.objects.contains_key(&request));
    world.api.change(&ledger, |l| {
        l["status"].as_object_mut().unwrap().remove("pendingRestart");
    });
    world.settle();
    assert!(!world.api.objects.contains_key(&request));

    let request = world.create(restart("forgotten", json!({"podName": "ghost"})));
    world.api.change(&ledger, |l| l["status"]["pendingRestart"] = json!("forgotten"));
    world.advance(TickDuration::from_secs(1300));
    assert!(!world.api.objects.contains_key(&request), "nothing writes that ledger any more");
}

#[test]
fn a_restart_in_place_that_never_ends_is_given_up_after_ten_minutes_and_the_grace_period() {
    let mut world = World::with_node();
    let mut web = pod("web", json!({}));
    web["spec"]["terminationGracePeriodSeconds"] = json!(60);
    world.create(web);
    world.converge();
    let unseen = world.create(restart("unseen", json!({"podName": "web"})));
    let slow = world.create(restart("slow", json!({"podName": "web", "rung": "Container"})));
    world.settle();
    world.api.change(&slow, |r| r["status"] = json!({"phase": "Running"}));
    world.advance(TickDuration::from_secs(655));
    assert_eq!(status(&world, &unseen).phase, None);
    assert_eq!(status(&world, &slow).phase, Some(PodRestartPhase::Running));
    world.advance(TickDuration::from_secs(10));
    for (request, says) in [(&unseen, "before it was begun"), (&slow, "what was begun goes on")] {
        let status = status(&world, request);
        assert_eq!(status.phase, Some(PodRestartPhase::Failed));
        let message = status.message.unwrap();
        assert!(message.contains("deadline of 11m") && message.contains(says), "{message}");
    }
    world.advance(TickDuration::from_secs(605));
    assert!(!world.api.objects.contains_key(&slow), "its time after the finish is over");
}

/// It was not tried. Where the node is well, nobody there carries restarts out: a ladder has to go
/// on with the next rung.
#[test]
fn what_a_ladder_asks_of_a_silent_node_is_withdrawn_at_its_deadline() {
    for (node_is, ladder, phase) in [
        ("Unknown", json!("web"), PodRestartPhase::Withdrawn),
        ("Unknown", Value::Null, PodRestartPhase::Failed),
        ("True", json!("web"), PodRestartPhase::Failed),
    ] {
        let mut world = World::with_node();
        world.create(pod("web", json!({})));
        world.converge();
        world.api.change(&id(ResourceKind::Node, "node-1"), |node| {
            node["status"]["conditions"] = json!([{"type": "Ready", "status": node_is}]);
        });
        let mut spec = json!({"podName": "web", "rung": "Pod", "deadlineSeconds": 60});
        if !ladder.is_null() {
            spec["ladderName"] = ladder;
        }
        let request = world.create(restart("again", spec));
        world.advance(TickDuration::from_secs(59));
        assert_eq!(status(&world, &request).phase, None);
        world.advance(TickDuration::from_secs(3));
        let status = status(&world, &request);
        assert_eq!(status.phase, Some(phase), "node is {node_is}");
        let told = status.message.unwrap();
        let expected = match node_is {
            "True" => "its deadline of 1m passed before it was begun",
            _ => "node node-1 is not ready: nobody took it up within its deadline of 1m",
        };
        assert_eq!(told, expected);
    }
}

#[test]
fn a_request_that_is_not_done_by_its_deadline_is_failed_and_goes_after_its_own_time() {
    let mut world = World::with_node();
    world.create(pod("web", json!({})));
    world.converge();
    let spec = json!({"podName": "web", "deadlineSeconds": 90, "ttlSecondsAfterFinished": 5});
    let unseen = world.create(restart("unseen", spec.clone()));
    let slow = world.create(restart("slow", spec.clone()));
    let done = world.create(restart("done", spec));
    world.settle();
    world.api.change(&slow, |r| r["status"] = json!({"phase": "Running"}));
    world.advance(TickDuration::from_secs(85));
    assert_eq!(status(&world, &unseen).phase, None, "there is time left");
    world.api.change(&done, |r| r["status"] = json!({"phase": "Succeeded"}));
    world.advance(TickDuration::from_secs(6));
    for (request, says) in [(&unseen, "before it was begun"), (&slow, "what was begun goes on")] {
        let status = status(&world, request);
        assert_eq!(status.phase, Some(PodRestartPhase::Failed));
        let message = status.message.unwrap();
        assert!(message.contains("deadline of 1m30s") && message.contains(says), "{message}");
    }
    assert!(!world.api.objects.contains_key(&done), "five seconds are over");
    world.advance(TickDuration::from_secs(6));
    assert!(!world.api.objects.contains_key(&slow));
}
