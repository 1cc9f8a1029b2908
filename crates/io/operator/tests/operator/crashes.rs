//! The operator dies, or loses an answer, at every single write of a story in which a Deployment's
//! two pods crash and their ladder restarts each of them as a whole. Whatever happens, the next
//! operator brings the same end about: nothing is made twice, nothing is forgotten (promises P2 and
//! P3).

use std::collections::{BTreeMap, BTreeSet};

use futures::StreamExt;
use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use k8s_openapi::api::core::v1::Pod;
use kube::api::ListParams;
use kube::{Api, ResourceExt};
use rekindle_types::v1alpha1::{PodRestart, RestartLedger, Rung};
use serde_json::json;

use crate::world::{Wire, World, deployment, ends_the_same_whichever_write_breaks, ladder, watch};

async fn tell_the_story(world: &World) {
    let rungs = json!([{"rung": "Container", "attempts": 1}, {"rung": "Pod", "attempts": 2}]);
    ladder(world, rungs).await;
    deployment(world, 2).await;
}

/// Until the Deployment is complete and both ledgers have seen their pod run again.
async fn see_the_end(world: &World) {
    let ledgers: Api<RestartLedger> = Api::default_namespaced(world.client());
    let mut recovered = BTreeSet::new();
    let mut seen = watch(&ledgers);
    while recovered.len() < 2 {
        let ledger = seen.next().await.expect("a watch without end");
        let status = ledger.status.clone().unwrap_or_default();
        if status.stable_since.is_some() && status.pending_restart.is_none() {
            recovered.insert(ledger.name_any());
        }
    }
    let deployments: Api<Deployment> = Api::default_namespaced(world.client());
    let mut seen = watch(&deployments);
    loop {
        let deployment = seen.next().await.expect("a watch without end");
        if deployment.status.and_then(|status| status.available_replicas) == Some(2) {
            return;
        }
    }
}

/// What must be the same however the story went.
#[derive(Debug, PartialEq, Eq)]
struct End {
    replica_sets: usize,
    pods: usize,
    /// How many PodRestarts each pod was given, in no order.
    restarts: Vec<usize>,
    /// Attempts at the rung Pod and failures counted, by ledger, in no order.
    ledgers: Vec<(usize, u64)>,
}

async fn end(world: &World) -> End {
    let all = ListParams::default();
    let sets: Api<ReplicaSet> = Api::default_namespaced(world.client());
    let pods: Api<Pod> = Api::default_namespaced(world.client());
    let restarts: Api<PodRestart> = Api::default_namespaced(world.client());
    let ledgers: Api<RestartLedger> = Api::default_namespaced(world.client());
    let mut by_pod: BTreeMap<String, usize> = BTreeMap::new();
    for restart in restarts.list(&all).await.expect("list").items {
        *by_pod.entry(restart.spec.pod_name).or_default() += 1;
    }
    let ledgers = ledgers.list(&all).await.expect("list").items.into_iter().map(|ledger| {
        let status = ledger.status.unwrap_or_default();
        let attempts = status.attempts.unwrap_or_default();
        let of_pod = attempts.iter().filter(|a| a.rung == Rung::Pod).map(|a| a.at.len()).sum();
        (of_pod, status.failures_total)
    });
    End {
        replica_sets: sets.list(&all).await.expect("list").items.len(),
        pods: pods.list(&all).await.expect("list").items.len(),
        restarts: by_pod.into_values().collect(),
        ledgers: ledgers.collect(),
    }
}

/// Runs the story with a wire that breaks, and after the operator's death with a sound one.
async fn run(wire: Wire) -> End {
    let world = World::new().await;
    tell_the_story(&world).await;
    let operators = async {
        world.operate(&wire).await;
        world.operate(&Wire::sound()).await;
    };
    tokio::select! {
        () = see_the_end(&world) => {}
        () = world.run_node() => {}
        () = operators => {}
    }
    end(&world).await
}

#[tokio::test]
async fn the_end_is_the_same_whichever_write_breaks() {
    let expected =
        End { replica_sets: 1, pods: 2, restarts: vec![1, 1], ledgers: vec![(1, 3), (1, 3)] };
    ends_the_same_whichever_write_breaks("Pod", expected, run).await;
}
