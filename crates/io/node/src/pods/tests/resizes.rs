//! Resources that change while a pod runs.

use k8s_openapi::api::core::v1::{Container, ResourceRequirements};
use serde_json::{Value, json};

use super::{events, shown};
use crate::testing::{World, container, pod};

/// More boundaries than any scenario has.
const BOUNDARIES_MAX: u32 = 100;

/// A container that asks for so much CPU, and may use as much.
fn sized(name: &str, cpu: &str) -> Container {
    let list = || Some([("cpu".to_owned(), serde_json::from_value(json!(cpu)).unwrap())].into());
    let resources = ResourceRequirements {
        requests: list(),
        limits: list(),
        ..ResourceRequirements::default()
    };
    Container { resources: Some(resources), ..container(name) }
}

/// Asks for so much CPU for the only container of a pod.
fn resize(world: &World, pod: &str, cpu: &str) {
    let object = world.api.get("pods", pod).unwrap();
    let mut containers = object["spec"]["containers"].clone();
    containers[0]["resources"] = json!({"requests": {"cpu": cpu}, "limits": {"cpu": cpu}});
    let generation = object["metadata"]["generation"].as_i64().unwrap_or(0) + 1;
    let patch = json!({"metadata": {"generation": generation}, "spec": {"containers": containers}});
    world.api.modify("pods", pod, &patch);
}

fn limit_of(world: &World, container: &str) -> Option<u64> {
    world.machine.spec(container).resources.cpu_limit_millis
}

fn pending(world: &World, pod: &str) -> Option<Value> {
    let status = world.status(pod);
    let conditions = status["conditions"].as_array()?;
    conditions.iter().find(|c| c["type"] == "PodResizePending").cloned()
}

async fn until_in_force(world: &World, pod: &str, container: &str, cpu: &str) {
    let what = format!("{container} has {cpu}");
    world
        .api
        .until(&what, |_| {
            let status = world.status(pod);
            let conditions = status["conditions"].as_array().cloned().unwrap_or_default();
            let settled = !conditions.iter().any(|c| c["type"] == "PodResizeInProgress");
            settled && shown(world, pod, container)["resources"]["limits"]["cpu"] == cpu
        })
        .await;
}

/// What the node of the tests has: the machine's, whatever that is.
fn node_cpus() -> usize {
    std::thread::available_parallelism().unwrap().get()
}

#[tokio::test(start_paused = true)]
async fn limits_change_under_a_running_container_pod_first_up_and_last_down() {
    let world = World::new();
    world.api.create("pods", &pod("web", vec![sized("app", "100m")]));
    let _agent = world.agent().await;
    world.until_running("web").await;
    resize(&world, "web", "300m");
    until_in_force(&world, "web", "app", "300m").await;
    let calls = world.machine.calls();
    let limits: Vec<&String> = calls.iter().filter(|call| call.starts_with("limit")).collect();
    assert_eq!(limits, ["limit pod 300m RaiseOnly", "limit app#0 300m", "limit pod 300m Exact"]);
    assert_eq!(shown(&world, "web", "app")["allocatedResources"]["cpu"], "300m");
    assert_eq!(shown(&world, "web", "app")["restartCount"], 0);
    assert_eq!(world.machine.starts("app"), 1);
}

#[tokio::test(start_paused = true)]
async fn a_crash_in_a_resize_leaves_every_limit_as_it_was_granted() {
    for boundary in 1..BOUNDARIES_MAX {
        let world = World::new();
        world.api.create("pods", &pod("web", vec![sized("app", "100m")]));
        let agent = world.agent().await;
        world.until_running("web").await;
        world.machine.crash_in(boundary);
        resize(&world, "web", "300m");
        let mut crashed = false;
        let is_over = |machine: &crate::testing::Machine| {
            crashed = machine.crashed();
            crashed || machine.count("limit pod 300m Exact") > 0
        };
        world.machine.until("crash or end", is_over).await;
        world.crash(agent);
        world.machine.no_more_crashes();
        let _next = world.agent().await;
        until_in_force(&world, "web", "app", "300m").await;
        assert_eq!(limit_of(&world, "app"), Some(300), "boundary {boundary}");
        assert_eq!(world.machine.starts("app"), 1, "boundary {boundary}");
        assert_eq!(world.machine.calls().last().unwrap(), "limit pod 300m Exact");
        if !crashed {
            return;
        }
    }
    panic!("the scenario has more boundaries than expected");
}

#[tokio::test(start_paused = true)]
async fn a_deferred_resize_is_carried_out_when_another_pod_goes() {
    let world = World::new();
    let most = node_cpus() * 1000 - 200;
    world.api.create("pods", &pod("large", vec![sized("big", &format!("{most}m"))]));
    world.api.create("pods", &pod("web", vec![sized("app", "100m")]));
    let agent = world.agent().await;
    world.until_running("large").await;
    world.until_running("web").await;
    resize(&world, "web", "500m");
    world.api.until("deferred", |_| pending(&world, "web").is_some()).await;
    let condition = pending(&world, "web").unwrap();
    assert_eq!(condition["reason"], "Deferred");
    let words = format!(
        "Node didn't have enough resource: cpu, requested: 500, used: {most}, capacity: {}",
        node_cpus() * 1000
    );
    assert_eq!(condition["message"], words);
    assert_eq!(limit_of(&world, "app"), Some(100));

    // an agent that starts again gives nothing away that somebody has
    world.crash(agent);
    let _agent = world.agent().await;
    world.lease_renewals(3).await;
    assert_eq!(pending(&world, "web").unwrap()["reason"], "Deferred");

    world.api.delete_pod("large", 0);
    until_in_force(&world, "web", "app", "500m").await;
    assert_eq!(pending(&world, "web"), None);
    assert_eq!(limit_of(&world, "app"), Some(500));
}

#[tokio::test(start_paused = true)]
async fn what_the_node_never_has_is_infeasible_and_a_restart_keeps_the_grant() {
    let world = World::new();
    world.api.create("pods", &pod("web", vec![sized("app", "100m")]));
    let _agent = world.agent().await;
    world.until_running("web").await;
    resize(&world, "web", "1000");
    world.api.until("refused", |_| pending(&world, "web").is_some()).await;
    assert_eq!(pending(&world, "web").unwrap()["reason"], "Infeasible");
    world.machine.end("app", rekindle_types::ExitStatus::Code { code: 1 });
    world.api.until("restarted", |_| shown(&world, "web", "app")["restartCount"] == 1).await;
    assert_eq!(limit_of(&world, "app"), Some(100));
    world.api.until("told", |_| events(&world, "ResizeInfeasible").len() == 1).await;
}

#[tokio::test(start_paused = true)]
async fn files_that_tell_of_limits_follow_the_grant() {
    let world = World::new();
    let mut web = pod("web", vec![sized("app", "100m")]);
    let spec = web.spec.as_mut().unwrap();
    let selector = json!({"containerName": "app", "resource": "limits.cpu", "divisor": "1m"});
    let files = json!([{"path": "cpu", "resourceFieldRef": selector}]);
    let volume = json!({"name": "info", "downwardAPI": {"items": files}});
    spec.volumes = Some(vec![serde_json::from_value(volume).unwrap()]);
    let mount = json!({"name": "info", "mountPath": "/info"});
    spec.containers[0].volume_mounts = Some(vec![serde_json::from_value(mount).unwrap()]);
    world.api.create("pods", &web);
    let _agent = world.agent().await;
    world.until_running("web").await;
    let mounts = world.machine.spec("app").mounts;
    let info = mounts.iter().find(|mount| mount.destination.ends_with("info")).unwrap();
    let file = info.source.host_path().unwrap().join("cpu");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "100");
    resize(&world, "web", "300m");
    until_in_force(&world, "web", "app", "300m").await;
    world.lease_renewals(1).await;
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "300");
}
