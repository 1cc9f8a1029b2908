//! Several operators on one API, each a candidate: whoever leads brings about what is asked for,
//! and the next one goes on when it stops or is gone. And nodes that come and go with the pods that
//! need them.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use futures::StreamExt;
use futures::stream::BoxStream;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Event, Node};
use kube::api::{DeleteParams, Patch, PatchParams};
use kube::runtime::watcher::{Config, Event as WatchEvent, watcher};
use kube::{Api, ResourceExt};
use rekindle_operator::{
    Candidacy, ElectedParts, ElectionTiming, Leadership, LeadershipState, NamespacedName,
    NodeScaler, NodeSupply, ScalingSettings, SupplyError,
};
use rekindle_types::TickDuration;
use serde_json::json;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::world::{Health, PATIENCE, World, deployment, watch};

const HOUR: TickDuration = TickDuration::from_secs(3_600);

/// Nobody's lease ends within a test.
fn for_an_hour() -> ElectionTiming {
    ElectionTiming {
        lease_duration: HOUR,
        renew_deadline: TickDuration::from_secs(1_800),
        ..ElectionTiming::default()
    }
}

/// A lease that ends soon when nobody renews it.
fn for_five_seconds() -> ElectionTiming {
    ElectionTiming {
        lease_duration: TickDuration::from_secs(5),
        renew_deadline: TickDuration::from_millis(4_500),
        retry_period: TickDuration::from_millis(200),
    }
}

fn candidacy(identity: &str, timing: ElectionTiming) -> Candidacy {
    let lease = NamespacedName::new("kube-system", "leader");
    Candidacy { lease, identity: identity.to_owned(), timing }
}

/// An operator in a task of its own.
struct Operator {
    stop: oneshot::Sender<()>,
    task: JoinHandle<()>,
    leadership: Arc<Leadership>,
}

impl Operator {
    fn start(world: &World, identity: &str, timing: ElectionTiming) -> Self {
        let (stop, stopped) = oneshot::channel();
        let stopped = async move { drop(stopped.await) };
        let (parts, candidacy) = (world.parts(), candidacy(identity, timing));
        let elected = ElectedParts::default();
        let leadership = Arc::clone(&elected.leadership);
        let run = rekindle_operator::run_elected(parts, candidacy, elected, stopped);
        Self { stop, task: tokio::spawn(run), leadership }
    }

    /// As by SIGTERM.
    async fn stop(self) {
        assert_eq!(self.leadership.state(), LeadershipState::Leads);
        self.stop.send(()).expect("it runs");
        self.task.await.expect("it ends by itself");
        assert_eq!(self.leadership.state(), LeadershipState::Undecided);
    }

    /// As by SIGKILL.
    fn kill(self) {
        self.task.abort();
    }
}

async fn wait_for_leader(world: &World, identity: &str) -> i32 {
    let leases: Api<Lease> = Api::namespaced(world.client(), "kube-system");
    let mut seen = watch(&leases);
    loop {
        let spec = seen.next().await.and_then(|lease| lease.spec).expect("a lease");
        if spec.holder_identity.as_deref() == Some(identity) {
            return spec.lease_transitions.expect("a number");
        }
    }
}

async fn scale(world: &World, replicas: usize) {
    let deployments: Api<Deployment> = Api::default_namespaced(world.client());
    let patch = Patch::Merge(json!({"spec": {"replicas": replicas}}));
    deployments.patch("web", &PatchParams::default(), &patch).await.expect("it is there");
    wait_for_available(world, replicas).await;
}

async fn wait_for_available(world: &World, replicas: usize) {
    let deployments: Api<Deployment> = Api::default_namespaced(world.client());
    let mut seen = watch(&deployments);
    let wanted = i32::try_from(replicas).ok();
    loop {
        let deployment = seen.next().await.expect("a watch without end");
        let status = deployment.status.unwrap_or_default();
        if status.available_replicas == wanted && status.replicas == wanted {
            return;
        }
    }
}

/// Plays a story in a world whose pods run as soon as they have a node.
async fn play<T>(world: &World, story: impl Future<Output = T>) -> T {
    let played = async {
        tokio::select! {
            told = story => told,
            () = world.run_nodes(Health::OfTheFirst(0)) => panic!("nodes run for ever"),
        }
    };
    timeout(PATIENCE, played).await.expect("the story")
}

#[tokio::test]
async fn a_standby_goes_on_as_soon_as_the_leader_gives_its_lease_back() {
    let world = World::new().await;
    let story = async {
        let first = Operator::start(&world, "first", for_an_hour());
        assert_eq!(wait_for_leader(&world, "first").await, 0);
        deployment(&world, 1).await;
        wait_for_available(&world, 1).await;
        let second = Operator::start(&world, "second", for_an_hour());
        first.stop().await;
        assert_eq!(wait_for_leader(&world, "second").await, 1);
        scale(&world, 2).await;
        second.stop().await;
        wait_for_leader(&world, "").await;
        wait_for_events(
            &world,
            &["first became leader", "first stopped leading", "second became leader"],
        )
        .await;
    };
    play(&world, story).await;
}

async fn wait_for_events(world: &World, told: &[&str]) {
    let events: Api<Event> = Api::namespaced(world.client(), "kube-system");
    let mut seen = watch(&events);
    let mut missing: BTreeSet<&str> = told.iter().copied().collect();
    while !missing.is_empty() {
        let event = seen.next().await.expect("a watch without end");
        if event.reason.as_deref() == Some("LeaderElection") {
            missing.remove(event.message.as_deref().unwrap_or_default());
        }
    }
}

#[tokio::test]
async fn a_standby_goes_on_when_the_lease_of_a_dead_leader_is_over() {
    let world = World::new().await;
    let story = async {
        let first = Operator::start(&world, "first", for_five_seconds());
        wait_for_leader(&world, "first").await;
        deployment(&world, 1).await;
        wait_for_available(&world, 1).await;
        let second = Operator::start(&world, "second", for_five_seconds());
        first.kill();
        assert!(wait_for_leader(&world, "second").await > 0, "a new term");
        scale(&world, 2).await;
        second.kill();
    };
    play(&world, story).await;
}

/// The engine's own have one name from life to life: whoever has its data directory knows that the
/// one before is gone.
#[tokio::test]
async fn the_next_life_of_a_killed_leader_does_not_wait() {
    let world = World::new().await;
    let story = async {
        let first = Operator::start(&world, "engine", for_an_hour());
        wait_for_leader(&world, "engine").await;
        deployment(&world, 1).await;
        wait_for_available(&world, 1).await;
        first.kill();
        let second = Operator::start(&world, "engine", for_an_hour());
        scale(&world, 3).await;
        assert_eq!(wait_for_leader(&world, "engine").await, 1, "a new term");
        second.kill();
    };
    play(&world, story).await;
}

/// Nodes that are nothing but their objects.
#[derive(Clone)]
struct Supply {
    world: Arc<World>,
    further: Arc<Mutex<Vec<String>>>,
}

impl NodeSupply for Supply {
    fn first(&self) -> String {
        "n1".to_owned()
    }

    fn further(&self) -> Result<Vec<String>, SupplyError> {
        Ok(self.further.lock().unwrap_or_else(PoisonError::into_inner).clone())
    }

    async fn add(&self) -> Result<String, SupplyError> {
        let name = format!("n{}", self.further()?.len() + 2);
        self.world.add_node(&name).await;
        self.further.lock().unwrap_or_else(PoisonError::into_inner).push(name.clone());
        Ok(name)
    }

    async fn remove(&self, name: &str) -> Result<(), SupplyError> {
        let nodes: Api<Node> = Api::all(self.world.client());
        nodes.delete(name, &DeleteParams::default()).await?;
        self.further.lock().unwrap_or_else(PoisonError::into_inner).retain(|n| n != name);
        Ok(())
    }
}

#[tokio::test]
async fn a_node_comes_for_pods_without_room_and_goes_when_it_is_not_needed() {
    let world = Arc::new(World::new().await);
    let supply = Supply { world: Arc::clone(&world), further: Arc::default() };
    let parts = world.parts();
    let settings = ScalingSettings {
        unneeded_time: TickDuration::from_secs(1),
        ..ScalingSettings::between(1, 2)
    };
    let scaler =
        NodeScaler::new(parts.client.clone(), Arc::clone(&parts.clock), supply.clone(), settings);
    let scaler = tokio::spawn(scaler.run());
    let operator = tokio::spawn(rekindle_operator::run(parts, std::future::pending()));
    let story = async {
        deployment(&world, 2).await;
        let deployments: Api<Deployment> = Api::default_namespaced(world.client());
        // a node has four CPUs
        let resources = json!({"requests": {"cpu": "3"}});
        let container = json!({"name": "app", "image": "localhost/demo", "resources": resources});
        let template = json!({"spec": {"containers": [container]}});
        let recreate = json!({"type": "Recreate", "rollingUpdate": null});
        let patch = json!({"spec": {"template": template, "strategy": recreate}});
        let patch = Patch::Strategic(patch);
        deployments.patch("web", &PatchParams::default(), &patch).await.expect("it is there");
        wait_for_available(&world, 2).await;
        let nodes: Api<Node> = Api::all(world.client());
        let mut seen = watch(&nodes);
        loop {
            let node = seen.next().await.expect("a watch without end");
            if node.annotations().get("rekindle.dev/scale-down").map(String::as_str)
                == Some("stays: 75 % of it are asked for")
            {
                assert_eq!(node.name_any(), "n2");
                break;
            }
        }
        // the watch begins before anything that it is to show
        let mut nodes_seen = watch_nodes(&world).await;
        scale_down_to_nothing(&world).await;
        wait_for_end_of(&mut nodes_seen, "n2").await;
    };
    play(&world, story).await;
    scaler.abort();
    operator.abort();
}

async fn scale_down_to_nothing(world: &World) {
    let deployments: Api<Deployment> = Api::default_namespaced(world.client());
    let patch = Patch::Merge(json!({"spec": {"replicas": 0}}));
    deployments.patch("web", &PatchParams::default(), &patch).await.expect("it is there");
}

type NodesSeen = BoxStream<'static, Result<WatchEvent<Node>, kube::runtime::watcher::Error>>;

/// A watch that has shown what is there.
async fn watch_nodes(world: &World) -> NodesSeen {
    let mut seen = watcher(Api::all(world.client()), Config::default()).boxed();
    while let Some(Ok(event)) = seen.next().await {
        if matches!(event, WatchEvent::InitDone) {
            break;
        }
    }
    seen
}

async fn wait_for_end_of(seen: &mut NodesSeen, name: &str) {
    while let Some(event) = seen.next().await {
        if let Ok(WatchEvent::Delete(node)) = event {
            assert_eq!(node.name_any(), name);
            return;
        }
    }
    panic!("the watch ended");
}
