//! Ports of the node that lead to pods.

use std::net::SocketAddr;

use k8s_openapi::api::core::v1::{ContainerPort, Pod};
use rekindle_types::v1alpha1::Rung;
use serde_json::{Value, json};

use super::events;
use crate::testing::{FakeApi, World, container, pod, restart};

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
    let agent = world.agent_with_rules().await;
    world.until_running("web").await;
    let first = target(&world);
    assert!(first.is_some());
    assert_eq!(first, address(&world, "web"));

    world.api.create("podrestarts", &restart("again", "web", Rung::Pod));
    let done = |request: Value| request["status"]["phase"] == "Succeeded";
    world.api.until("done", |api| api.get("podrestarts", "again").is_some_and(done)).await;
    world.until_running("web").await;
    world.machine.until("old sandbox gone", |machine| machine.sandboxes().len() == 1).await;
    let second = target(&world);
    assert!(second.is_some() && second != first);
    assert_eq!(second, address(&world, "web"));

    world.crash(agent);
    world.network.forget_ports();
    let _agent = world.agent_with_rules().await;
    world.api.until("open again", |_| target(&world).is_some()).await;
    assert_eq!(target(&world), second);
    assert_eq!(world.machine.starts("app"), 2, "the next agent restarts nothing");

    world.api.delete_pod("web", 1);
    world.api.until("gone", |api| api.get("pods", "web").is_none()).await;
    assert_eq!(target(&world), None);
}

fn is_refused(api: &FakeApi, name: &str) -> bool {
    let pod = api.get("pods", name).unwrap_or_default();
    assert_ne!(pod["status"]["phase"], "Running", "{name}");
    pod["status"]["phase"] == "Failed"
}

/// Source: kubelet, `generalFilter`, and `nodeports.ErrReason`.
#[tokio::test(start_paused = true)]
async fn a_pod_whose_port_another_one_of_the_node_has_fails_and_the_next_one_gets_it() {
    let world = World::new();
    world.api.create("pods", &with_port("first"));
    let _agent = world.agent_with_rules().await;
    world.until_running("first").await;
    world.api.create("pods", &with_port("second"));
    world.api.until("refused", |api| is_refused(api, "second")).await;
    let status = world.status("second");
    let message = "Pod was rejected: Predicate NodePorts failed: node(s) didn't have free ports for the requested pod ports";
    assert_eq!((&status["reason"], &status["message"]), (&json!("NodePorts"), &json!(message)));
    assert!(events(&world, "FailedCreatePodSandBox").is_empty());
    let mut other = with_port("other");
    let spec = other.spec.as_mut().unwrap();
    spec.containers[0].ports.as_mut().unwrap()[0].host_port = Some(8081);
    spec.host_network = Some(true);
    world.api.create("pods", &other);
    world.until_running("other").await;
    assert_eq!(target(&world), address(&world, "first"));
    world.api.delete_pod("first", 1);
    world.api.until("gone", |api| api.get("pods", "first").is_none()).await;
    world.api.create("pods", &with_port("third"));
    world.until_running("third").await;
    assert_eq!(target(&world), address(&world, "third"));
}

/// The scheduler gives the port of a pod that is over to the next one, which may be here before
/// the object of the first is gone.
#[tokio::test(start_paused = true)]
async fn a_pod_gets_the_port_of_one_that_is_over_and_not_gone_yet() {
    let world = World::new();
    let mut first = with_port("first");
    first.metadata.finalizers = Some(vec!["example.com/wait".to_owned()]);
    world.api.create("pods", &first);
    let _agent = world.agent_with_rules().await;
    world.until_running("first").await;
    world.api.delete_pod("first", 1);
    let is_over =
        |pod: Value| matches!(pod["status"]["phase"].as_str(), Some("Succeeded" | "Failed"));
    world.api.until("over", |api| api.get("pods", "first").is_some_and(is_over)).await;
    world.api.create("pods", &with_port("second"));
    world.until_running("second").await;
    assert_eq!(target(&world), address(&world, "second"));
}

/// An agent that starts again is told of pods in any order.
#[tokio::test(start_paused = true)]
async fn a_new_pod_waits_until_it_is_known_which_ports_are_taken() {
    let world = World::new();
    world.api.create("pods", &with_port("web"));
    let agent = world.agent_with_rules().await;
    world.until_running("web").await;
    world.crash(agent);
    world.network.forget_ports();
    // listed before it, by name
    world.api.create("pods", &with_port("another"));
    let _agent = world.agent_with_rules().await;
    world.api.until("refused", |api| is_refused(api, "another")).await;
    world.api.until("open again", |_| target(&world).is_some()).await;
    assert_eq!(target(&world), address(&world, "web"));
    assert_eq!(world.machine.starts("app"), 1);
}

/// The kubelet would not notice: a container starts, and its port is another's.
#[tokio::test(start_paused = true)]
async fn a_pod_whose_port_a_process_of_the_machine_has_says_so_and_starts_when_it_is_free() {
    let world = World::new();
    world.network.occupy(&["0.0.0.0:8080".parse().unwrap()]);
    world.api.create("pods", &with_port("web"));
    let _agent = world.agent_with_rules().await;
    world
        .api
        .until("an event says so", |_| !events(&world, "FailedCreatePodSandBox").is_empty())
        .await;
    let told = events(&world, "FailedCreatePodSandBox");
    assert!(told[0].contains("open port 0.0.0.0:8080 of the node"), "{told:?}");
    world.network.occupy(&[]);
    world.until_running("web").await;
    assert_eq!(target(&world), address(&world, "web"));
}

/// As Services do there: nothing leads to them.
#[tokio::test(start_paused = true)]
async fn a_pod_on_a_node_without_rules_runs_and_an_event_says_that_its_port_is_not_open() {
    let world = World::new();
    world.api.create("pods", &with_port("web"));
    let _agent = world.agent().await;
    world.until_running("web").await;
    world.api.until("an event says so", |_| !events(&world, "FailedOpenPort").is_empty()).await;
    assert_eq!(target(&world), None);
}
