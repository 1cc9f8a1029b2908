//! A node whose removal is broken off takes pods again, whether it failed or nobody is left who
//! goes on with it; and a node that somebody adds is looked at although no pod waits for one; and
//! of one that could not be added its pods hear.

use std::sync::{Arc, Mutex, PoisonError};

use futures::StreamExt;
use k8s_openapi::api::core::v1::{Event, Node, Pod};
use kube::api::{Patch, PatchParams};
use kube::{Api, Client, ResourceExt};
use rekindle_operator::{
    NodeScaler, NodeSupply, SCALE_DOWN, ScalingSettings, SupplyError, no_longer_scaled,
};
use rekindle_types::TickDuration;
use serde_json::{Value, json};
use tokio::sync::watch::Sender;
use tokio::time::timeout;

use crate::world::{PATIENCE, World, create, watch};

/// What a node says that is to go.
const BEING_REMOVED: &str = "is being removed";

/// Nodes that are nothing but their objects. One that is to go is cordoned, and stays.
#[derive(Clone)]
struct Supply {
    client: Client,
    further: Arc<Mutex<Vec<String>>>,
    /// How often it was asked for them: once in each look.
    looks: Arc<Sender<usize>>,
    /// How often it was asked for one more.
    additions: Arc<Sender<usize>>,
}

impl Supply {
    fn new(world: &World, further: &[&str]) -> Self {
        let further = further.iter().map(|name| (*name).to_owned()).collect();
        Self {
            client: world.client(),
            further: Arc::new(Mutex::new(further)),
            looks: Arc::new(Sender::new(0)),
            additions: Arc::new(Sender::new(0)),
        }
    }

    /// Until there were so many more looks.
    async fn look_on(&self, more: usize) {
        let mut looks = self.looks.subscribe();
        let seen = *looks.borrow();
        looks.wait_for(|count| *count >= seen + more).await.expect("it is not dropped");
    }
}

impl NodeSupply for Supply {
    fn first(&self) -> String {
        "n1".to_owned()
    }

    fn further(&self) -> Result<Vec<String>, SupplyError> {
        self.looks.send_modify(|count| *count += 1);
        Ok(self.further.lock().unwrap_or_else(PoisonError::into_inner).clone())
    }

    async fn add(&self) -> Result<String, SupplyError> {
        self.additions.send_modify(|count| *count += 1);
        Err("its agent does not start".into())
    }

    async fn remove(&self, name: &str) -> Result<(), SupplyError> {
        patch(&self.client, name, &json!({"spec": {"unschedulable": true}})).await;
        // long enough for others to say something about the node
        self.look_on(3).await;
        Err("its pods could not be evicted in time".into())
    }
}

async fn patch(client: &Client, node: &str, patch: &Value) {
    let nodes: Api<Node> = Api::all(client.clone());
    nodes.patch(node, &PatchParams::default(), &Patch::Merge(patch)).await.expect("it is there");
}

fn is_cordoned(node: &Node) -> bool {
    node.spec.as_ref().and_then(|spec| spec.unschedulable) == Some(true)
}

fn says(node: &Node) -> Option<&str> {
    node.annotations().get(SCALE_DOWN).map(String::as_str)
}

/// Runs a scaler while this goes on.
async fn play(world: &World, supply: &Supply, unneeded_secs: u64, story: impl Future<Output = ()>) {
    let parts = world.parts();
    let settings = ScalingSettings {
        unneeded_time: TickDuration::from_secs(unneeded_secs),
        ..ScalingSettings::between(1, 2)
    };
    let scaler = NodeScaler::new(parts.client, parts.clock, supply.clone(), settings);
    let scaler = tokio::spawn(scaler.run());
    timeout(PATIENCE, story).await.expect("the story");
    scaler.abort();
}

#[tokio::test]
async fn a_node_that_could_not_be_removed_says_so_meanwhile_and_takes_pods_again() {
    let world = World::new().await;
    world.add_node("n2").await;
    let supply = Supply::new(&world, &["n2"]);
    let story = async {
        let nodes: Api<Node> = Api::all(world.client());
        let mut seen = watch(&nodes);
        let mut was_cordoned = false;
        while let Some(node) = seen.next().await {
            match (node.name_any().as_str(), is_cordoned(&node)) {
                ("n2", true) => {
                    assert_eq!(says(&node), Some(BEING_REMOVED));
                    was_cordoned = true;
                }
                ("n2", false) if was_cordoned => {
                    assert_ne!(says(&node), Some(BEING_REMOVED));
                    return;
                }
                (_, true | false) => {}
            }
        }
    };
    play(&world, &supply, 1, story).await;
}

#[tokio::test]
async fn a_node_whose_removal_nobody_goes_on_with_takes_pods_again() {
    let world = World::new().await;
    world.add_node("n2").await;
    let left = json!({
        "spec": {"unschedulable": true},
        "metadata": {"annotations": { (SCALE_DOWN): BEING_REMOVED }},
    });
    patch(&world.client(), "n2", &left).await;
    let supply = Supply::new(&world, &["n2"]);
    let story = async {
        let nodes: Api<Node> = Api::all(world.client());
        let mut seen = watch(&nodes);
        while let Some(node) = seen.next().await {
            if node.name_any() == "n2" && !is_cordoned(&node) {
                assert_ne!(says(&node), Some(BEING_REMOVED));
                return;
            }
        }
    };
    play(&world, &supply, 600, story).await;
}

#[tokio::test]
async fn without_a_scaler_a_broken_removal_is_taken_back_and_nothing_of_a_users() {
    let world = World::new().await;
    let (client, nodes): (Client, Api<Node>) = (world.client(), Api::all(world.client()));
    let cordoned = json!({"spec": {"unschedulable": true}});
    let says_so = |text: &str| json!({"metadata": {"annotations": { (SCALE_DOWN): text }}});
    for name in ["broken", "users", "unneeded"] {
        world.add_node(name).await;
    }
    patch(&client, "broken", &cordoned).await;
    patch(&client, "broken", &says_so(BEING_REMOVED)).await;
    patch(&client, "users", &cordoned).await;
    patch(&client, "users", &says_so("stays: it is cordoned")).await;
    patch(&client, "unneeded", &says_so("unneeded, goes at 2026-01-01T00:00:00Z")).await;
    no_longer_scaled(&client).await.expect("the API is there");
    for (name, stays_cordoned) in [("broken", false), ("users", true), ("unneeded", false)] {
        let node = nodes.get(name).await.expect("it is there");
        assert_eq!((is_cordoned(&node), says(&node)), (stays_cordoned, None), "{name}");
    }
}

#[tokio::test]
async fn a_node_that_a_user_cordoned_is_left_alone() {
    let world = World::new().await;
    world.add_node("n2").await;
    patch(&world.client(), "n2", &json!({"spec": {"unschedulable": true}})).await;
    let supply = Supply::new(&world, &["n2"]);
    let story = async {
        let nodes: Api<Node> = Api::all(world.client());
        let mut seen = watch(&nodes);
        while let Some(node) = seen.next().await {
            if node.name_any() == "n2" && says(&node) == Some("stays: it is cordoned") {
                assert!(is_cordoned(&node));
                return;
            }
        }
    };
    play(&world, &supply, 1, story).await;
}

#[tokio::test]
async fn a_node_that_somebody_adds_is_looked_at_although_nobody_waits_for_one() {
    let world = World::new().await;
    let supply = Supply::new(&world, &[]);
    let story = async {
        // at the start, and when the watches have shown what is there; then there is nothing to
        // wait for
        supply.look_on(2).await;
        supply.further.lock().unwrap_or_else(PoisonError::into_inner).push("n2".to_owned());
        world.add_node("n2").await;
        let nodes: Api<Node> = Api::all(world.client());
        let mut seen = watch(&nodes);
        while let Some(node) = seen.next().await {
            if says(&node).is_some_and(|said| said.starts_with("unneeded")) {
                assert_eq!(node.name_any(), "n2");
                return;
            }
        }
    };
    play(&world, &supply, 600, story).await;
}

#[tokio::test]
async fn the_pods_of_a_node_that_could_not_be_added_hear_of_it_and_none_is_tried_at_once() {
    let world = World::new().await;
    patch(&world.client(), "n1", &json!({"spec": {"unschedulable": true}})).await;
    let supply = Supply::new(&world, &[]);
    let pods: Api<Pod> = Api::default_namespaced(world.client());
    create(&pods, json!({"metadata": {"name": "waits"}, "spec": {"containers": [{"name": "app", "image": "a"}]}})).await;
    let waits = json!([{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]);
    let status = Patch::Merge(json!({"status": {"conditions": waits}}));
    pods.patch_status("waits", &PatchParams::default(), &status).await.expect("it is there");
    let story = async {
        let events: Api<Event> = Api::default_namespaced(world.client());
        let mut seen = watch(&events);
        let mut heard = Vec::new();
        while heard.len() < 2 {
            let event = seen.next().await.expect("the API is there");
            heard.push((event.type_, event.reason, event.message));
        }
        heard.sort();
        let text = |text: &str| Some(text.to_owned());
        assert_eq!(
            heard,
            [
                (
                    text("Normal"),
                    text("NotTriggerScaleUp"),
                    text("pod didn't trigger scale-up: in backoff after failed scale-up")
                ),
                (
                    text("Warning"),
                    text("FailedToScaleUpGroup"),
                    text("Scale-up failed: [{n1 1->2 (max: 2)}]: its agent does not start")
                ),
            ]
        );
        // by another event it is asked to look again
        world.add_node("n3").await;
        supply.look_on(1).await;
        assert_eq!(*supply.additions.borrow(), 1);
    };
    play(&world, &supply, 600, story).await;
}
