//! Evicted pods in whose place none comes: a request that waits for one ends at once, and says why.

use rekindle_controllers::plan::DependentPolicy;
use rekindle_controllers::{ObjectId, ResourceKind, ViewObject};
use rekindle_types::v1alpha1::{PodRestartPhase, PodRestartStatus, ReplacementStep};
use serde_json::{Value, json};

use crate::build::{deployment, job, template};
use crate::world::{World, id};

/// A workload in whose place of a pod nothing comes any more.
struct Case {
    workload: Value,
    pod: &'static str,
    /// What becomes of the workload while the evicted pod ends.
    then: fn(&mut World, &ObjectId),
    message: &'static str,
}

fn of_apps(kind: &str, mut spec: Value) -> Value {
    spec["selector"] = json!({"matchLabels": {"app": "web"}});
    spec["template"] = template("web", "one");
    json!({"kind": kind, "metadata": {"name": "web", "generation": 1}, "spec": spec})
}

fn edit(world: &mut World, id: &ObjectId, field: &str, value: Value) {
    world.api.change(id, |object| {
        object["metadata"]["generation"] = json!(2);
        object["spec"][field] = value;
    });
}

fn status(world: &World, id: &ObjectId) -> PodRestartStatus {
    match &world.api.objects[id] {
        ViewObject::PodRestart(restart) => restart.status.clone().unwrap_or_default(),
        other => panic!("{other:?}"),
    }
}

fn evicting(world: &mut World, pod: &str) -> ObjectId {
    let request = world.create(json!({"kind": "PodRestart", "metadata": {"name": "again"},
        "spec": {"podName": pod, "rung": "Recreate"}}));
    world.settle(); // evicted; it still ends
    let step = status(world, &request).replacement.map(|replacement| replacement.step);
    assert_eq!(step, Some(ReplacementStep::Evicting), "{pod}");
    request
}

fn pod_named(world: &World, prefix: &str) -> String {
    let names = world.api.pods().into_iter().filter_map(|pod| pod.metadata.name.clone());
    names.filter(|name| name.starts_with(prefix)).max().unwrap()
}

#[test]
fn a_request_ends_at_once_when_nothing_takes_the_place_of_the_evicted_pod() {
    let set = || of_apps("StatefulSet", json!({"replicas": 2, "serviceName": "web"}));
    let cases = [
        Case {
            workload: set(),
            pod: "web-1",
            then: |world, set| edit(world, set, "replicas", json!(1)),
            message: "nothing takes the place of pod web-1: StatefulSet web was scaled down and does not want it any more",
        },
        Case {
            workload: set(),
            pod: "web-1",
            then: |world, set| world.api.user_deletes(set, DependentPolicy::Background),
            message: "nothing takes the place of pod web-1: StatefulSet web was deleted",
        },
        Case {
            workload: set(),
            pod: "web-1",
            then: |world, set| world.api.user_deletes(set, DependentPolicy::Foreground),
            message: "nothing takes the place of pod web-1: StatefulSet web is being deleted",
        },
        Case {
            workload: of_apps("DaemonSet", json!({})),
            pod: "web-",
            then: |world, set| {
                world.api.change(set, |set| {
                    set["metadata"]["generation"] = json!(2);
                    set["spec"]["template"]["spec"]["nodeSelector"] = json!({"disk": "fast"});
                });
            },
            message: "DaemonSet web wants no pod on node node-1 any more",
        },
        Case {
            workload: deployment("web", 2, "one"),
            pod: "web-",
            then: |world, web| edit(world, web, "replicas", json!(1)),
            message: "Deployment web has all the pods that it wants",
        },
        Case {
            workload: job("web", json!({"backoffLimit": 4})),
            pod: "web-",
            then: |world, web| edit(world, web, "suspend", json!(true)),
            message: "Job web is suspended",
        },
    ];
    for Case { workload, pod, then, message } in cases {
        let kind = workload["kind"].as_str().unwrap().to_owned();
        let mut world = World::with_node();
        let workload = world.create(workload);
        world.converge();
        let pod = pod_named(&world, pod);
        world.api.refuse_creation = Some((ResourceKind::Pod, "exceeded quota".to_owned()));
        let request = evicting(&mut world, &pod);
        then(&mut world, &workload);
        world.settle();
        world.settle();
        let status = status(&world, &request);
        let told = status.message.unwrap_or_default();
        assert_eq!(status.phase, Some(PodRestartPhase::Failed), "{kind}: {told}");
        assert!(told.ends_with(message), "{kind}: {told}");
        assert!(told.starts_with(&format!("nothing takes the place of pod {pod}: ")), "{told}");
    }
}

/// An eviction is a failure of the pod: a Job that has none left is over.
#[test]
fn a_request_for_the_last_pod_of_a_job_ends_with_the_job() {
    let mut world = World::with_node();
    world.create(job("import", json!({"backoffLimit": 0})));
    world.converge();
    let pod = pod_named(&world, "import-");
    let request = evicting(&mut world, &pod);
    world.converge();
    let status = status(&world, &request);
    assert_eq!(status.phase, Some(PodRestartPhase::Failed));
    let message = format!("nothing takes the place of pod {pod}: Job import is over");
    assert_eq!(status.message, Some(message));
}

/// As long as a pod is missing, it may only be late.
#[test]
fn a_request_waits_for_what_a_workload_is_kept_from_making() {
    let mut world = World::with_node();
    world.create(deployment("web", 2, "one"));
    world.converge();
    let pod = pod_named(&world, "web-");
    world.api.refuse_creation = Some((ResourceKind::Pod, "exceeded quota".to_owned()));
    let request = evicting(&mut world, &pod);
    world.kubelet();
    world.settle();
    assert!(!world.api.objects.contains_key(&id(ResourceKind::Pod, &pod)));
    assert_eq!(status(&world, &request).phase, Some(PodRestartPhase::Running));
    world.api.refuse_creation = None;
    world.converge();
    assert_eq!(status(&world, &request).phase, Some(PodRestartPhase::Succeeded));
}
