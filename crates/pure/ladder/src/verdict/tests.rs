use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement};
use rekindle_types::v1alpha1::{LadderRung, Rung};

use super::*;

/// An engine of ours.
const REACH: LadderReach = LadderReach::Pods(InPlaceSupport::Available);

fn ladder(rungs: &[Rung]) -> RestartLadder {
    let mut ladder = RestartLadder::default();
    ladder.metadata.name = Some("web".to_owned());
    ladder.metadata.generation = Some(3);
    ladder.spec.selector.match_labels = Some([("app".to_owned(), "web".to_owned())].into());
    let rung = |rung: &Rung| LadderRung {
        rung: *rung,
        attempts: None,
        empty_dirs: None,
        avoid_node_for: None,
    };
    ladder.spec.rungs = rungs.iter().map(rung).collect();
    ladder
}

fn accepted(ladder: &RestartLadder) -> (String, String, String) {
    let status = ladder_status(ladder, &REACH, None, Tick::from_secs(1));
    let condition = status.conditions.expect("a condition").remove(0);
    assert_eq!(condition.type_, "Accepted");
    (condition.status, condition.reason, condition.message)
}

#[test]
fn a_ladder_that_cannot_be_decided_by_is_not_accepted() {
    use rekindle_types::v1alpha1::OnExhausted;
    let mut every = ladder(&[
        Rung::Container,
        Rung::Containers,
        Rung::Pod,
        Rung::Recreate,
        Rung::Reschedule,
        Rung::Rollback,
    ]);
    every.spec.on_exhausted = Some(OnExhausted::Fail);
    let mut invalid = ladder(&[Rung::Pod]);
    invalid.spec.window = Some("soon".to_owned());
    for (ladder, status, reason, message) in [
        (every, "True", "Accepted", "every rung is carried out"),
        (
            invalid,
            "False",
            "Invalid",
            "RestartLadder \"web\": spec.window: Invalid value: \"soon\": \"soon\" is not a duration such as 90s, 10m or 1h30m",
        ),
    ] {
        let expected = (status.to_owned(), reason.to_owned(), message.to_owned());
        assert_eq!(accepted(&ladder), expected);
    }
}

#[test]
fn a_ladder_that_never_climbs_is_accepted_and_says_so() {
    let mut never = ladder(&[Rung::Container, Rung::Pod]);
    never.spec.rungs[0].attempts = Some(7);
    let (status, reason, message) = accepted(&never);
    assert_eq!((status.as_str(), reason.as_str()), ("True", "Accepted"));
    let expected = "every rung is carried out; spec.rungs[0].attempts: 7: what comes after Container is never reached: ";
    assert!(
        message.starts_with(expected) && message.ends_with("within 10m; at most 6"),
        "{message}"
    );
}

/// On a cluster whose API server does not look (one older than 1.25 knows no rules between fields)
/// such a ladder gets in.
#[test]
fn a_ladder_that_can_never_act_is_not_accepted() {
    let requirement = |operator: &str, values: &[&str]| LabelSelectorRequirement {
        key: "app".to_owned(),
        operator: operator.to_owned(),
        values: Some(values.iter().map(ToString::to_string).collect()),
    };
    let by = |requirement: LabelSelectorRequirement| {
        let mut ladder = ladder(&[Rung::Pod]);
        ladder.spec.selector =
            LabelSelector { match_expressions: Some(vec![requirement]), match_labels: None };
        ladder
    };
    let mut everything = ladder(&[Rung::Pod]);
    everything.spec.selector = LabelSelector::default();
    let mut no_label = ladder(&[Rung::Pod]);
    no_label.spec.selector.match_labels = Some([("a b".to_owned(), "c!d".to_owned())].into());
    let mut for_ever = ladder(&[Rung::Pod]);
    for_ever.spec.window = Some("9999999h".to_owned());
    let mut at_odds = ladder(&[Rung::Recreate]);
    at_odds.spec.rungs[0].empty_dirs = Some(rekindle_types::v1alpha1::EmptyDirPolicy::Keep);
    at_odds.spec.rungs[0].avoid_node_for = Some("5m".to_owned());
    for (ladder, faults) in [
        (everything, vec!["spec.selector: Required value: a ladder must say which pods it is for"]),
        (
            by(requirement("Is", &["web"])),
            vec!["spec.selector.matchExpressions[0].operator: Invalid value: \"Is\": not a valid"],
        ),
        (
            by(requirement("In", &[])),
            vec!["spec.selector.matchExpressions[0].values: Required value: must be specified"],
        ),
        (
            no_label,
            vec![
                "spec.selector.matchLabels: Invalid value: \"a b\": name part must consist",
                "spec.selector.matchLabels: Invalid value: \"c!d\": a valid label must",
            ],
        ),
        (for_ever, vec!["spec.window: Invalid value: \"9999999h\": must be no more than 720h"]),
        (
            at_odds,
            vec![
                "spec.rungs[0].emptyDirs: Forbidden: may only be set on the rung Pod",
                "spec.rungs[0].avoidNodeFor: Forbidden: may only be set on the rung Reschedule",
            ],
        ),
    ] {
        let (status, reason, message) = accepted(&ladder);
        assert_eq!((status.as_str(), reason.as_str()), ("False", "Invalid"), "{message}");
        for fault in faults {
            assert!(message.contains(fault), "{fault}: {message}");
        }
    }
}

#[test]
fn a_message_stays_short_whatever_the_spec_says() {
    let mut ladder = ladder(&[Rung::Pod]);
    ladder.spec.window = Some("é".repeat(100_000));
    let labels = (0..1000).map(|n| (format!("{n}!"), "é".repeat(100)));
    ladder.spec.selector.match_labels = Some(labels.collect());
    let (status, _, message) = accepted(&ladder);
    assert_eq!(status, "False");
    assert!(message.len() <= MESSAGE_BYTES_MAX + '…'.len_utf8(), "{}", message.len());
    assert!(message.ends_with('…'), "{message}");
}

#[test]
fn a_verdict_that_stays_keeps_its_time_and_is_written_once() {
    let mut ladder = ladder(&[Rung::Pod]);
    let first = ladder_status(&ladder, &REACH, None, Tick::from_secs(1));
    assert_eq!(first.observed_generation, Some(3));
    ladder.status = Some(first.clone());
    assert_eq!(ladder_status(&ladder, &REACH, None, Tick::from_secs(2)), first);
    ladder.spec.rungs.clear();
    let refused = ladder_status(&ladder, &REACH, None, Tick::from_secs(3));
    let since = &refused.conditions.expect("a condition")[0].last_transition_time;
    assert_eq!(*since, Tick::from_secs(3).to_time());
}

#[test]
fn an_overlap_is_told_while_there_is_one_and_not_of_a_ladder_that_never_had_one() {
    let mut ladder = ladder(&[Rung::Pod]);
    let told = |ladder: &RestartLadder, by: Option<&str>, at: u64| {
        let status = ladder_status(ladder, &REACH, by, Tick::from_secs(at));
        let conditions = status.conditions.iter().flatten();
        let told = conditions.map(|c| (c.type_.clone(), c.status.clone(), c.message.clone()));
        let told =
            told.skip(1).map(|(type_, status, message)| format!("{type_} {status}: {message}"));
        (told.collect::<Vec<_>>(), status)
    };
    assert!(told(&ladder, None, 1).0.is_empty());
    let by = "RestartLadder \"old\" is older";
    let (words, status) = told(&ladder, Some(by), 2);
    assert_eq!(words, [format!("Overlapped True: {by}")]);
    assert!(!tells_of_overlap(&ladder, by));
    ladder.status = Some(status.clone());
    assert!(tells_of_overlap(&ladder, by) && !tells_of_overlap(&ladder, "another"));
    assert_eq!(told(&ladder, Some(by), 3).1, status, "as before");
    let (words, status) = told(&ladder, None, 4);
    assert_eq!(words, [format!("Overlapped False: {OVERLAP_OVER}")]);
    ladder.status = Some(status);
    assert!(!tells_of_overlap(&ladder, by));
}

#[test]
fn a_ladder_of_a_cluster_says_what_it_cannot_do_there() {
    let ladder = ladder(&[Rung::Container, Rung::Containers, Rung::Pod, Rung::Recreate]);
    let mut before = ladder;
    for (reach, expected) in [
        (
            LadderReach::Pods(InPlaceSupport::NoAgent),
            [
                "True",
                "Accepted",
                "every rung but Containers and Pod is carried out: no node has an agent",
            ],
        ),
        (LadderReach::NotEnabled("label it".to_owned()), ["False", "NotEnabled", "label it"]),
        (LadderReach::Misread("no such pods".to_owned()), ["False", "Invalid", "no such pods"]),
    ] {
        let status = ladder_status(&before, &reach, None, Tick::from_secs(1));
        let conditions = status.conditions.clone().unwrap_or_default();
        let noted: Vec<_> =
            conditions.iter().map(|c| [&*c.status, &*c.reason, &*c.message]).collect();
        assert_eq!(noted, [expected]);
        before.status = Some(status);
    }
}
