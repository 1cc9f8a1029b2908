//! Ephemeral containers: what they refer to is there, and whose processes they see.

use std::path::Path;

use k8s_openapi::api::core::v1::{
    ConfigMapEnvSource, ConfigMapVolumeSource, Container, EnvFromSource, Pod, Volume, VolumeMount,
};
use rekindle_types::{ExitStatus, ephemeral};
use serde_json::json;

use super::events;
use crate::testing::{World, container, pod};

fn with_ephemeral(pod: &Pod, added: Container, target: Option<&str>) -> Pod {
    let mut pod = pod.clone();
    let added = ephemeral::ephemeral_container(added, target.map(str::to_owned));
    pod.spec.as_mut().unwrap().ephemeral_containers.get_or_insert_default().push(added);
    pod
}

fn state(world: &World) -> serde_json::Value {
    world.status("web")["ephemeralContainerStatuses"][0]["state"].clone()
}

#[tokio::test(start_paused = true)]
async fn a_container_that_is_added_gets_its_environment_and_its_target() {
    let world = World::new();
    let config = json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "colours", "namespace": "default"},
        "data": {"COLOUR": "blue"},
    });
    world.api.create("configmaps", &config);
    let web = pod("web", vec![container("app")]);
    world.api.create("pods", &web);
    let agent = world.agent().await;
    world.until_running("web").await;

    let from = EnvFromSource {
        config_map_ref: Some(ConfigMapEnvSource { name: "colours".to_owned(), optional: None }),
        ..EnvFromSource::default()
    };
    let added = Container { env_from: Some(vec![from]), ..container("debugger") };
    let changed = serde_json::to_value(with_ephemeral(&web, added, Some("app"))).unwrap();
    world.api.modify("pods", "web", &json!({ "spec": changed["spec"] }));
    world.api.until("it runs", |_| state(&world)["running"].is_object()).await;
    let made = world.machine.spec("debugger");
    assert!(made.env.contains(&("COLOUR".to_owned(), "blue".to_owned())), "{:?}", made.env);
    assert_eq!(made.target.unwrap(), world.machine.spec("app").key);

    world.crash(agent);
    let _agent = world.agent().await;
    world.machine.end("debugger", ExitStatus::Code { code: 5 });
    world.api.until("it has ended", |_| state(&world)["terminated"]["exitCode"] == 5).await;
    assert_eq!(world.machine.starts("debugger"), 1);
    assert_eq!(world.status("web")["phase"], "Running");
}

#[tokio::test(start_paused = true)]
async fn a_container_that_is_added_finds_a_volume_that_nobody_mounted_before() {
    let world = World::new();
    let mut web = pod("web", vec![container("app")]);
    let source = ConfigMapVolumeSource { name: "colours".to_owned(), ..Default::default() };
    let volume =
        Volume { name: "colours".to_owned(), config_map: Some(source), ..Volume::default() };
    web.spec.as_mut().unwrap().volumes = Some(vec![volume]);
    world.api.create("pods", &web);
    let _agent = world.agent().await;
    world.until_running("web").await; // what it does not mount need not be there

    let mount = VolumeMount {
        name: "colours".to_owned(),
        mount_path: "/colours".to_owned(),
        ..VolumeMount::default()
    };
    let added = Container { volume_mounts: Some(vec![mount]), ..container("debugger") };
    let changed = serde_json::to_value(with_ephemeral(&web, added, None)).unwrap();
    world.api.modify("pods", "web", &json!({ "spec": changed["spec"] }));
    world.api.until("it is missed", |_| !events(&world, "FailedMount").is_empty()).await;
    assert_eq!(world.machine.running(), ["app#0"]);
    let config = json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "colours", "namespace": "default"},
        "data": {"COLOUR": "blue"},
    });
    world.api.create("configmaps", &config);
    world.api.until("it runs", |_| state(&world)["running"].is_object()).await;
    let mounts = world.machine.spec("debugger").mounts;
    let of_volume = mounts.iter().find(|mount| mount.destination == Path::new("/colours"));
    let file = of_volume.unwrap().source.host_path().unwrap().join("COLOUR");
    assert_eq!(std::fs::read_to_string(file).unwrap(), "blue");
    let shown = &world.status("web")["ephemeralContainerStatuses"][0]["volumeMounts"];
    assert_eq!(*shown, json!([{ "name": "colours", "mountPath": "/colours" }]));
}
