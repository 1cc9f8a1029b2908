//! The rung Rollback, with an operator that dies or loses an answer at every single write: whatever
//! happens, the Deployment goes back to the revision that was healthy, once (promises P2 and P3).

use futures::StreamExt;
use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use kube::api::{ListParams, Patch, PatchParams};
use kube::{Api, ResourceExt};
use rekindle_types::v1alpha1::{PodRestart, PodRestartPhase, Rung};
use serde_json::json;

use crate::world::{
    Health, Wire, World, deployment, ends_the_same_whichever_write_breaks, ladder, watch,
};

const REVISION: &str = "deployment.kubernetes.io/revision";
const BROKEN: &str = "localhost/broken";

/// A revision that was healthy, a broken one after it, and back.
async fn tell(world: &World) {
    let rungs = json!([{"rung": "Container", "attempts": 1}, {"rung": "Rollback"}]);
    ladder(world, rungs).await;
    deployment(world, 1).await;
    until(world, |deployment| available(deployment) == 1).await;
    // as the operator notes it when the window is over
    let sets: Api<ReplicaSet> = Api::default_namespaced(world.client());
    let set = sets.list(&ListParams::default()).await.expect("list").items.remove(0).name_any();
    let healthy = json!({"metadata": {"annotations": {
        rekindle_controllers::deployment::rollback::HEALTHY: "2026-01-01T00:00:00Z",
    }}});
    patch(&sets, &set, healthy).await;
    let deployments: Api<Deployment> = Api::default_namespaced(world.client());
    let container = json!([{"name": "app", "image": BROKEN}]);
    let broken = json!({"spec": {"template": {"spec": {"containers": container}}}});
    patch(&deployments, "web", broken).await;
    let restarts: Api<PodRestart> = Api::default_namespaced(world.client());
    let mut seen = watch(&restarts);
    loop {
        let status = seen.next().await.expect("a watch without end").status.unwrap_or_default();
        if status.phase.is_some_and(PodRestartPhase::is_final) {
            assert_eq!(status.phase, Some(PodRestartPhase::Succeeded), "{:?}", status.message);
            break;
        }
    }
    until(world, |deployment| {
        let status = deployment.status.clone().unwrap_or_default();
        let is_seen = status.observed_generation == deployment.metadata.generation;
        is_seen && status.replicas == Some(1) && status.updated_replicas == Some(1)
    })
    .await;
}

async fn patch<K>(api: &Api<K>, name: &str, patch: serde_json::Value)
where
    K: Clone + std::fmt::Debug + serde::de::DeserializeOwned,
{
    api.patch(name, &PatchParams::default(), &Patch::Merge(patch)).await.expect("a valid patch");
}

fn available(deployment: &Deployment) -> i32 {
    deployment.status.as_ref().and_then(|status| status.available_replicas).unwrap_or(0)
}

async fn until(world: &World, is_so: impl Fn(&Deployment) -> bool) {
    let deployments: Api<Deployment> = Api::default_namespaced(world.client());
    let mut seen = watch(&deployments);
    while !is_so(&seen.next().await.expect("a watch without end")) {}
}

/// What must be the same however the story went.
#[derive(Debug, PartialEq, Eq)]
struct End {
    image: String,
    /// The Deployment's revision: made, broken, and taken back.
    revision: Option<String>,
    replica_sets: usize,
    requests: Vec<(Option<Rung>, Option<PodRestartPhase>)>,
}

async fn run(wire: Wire) -> End {
    let world = World::new().await;
    let operators = async {
        world.operate(&wire).await;
        world.operate(&Wire::sound()).await;
    };
    tokio::select! {
        () = tell(&world) => {}
        () = world.run_nodes(Health::OfImage(BROKEN)) => {}
        () = operators => {}
    }
    let all = ListParams::default();
    let deployments: Api<Deployment> = Api::default_namespaced(world.client());
    let sets: Api<ReplicaSet> = Api::default_namespaced(world.client());
    let restarts: Api<PodRestart> = Api::default_namespaced(world.client());
    let deployment = deployments.get("web").await.expect("the Deployment");
    let spec = deployment.spec.template.spec.expect("its template");
    let requests = restarts.list(&all).await.expect("list").items;
    End {
        image: spec.containers[0].image.clone().unwrap_or_default(),
        revision: deployment.metadata.annotations.and_then(|mut all| all.remove(REVISION)),
        replica_sets: sets.list(&all).await.expect("list").items.len(),
        requests: requests
            .into_iter()
            .map(|request| (request.spec.rung, request.status.and_then(|status| status.phase)))
            .collect(),
    }
}

#[tokio::test]
async fn a_deployment_goes_back_once_whichever_write_breaks() {
    let expected = End {
        image: "localhost/demo".to_owned(),
        revision: Some("3".to_owned()),
        replica_sets: 2,
        requests: vec![(Some(Rung::Rollback), Some(PodRestartPhase::Succeeded))],
    };
    ends_the_same_whichever_write_breaks("Rollback", expected, run).await;
}
