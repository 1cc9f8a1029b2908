//! Deployments, after the API reference of apps/v1 Deployment and what `kubectl rollout` needs.

use k8s_openapi::api::apps::v1::{DeploymentCondition, DeploymentStatus, ReplicaSet};
use rekindle_controllers::plan::DependentPolicy;
use rekindle_controllers::{ObjectId, ResourceKind, WriteOperation, pods};
use rekindle_types::TickDuration;
use serde_json::{Value, json};

use crate::api::FakeApi;
use crate::build::deployment;
use crate::world::{World, id};

const REVISION: &str = "deployment.kubernetes.io/revision";

fn web() -> ObjectId {
    id(ResourceKind::Deployment, "web")
}

fn set_image(world: &mut World, image: &str) {
    world.api.change(&web(), |d| {
        d["spec"]["template"]["spec"]["containers"][0]["image"] = json!(image);
    });
}

fn status(world: &World) -> DeploymentStatus {
    world.deployment("web").status.clone().unwrap_or_default()
}

fn condition(world: &World, type_: &str) -> DeploymentCondition {
    let conditions = status(world).conditions.unwrap_or_default();
    let found = conditions.iter().find(|c| c.type_.as_deref() == Some(type_)).cloned();
    found.unwrap_or_else(|| panic!("no condition {type_} in {conditions:?}"))
}

fn image(set: &ReplicaSet) -> String {
    let template = set.spec.template.as_ref().unwrap();
    template.spec.as_ref().unwrap().containers[0].image.clone().unwrap()
}

fn annotation(set: &ReplicaSet, key: &str) -> Option<String> {
    set.metadata.annotations.as_ref().and_then(|a| a.get(key)).cloned()
}

/// image → (replicas, revision)
fn sets(world: &World) -> Vec<(String, i32, String)> {
    let mut sets: Vec<_> = world
        .replica_sets()
        .iter()
        .map(|set| {
            let revision = annotation(set, REVISION).unwrap();
            (image(set), set.spec.replicas.unwrap(), revision)
        })
        .collect();
    sets.sort();
    sets
}

fn expect_sets(world: &World, expected: &[(&str, i32, &str)]) {
    let expected: Vec<_> =
        expected.iter().map(|(i, n, r)| ((*i).to_owned(), *n, (*r).to_owned())).collect();
    assert_eq!(sets(world), expected);
}

/// What the kubelet's `rollout status` looks at.
fn is_rolled_out(world: &World) -> bool {
    let (d, status) = (world.deployment("web"), status(world));
    let wanted = d.spec.replicas;
    status.observed_generation == d.metadata.generation
        && status.updated_replicas == wanted
        && status.replicas == wanted
        && status.available_replicas == wanted
}

#[test]
fn a_new_deployment_comes_up_with_everything_kubectl_looks_at() {
    let mut world = World::with_node();
    let mut d = deployment("web", 3, "one");
    d["metadata"]["annotations"] = json!({"note": "mine",
        "kubectl.kubernetes.io/last-applied-configuration": "{}"});
    world.create(d);
    world.converge();
    assert!(is_rolled_out(&world), "{:?}", status(&world));
    expect_sets(&world, &[("one", 3, "1")]);
    let set = world.replica_sets()[0].clone();
    assert_eq!(annotation(&set, "note").as_deref(), Some("mine"));
    assert_eq!(annotation(&set, "kubectl.kubernetes.io/last-applied-configuration"), None);
    assert_eq!(annotation(&set, "deployment.kubernetes.io/desired-replicas").as_deref(), Some("3"));
    assert_eq!(annotation(&set, "deployment.kubernetes.io/max-replicas").as_deref(), Some("4"));
    let hash = set.metadata.labels.as_ref().unwrap()["pod-template-hash"].clone();
    assert_eq!(set.metadata.name, Some(format!("web-{hash}")));
    assert_eq!(set.spec.selector.match_labels.as_ref().unwrap()["pod-template-hash"], hash);
    for pod in world.api.pods() {
        assert_eq!(pod.metadata.labels.as_ref().unwrap()["pod-template-hash"], hash);
    }
    let own = world.deployment("web").metadata.annotations.as_ref().unwrap()[REVISION].clone();
    assert_eq!(own, "1");
    let progressing = condition(&world, "Progressing");
    assert_eq!(progressing.reason.as_deref(), Some("NewReplicaSetAvailable"));
    assert_eq!(
        progressing.message,
        Some(format!("ReplicaSet \"web-{hash}\" has successfully progressed."))
    );
    let available = condition(&world, "Available");
    assert_eq!(available.status.as_deref(), Some("True"));
    assert_eq!(available.reason.as_deref(), Some("MinimumReplicasAvailable"));
    let scaled = format!("ScalingReplicaSet: Scaled up replica set web-{hash} from 0 to 3");
    assert!(world.said().contains(&scaled), "{:?}", world.said());
    let writes = world.writes.len();
    world.advance(TickDuration::from_secs(3600));
    assert_eq!(world.writes.len(), writes, "an idle deployment costs nothing");
}

/// At every moment of a rollout of 4 pods with 25 %/25 %: at most 5 pods, and of those 4 that were
/// up at least 3.
fn within_limits(api: &FakeApi) {
    let active = api.pods().iter().filter(|p| pods::is_active(p)).count();
    assert!(active <= 5, "{active} pods are more than replicas + maxSurge");
    let ready = api.pods().iter().filter(|p| pods::is_active(p) && pods::is_ready(p)).count();
    assert!(ready >= 3, "{ready} ready pods are fewer than replicas - maxUnavailable");
}

#[test]
fn a_rolling_update_stays_within_surge_and_unavailability() {
    let mut world = World::with_node();
    world.create(deployment("web", 4, "one"));
    world.converge();
    world.check = Box::new(within_limits);
    set_image(&mut world, "two");
    for _ in 0..200 {
        // one pod at a time, so that every intermediate state is visited
        world.settle();
        let next = world.api.pods().iter().find_map(|pod| {
            let lags = !pods::is_ready(pod) || pods::is_terminating(pod);
            lags.then(|| pod.metadata.name.clone().unwrap())
        });
        match next {
            Some(name) => world.kubelet_at(&id(ResourceKind::Pod, &name)),
            None => break,
        }
    }
    world.converge();
    assert!(is_rolled_out(&world));
    expect_sets(&world, &[("one", 0, "1"), ("two", 4, "2")]);
}

#[test]
fn a_rollout_that_never_gets_ready_keeps_the_old_pods_and_exceeds_its_deadline() {
    let mut world = World::with_node();
    let mut d = deployment("web", 4, "one");
    d["spec"]["progressDeadlineSeconds"] = json!(60);
    world.create(d);
    world.converge();
    world.check = Box::new(within_limits);
    set_image(&mut world, "broken");
    world.advance(TickDuration::from_secs(50));
    assert_eq!(condition(&world, "Progressing").status.as_deref(), Some("True"));
    world.advance(TickDuration::from_secs(15));
    let progressing = condition(&world, "Progressing");
    assert_eq!(progressing.status.as_deref(), Some("False"));
    assert_eq!(progressing.reason.as_deref(), Some("ProgressDeadlineExceeded"));
    assert!(progressing.message.unwrap().ends_with("has timed out progressing."));
    assert_eq!(condition(&world, "Available").status.as_deref(), Some("True"));
    expect_sets(&world, &[("broken", 2, "2"), ("one", 3, "1")]);
    let writes = world.writes.len();
    world.advance(TickDuration::from_secs(3600));
    assert_eq!(world.writes.len(), writes, "it is not looked at for ever");
}

#[test]
fn undoing_a_rollout_brings_the_old_replica_set_back_with_a_new_revision() {
    let mut world = World::with_node();
    world.create(deployment("web", 4, "one"));
    world.converge();
    let first = world.deployment("web").spec.template.clone();
    set_image(&mut world, "broken");
    world.advance(TickDuration::from_secs(20));
    // `kubectl rollout undo` puts the template of the old ReplicaSet into the Deployment
    set_image(&mut world, "one");
    world.converge();
    assert!(is_rolled_out(&world));
    expect_sets(&world, &[("broken", 0, "2"), ("one", 4, "3")]);
    assert_eq!(world.deployment("web").spec.template, first);
    let one = world.replica_sets().into_iter().find(|s| image(s) == "one").unwrap().clone();
    let history = annotation(&one, "deployment.kubernetes.io/revision-history");
    assert_eq!(history.as_deref(), Some("1"));
    assert!(
        world
            .api
            .pods()
            .iter()
            .all(|p| p.spec.as_ref().unwrap().containers[0].image.as_deref() == Some("one"))
    );
}

#[test]
fn recreate_starts_nothing_before_the_last_old_pod_is_gone() {
    let mut world = World::with_node();
    let mut d = deployment("web", 3, "one");
    d["spec"]["strategy"] = json!({"type": "Recreate"});
    world.create(d);
    world.converge();
    set_image(&mut world, "two");
    world.check = Box::new(|api| {
        let of = |image: &str| {
            api.pods()
                .iter()
                .filter(|p| p.spec.as_ref().unwrap().containers[0].image.as_deref() == Some(image))
                .count()
        };
        assert!(of("one") == 0 || of("two") == 0, "old and new at once");
    });
    world.settle();
    assert_eq!(world.api.pods().len(), 3, "the old ones terminate");
    let counts =
        |world: &World| (status(world).replicas.unwrap_or(0), status(world).terminating_replicas);
    assert_eq!(counts(&world), (0, Some(3)));
    world.converge();
    assert_eq!(counts(&world), (3, Some(0)));
    assert!(is_rolled_out(&world));
    expect_sets(&world, &[("one", 0, "1"), ("two", 3, "2")]);
}

#[test]
fn a_paused_deployment_does_not_roll_but_scales() {
    let mut world = World::with_node();
    world.create(deployment("web", 4, "one"));
    world.converge();
    world.api.change(&web(), |d| d["spec"]["paused"] = json!(true));
    world.converge();
    assert_eq!(condition(&world, "Progressing").reason.as_deref(), Some("DeploymentPaused"));
    set_image(&mut world, "two");
    world.api.change(&web(), |d| d["spec"]["replicas"] = json!(6));
    world.converge();
    expect_sets(&world, &[("one", 6, "1")]);
    world.api.change(&web(), |d| d["spec"]["paused"] = json!(false));
    world.converge();
    assert!(is_rolled_out(&world));
    expect_sets(&world, &[("one", 0, "1"), ("two", 6, "2")]);
}

#[test]
fn scaling_in_the_middle_of_a_rollout_is_in_proportion() {
    let mut world = World::with_node();
    let mut d = deployment("web", 10, "one");
    d["spec"]["strategy"]["rollingUpdate"] = json!({"maxSurge": 3, "maxUnavailable": 2});
    world.create(d);
    world.converge();
    set_image(&mut world, "broken");
    world.advance(TickDuration::from_secs(5));
    expect_sets(&world, &[("broken", 5, "2"), ("one", 8, "1")]);
    // the documentation's own example: 5 more are spread 3 to the larger and 2 to the smaller
    world.api.change(&web(), |d| d["spec"]["replicas"] = json!(15));
    world.settle();
    expect_sets(&world, &[("broken", 7, "2"), ("one", 11, "1")]);
}

#[test]
fn scaling_without_a_rollout_makes_no_new_revision() {
    let mut world = World::with_node();
    world.create(deployment("web", 2, "one"));
    world.converge();
    for replicas in [5, 0, 3] {
        world.api.change(&web(), |d| d["spec"]["replicas"] = json!(replicas));
        world.converge();
        expect_sets(&world, &[("one", replicas, "1")]);
    }
}

#[test]
fn history_beyond_the_limit_is_dropped_oldest_first() {
    let mut world = World::with_node();
    let mut d = deployment("web", 1, "v0");
    d["spec"]["revisionHistoryLimit"] = json!(2);
    world.create(d);
    world.converge();
    for n in 1..6 {
        world.advance(TickDuration::from_secs(10));
        set_image(&mut world, &format!("v{n}"));
        world.converge();
    }
    expect_sets(&world, &[("v3", 0, "4"), ("v4", 0, "5"), ("v5", 1, "6")]);
}

#[test]
fn a_hash_that_collides_gets_another_one() {
    let mut world = World::with_node();
    world.create(deployment("web", 1, "one"));
    world.converge();
    let name = world.replica_sets()[0].metadata.name.clone().unwrap();
    world.api.user_deletes(&web(), DependentPolicy::Background);
    world.converge();
    // somebody else's ReplicaSet has the name that the template's hash gives
    world.create(json!({"kind": "ReplicaSet", "metadata": {"name": name}, "spec": {"replicas": 0,
        "selector": {"matchLabels": {"app": "other"}},
        "template": {"metadata": {"labels": {"app": "other"}}, "spec": {"containers": []}}}}));
    world.create(deployment("web", 1, "one"));
    world.converge();
    assert!(is_rolled_out(&world));
    assert_eq!(status(&world).collision_count, Some(1));
    assert_eq!(world.replica_sets().len(), 2);
}

#[test]
fn changed_annotations_and_min_ready_seconds_reach_the_replica_set() {
    let mut world = World::with_node();
    world.create(deployment("web", 1, "one"));
    world.converge();
    world.api.change(&web(), |d| {
        d["metadata"]["annotations"]["kubernetes.io/change-cause"] = json!("because");
        d["spec"]["minReadySeconds"] = json!(7);
    });
    world.converge();
    let set = world.replica_sets()[0].clone();
    assert_eq!(annotation(&set, "kubernetes.io/change-cause").as_deref(), Some("because"));
    assert_eq!(set.spec.min_ready_seconds, Some(7));
    expect_sets(&world, &[("one", 1, "1")]);
}

#[test]
fn replica_sets_that_cannot_create_pods_show_in_the_deployment() {
    let mut world = World::with_node();
    world.api.refuse_creation = Some((ResourceKind::Pod, "quota exceeded".to_owned()));
    world.create(deployment("web", 2, "one"));
    world.advance(TickDuration::from_secs(2));
    let failure = condition(&world, "ReplicaFailure");
    assert_eq!(failure.reason.as_deref(), Some("FailedCreate"));
    assert_eq!(failure.message.as_deref(), Some("quota exceeded"));
    world.api.refuse_creation = Some((ResourceKind::ReplicaSet, "no more sets".to_owned()));
    set_image(&mut world, "two");
    world.advance(TickDuration::from_secs(2));
    let progressing = condition(&world, "Progressing");
    assert_eq!(progressing.reason.as_deref(), Some("ReplicaSetCreateError"));
    assert_eq!(progressing.status.as_deref(), Some("False"));
    world.api.refuse_creation = None;
    world.converge();
    assert!(is_rolled_out(&world));
}

#[test]
fn a_rollout_makes_few_writes() {
    let mut world = World::with_node();
    world.create(deployment("web", 3, "one"));
    world.converge();
    let conflicts_free = world.writes.len();
    let creates = world.writes.iter().filter(|w| matches!(w, WriteOperation::Create(_))).count();
    assert_eq!(creates, 4);
    // 4 creates, 3 bindings, 1 revision, and the statuses of set and deployment at each change
    assert!(conflicts_free <= 20, "{:#?}", world.writes.iter().map(kind_of).collect::<Vec<_>>());
}

fn kind_of(write: &WriteOperation) -> String {
    let text = format!("{write:?}");
    text.chars().take(60).collect()
}

#[test]
fn a_deployment_without_progress_deadline_has_no_such_condition() {
    let mut world = World::with_node();
    let mut d: Value = deployment("web", 1, "one");
    d["spec"]["progressDeadlineSeconds"] = json!(i32::MAX);
    world.create(d);
    world.converge();
    assert!(is_rolled_out(&world));
    let conditions = status(&world).conditions.unwrap();
    assert!(conditions.iter().all(|c| c.type_.as_deref() != Some("Progressing")));
}

/// Upstream speaks of a scaling only when the new ReplicaSet begins with pods.
#[test]
fn a_replica_set_that_begins_without_pods_was_not_scaled() {
    let mut world = World::with_node();
    let mut with_no_surge = deployment("web", 2, "one");
    with_no_surge["spec"]["strategy"]["rollingUpdate"] =
        json!({"maxSurge": 0, "maxUnavailable": 1});
    world.create(with_no_surge);
    world.create(deployment("off", 0, "one"));
    world.converge();
    set_image(&mut world, "two");
    world.converge();
    assert!(!world.said().iter().any(|said| said.contains("from 0 to 0")), "{:?}", world.said());
    assert!(world.said().iter().any(|said| said.ends_with("from 0 to 1")), "{:?}", world.said());
    world.api.refuse_creation = Some((ResourceKind::ReplicaSet, "no room".to_owned()));
    set_image(&mut world, "three");
    world.advance(TickDuration::from_secs(1));
    let failed = world.notes.iter().filter(|note| note.message.ends_with("no room"));
    assert!(
        failed.map(|note| note.reason).any(|reason| reason == "ReplicaSetCreateError"),
        "{:?}",
        world.said()
    );
}
