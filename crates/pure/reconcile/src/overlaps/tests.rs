use std::sync::Arc;

use rekindle_types::Tick;
use serde_json::{Value, json};

use super::*;
use crate::ladder::status;
use crate::restart_context::in_engine;
use crate::wire::object_from_json;

const NOW: Tick = Tick::from_secs(1_795_262_400);

/// A ladder made in this second, for these labels.
fn ladder(name: &str, second: u64, labels: Value) -> ViewObject {
    let ladder = json!({
        "metadata": {"name": name, "namespace": "shop", "uid": name, "resourceVersion": "1",
            "creationTimestamp": Tick::from_secs(second).to_time()},
        "spec": {"selector": {"matchLabels": labels}, "rungs": [{"rung": "Pod"}]},
    });
    object_from_json(ResourceKind::RestartLadder, ladder.to_string().as_bytes()).unwrap()
}

fn pod(name: &str, labels: Value) -> ViewObject {
    let pod = json!({
        "metadata": {"name": name, "namespace": "shop", "uid": name, "resourceVersion": "1", "labels": labels},
        "spec": {"containers": [{"name": "app"}]},
    });
    object_from_json(ResourceKind::Pod, pod.to_string().as_bytes()).unwrap()
}

fn world(objects: impl IntoIterator<Item = ViewObject>) -> ClusterView {
    let mut view = ClusterView::new();
    objects.into_iter().for_each(|object| drop(view.apply(object)));
    view
}

fn named(name: &str) -> NamespacedName {
    NamespacedName::new("shop", name)
}

fn told(view: &ClusterView, name: &str) -> Option<String> {
    overlap_warning(view, view.restart_ladder(&named(name)).unwrap())
}

#[test]
fn the_younger_of_two_ladders_says_which_older_one_decides_for_its_pods() {
    let web = || json!({"app": "web"});
    let front = || json!({"app": "web", "tier": "front"});
    let decides = "it decides for them, and this one does not";
    // the older, the younger, the labels of a pod, what the younger says
    for (older, younger, labels, expected) in [
        (web(), web(), json!({}), Some("selects all that this one selects")),
        (web(), front(), json!({}), Some(decides)),
        (front(), web(), json!({}), Some("select pods that this one selects, too")),
        (
            web(),
            json!({"tier": "front"}),
            front(),
            Some("it decides for these, and this one does not"),
        ),
        (web(), json!({"tier": "front"}), web(), None),
        (web(), json!({"app": "db"}), web(), None),
    ] {
        let case = format!("{older} {younger} {labels}");
        let view = world([ladder("a", 2, younger), ladder("b", 1, older), pod("p", labels)]);
        assert_eq!(told(&view, "b"), None, "{case}");
        let said = told(&view, "a");
        assert_eq!(said.is_some(), expected.is_some(), "{case}: {said:?}");
        let said = said.unwrap_or_default().replace("selects pods", "select pods");
        assert!(said.contains(expected.unwrap_or_default()), "{case}: {said}");
    }
}

#[test]
fn of_many_older_ladders_a_few_are_named() {
    let mut view = world([ladder("young", 9, json!({"app": "web"}))]);
    for (second, name) in ["a", "b", "c", "d", "e"].into_iter().enumerate() {
        let labels = json!({"app": "web", "tier": name});
        view.apply(ladder(name, second as u64, labels));
    }
    let said = told(&view, "young").unwrap();
    assert!(said.starts_with("RestartLadders \"a\", \"b\", \"c\" and 2 more are older"), "{said}");
}

#[test]
fn an_overlap_is_one_warning_about_the_younger_ladder_while_nothing_else_is_to_be_said() {
    let mut view =
        world([ladder("a", 2, json!({"app": "web"})), ladder("b", 1, json!({"app": "web"}))]);
    let plan = in_engine(&view, |context| status(context, &named("a"), NOW));
    let [note] = plan.notes.as_slice() else { panic!("{:?}", plan.notes) };
    assert_eq!((note.about.kind, note.about.name.as_str()), ("RestartLadder", "a"));
    assert_eq!(note.reason, "LadderOverlapped");
    let written = plan.writes().next().cloned();
    let Some(rekindle_controllers::WriteOperation::UpdateStatus(after)) = written else { panic!() };
    let ViewObject::RestartLadder(mut after) = after else { panic!() };
    Arc::make_mut(&mut after).metadata.resource_version = Some("2".to_owned());
    view.apply(ViewObject::RestartLadder(after));
    let again = in_engine(&view, |context| status(context, &named("a"), NOW));
    assert!(again.notes.is_empty() && again.writes().next().is_none());
    assert!(
        in_engine(&view, |context| status(context, &named("b"), NOW)).notes.is_empty(),
        "the one that decides"
    );
}

#[test]
fn who_changes_a_ladder_or_a_pod_looks_at_the_younger_ladders_that_it_concerns() {
    let mut view = world([
        ladder("old", 1, json!({"app": "web"})),
        ladder("young", 3, json!({"tier": "front"})),
        ladder("other", 4, json!({"app": "db"})),
    ]);
    let change = view.apply(ladder("middle", 2, json!({"app": "web"}))).unwrap();
    assert_eq!(concerned(&view, &change), [named("other"), named("young")]);
    let both = pod("p", json!({"app": "web", "tier": "front"}));
    let change = view.apply(both).unwrap();
    assert_eq!(concerned(&view, &change), [named("middle"), named("young")]);
    let id = change.id.clone();
    let change = view.apply(pod("q", json!({"app": "db"}))).unwrap();
    assert!(concerned(&view, &change).is_empty(), "one ladder selects it");
    let change = view.delete(&id, "p").unwrap();
    assert_eq!(concerned(&view, &change), [named("middle"), named("young")]);
}
