use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use rekindle_types::v1alpha1::{LADDER, LADDER_WINDOW, LadderRung, Rung};

use super::*;

fn pod(annotations: &[(&str, &str)]) -> HeldPod {
    let mut pod = HeldPod::default();
    pod.metadata.name = Some("web-0".to_owned());
    pod.metadata.namespace = Some("shop".to_owned());
    pod.metadata.labels = Some([("app".to_owned(), "web".to_owned())].into());
    let annotations = annotations.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned()));
    pod.metadata.annotations = Some(annotations.collect());
    pod
}

/// A RestartLadder with the rung Recreate that selects `app: web`.
fn object() -> RestartLadder {
    let mut ladder = RestartLadder::default();
    ladder.metadata.name = Some("web".to_owned());
    ladder.metadata.namespace = Some("shop".to_owned());
    ladder.spec.selector.match_labels = Some([("app".to_owned(), "web".to_owned())].into());
    let rung = Rung::Recreate;
    let step = LadderRung { rung, attempts: None, empty_dirs: None, avoid_node_for: None };
    ladder.spec.rungs = vec![step];
    ladder
}

fn rungs(ladders: &[RestartLadder], pod: &HeldPod) -> Option<(String, Vec<(Rung, u32)>)> {
    let policy = policy_of(ladders.iter(), pod).expect("a valid ladder")?;
    Some((policy.name, policy.steps.iter().map(|step| (step.rung, step.attempts)).collect()))
}

#[test]
fn a_pod_that_nothing_selects_and_that_says_nothing_goes_by_kubernetes_own_rules() {
    assert_eq!(rungs(&[], &pod(&[])), None);
}

#[test]
fn the_annotations_make_a_ladder_that_is_named_after_the_workload() {
    let mut pod = pod(&[(LADDER, "Container:3, Pod")]);
    let expected = vec![(Rung::Container, 3), (Rung::Pod, 1)];
    assert_eq!(rungs(&[], &pod), Some(("pod/web-0".to_owned(), expected.clone())));
    pod.metadata.owner_references = Some(vec![OwnerReference {
        kind: "StatefulSet".to_owned(),
        name: "web".to_owned(),
        controller: Some(true),
        ..OwnerReference::default()
    }]);
    assert_eq!(rungs(&[], &pod), Some(("statefulset/web".to_owned(), expected)));
}

#[test]
fn an_object_that_selects_the_pod_counts_before_its_annotations() {
    let pod = pod(&[(LADDER, "Container:3, Pod")]);
    let chosen = rungs(&[object()], &pod);
    assert_eq!(chosen, Some(("web".to_owned(), vec![(Rung::Recreate, 1)])));
    let mut other = object();
    other.spec.selector.match_labels = Some([("app".to_owned(), "db".to_owned())].into());
    assert_eq!(rungs(&[other], &pod).map(|(name, _)| name).as_deref(), Some("pod/web-0"));
}

#[test]
fn edited_annotations_are_another_generation_and_others_are_not() {
    let generation =
        |pairs: &[(&str, &str)]| policy_of([].iter(), &pod(pairs)).ok().flatten()?.generation;
    let before = generation(&[(LADDER, "Pod:2")]);
    assert!(before.is_some());
    assert_eq!(generation(&[(LADDER, "Pod:2"), ("team", "shop")]), before);
    assert_ne!(generation(&[(LADDER, "Pod:3")]), before);
    assert_ne!(generation(&[(LADDER, "Pod:2"), (LADDER_WINDOW, "5m")]), before);
}

#[test]
fn annotations_that_make_no_ladder_are_named_with_their_pod() {
    for (pairs, says) in [
        (
            [(LADDER, "Pod"), (LADDER_WINDOW, "soon")],
            "pod \"web-0\": annotation rekindle.dev/ladder-window: \"soon\": \"soon\" is not a duration",
        ),
        (
            [(LADDER, "Pod, Container"), (LADDER_WINDOW, "1m")],
            "pod \"web-0\": annotation rekindle.dev/ladder: \"Pod, Container\": \"Container\": must stand before Pod",
        ),
        (
            [(LADDER, "Pod:0"), (LADDER_WINDOW, "1m")],
            "pod \"web-0\": annotation rekindle.dev/ladder: \"Pod:0\": 0: must be between 1 and 1000",
        ),
        (
            [(LADDER, "Pods"), (LADDER_WINDOW, "1m")],
            "pod \"web-0\": annotation rekindle.dev/ladder: \"Pods\": \"Pods\" is no rung",
        ),
    ] {
        let error = policy_of([].iter(), &pod(&pairs)).expect_err(says).to_string();
        assert!(error.starts_with(says), "{error}");
    }
}
