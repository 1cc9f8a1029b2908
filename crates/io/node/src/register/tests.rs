//! The Node object, its conditions and its Lease.

use std::collections::BTreeSet;
use std::slice;
use std::time::Duration;

use rekindle_types::{Tick, TickDuration};
use serde_json::json;

use super::conditions::{ConditionInputs, NodeFitness, conditions};
use super::machine::{MachineFacts, memory_bytes};
use crate::agent::AgentStopMode;
use crate::eviction::{EvictionPolicy, PressureKind};
use crate::testing::World;

const START: Tick = Tick::from_secs(1_760_000_000);

fn condition(node: &serde_json::Value, kind: &str) -> serde_json::Value {
    let conditions = node["status"]["conditions"].as_array().unwrap();
    conditions.iter().find(|condition| condition["type"] == json!(kind)).unwrap().clone()
}

#[tokio::test(start_paused = true)]
async fn a_node_registers_with_what_the_machine_has() {
    let world = World::new();
    let mut agent = world.agent().await;
    agent.ready().await;
    let node = world.api.get("nodes", "node-a").unwrap();
    assert_eq!(node["metadata"]["labels"]["kubernetes.io/hostname"], "node-a");
    assert_eq!(node["metadata"]["labels"]["kubernetes.io/os"], "linux");
    assert_eq!(node["status"]["capacity"]["pods"], "110");
    let cpus = std::thread::available_parallelism().unwrap().to_string();
    assert_eq!(node["status"]["capacity"]["cpu"], cpus.as_str());
    assert_eq!(
        node["status"]["addresses"][0],
        json!({ "type": "InternalIP", "address": "10.88.0.254" })
    );
    assert_eq!(node["status"]["nodeInfo"]["operatingSystem"], "linux");
    assert!(
        node["status"]["nodeInfo"]["kubeletVersion"]
            .as_str()
            .unwrap()
            .starts_with("v1.37.0+rekindle.")
    );
    let ready = condition(&node, "Ready");
    assert_eq!(
        (ready["status"].as_str(), ready["reason"].as_str()),
        (Some("True"), Some("KubeletReady"))
    );
    let lease = world.api.get("leases", "node-a").unwrap();
    assert_eq!(lease["metadata"]["namespace"], "kube-node-lease");
    assert_eq!(lease["spec"]["leaseDurationSeconds"], 40);
    assert_eq!(lease["metadata"]["ownerReferences"][0]["uid"], node["metadata"]["uid"]);
}

#[tokio::test(start_paused = true)]
async fn the_lease_is_renewed_every_10_s_and_the_status_every_5_min() {
    let world = World::new();
    let mut agent = world.agent().await;
    agent.ready().await;
    let before = world.api.requests("PATCH leases");
    let statuses = world.api.requests("PATCH nodes/status");
    tokio::time::sleep(Duration::from_secs(299)).await;
    assert_eq!(world.api.requests("PATCH leases") - before, 29);
    assert_eq!(world.api.requests("PATCH nodes/status"), statuses, "nothing changed");
    tokio::time::sleep(Duration::from_secs(20)).await;
    assert_eq!(world.api.requests("PATCH nodes/status"), statuses + 1);
}

#[tokio::test(start_paused = true)]
async fn a_node_that_was_deleted_registers_again() {
    let world = World::new();
    let mut agent = world.agent().await;
    agent.ready().await;
    world.api.remove("nodes", "node-a");
    world.api.until("there again", |api| api.get("nodes", "node-a").is_some()).await;
}

#[tokio::test(start_paused = true)]
async fn a_node_that_exists_is_taken_over_with_its_labels() {
    let world = World::new();
    world.api.create(
        "nodes",
        &json!({ "metadata": { "name": "node-a", "labels": { "disk": "fast" } }, "spec": { "unschedulable": true } }),
    );
    let mut agent = world.agent().await;
    agent.ready().await;
    let node = world.api.get("nodes", "node-a").unwrap();
    assert_eq!(node["metadata"]["labels"]["disk"], "fast");
    assert_eq!(node["metadata"]["labels"]["kubernetes.io/os"], "linux");
    assert_eq!(node["spec"]["unschedulable"], true);
    assert_eq!(condition(&node, "Ready")["status"], "True");
}

#[tokio::test(start_paused = true)]
async fn a_node_that_stops_says_so() {
    let world = World::new();
    let mut agent = world.agent().await;
    agent.ready().await;
    agent.stop(AgentStopMode::EndPods).await;
    let node = world.api.get("nodes", "node-a").unwrap();
    assert_eq!(condition(&node, "Ready")["status"], "False");
    assert_eq!(condition(&node, "Ready")["message"], "node is shutting down");
}

#[tokio::test(start_paused = true)]
async fn the_api_may_come_later_than_the_node() {
    let world = World::new();
    world.api.fail_next("POST nodes", 3);
    let mut agent = world.agent().await;
    agent.ready().await;
    assert!(world.api.get("nodes", "node-a").is_some());
}

#[test]
fn amounts_of_the_configuration_replace_the_machines() {
    let world = World::new();
    let mut config = world.config();
    config.eviction = EvictionPolicy::default();
    for (name, amount) in
        [("cpu", "500m"), ("memory", "1Gi"), ("example.com/gpu", "2"), ("pods", "nonsense")]
    {
        config.capacity.insert(name.to_owned(), amount.to_owned());
    }
    let facts = MachineFacts::read(&config);
    let text = |name: &str| facts.capacity[name].to_string();
    assert_eq!(text("cpu"), "500m");
    assert_eq!(text("memory"), "1Gi");
    assert_eq!(text("example.com/gpu"), "2");
    assert_eq!(text("pods"), "110");
    assert_eq!(facts.allocatable["memory"].to_string(), "924Mi");
}

#[test]
fn the_machines_memory_is_what_meminfo_calls_its_total() {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap();
    let line = text.lines().find(|line| line.starts_with("MemTotal:")).unwrap();
    let kilobytes: u64 = line.split_whitespace().nth(1).unwrap().parse().unwrap();
    assert_eq!(memory_bytes(), kilobytes * 1024);
}

#[test]
fn a_condition_keeps_its_transition_time_while_it_stays() {
    let shown = ConditionInputs { fitness: NodeFitness::Ready, pressures: BTreeSet::new() };
    let first = conditions(START, &shown, &[]);
    let later = START + TickDuration::from_secs(60);
    let full = ConditionInputs { pressures: BTreeSet::from([PressureKind::Disk]), ..shown };
    let second = conditions(later, &full, &first);
    let time = |list: &[k8s_openapi::api::core::v1::NodeCondition], kind: &str| {
        list.iter().find(|c| c.type_ == kind).unwrap().last_transition_time.clone()
    };
    assert_eq!(time(&second, "Ready"), Some(START.to_time()));
    assert_eq!(time(&second, "DiskPressure"), Some(later.to_time()));
    assert!(second.iter().all(|c| c.last_heartbeat_time == Some(later.to_time())));
}

#[tokio::test(start_paused = true)]
async fn a_node_that_was_given_up_for_silent_says_at_its_next_beat_that_it_is_ready() {
    let world = World::new();
    let mut agent = world.agent().await;
    agent.ready().await;
    let unknown = ["MemoryPressure", "DiskPressure", "PIDPressure", "Ready"]
        .map(|kind| json!({ "type": kind, "status": "Unknown" }));
    world.api.modify("nodes", "node-a", &json!({ "status": { "conditions": unknown } }));
    tokio::time::sleep(Duration::from_secs(11)).await;
    let node = world.api.get("nodes", "node-a").unwrap();
    assert_eq!(condition(&node, "Ready")["status"], "True");
    assert_eq!(condition(&node, "DiskPressure")["status"], "False");
}

/// What the agent's events about its node say, as often as they are counted.
fn told(world: &World) -> Vec<String> {
    let events = world.api.list("events").into_iter();
    let of_node = events.filter(|event| event["involvedObject"]["kind"] == "Node");
    let mut told: Vec<String> = of_node
        .flat_map(|event| {
            assert_eq!(
                (&event["type"], &event["source"]["component"]),
                (&json!("Normal"), &json!("kubelet"))
            );
            let count = event["count"].as_u64().unwrap();
            let text = |field: &str| event[field].as_str().unwrap_or_default().to_owned();
            std::iter::repeat_n(
                format!("{}: {}", text("reason"), text("message")),
                count.try_into().unwrap(),
            )
        })
        .collect();
    told.sort();
    told
}

/// The kubelet's words.
#[tokio::test(start_paused = true)]
async fn a_node_that_becomes_ready_or_not_ready_says_so_in_an_event() {
    let (ready, not_ready) = (
        "NodeReady: Node node-a status is now: NodeReady".to_owned(),
        "NodeNotReady: Node node-a status is now: NodeNotReady".to_owned(),
    );
    let world = World::new();
    let mut agent = world.agent().await;
    agent.ready().await;
    tokio::time::sleep(Duration::from_secs(700)).await;
    assert_eq!(told(&world), slice::from_ref(&ready), "once, however often it is written");

    // given up as silent, and back
    let unknown = json!([{ "type": "Ready", "status": "Unknown" }]);
    world.api.modify("nodes", "node-a", &json!({ "status": { "conditions": unknown } }));
    tokio::time::sleep(Duration::from_secs(15)).await;
    assert_eq!(told(&world), [ready.clone(), ready.clone()]);

    // an agent that takes its node over as it was says nothing
    drop(agent);
    let mut agent = world.agent().await;
    agent.ready().await;
    tokio::time::sleep(Duration::from_secs(15)).await;
    assert_eq!(told(&world), [ready.clone(), ready.clone()]);

    agent.stop(AgentStopMode::EndPods).await;
    tokio::time::sleep(Duration::from_secs(15)).await;
    assert_eq!(told(&world), [not_ready.clone(), ready.clone(), ready.clone()]);
    let mut agent = world.agent().await;
    agent.ready().await;
    tokio::time::sleep(Duration::from_secs(15)).await;
    assert_eq!(told(&world), [not_ready, ready.clone(), ready.clone(), ready]);
}

/// The kubelet writes its own conditions and leaves those of others, such as a
/// node-problem-detector's.
#[tokio::test(start_paused = true)]
async fn conditions_of_others_stay() {
    let world = World::new();
    let mut agent = world.agent().await;
    agent.ready().await;
    let mut conditions = world.api.get("nodes", "node-a").unwrap()["status"]["conditions"].clone();
    let others =
        json!({ "type": "KernelDeadlock", "status": "False", "reason": "KernelHasNoDeadlock" });
    conditions.as_array_mut().unwrap().push(others.clone());
    let addresses = json!([{ "type": "ExternalIP", "address": "192.0.2.1" }]);
    let status = json!({ "conditions": conditions, "addresses": addresses });
    world.api.modify("nodes", "node-a", &json!({ "status": status }));
    let before = world.api.requests("PATCH nodes/status");
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(world.api.requests("PATCH nodes/status"), before, "they are no reason to write");
    tokio::time::sleep(Duration::from_secs(300)).await;
    assert!(world.api.requests("PATCH nodes/status") > before);
    let node = world.api.get("nodes", "node-a").unwrap();
    assert_eq!(condition(&node, "KernelDeadlock"), others);
    assert_eq!(condition(&node, "Ready")["status"], "True");
    assert_eq!(node["status"]["conditions"].as_array().unwrap().len(), 5);
    let kinds = node["status"]["addresses"].as_array().unwrap().iter().map(|a| &a["type"]);
    assert_eq!(kinds.collect::<Vec<_>>(), ["InternalIP", "Hostname"], "the agent's own only");
}
