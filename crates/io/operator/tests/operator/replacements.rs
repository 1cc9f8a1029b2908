//! The rungs that make a new pod, with a budget that forbids, a node that is avoided, and an
//! operator that dies or loses an answer at every single write: whatever happens, one pod takes the
//! place of one, and its history goes on (promises P2, P3 and P5).

use futures::StreamExt;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::Api;
use kube::api::{ListParams, Patch, PatchParams};
use rekindle_types::v1alpha1::{
    LedgerPhase, PodRestart, PodRestartPhase, ReplacementStep, RestartLedger, Rung,
};
use serde_json::json;

use crate::world::{
    Health, PATIENCE, Wire, World, create, deployment, ends_the_same_whichever_write_breaks,
    ladder, watch,
};

/// What the pods belong to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Owner {
    Nobody,
    Deployment,
}

/// One story: a pod that no restart in place heals, and the rungs of its ladder.
#[derive(Clone, Copy, Debug)]
struct Story {
    owner: Owner,
    rung: Rung,
    health: Health,
}

const RECREATED: Story =
    Story { owner: Owner::Nobody, rung: Rung::Recreate, health: Health::OfTheFirst(1) };
const REPLACED: Story = Story { owner: Owner::Deployment, ..RECREATED };
const MOVED: Story = Story { rung: Rung::Reschedule, health: Health::OnNode("n1"), ..RECREATED };
const MOVED_WITH_ITS_SET: Story = Story { owner: Owner::Deployment, ..MOVED };

impl Story {
    async fn tell(self, world: &World) {
        match self.rung {
            Rung::Reschedule => world.add_node("n2").await,
            Rung::Container | Rung::Containers | Rung::Pod | Rung::Recreate | Rung::Rollback => {}
        }
        self.tell_on_one_node(world).await;
    }

    async fn tell_on_one_node(self, world: &World) {
        let rungs =
            json!([{"rung": "Container", "attempts": 1}, {"rung": self.rung, "attempts": 2}]);
        ladder(world, rungs).await;
        match self.owner {
            Owner::Nobody => {
                let pods: Api<Pod> = Api::default_namespaced(world.client());
                let spec = json!({"containers": [{"name": "app", "image": "localhost/demo"}]});
                let metadata = json!({"name": "web", "labels": {"app": "web"}, "annotations": {"kept": "yes"}});
                create(&pods, json!({"metadata": metadata, "spec": spec})).await;
            }
            Owner::Deployment => deployment(world, 1).await,
        }
    }

    /// Runs with a wire that breaks, and after the operator's death with a sound one.
    async fn run(self, wire: Wire) -> End {
        let world = World::new().await;
        self.tell(&world).await;
        let operators = async {
            world.operate(&wire).await;
            world.operate(&Wire::sound()).await;
        };
        tokio::select! {
            () = until_settled(&world) => {}
            () = world.run_nodes(self.health) => {}
            () = operators => {}
        }
        end(&world).await
    }

    async fn ends_the_same_whichever_write_breaks(self, expected: End) {
        let story = format!("{self:?}");
        ends_the_same_whichever_write_breaks(&story, expected, |wire| self.run(wire)).await;
    }
}

/// Until the restart is finished, and the one ledger has seen the new pod run.
async fn until_settled(world: &World) {
    let restarts: Api<PodRestart> = Api::default_namespaced(world.client());
    let new_pod = finished(&restarts).await;
    let ledgers: Api<RestartLedger> = Api::default_namespaced(world.client());
    let mut seen = watch(&ledgers);
    loop {
        let ledger = seen.next().await.expect("a watch without end");
        let status = ledger.status.unwrap_or_default();
        let is_taken_over = Some(&ledger.spec.pod_uid) == new_pod.as_ref();
        if is_taken_over && status.stable_since.is_some() && status.pod_uid == new_pod {
            return;
        }
    }
}

/// The UID of the pod that took the place.
async fn finished(restarts: &Api<PodRestart>) -> Option<String> {
    let mut seen = watch(restarts);
    loop {
        let status = seen.next().await.expect("a watch without end").status.unwrap_or_default();
        if status.phase.is_some_and(PodRestartPhase::is_final) {
            assert_eq!(status.phase, Some(PodRestartPhase::Succeeded), "{:?}", status.message);
            return status.replacement.and_then(|replacement| replacement.new_pod_uid);
        }
    }
}

/// What must be the same however the story went.
#[derive(Debug, PartialEq, Eq)]
struct End {
    /// Nodes of the pods.
    pods: Vec<String>,
    restarts: usize,
    /// Attempts above Container and failures, by ledger.
    ledgers: Vec<(usize, u64)>,
}

async fn end(world: &World) -> End {
    let all = ListParams::default();
    let pods: Api<Pod> = Api::default_namespaced(world.client());
    let restarts: Api<PodRestart> = Api::default_namespaced(world.client());
    let ledgers: Api<RestartLedger> = Api::default_namespaced(world.client());
    let node = |pod: Pod| pod.spec.and_then(|spec| spec.node_name).unwrap_or_default();
    let ledgers = ledgers.list(&all).await.expect("list").items.into_iter().map(|ledger| {
        let status = ledger.status.unwrap_or_default();
        let attempts = status.attempts.unwrap_or_default();
        let above = attempts.iter().filter(|a| a.rung > Rung::Container).map(|a| a.at.len()).sum();
        (above, status.failures_total)
    });
    End {
        pods: pods.list(&all).await.expect("list").items.into_iter().map(node).collect(),
        restarts: restarts.list(&all).await.expect("list").items.len(),
        ledgers: ledgers.collect(),
    }
}

fn one_pod_on(node: &str) -> End {
    End { pods: vec![node.to_owned()], restarts: 1, ledgers: vec![(1, 3)] }
}

/// Until the request is held back, in the budget's words; answers what the ledger says then.
async fn until_held(world: &World) -> String {
    let restarts: Api<PodRestart> = Api::default_namespaced(world.client());
    let mut seen = watch(&restarts);
    let message = loop {
        let status = seen.next().await.expect("a watch without end").status.unwrap_or_default();
        if status.replacement.is_some_and(|r| r.step == ReplacementStep::Held) {
            assert_eq!(status.started_at, None, "nothing was begun");
            break status.message.expect("why");
        }
    };
    let ledgers: Api<RestartLedger> = Api::default_namespaced(world.client());
    let mut seen = watch(&ledgers);
    loop {
        let status = seen.next().await.expect("a watch without end").status.unwrap_or_default();
        let said = status.message.unwrap_or_default();
        if status.phase == Some(LedgerPhase::Holding) && said.contains(&message) {
            return said;
        }
    }
}

#[tokio::test]
async fn a_disruption_budget_holds_the_eviction_until_it_allows_it() {
    let world = World::new().await;
    let budgets: Api<PodDisruptionBudget> = Api::default_namespaced(world.client());
    let budget = json!({
        "metadata": {"name": "web"},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}},
    });
    create(&budgets, budget).await;
    REPLACED.tell(&world).await;
    let story = async {
        let said = until_held(&world).await;
        assert!(
            said.contains("Cannot evict pod as it would violate the pod's disruption budget."),
            "{said}"
        );
        assert!(
            said.contains("The disruption budget web needs 1 healthy pods and has 0 currently"),
            "{said}"
        );
        let allow = json!({"spec": {"unhealthyPodEvictionPolicy": "AlwaysAllow"}});
        let params = PatchParams::default();
        budgets.patch("web", &params, &Patch::Merge(allow)).await.expect("a valid budget");
        until_settled(&world).await;
    };
    let wire = Wire::sound();
    let story = async {
        tokio::select! {
            () = story => {}
            () = world.run_nodes(REPLACED.health) => {}
            () = world.operate(&wire) => {}
        }
    };
    tokio::time::timeout(PATIENCE, story).await.expect("the story");
    assert_eq!(end(&world).await, one_pod_on("n1"));
}

#[tokio::test]
async fn a_pod_that_has_no_other_node_is_not_evicted() {
    let world = World::new().await;
    let story = Story { health: Health::OnNode("n1"), rung: Rung::Reschedule, ..RECREATED };
    story.tell_on_one_node(&world).await;
    let wire = Wire::sound();
    let told = async {
        let said = until_held(&world).await;
        assert!(said.contains("no node but n1 can take the pod"), "{said}");
        world.add_node("n2").await;
        until_settled(&world).await;
    };
    let told = async {
        tokio::select! {
            () = told => {}
            () = world.run_nodes(story.health) => {}
            () = world.operate(&wire) => {}
        }
    };
    tokio::time::timeout(PATIENCE, told).await.expect("the story");
    assert_eq!(end(&world).await, one_pod_on("n2"));
}

#[tokio::test]
async fn a_pod_without_a_controller_is_created_again_whichever_write_breaks() {
    RECREATED.ends_the_same_whichever_write_breaks(one_pod_on("n1")).await;
}

#[tokio::test]
async fn a_pod_of_a_deployment_is_replaced_once_whichever_write_breaks() {
    REPLACED.ends_the_same_whichever_write_breaks(one_pod_on("n1")).await;
}

#[tokio::test]
async fn a_pod_without_a_controller_moves_to_another_node_whichever_write_breaks() {
    MOVED.ends_the_same_whichever_write_breaks(one_pod_on("n2")).await;
}

#[tokio::test]
async fn a_pod_of_a_deployment_moves_to_another_node_whichever_write_breaks() {
    MOVED_WITH_ITS_SET.ends_the_same_whichever_write_breaks(one_pod_on("n2")).await;
}
