//! Pods on the node's own network.

use k8s_openapi::api::core::v1::Pod;
use rekindle_types::v1alpha1::Rung;
use serde_json::json;

use crate::testing::{World, container, pod, restart};

fn pod_on_host_network(name: &str) -> Pod {
    let mut pod = pod(name, vec![container("app")]);
    pod.spec.as_mut().unwrap().host_network = Some(true);
    pod
}

/// Whether a sandbox of this pod has an address of its own.
fn has_address(world: &World, pod: &str) -> bool {
    let uid = world.api.get("pods", pod).unwrap()["metadata"]["uid"].clone();
    world.network.attached().iter().any(|id| id.starts_with(uid.as_str().unwrap()))
}

async fn restart_whole(world: &World, name: &str) {
    world.api.create("podrestarts", &restart(name, "agent", Rung::Pod));
    let done = |request: serde_json::Value| request["status"]["phase"] == "Succeeded";
    world.api.until("done", |api| api.get("podrestarts", name).is_some_and(done)).await;
    world.until_running("agent").await;
}

#[tokio::test(start_paused = true)]
async fn a_pod_on_the_nodes_network_has_the_nodes_address_and_none_of_its_own() {
    let world = World::new();
    world.api.create("pods", &pod_on_host_network("agent"));
    world.api.create("pods", &pod("web", vec![container("app")]));
    let agent = world.agent().await;
    world.until_running("agent").await;
    world.until_running("web").await;
    let of_node = world.status("agent")["hostIP"].clone();
    assert!(of_node.is_string());
    for name in ["agent", "web"] {
        let on_host = name == "agent";
        assert_eq!(world.status(name)["podIP"] == of_node, on_host, "{name}");
        assert_eq!(has_address(&world, name), !on_host, "{name}");
    }

    restart_whole(&world, "again").await;
    assert_eq!(world.status("agent")["podIPs"], json!([{"ip": of_node}]));
    assert!(!has_address(&world, "agent"));

    world.crash(agent);
    let _agent = world.agent().await;
    restart_whole(&world, "after").await;
    assert_eq!(world.status("agent")["podIPs"], json!([{"ip": of_node}]));
    assert!(!has_address(&world, "agent"));
    assert!(has_address(&world, "web"));
}
