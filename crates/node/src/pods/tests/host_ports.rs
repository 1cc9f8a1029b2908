//! Ports of the node that lead to pods.

use std::net::SocketAddr;

use k8s_openapi::api::core::v1::{ContainerPort, Pod};
use rekindle_types::v1alpha1::Rung;

use super::events;
use crate::testing::{World, container, pod, restart};

fn with_port(name: &str) -> Pod {
    let mut app = container("app");
    app.ports = Some(vec![ContainerPort {
        container_port: 80,
        host_port: Some(8080),
        ..ContainerPort::default()
    }]);
    pod(name, vec![app])
}

/// Where the port leads, if it is open.
fn target(world: &World) -> Option<String> {
    let open = world.network.open_ports();
    let listen: SocketAddr = "0.0.0.0:8080".parse().unwrap();
    assert!(open.iter().all(|(port, _)| *port == listen) && open.len() <= 1, "{open:?}");
    open.first().map(|(_, target)| target.to_string())
}

fn address(world: &World, pod: &str) -> Option<String> {
    world.status(pod)["podIP"].as_str().map(str::to_owned)
}

#[tokio::test(start_paused = true)]
async fn a_port_leads_to_its_pod_through_restarts_and_agents_and_ends_with_it() {
    let world = World::new();
    world.api.create("pods", &with_port("web"));
    let agent = world.agent().await;
    world.until_running("web").await;
    let first = target(&world);
    assert!(first.is_some());
    assert_eq!(first, address(&world, "web"));

    world.api.create("podrestarts", &restart("again", "web", Rung::Pod));
    let done = |request: serde_json::Value| request["status"]["phase"] == "Succeeded";
    world.api.until("done", |api| api.get("podrestarts", "again").is_some_and(done)).await;
    world.until_running("web").await;
    world.machine.until("old sandbox gone", |machine| machine.sandboxes().len() == 1).await;
    let second = target(&world);
    assert!(second.is_some() && second != first);
    assert_eq!(second, address(&world, "web"));

    world.crash(agent);
    world.network.forget_ports();
    let _agent = world.agent().await;
    world.api.until("open again", |_| target(&world).is_some()).await;
    assert_eq!(target(&world), second);
    assert_eq!(world.machine.starts("app"), 2, "the next agent restarts nothing");

    world.api.delete_pod("web", 1);
    world.api.until("gone", |api| api.get("pods", "web").is_none()).await;
    assert_eq!(target(&world), None);
}

#[tokio::test(start_paused = true)]
async fn a_pod_whose_port_another_one_has_says_so_and_starts_when_it_is_free() {
    let world = World::new();
    world.api.create("pods", &with_port("first"));
    let _agent = world.agent().await;
    world.until_running("first").await;
    world.api.create("pods", &with_port("second"));
    world.api.until("told", |_| !events(&world, "FailedCreatePodSandBox").is_empty()).await;
    let told = events(&world, "FailedCreatePodSandBox");
    let expected = "open port 0.0.0.0:8080 of the node (pod default/first of node node-a has it)";
    assert!(told[0].contains(expected), "{told:?}");
    assert_eq!(target(&world), address(&world, "first"));
    world.api.delete_pod("first", 1);
    world.until_running("second").await;
    assert_eq!(target(&world), address(&world, "second"));
}
