//! A ladder's budget holds when all its pods fail at the same moment: a hundred that fail together
//! are not restarted together.

use std::collections::{BTreeMap, BTreeSet};

use futures::StreamExt;
use k8s_openapi::api::core::v1::Pod;
use kube::runtime::watcher;
use kube::{Api, ResourceExt};
use rekindle_operator::{RestartLimits, TokenBucket};
use rekindle_types::Tick;
use rekindle_types::v1alpha1::{PodRestart, RestartLadder, RestartLedger};
use serde_json::json;

use crate::world::{self, Wire, World, create};

const PODS: usize = 12;
const AT_ONCE: usize = 2;

#[tokio::test]
async fn pods_that_fail_together_are_restarted_a_few_at_a_time() {
    let world = World::new().await;
    let ladders: Api<RestartLadder> = Api::default_namespaced(world.client());
    let ladder = json!({
        "metadata": {"name": "web"},
        "spec": {
            "selector": {"matchLabels": {"app": "web"}},
            "rungs": [{"rung": "Pod", "attempts": 1}],
            "budget": {"maxConcurrent": AT_ONCE},
        },
    });
    create(&ladders, ladder).await;
    let pods: Api<Pod> = Api::default_namespaced(world.client());
    for number in 0..PODS {
        let pod = json!({
            "metadata": {"name": format!("web-{number}"), "labels": {"app": "web"}},
            "spec": {"nodeName": "n1", "containers": [{"name": "app", "image": "localhost/demo"}]},
        });
        create(&pods, pod).await;
        // crashed before anybody looks, so that all are decided on in the same moment
        world.crash(&format!("web-{number}")).await;
    }
    let most = async {
        tokio::select! {
            most = most_at_once(&world, PODS) => most,
            () = world.run_node() => unreachable!("the node runs for ever"),
            () = async {
                let wire = Wire::sound();
                world.operate(&wire).await;
            } => unreachable!("nothing ends the operator"),
        }
    };
    let most = tokio::time::timeout(world::PATIENCE, most).await.expect("all restarts");
    assert!(most <= AT_ONCE, "{most} restarts at once, {AT_ONCE} are allowed");
}

#[tokio::test]
async fn no_more_pods_of_a_deployment_are_restarted_at_once_than_the_workload_limit_says() {
    const REPLICAS: usize = 6;
    let mut world = World::new().await;
    world.limits = RestartLimits { per_workload: 1, ..RestartLimits::default() };
    world::ladder(&world, json!([{"rung": "Pod", "attempts": 1}])).await;
    world::deployment(&world, REPLICAS).await;
    let wire = Wire::sound();
    let most = async {
        tokio::select! {
            most = most_at_once(&world, REPLICAS) => most,
            () = world.run_node() => unreachable!("the node runs for ever"),
            () = world.operate(&wire) => unreachable!("nothing ends the operator"),
        }
    };
    let most = tokio::time::timeout(world::PATIENCE, most).await.expect("all restarts");
    assert_eq!(most, 1, "one pod of the workload at a time");
}

/// The bucket of the namespace: so many at once, then one every tenth of a second.
const BURST: u32 = 10;
const A_MINUTE: u32 = 600;

#[tokio::test]
async fn a_hundred_pods_that_fail_together_are_spread_over_time() {
    let mut world = World::new().await;
    world.limits = RestartLimits {
        namespace: TokenBucket::new(BURST, A_MINUTE),
        cluster: TokenBucket::new(BURST, A_MINUTE),
        ..RestartLimits::default()
    };
    let ladders: Api<RestartLadder> = Api::default_namespaced(world.client());
    let ladder = json!({
        "metadata": {"name": "web"},
        "spec": {
            "selector": {"matchLabels": {"app": "web"}},
            "rungs": [{"rung": "Pod", "attempts": 1}],
        },
    });
    create(&ladders, ladder).await;
    let pods: Api<Pod> = Api::default_namespaced(world.client());
    for number in 0..100 {
        let pod = json!({
            "metadata": {"name": format!("web-{number}"), "labels": {"app": "web"}},
            "spec": {"nodeName": "n1", "containers": [{"name": "app", "image": "localhost/demo"}]},
        });
        create(&pods, pod).await;
        world.crash(&format!("web-{number}")).await;
    }
    let wire = Wire::sound();
    let decided = async {
        tokio::select! {
            decided = decisions(&world, 100) => decided,
            () = world.run_node() => unreachable!("the node runs for ever"),
            () = world.operate(&wire) => unreachable!("nothing ends the operator"),
        }
    };
    let decided = tokio::time::timeout(world::PATIENCE, decided).await.expect("all restarts");
    let second = rekindle_types::TickDuration::from_secs(1);
    for first in &decided {
        let within = decided.iter().filter(|at| *at >= first && at.since(*first) < second).count();
        assert!(
            within <= 20,
            "{within} restarts within a second: 10 at once and 10 a second may be"
        );
    }
    let (first, last) = (decided.iter().min().expect("some"), decided.iter().max().expect("some"));
    assert!(last.since(*first).as_secs() >= 8, "the last ninety take a tenth of a second each");
}

/// When the restarts of so many pods were decided, as their ledgers tell.
async fn decisions(world: &World, count: usize) -> Vec<Tick> {
    let ledgers: Api<RestartLedger> = Api::default_namespaced(world.client());
    let mut seen = world::watch(&ledgers);
    let mut decided: BTreeMap<String, Tick> = BTreeMap::new();
    while decided.len() < count {
        let ledger = seen.next().await.expect("a watch without end");
        let attempts = ledger.status.clone().and_then(|status| status.attempts);
        let at = attempts.iter().flatten().flat_map(|attempts| &attempts.at).next();
        decided.extend(at.map(|at| (ledger.name_any(), Tick::from(at))));
    }
    decided.into_values().collect()
}

/// The most PodRestarts that were open at any moment, as their watch shows it, until so many pods
/// had their restart.
async fn most_at_once(world: &World, pods: usize) -> usize {
    let restarts: Api<PodRestart> = Api::default_namespaced(world.client());
    let mut events = watcher(restarts, watcher::Config::default()).boxed();
    let (mut open, mut finished) = (BTreeSet::new(), BTreeSet::new());
    let mut most = 0;
    while finished.len() < pods {
        let event = events.next().await.expect("a watch without end").expect("a sound watch");
        let (watcher::Event::Apply(restart) | watcher::Event::InitApply(restart)) = event else {
            continue;
        };
        let phase = restart.status.as_ref().and_then(|status| status.phase);
        if phase.is_some_and(|phase| phase.is_final()) {
            open.remove(&restart.name_any());
            finished.insert(restart.name_any());
        } else {
            open.insert(restart.name_any());
        }
        most = most.max(open.len());
    }
    most
}
