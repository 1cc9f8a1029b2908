//! A node that runs out of something, and pods that use more than they may.

use std::fs;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use rekindle_runtime::ImageUse;
use rekindle_types::TickDuration;
use serde_json::{Value, json};

use super::events;
use crate::agent::{AgentLauncher, AgentStopMode, NodeHandle};
use crate::eviction::{
    EvictionPolicy, EvictionSignal, Threshold, ThresholdAmount, ThresholdKind, ThresholdScope,
};
use crate::register::memory_bytes;
use crate::testing::{World, container, pod, with_volumes};

const MIB: u64 = 1 << 20;

/// A pod of one container of its name, with further fields of its spec.
fn pod_with(name: &str, spec: &Value) -> Pod {
    let mut object = serde_json::to_value(pod(name, vec![container(name)])).unwrap();
    for (field, value) in spec.as_object().unwrap() {
        object["spec"][field] = value.clone();
    }
    serde_json::from_value(object).unwrap()
}

fn hard(signal: EvictionSignal, amount: ThresholdAmount) -> Threshold {
    let min_reclaim = ThresholdAmount::Units(0);
    Threshold {
        signal,
        amount,
        kind: ThresholdKind::Hard,
        min_reclaim,
        place: ThresholdScope::Everywhere,
    }
}

async fn agent(world: &World, thresholds: Vec<Threshold>) -> NodeHandle {
    let mut config = world.config();
    config.eviction = EvictionPolicy { thresholds, ..EvictionPolicy::off() };
    let runtime = Arc::new(world.machine.connect());
    let network = Arc::new(world.network.clone());
    AgentLauncher::start(config, world.api.client(), runtime, network).await.unwrap()
}

/// Sets what is left of the machine's memory.
fn leave(world: &World, bytes: u64) {
    world.machine.usages().machine_memory_bytes = memory_bytes() - bytes;
}

fn node_condition(world: &World, kind: &str) -> Value {
    let node = world.api.get("nodes", "node-a").unwrap();
    let conditions = node["status"]["conditions"].as_array().cloned().unwrap_or_default();
    conditions.into_iter().find(|condition| condition["type"] == kind).unwrap_or_default()
}

async fn until_phase(world: &World, pod: &str, phase: &str) {
    let is_so = |api: &crate::testing::FakeApi| {
        api.get("pods", pod).is_some_and(|object| object["status"]["phase"] == phase)
    };
    world.api.until(&format!("{pod} is {phase}"), is_so).await;
}

#[tokio::test(start_paused = true)]
async fn under_memory_pressure_one_pod_after_the_other_goes_until_enough_is_left() {
    let world = World::new();
    for (name, priority) in [("greedy", 0), ("modest", 0), ("important", 10)] {
        world.api.create("pods", &pod_with(name, &json!({"priority": priority})));
    }
    leave(&world, 500 * MIB);
    let bytes = [("greedy", 400), ("modest", 100), ("important", 800)];
    let bytes = bytes.map(|(name, mib)| (name.to_owned(), mib * MIB));
    world.machine.usages().memory_bytes.extend(bytes);
    let agent = agent(
        &world,
        vec![hard(EvictionSignal::MemoryAvailable, ThresholdAmount::Units(100 * MIB))],
    )
    .await;
    for name in ["greedy", "modest", "important"] {
        world.until_running(name).await;
    }
    world.lease_renewals(3).await;
    assert_eq!(node_condition(&world, "MemoryPressure")["status"], "False");
    leave(&world, 99 * MIB);
    until_phase(&world, "greedy", "Failed").await;
    leave(&world, 300 * MIB);
    let status = world.status("greedy");
    assert_eq!(status["reason"], "Evicted");
    assert_eq!(
        status["message"],
        "The node was low on resource: memory. Threshold quantity: 100Mi, available: 99Mi. \
         Container greedy was using 200Mi, request is 0, has larger consumption of memory. "
    );
    let conditions = status["conditions"].as_array().unwrap();
    let disruption = conditions.iter().find(|c| c["type"] == "DisruptionTarget").unwrap();
    assert_eq!(disruption["reason"], "TerminationByKubelet");
    assert_eq!(disruption["message"], status["message"]);
    world.api.until("told", |_| !events(&world, "Evicted").is_empty()).await;
    assert_eq!(events(&world, "EvictionThresholdMet"), ["Attempting to reclaim memory"]);
    let pressure = node_condition(&world, "MemoryPressure");
    assert_eq!(
        (&pressure["status"], &pressure["reason"]),
        (&json!("True"), &json!("KubeletHasInsufficientMemory"))
    );

    // enough is left: nobody else goes, and the condition stays for five minutes
    world.lease_renewals(20).await;
    assert_eq!(world.status("modest")["phase"], "Running");
    assert_eq!(node_condition(&world, "MemoryPressure")["status"], "True");
    world.lease_renewals(15).await;
    assert_eq!(node_condition(&world, "MemoryPressure")["status"], "False");

    // and when it is short for good, the others follow by priority
    leave(&world, 1);
    until_phase(&world, "modest", "Failed").await;
    until_phase(&world, "important", "Failed").await;
    assert!(world.machine.sandboxes().is_empty());
    assert_eq!(world.machine.starts("greedy"), 1, "an evicted pod is over");
    let calls = world.machine.calls();
    let place = |call: &str| calls.iter().position(|made| made.starts_with(call)).unwrap();
    assert!(place("signal modest") < place("signal important"), "{calls:?}");
    let counted = agent.node_api().get("metrics", "").await;
    let counted = String::from_utf8(counted.body.to_vec()).unwrap();
    let line = "kubelet_evictions{eviction_signal=\"memory.available\"} 3";
    assert!(counted.lines().any(|found| found == line), "{counted}");
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_comes_under_pressure_is_refused_and_one_that_runs_stays_admitted() {
    let world = World::new();
    let request = json!({"containers": [{
        "name": "burstable", "image": "present", "imagePullPolicy": "IfNotPresent",
        "resources": {"requests": {"memory": "1Mi"}},
    }]});
    world.api.create("pods", &pod_with("system", &json!({"priority": 2_000_000_000})));
    leave(&world, MIB);
    let first = agent(
        &world,
        vec![hard(EvictionSignal::MemoryAvailable, ThresholdAmount::Units(100 * MIB))],
    )
    .await;
    let low = |_: &crate::testing::FakeApi| {
        world.api.get("nodes", "node-a").is_some()
            && node_condition(&world, "MemoryPressure")["status"] == "True"
    };
    world.api.until("low", low).await;
    world.until_running("system").await;
    world.api.create("pods", &pod_with("weak", &json!({})));
    until_phase(&world, "weak", "Failed").await;
    let status = world.status("weak");
    assert_eq!(status["reason"], "Evicted");
    assert_eq!(status["message"], "Pod was rejected: The node had condition: [MemoryPressure]. ");
    assert_eq!(world.machine.starts("weak"), 0);
    leave(&world, 500 * MIB);
    world.lease_renewals(2).await;
    world.api.create("pods", &pod_with("burstable", &request));
    world.until_running("burstable").await;
    // the next agent does not ask again whether what runs may come in
    first.stop(AgentStopMode::LeavePods).await;
    let _next = agent(
        &world,
        vec![hard(EvictionSignal::MemoryAvailable, ThresholdAmount::Units(100 * MIB))],
    )
    .await;
    world.lease_renewals(3).await;
    assert_eq!(world.machine.starts("burstable"), 1);
    assert_eq!(world.status("burstable")["phase"], "Running");
}

#[tokio::test(start_paused = true)]
async fn a_soft_threshold_gives_pods_their_grace_after_its_own() {
    let world = World::new();
    world.api.create("pods", &pod_with("web", &json!({"terminationGracePeriodSeconds": 7})));
    world.machine.stubborn("web");
    let mut config = world.config();
    let kind = ThresholdKind::Soft { grace: TickDuration::from_secs(90) };
    let soft = Threshold {
        kind,
        ..hard(EvictionSignal::MemoryAvailable, ThresholdAmount::Units(100 * MIB))
    };
    config.eviction = EvictionPolicy {
        thresholds: vec![soft],
        max_pod_grace: TickDuration::from_secs(60),
        ..EvictionPolicy::off()
    };
    leave(&world, MIB);
    let begin = world.clock.now();
    let runtime = Arc::new(world.machine.connect());
    let network = Arc::new(world.network.clone());
    let _agent = AgentLauncher::start(config, world.api.client(), runtime, network).await.unwrap();
    world.until_running("web").await;
    world.machine.until("told to end", |machine| machine.count("signal web") == 1).await;
    let after = world.clock.now().since(begin).as_secs();
    assert!((90..=101).contains(&after), "{after} s");
    assert_eq!(world.status("web")["phase"], "Running", "its place is not free yet");
    until_phase(&world, "web", "Failed").await;
    assert!(world.machine.running().is_empty());
    let took = world.clock.now().since(begin).as_secs() - after;
    assert!((6..=8).contains(&took), "{took} s");
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_does_not_end_is_evicted_once_and_the_next_one_goes() {
    let world = World::new();
    for name in ["greedy", "modest"] {
        world.api.create("pods", &pod_with(name, &json!({})));
    }
    world.machine.stuck("greedy");
    let bytes = [("greedy", 400), ("modest", 100)];
    let bytes = bytes.map(|(name, mib)| (name.to_owned(), mib * MIB));
    world.machine.usages().memory_bytes.extend(bytes);
    leave(&world, 500 * MIB);
    let _agent = agent(
        &world,
        vec![hard(EvictionSignal::MemoryAvailable, ThresholdAmount::Units(100 * MIB))],
    )
    .await;
    for name in ["greedy", "modest"] {
        world.until_running(name).await;
    }
    leave(&world, 1);
    until_phase(&world, "modest", "Failed").await;
    assert_eq!(world.machine.running(), ["greedy#0"]);
    assert_eq!(world.status("greedy")["phase"], "Running", "it does run");
}

#[tokio::test(start_paused = true)]
async fn unused_images_go_before_pods_when_the_disk_is_short() {
    let world = World::new();
    world.api.create("pods", &pod_with("web", &json!({})));
    world.machine.images().add("old", 300, ImageUse::Unused);
    let _agent = agent(
        &world,
        vec![hard(EvictionSignal::ImageFsAvailable, ThresholdAmount::Millionths(150_000))],
    )
    .await;
    world.until_running("web").await;
    world.lease_renewals(1).await;
    world.machine.images().disk.available_bytes = 100;
    world.machine.until("removed", |machine| machine.images().here.is_empty()).await;
    world.lease_renewals(3).await;
    assert_eq!(world.status("web")["phase"], "Running");
    assert_eq!(node_condition(&world, "DiskPressure")["status"], "True");
    // nothing else can go
    world.machine.images().disk.available_bytes = 100;
    until_phase(&world, "web", "Failed").await;
    let message = world.status("web")["message"].as_str().unwrap().to_owned();
    assert!(message.starts_with("The node was low on resource: ephemeral-storage. "), "{message}");
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_overfills_its_volume_is_evicted_and_its_neighbour_stays() {
    let world = World::new();
    let volume = json!([{"name": "scratch", "emptyDir": {"sizeLimit": "1Mi"}}]);
    for name in ["full", "fine"] {
        let pod = with_volumes(pod_with(name, &json!({})), volume.clone());
        world.api.create("pods", &pod);
    }
    let agent = agent(&world, Vec::new()).await;
    for name in ["full", "fine"] {
        world.until_running(name).await;
    }
    let uid = world.api.get("pods", "full").unwrap()["metadata"]["uid"].clone();
    let uid = uid.as_str().unwrap();
    let volume = world.folder.join(&format!("data/node/pods/{uid}/volumes/scratch"));
    fs::write(volume.join("file"), vec![1; 2 << 20]).unwrap();
    until_phase(&world, "full", "Failed").await;
    let status = world.status("full");
    assert_eq!(status["reason"], "Evicted");
    assert_eq!(
        status["message"],
        "Usage of EmptyDir volume \"scratch\" exceeds the limit \"1Mi\". "
    );
    let conditions = status["conditions"].as_array().unwrap();
    assert!(conditions.iter().all(|condition| condition["type"] != "DisruptionTarget"));
    world.lease_renewals(6).await;
    assert_eq!(world.status("fine")["phase"], "Running");
    assert!(!volume.exists());
    let trash = fs::read_dir(world.folder.join("data/node/trash")).unwrap();
    assert_eq!(trash.count(), 0, "what filled the disk is gone, and not only out of the way");
    agent.stop(AgentStopMode::EndPods).await;
}

#[tokio::test(start_paused = true)]
async fn a_container_that_writes_more_than_its_limit_is_evicted_with_its_pod() {
    let world = World::new();
    let limits = json!({"limits": {"ephemeral-storage": "1Mi"}});
    let two = |limits: &Value| {
        let container = |name: &str| {
            json!({"name": name, "image": "present", "imagePullPolicy": "IfNotPresent",
                "resources": limits})
        };
        json!({"containers": [container("writer"), container("reader")]})
    };
    world.api.create("pods", &pod_with("web", &two(&limits)));
    let _agent = agent(&world, Vec::new()).await;
    world.until_running("web").await;
    world.machine.usages().layer_bytes.insert("writer".to_owned(), 3 * MIB / 2);
    until_phase(&world, "web", "Failed").await;
    assert_eq!(
        world.status("web")["message"],
        "Container writer exceeded its local ephemeral storage limit \"1Mi\". "
    );
}

#[tokio::test(start_paused = true)]
async fn a_node_without_thresholds_and_limits_looks_at_nothing() {
    let world = World::new();
    world.api.create("pods", &pod_with("web", &json!({})));
    leave(&world, 0);
    let _agent = agent(&world, Vec::new()).await;
    world.until_running("web").await;
    world.lease_renewals(5).await;
    assert_eq!(world.status("web")["phase"], "Running");
    assert_eq!(world.machine.usages().walks, 0);
    assert_eq!(node_condition(&world, "MemoryPressure")["status"], "False");
}
