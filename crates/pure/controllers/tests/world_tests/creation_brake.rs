//! P18: no controller creates the same object again and again without a growing pause, whatever the
//! cause. An adversary undoes each object as soon as it is there, for an hour; and what is only
//! much, or often, is not braked.

use std::collections::BTreeSet;

use rekindle_controllers::plan::DependentPolicy;
use rekindle_controllers::{ClusterView, ObjectId, ResourceKind, ViewObject, WriteOperation, pods};
use rekindle_types::TickDuration;
use serde_json::{Value, json};

use crate::build::{deployment, job, pod, replica_set, template};
use crate::world::{World, id};

const HOUR: TickDuration = TickDuration::from_secs(3600);
/// Pauses after losses: 5 are free, 9 double from 1 s to 256 s, 10 more of 5 minutes fit into an
/// hour.
const ROUNDS: usize = 30;

/// What the adversary does to an object.
#[derive(Clone, Copy, Debug)]
enum Harm {
    Delete,
    /// The kubelet says that the pod failed.
    Fail(&'static str),
    Succeed,
    /// Its labels are others, so that its owner does not know it.
    Relabel,
    /// Its template is another.
    Alter,
    /// It seems to be of another revision, so that its controller deletes it as outdated.
    Outdate,
    /// It seems to have another index.
    Renumber,
}

fn harm(world: &mut World, id: &ObjectId, harm: Harm) {
    match harm {
        Harm::Delete => {
            world.api.user_deletes(id, DependentPolicy::Background);
            if id.kind == ResourceKind::Pod && world.api.objects.contains_key(id) {
                world.api.pod_ended(id);
            }
        }
        Harm::Fail(reason) => world.api.change(id, |pod| {
            pod["status"] = json!({"phase": "Failed", "reason": reason});
        }),
        Harm::Succeed => world.api.change(id, |pod| pod["status"]["phase"] = json!("Succeeded")),
        Harm::Relabel => {
            world.api.change(id, |object| object["metadata"]["labels"] = json!({"app": "lost"}));
        }
        Harm::Outdate => world.api.change(id, |pod| {
            pod["metadata"]["labels"]["controller-revision-hash"] = json!("other");
        }),
        Harm::Renumber => world.api.change(id, |pod| {
            pod["metadata"]["annotations"]["batch.kubernetes.io/job-completion-index"] = json!("9");
        }),
        Harm::Alter => world.api.change(id, |object| {
            object["spec"]["template"]["spec"]["containers"][0]["image"] = json!("altered");
        }),
    }
}

fn created(world: &World, kind: ResourceKind) -> usize {
    let is_one = |write: &&WriteOperation| matches!(write, WriteOperation::Create(of) if of.id().kind == kind);
    world.writes.iter().filter(is_one).count()
}

fn told(world: &World, reason: &str) -> usize {
    world.notes.iter().filter(|note| note.reason == reason).count()
}

/// An hour in which each object of a kind is undone when it is seen; so many are created.
fn besieged(world: &mut World, kind: ResourceKind, how: Harm) -> usize {
    let end = world.api.now + HOUR;
    let mut undone = BTreeSet::new();
    while world.api.now < end {
        world.settle();
        end_what_is_deleted(world);
        let ids = world.api.ids(kind, "shop");
        let fresh: Vec<ObjectId> = ids
            .into_iter()
            .filter(|id| undone.insert(world.api.objects[id].uid().to_owned()))
            .collect();
        if fresh.is_empty() {
            let due = world.timers.values().min().copied();
            let due = due.unwrap_or(end).min(end).since(world.api.now);
            world.advance(due.max(TickDuration::from_millis(10)));
            continue;
        }
        fresh.iter().for_each(|id| harm(world, id, how));
        assert!(created(world, kind) < 2_000, "no end of it: {:?}", world.notes.last());
    }
    created(world, kind)
}

/// The kubelet is quick.
fn end_what_is_deleted(world: &mut World) {
    for id in world.api.ids(ResourceKind::Pod, "shop") {
        if world.api.objects[&id].meta().deletion_timestamp.is_some() {
            world.api.pod_ended(&id);
        }
    }
    world.settle();
}

fn controllers_of_pods() -> Vec<(&'static str, Value)> {
    let web = |kind: &str, more: Value| {
        let mut value = json!({"kind": kind, "metadata": {"name": "web"}, "spec": {
            "replicas": 3, "serviceName": "web",
            "selector": {"matchLabels": {"app": "web"}}, "template": template("web", "one")}});
        for (key, value_of) in more.as_object().unwrap() {
            value["spec"][key] = value_of.clone();
        }
        value
    };
    let many = json!({"parallelism": 3, "completions": 3, "backoffLimit": 1_000_000});
    let mut indexed = many.clone();
    indexed["completionMode"] = json!("Indexed");
    vec![
        ("ReplicaSet", replica_set("web", 3)),
        (
            "ReplicationController",
            web("ReplicationController", json!({"selector": {"app": "web"}})),
        ),
        ("Deployment", deployment("web", 3, "one")),
        ("StatefulSet", web("StatefulSet", json!({}))),
        ("StatefulSet, parallel", web("StatefulSet", json!({"podManagementPolicy": "Parallel"}))),
        ("DaemonSet", web("DaemonSet", json!({}))),
        ("Job", job("web", many)),
        ("Job, indexed", job("web", indexed)),
    ]
}

#[test]
fn pods_that_end_as_soon_as_they_are_there_are_created_ever_more_slowly() {
    let harms = [
        Harm::Delete,
        Harm::Fail("Evicted"),
        Harm::Fail("NodePorts"),
        Harm::Succeed,
        Harm::Relabel,
        Harm::Outdate,
        Harm::Renumber,
    ];
    for (name, controller) in controllers_of_pods() {
        for how in harms {
            // what a Job's pods are there for, and what happens to it once they did it
            if controller["kind"] == "Job" && matches!(how, Harm::Succeed) {
                continue;
            }
            let mut world = World::new();
            for node in ["node-1", "node-2", "node-3"] {
                world.api.add_node(node, "100", "100Gi", "1000");
            }
            world.create(controller.clone());
            let count = besieged(&mut world, ResourceKind::Pod, how);
            // the name of a StatefulSet's pod stays taken when the pod is not its own any more
            assert!((1..=3 * ROUNDS).contains(&count), "{name}, {how:?}: {count} pods in an hour");
            let paused = told(&world, "CreationPaused");
            let is_told = paused > 0 || count <= 3 || controller["kind"] == "Job";
            assert!(is_told, "{name}, {how:?}: {count} pods");
            assert!(paused <= 3 * ROUNDS, "{name}, {how:?}: told {paused} times");
        }
    }
}

/// Two rules that disagree: to the DaemonSet the node's taint is tolerated, to the taint eviction
/// controller for no time at all.
#[test]
fn a_daemon_that_its_node_ends_at_once_is_created_ever_more_slowly() {
    let mut world = World::with_node();
    world.api.change(&id(ResourceKind::Node, "node-1"), |node| {
        node["spec"]["taints"] = json!([{"key": "off", "effect": "NoExecute"}]);
    });
    let mut set = controllers_of_pods()[5].1.clone();
    set["spec"]["template"]["spec"]["tolerations"] = json!([
        {"key": "off", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 0}]);
    world.create(set);
    let end = world.api.now + HOUR;
    while world.api.now < end {
        world.advance(TickDuration::from_secs(1));
        end_what_is_deleted(&mut world);
    }
    let count = created(&world, ResourceKind::Pod);
    assert!((6..=ROUNDS).contains(&count), "{count} in an hour");
    assert!(told(&world, "CreationPaused") > 0);
}

#[test]
fn evicted_pods_of_a_replica_set_are_replaced_after_10_20_40_seconds() {
    let mut world = World::with_node();
    world.create(replica_set("web", 3));
    let mut at = Vec::new();
    let begun = world.api.now;
    let mut count = 0;
    for _ in 0..200 {
        world.settle();
        if created(&world, ResourceKind::Pod) > count {
            count = created(&world, ResourceKind::Pod);
            at.push((world.api.now.since(begun).as_secs(), count));
            for id in world.api.ids(ResourceKind::Pod, "shop") {
                harm(&mut world, &id, Harm::Fail("Evicted"));
            }
        }
        world.advance(TickDuration::from_secs(1));
    }
    let rounds: Vec<u64> = at.iter().map(|(at, _)| at / 2 * 2).collect();
    assert_eq!(at.iter().map(|(_, count)| *count).collect::<Vec<_>>(), [3, 6, 9, 12, 15]);
    assert_eq!(rounds, [0, 10, 30, 70, 150]);
    let said = "CreationPaused: waiting 10s before the next Pod is created: 1 in a row failed or were deleted soon after their creation";
    assert!(world.said().iter().any(|line| line == said), "{:?}", world.said());
    assert_eq!(told(&world, "CreationPaused"), 5, "once a pause");
}

#[test]
fn other_objects_that_are_undone_are_created_ever_more_slowly() {
    let service = json!({"kind": "Service", "metadata": {"name": "web"}, "spec": {
        "selector": {"app": "web"}, "ports": [{"port": 80}]}});
    let mut with_claim = controllers_of_pods()[3].1.clone();
    with_claim["spec"]["volumeClaimTemplates"] = json!([{"metadata": {"name": "data"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}]);
    let set = controllers_of_pods()[5].1.clone();
    let web = || deployment("web", 1, "one");
    let cases = [
        (web(), ResourceKind::ReplicaSet, Harm::Delete),
        (web(), ResourceKind::ReplicaSet, Harm::Alter),
        (web(), ResourceKind::ReplicaSet, Harm::Relabel),
        (set.clone(), ResourceKind::ControllerRevision, Harm::Delete),
        (set, ResourceKind::ControllerRevision, Harm::Relabel),
        (with_claim, ResourceKind::PersistentVolumeClaim, Harm::Delete),
        (service.clone(), ResourceKind::EndpointSlice, Harm::Delete),
        (service.clone(), ResourceKind::EndpointSlice, Harm::Relabel),
        (service, ResourceKind::Endpoints, Harm::Delete),
    ];
    for (owner, kind, how) in cases {
        let mut world = World::with_node();
        world.create(owner);
        let count = besieged(&mut world, kind, how);
        assert!((1..=ROUNDS).contains(&count), "{kind}, {how:?}: {count} in an hour");
        assert!(told(&world, "CreationPaused") > 0 || count < 7, "{kind}, {how:?}: {count}");
    }
}

/// Somebody takes back what the CronJob's status says as well.
#[test]
fn a_job_whose_time_is_made_unserved_again_is_created_ever_more_slowly() {
    let mut world = World::with_node();
    let template = job("report", json!({}))["spec"].clone();
    let cron = world.create(json!({"kind": "CronJob", "metadata": {"name": "report"}, "spec": {
        "schedule": "0 0 12 1 *", "concurrencyPolicy": "Allow", "jobTemplate": {"spec": template}}}));
    let end = world.api.now + HOUR;
    while world.api.now < end {
        world.settle();
        for job in world.api.ids(ResourceKind::Job, "shop") {
            harm(&mut world, &job, Harm::Delete);
        }
        world.api.change(&cron, |cron| {
            cron["status"] = json!({"lastScheduleTime": "1970-01-05T00:00:00Z"});
        });
        world.advance(TickDuration::from_secs(5));
    }
    let count = created(&world, ResourceKind::Job);
    assert!((7..=ROUNDS).contains(&count), "{count} in an hour");
    assert!(told(&world, "CreationPaused") > 0);
}

#[test]
fn a_pod_that_a_request_creates_again_once_is_not_created_twice() {
    let mut world = World::with_node();
    world.create(pod("web", json!({})));
    world.converge();
    world.create(json!({"kind": "PodRestart", "metadata": {"name": "again"},
        "spec": {"podName": "web", "rung": "Recreate"}}));
    let count = besieged(&mut world, ResourceKind::Pod, Harm::Delete);
    assert!(count <= 1, "{count}");
}

#[test]
fn the_next_leader_waits_as_long_for_pods_that_have_failed() {
    let mut world = World::with_node();
    world.create(replica_set("web", 3));
    world.settle();
    for pause in [10, 20] {
        for id in world.api.ids(ResourceKind::Pod, "shop") {
            let at = world.api.now.to_time();
            world.api.change(&id, |pod| {
                if pod["status"]["phase"] != json!("Failed") {
                    let ready =
                        json!({"type": "Ready", "status": "False", "lastTransitionTime": at});
                    pod["status"] =
                        json!({"phase": "Failed", "reason": "Evicted", "conditions": [ready]});
                }
            });
        }
        world.advance(TickDuration::from_secs(pause));
    }
    for id in world.api.ids(ResourceKind::Pod, "shop") {
        harm(&mut world, &id, Harm::Fail("Evicted"));
    }
    world.settle();
    assert_eq!(created(&world, ResourceKind::Pod), 9);
    world.view = ClusterView::new();
    world.queue.clear();
    world.timers.clear();
    for kind in ResourceKind::ALL {
        world.relist(kind, 0);
    }
    world.advance(TickDuration::from_secs(35));
    assert_eq!(created(&world, ResourceKind::Pod), 9, "the third pause is 40 s");
    world.advance(TickDuration::from_secs(10));
    assert_eq!(created(&world, ResourceKind::Pod), 12);
}

#[test]
fn one_pod_that_always_fails_holds_back_no_other() {
    let mut world = World::with_node();
    world.create(replica_set("web", 20));
    world.converge();
    let first = world.api.ids(ResourceKind::Pod, "shop")[0].clone();
    harm(&mut world, &first, Harm::Fail("Evicted"));
    world.settle();
    assert_eq!(created(&world, ResourceKind::Pod), 20, "it waits");
    world
        .api
        .change(&id(ResourceKind::ReplicaSet, "web"), |set| set["spec"]["replicas"] = json!(40));
    world.settle();
    assert_eq!(created(&world, ResourceKind::Pod), 40, "20 of 21 that lack");
    world.advance(TickDuration::from_secs(11));
    assert_eq!(created(&world, ResourceKind::Pod), 41);
}

#[test]
fn an_edited_template_is_tried_at_once() {
    for (name, controller) in controllers_of_pods() {
        let kind =
            ResourceKind::ALL.into_iter().find(|kind| controller["kind"] == kind.info().kind);
        if controller["kind"] == "Job" {
            continue; // its template is never edited
        }
        let mut world = World::with_node();
        world.create(controller);
        besieged(&mut world, ResourceKind::Pod, Harm::Fail("Evicted"));
        let before = created(&world, ResourceKind::Pod);
        world.api.change(&id(kind.unwrap(), "web"), |owner| {
            owner["spec"]["template"]["spec"]["containers"][0]["image"] = json!("mended");
        });
        for _ in 0..20 {
            world.advance(TickDuration::from_millis(100));
            world.kubelet();
        }
        assert!(created(&world, ResourceKind::Pod) > before, "{name}");
    }
}

#[test]
fn what_is_many_or_often_on_purpose_is_not_braked() {
    // rollouts, one after the other
    let mut world = World::with_node();
    world.create(deployment("web", 20, "v0"));
    world.converge();
    for image in ["v1", "v2", "v1", "v3", "v0", "v4"] {
        world.api.change(&id(ResourceKind::Deployment, "web"), |web| {
            web["spec"]["template"]["spec"]["containers"][0]["image"] = json!(image);
        });
        world.converge();
    }
    assert_eq!(told(&world, "CreationPaused"), 0, "rollouts");
    // an autoscaler up and down
    let mut world = World::with_node();
    world.create(replica_set("web", 1));
    for replicas in [500, 1, 90, 1, 80, 1, 70, 1, 60, 1, 50, 1, 40, 1, 30] {
        let set = id(ResourceKind::ReplicaSet, "web");
        world.api.change(&set, |set| set["spec"]["replicas"] = json!(replicas));
        world.settle();
        world.kubelet();
        world.settle();
        assert_eq!(world.api.pods().iter().filter(|pod| pods::is_active(pod)).count(), replicas);
        world.advance(TickDuration::from_secs(5));
    }
    assert_eq!(told(&world, "CreationPaused"), 0, "scaling");
    // a Job whose pods are soon done
    let mut world = World::with_node();
    world.create(job("sum", json!({"parallelism": 100, "completions": 500})));
    for _ in 0..20 {
        world.advance(TickDuration::from_secs(1));
        for id in world.api.ids(ResourceKind::Pod, "shop") {
            if matches!(&world.api.objects[&id], ViewObject::Pod(pod) if pods::is_active(pod)) {
                harm(&mut world, &id, Harm::Succeed);
            }
        }
    }
    assert_eq!(
        (created(&world, ResourceKind::Pod), told(&world, "CreationPaused")),
        (500, 0),
        "a Job"
    );
    // a DaemonSet on many nodes, whose template changes
    let mut world = World::new();
    for number in 0..40 {
        world.api.add_node(&format!("node-{number}"), "100", "100Gi", "1000");
    }
    let mut set = controllers_of_pods()[5].1.clone();
    set["spec"]["updateStrategy"] =
        json!({"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "50%"}});
    world.create(set);
    world.converge();
    for image in ["v1", "v2"] {
        world.api.change(&id(ResourceKind::DaemonSet, "web"), |set| {
            set["spec"]["template"]["spec"]["containers"][0]["image"] = json!(image);
        });
        world.converge();
    }
    assert_eq!(
        (created(&world, ResourceKind::Pod), told(&world, "CreationPaused")),
        (120, 0),
        "nodes"
    );
}
