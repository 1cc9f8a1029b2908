use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelectorRequirement;
use rekindle_types::Tick;

use super::*;

fn pod(labels: &[(&str, &str)]) -> HeldPod {
    let mut pod = HeldPod::default();
    pod.metadata.namespace = Some("shop".to_owned());
    pod.metadata.labels =
        Some(labels.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect());
    pod
}

fn ladder(name: &str, created_secs: u64, labels: &[(&str, &str)]) -> RestartLadder {
    let mut ladder = RestartLadder::default();
    ladder.metadata.name = Some(name.to_owned());
    ladder.metadata.namespace = Some("shop".to_owned());
    ladder.metadata.creation_timestamp = Some(Tick::from_secs(created_secs).to_time());
    ladder.spec.selector.match_labels =
        Some(labels.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect());
    ladder
}

fn chosen<'a>(ladders: &'a [RestartLadder], pod: &HeldPod) -> Option<&'a str> {
    select(ladders.iter(), pod).and_then(|ladder| ladder.metadata.name.as_deref())
}

#[test]
fn the_oldest_ladder_counts_then_the_first_by_name() {
    let app = [("app", "web")];
    let ladders = [
        ladder("young", 30, &app),
        ladder("b", 20, &app),
        ladder("a", 20, &app),
        ladder("other", 1, &[("app", "db")]),
    ];
    assert_eq!(chosen(&ladders, &pod(&app)), Some("a"));
    let mut unstored = ladder("0", 0, &app);
    unstored.metadata.creation_timestamp = None;
    assert_eq!(chosen(&[unstored, ladder("b", 20, &app)], &pod(&app)), Some("b"));
}

#[test]
fn a_ladder_never_selects_by_mistake() {
    let app = [("app", "web")];
    let mut elsewhere = ladder("elsewhere", 1, &app);
    elsewhere.metadata.namespace = Some("other".to_owned());
    let mut going = ladder("going", 1, &app);
    going.metadata.deletion_timestamp = Some(Tick::from_secs(2).to_time());
    let mut empty = ladder("empty", 1, &[]);
    assert_eq!(chosen(&[elsewhere, going, empty.clone()], &pod(&app)), None);
    empty.spec.selector.match_labels = None;
    assert_eq!(chosen(&[empty], &pod(&app)), None);
}

#[test]
fn expressions_hold_as_the_api_reference_says() {
    for (key, operator, values, labels, selected) in [
        ("app", "In", &["web", "db"][..], &[("app", "web")][..], true),
        ("app", "In", &["db"], &[("app", "web")], false),
        ("app", "In", &["db"], &[], false),
        ("app", "NotIn", &["db"], &[("app", "web")], true),
        ("app", "NotIn", &["web"], &[("app", "web")], false),
        ("app", "NotIn", &["web"], &[], true),
        ("app", "Exists", &[], &[("app", "")], true),
        ("app", "Exists", &[], &[], false),
        ("app", "DoesNotExist", &[], &[], true),
        ("app", "DoesNotExist", &[], &[("app", "web")], false),
        ("app", "Resembles", &["web"], &[("app", "web")], false),
    ] {
        let requirement = LabelSelectorRequirement {
            key: key.to_owned(),
            operator: operator.to_owned(),
            values: Some(values.iter().map(|value| (*value).to_owned()).collect()),
        };
        let mut ladder = ladder("x", 1, &[]);
        ladder.spec.selector.match_expressions = Some(vec![requirement]);
        let found = chosen(&[ladder], &pod(labels)).is_some();
        assert_eq!(found, selected, "{key} {operator} {values:?} on {labels:?}");
    }
}

#[test]
fn labels_and_expressions_must_both_hold() {
    let exists = LabelSelectorRequirement {
        key: "tier".to_owned(),
        operator: "Exists".to_owned(),
        values: None,
    };
    let mut ladder = ladder("x", 1, &[("app", "web")]);
    ladder.spec.selector.match_expressions = Some(vec![exists]);
    let ladders = [ladder];
    assert_eq!(chosen(&ladders, &pod(&[("app", "web")])), None);
    assert_eq!(chosen(&ladders, &pod(&[("tier", "a")])), None);
    assert_eq!(chosen(&ladders, &pod(&[("app", "web"), ("tier", "a")])), Some("x"));
}
