//! PodRestarts that replace pods without a controller: nobody else has the pod once it is evicted.

use rekindle_controllers::plan::DependentPolicy;
use rekindle_controllers::{
    NamespacedName, ObjectId, ResourceKind, ViewObject, WriteOperation, pods,
};
use rekindle_types::TickDuration;
use rekindle_types::v1alpha1::{PodRestartPhase, PodRestartStatus, ReplacementStep};
use serde_json::{Value, json};

use crate::build::pod;
use crate::world::World;

const FINALIZER: &str = "rekindle.dev/kept-pod";
const NO_ACCOUNT: &str = "pods \"web\" is forbidden: serviceaccount \"shop\" not found";

/// A world with a pod that runs, and a request to create it again.
struct Story {
    world: World,
    web: ObjectId,
    request: ObjectId,
}

impl Story {
    fn new(more: Value) -> Self {
        let mut world = World::with_node();
        let web = world.create(pod("web", json!({})));
        world.converge();
        let request = ask(&mut world, more);
        Self { world, web, request }
    }

    /// Until the pod is evicted; it still ends.
    fn evicted(more: Value) -> Self {
        let mut story = Self::new(more);
        story.world.settle();
        assert_eq!(story.step(), Some(ReplacementStep::Evicting));
        story
    }

    fn status(&self) -> PodRestartStatus {
        match self.world.api.objects.get(&self.request) {
            Some(ViewObject::PodRestart(restart)) => restart.status.clone().unwrap_or_default(),
            other => panic!("{other:?}"),
        }
    }

    fn step(&self) -> Option<ReplacementStep> {
        self.status().replacement.map(|replacement| replacement.step)
    }

    fn message(&self) -> String {
        self.status().message.unwrap_or_default()
    }

    fn finalizers(&self) -> Vec<String> {
        let meta = self.world.api.objects[&self.request].meta();
        meta.finalizers.clone().unwrap_or_default()
    }

    fn refuse_pods(&mut self) {
        self.world.api.refuse_creation = Some((ResourceKind::Pod, NO_ACCOUNT.to_owned()));
    }

    fn take_pods_again(&mut self) {
        self.world.api.refuse_creation = None;
        self.world.advance(TickDuration::from_secs(31));
        self.world.converge();
    }

    fn is_gone(&self) -> bool {
        !self.world.api.objects.contains_key(&self.request)
    }

    fn deletes_request(&mut self) {
        self.world.api.user_deletes(&self.request.clone(), DependentPolicy::Default);
    }

    fn has_pod(&self) -> bool {
        self.world.api.objects.contains_key(&self.web)
    }

    fn evictions(&self) -> usize {
        self.world.writes.iter().filter(|write| matches!(write, WriteOperation::Evict(_))).count()
    }
}

fn ask(world: &mut World, more: Value) -> ObjectId {
    let mut spec = json!({"podName": "web", "rung": "Recreate"});
    for (field, value) in more.as_object().unwrap() {
        spec[field] = value.clone();
    }
    world.create(json!({"kind": "PodRestart", "metadata": {"name": "again"}, "spec": spec}))
}

#[test]
fn a_request_that_is_deleted_while_its_pod_ends_goes_when_the_new_pod_is_there() {
    let mut story = Story::evicted(json!({}));
    let old = story.world.api.objects[&story.web].uid().to_owned();
    assert_eq!(story.finalizers(), [FINALIZER]);
    story.deletes_request();
    story.world.settle();
    assert!(!story.is_gone(), "it has the only copy of the pod");
    story.world.converge();
    assert!(story.is_gone());
    let ViewObject::Pod(new) = &story.world.api.objects[&story.web] else { panic!("a pod") };
    assert_ne!(new.metadata.uid.as_deref(), Some(old.as_str()));
    assert!(pods::is_ready(new));
}

#[test]
fn a_request_is_kept_only_as_long_as_it_has_the_only_copy() {
    let mut story = Story::evicted(json!({}));
    story.world.kubelet(); // the old pod is gone
    story.world.settle();
    assert_eq!(story.step(), Some(ReplacementStep::Starting));
    assert_eq!(story.finalizers(), [""; 0]);
    story.world.converge();
    assert_eq!(story.status().phase, Some(PodRestartPhase::Succeeded));
    story.world.advance(TickDuration::from_secs(11 * 60));
    assert!(story.is_gone(), "its time after the finish is over");
}

#[test]
fn a_request_that_is_held_back_goes_at_once_when_it_is_deleted_and_leaves_the_pod_alone() {
    let mut story = Story::new(json!({}));
    story.world.api.refuse_eviction = Some("no".to_owned());
    story.world.advance(TickDuration::from_millis(500));
    assert_eq!(story.step(), Some(ReplacementStep::Held));
    story.deletes_request();
    story.world.settle();
    assert!(story.is_gone());
    story.world.converge();
    assert!(story.has_pod());
}

#[test]
fn a_request_that_is_deleted_before_it_is_taken_up_does_nothing() {
    let mut story = Story::new(json!({}));
    story.world.api.change(&story.request.clone(), |request| {
        request["metadata"]["finalizers"] = json!(["example.com/wait"]);
    });
    story.deletes_request();
    story.world.converge();
    assert_eq!(story.evictions(), 0);
    assert_eq!(story.status().phase, None);
}

#[test]
fn the_deletion_of_a_namespace_does_not_wait_for_a_pod_that_cannot_be_created_in_it() {
    let mut story = Story::evicted(json!({}));
    let shop = ObjectId::new(ResourceKind::Namespace, NamespacedName::new("", "shop"));
    story.world.api.user_deletes(&shop, DependentPolicy::Default);
    story.world.converge();
    assert!(!story.world.api.objects.contains_key(&shop));
}

#[test]
fn a_namespace_that_is_seen_to_go_after_the_creation_was_refused_does_not_wait_either() {
    let mut story = Story::evicted(json!({}));
    let shop = ObjectId::new(ResourceKind::Namespace, NamespacedName::new("", "shop"));
    story.world.api.user_deletes(&shop, DependentPolicy::Default);
    story.deletes_request();
    story.world.kubelet(); // the old pod is gone
    let key = rekindle_controllers::ControllerKey::PodRestart(story.request.name.clone());
    for kind in [ResourceKind::PodRestart, ResourceKind::Pod] {
        while story.world.watch_next(kind) {} // the watch of namespaces lags behind
    }
    story.world.work(&key, |_| crate::world::Answer::Arrives);
    story.world.queue.clear();
    story.world.timers.clear();
    story.world.converge();
    assert!(story.is_gone());
}

#[test]
fn a_pod_that_the_api_would_not_take_again_is_not_evicted() {
    let mut story = Story::new(json!({"deadlineSeconds": 60}));
    story.refuse_pods();
    story.world.advance(TickDuration::from_secs(3));
    assert_eq!(story.evictions(), 0);
    assert_eq!(story.step(), Some(ReplacementStep::Held));
    assert_eq!(story.message(), format!("the API does not take the pod again: {NO_ACCOUNT}"));
    let said = story.world.said();
    let told = format!(
        "FailedCreate: Evicting the pod, to be created again waits: the API does not take the pod again: {NO_ACCOUNT}"
    );
    assert!(said.contains(&told), "{said:?}");
    story.take_pods_again();
    assert_eq!(story.status().phase, Some(PodRestartPhase::Succeeded));
}

#[test]
fn a_request_whose_pod_would_never_be_taken_again_fails_at_its_deadline() {
    let mut story = Story::new(json!({"deadlineSeconds": 20}));
    story.refuse_pods();
    story.world.advance(TickDuration::from_secs(21));
    let status = story.status();
    assert_eq!(status.phase, Some(PodRestartPhase::Failed));
    assert!(status.message.unwrap().contains(NO_ACCOUNT));
    assert_eq!((story.evictions(), story.finalizers()), (0, Vec::new()));
}

#[test]
fn a_refused_creation_is_told_in_the_apis_words_and_tried_again() {
    let mut story = Story::evicted(json!({}));
    story.refuse_pods();
    story.world.kubelet(); // the old pod is gone
    story.world.advance(TickDuration::from_secs(5));
    assert!(!story.has_pod());
    let expected = format!("the API does not take the pod again: {NO_ACCOUNT}");
    assert_eq!(
        (story.step(), story.message()),
        (Some(ReplacementStep::Evicting), expected.clone())
    );
    let about = story.world.notes.iter().find(|note| note.reason == "FailedCreate").unwrap();
    assert_eq!((about.about.kind, about.message.clone()), ("PodRestart", expected));
    story.take_pods_again();
    assert_eq!(story.status().phase, Some(PodRestartPhase::Succeeded));
}

#[test]
fn a_request_that_fails_before_its_pod_is_taken_again_keeps_it_and_goes_on() {
    let mut story = Story::evicted(json!({"deadlineSeconds": 20, "ttlSecondsAfterFinished": 60}));
    story.refuse_pods();
    story.world.kubelet(); // the old pod is gone
    story.world.advance(TickDuration::from_secs(21));
    let failed = story.status();
    assert_eq!(failed.phase, Some(PodRestartPhase::Failed));
    assert!(failed.message.unwrap().contains(NO_ACCOUNT));
    assert_eq!(failed.replacement.unwrap().pod.unwrap().0["metadata"]["name"], "web");
    assert_eq!(story.finalizers(), [""; 0], "it may be deleted");
    story.world.advance(TickDuration::from_secs(200));
    assert!(!story.is_gone(), "it has the only copy of the pod");
    story.take_pods_again();
    assert!(story.has_pod());
    story.world.advance(TickDuration::from_secs(61));
    assert!(story.is_gone());
}

#[test]
fn who_deletes_a_failed_request_lets_go_of_its_pod() {
    let mut story = Story::evicted(json!({"deadlineSeconds": 20}));
    story.refuse_pods();
    story.world.kubelet(); // the old pod is gone
    story.world.advance(TickDuration::from_secs(21));
    story.deletes_request();
    story.world.settle();
    assert!(story.is_gone());
    story.take_pods_again();
    assert!(!story.has_pod());
}

#[test]
fn a_pod_that_does_not_end_by_the_deadline_is_created_again_after_it() {
    let mut story = Story::evicted(json!({"deadlineSeconds": 20}));
    story.world.advance(TickDuration::from_secs(21));
    let failed = story.status();
    assert_eq!(failed.phase, Some(PodRestartPhase::Failed));
    let message = "pod web had not ended in time; it is created again when it has, unless this request is deleted";
    assert_eq!(failed.message.as_deref(), Some(message));
    story.world.converge();
    assert!(story.has_pod());
    let made_good = story.status();
    assert_eq!(made_good.phase, Some(PodRestartPhase::Failed), "once said, it stays so");
    let replacement = made_good.replacement.unwrap();
    let new = story.world.api.objects[&story.web].uid().to_owned();
    assert_eq!((replacement.pod, replacement.new_pod_uid), (None, Some(new)));
}

#[test]
fn a_pod_may_take_its_grace_period_and_is_created_again_in_time() {
    let mut world = World::with_node();
    let mut naked = pod("web", json!({}));
    naked["spec"]["terminationGracePeriodSeconds"] = json!(2000);
    let web = world.create(naked);
    world.converge();
    let request = ask(&mut world, json!({}));
    world.advance(TickDuration::from_secs(1900)); // it still ends
    world.converge();
    let story = Story { world, web, request };
    assert_eq!(story.status().phase, Some(PodRestartPhase::Succeeded), "{}", story.message());
}

/// A class may be gone, or mean something else, when the pod is created again.
#[test]
fn what_a_priority_class_gave_is_not_kept() {
    let mut world = World::with_node();
    let mut naked = pod("web", json!({}));
    naked["spec"]["priorityClassName"] = json!("high");
    naked["spec"]["priority"] = json!(1000);
    naked["spec"]["preemptionPolicy"] = json!("Never");
    let web = world.create(naked);
    world.converge();
    ask(&mut world, json!({}));
    world.converge();
    let spec = &world.api.values[&web]["spec"];
    assert_eq!(spec["priorityClassName"], "high");
    assert_eq!((&spec["priority"], &spec["preemptionPolicy"]), (&Value::Null, &Value::Null));
}
