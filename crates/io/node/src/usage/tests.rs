use std::fs;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};

use super::*;
use crate::testing::{World, container, with_volumes};

const GIB: u64 = 1 << 30;

/// A pod of two containers with these volumes.
fn pod(volumes: &Value) -> Pod {
    let pod = crate::testing::pod("web", vec![container("app"), container("helper")]);
    with_volumes(pod, volumes.clone())
}

async fn take(agent: &crate::NodeHandle, scope: UsageScope) -> NodeUsage {
    agent.usage().take(scope).await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn pods_and_containers_show_what_their_cgroups_say() {
    let world = World::new();
    world.machine.usages().memory_bytes.insert("app".to_owned(), 64 << 20);
    world.machine.usages().cpu_ns.insert("app".to_owned(), 5_000_000);
    world.api.create("pods", &pod(&json!([])));
    let agent = world.agent().await;
    world.until_running("web").await;
    let usage = take(&agent, UsageScope::Processes).await;
    let [web] = usage.pods.as_slice() else { panic!("{usage:#?}") };
    let names: Vec<_> = web.containers.iter().map(|found| found.name.0.as_str()).collect();
    assert_eq!(names, ["app", "helper"]);
    let app = web.containers[0].cgroup.unwrap();
    assert_eq!(app.memory.working_set_bytes, 32 << 20);
    assert_eq!(app.cpu.unwrap().usage_ns, 5_000_000);
    assert_eq!(web.cgroup.unwrap().pids, Some(2));
    assert!(web.containers[0].started_at.is_some());
    assert_eq!((web.containers[0].layer, web.ephemeral_storage), (None, None));
}

#[tokio::test(start_paused = true)]
async fn a_pods_ephemeral_storage_is_layers_logs_and_volumes_on_disk() {
    let world = World::new();
    world.machine.usages().layer_bytes.insert("app".to_owned(), GIB);
    world.api.create(
        "pods",
        &pod(&json!([
            {"name": "scratch", "emptyDir": {}}, {"name": "host", "hostPath": {"path": "/etc"}},
        ])),
    );
    let agent = world.agent().await;
    world.until_running("web").await;
    let uid = world.api.get("pods", "web").unwrap()["metadata"]["uid"].clone();
    let uid = uid.as_str().unwrap();
    let volume = world.folder.join(&format!("data/node/pods/{uid}/volumes/scratch"));
    fs::write(volume.join("file"), vec![1; 1 << 20]).unwrap();
    let log = world.folder.join(&format!("logs/default_web_{uid}/app/0.log"));
    fs::write(log, vec![b'x'; 2 << 20]).unwrap();
    let usage = take(&agent, UsageScope::Everything).await;
    let web = &usage.pods[0];
    let [scratch] = web.volumes.as_slice() else { panic!("{:#?}", web.volumes) };
    assert_eq!((scratch.name.as_str(), scratch.medium), ("scratch", VolumeMedium::Disk));
    assert!(scratch.usage.usage.bytes >= 1 << 20);
    assert_eq!(scratch.usage.usage.inodes, 2);
    assert_eq!(web.containers[0].layer.unwrap().usage.bytes, GIB);
    let storage = web.ephemeral_storage.unwrap().usage.bytes;
    assert!((GIB + (3 << 20)..GIB + (4 << 20)).contains(&storage), "{storage}");
}

#[tokio::test(start_paused = true)]
async fn walks_are_kept_for_seconds_and_then_made_again() {
    let world = World::new();
    world.api.create("pods", &pod(&json!([])));
    let agent = world.agent().await;
    world.until_running("web").await;
    let first = take(&agent, UsageScope::Everything).await;
    take(&agent, UsageScope::Everything).await;
    assert_eq!(world.machine.usages().walks, 2, "one for each container");
    tokio::time::advance(Duration::from_secs(3600)).await;
    let later = take(&agent, UsageScope::Everything).await;
    assert_eq!(world.machine.usages().walks, 4);
    let taken_at = |usage: &NodeUsage| usage.pods[0].containers[0].layer.unwrap().taken_at;
    assert!(taken_at(&later) > taken_at(&first));
}

#[tokio::test(start_paused = true)]
async fn available_memory_is_the_capacity_without_the_machines_working_set() {
    let world = World::new();
    world.machine.usages().machine_memory_bytes = 1 << 20;
    let agent = world.agent().await;
    let node = take(&agent, UsageScope::Processes).await.node;
    assert!(node.memory_capacity_bytes > 1 << 20);
    assert_eq!(node.memory_available_bytes, node.memory_capacity_bytes - (1 << 20));
    assert!(node.node_fs.capacity_bytes >= node.node_fs.available_bytes);
    assert_eq!(node.image_fs.inodes_used(), 10);
    assert!(node.processes.running > 0 && node.processes.max >= node.processes.running);
}
