//! Windows, policies and the range. Cases from the documentation ("Configurable scaling behavior")
//! and KEP-853.

use k8s_openapi::api::autoscaling::v2::{
    HPAScalingPolicy, HPAScalingRules, HorizontalPodAutoscalerBehavior,
};
use proptest::prelude::*;
use rekindle_types::{Tick, TickDuration};

use super::super::history::ScalingHistory;
use super::super::limits::{LimitedCount, ReplicaRange, limit};

const NOW: Tick = Tick::from_secs(1_800_000_000);

/// So many seconds before now.
fn ago(entries: &[(u64, i32)]) -> Vec<(Tick, i32)> {
    entries.iter().map(|(secs, count)| (NOW - TickDuration::from_secs(*secs), *count)).collect()
}

fn history(recommendations: &[(u64, i32)], changes: &[(u64, i32)]) -> ScalingHistory {
    ScalingHistory { recommendations: ago(recommendations), changes: ago(changes) }
}

fn rules(window: Option<i32>, select: &str, policies: &[(&str, i32, i32)]) -> HPAScalingRules {
    let policies = policies.iter().map(|(type_, value, period_seconds)| HPAScalingPolicy {
        type_: (*type_).to_owned(),
        value: *value,
        period_seconds: *period_seconds,
    });
    HPAScalingRules {
        policies: Some(policies.collect()),
        select_policy: Some(select.to_owned()),
        stabilization_window_seconds: window,
        tolerance: None,
    }
}

/// What the API fills in when behaviour is named.
fn default_up() -> HPAScalingRules {
    rules(Some(0), "Max", &[("Pods", 4, 15), ("Percent", 100, 15)])
}

fn default_down() -> HPAScalingRules {
    rules(None, "Max", &[("Percent", 100, 15)])
}

fn behavior(up: HPAScalingRules, down: HPAScalingRules) -> HorizontalPodAutoscalerBehavior {
    HorizontalPodAutoscalerBehavior { scale_up: Some(up), scale_down: Some(down) }
}

const RANGE: ReplicaRange = ReplicaRange { min: 2, max: 100 };

fn limited(
    behavior: Option<&HorizontalPodAutoscalerBehavior>,
    history: &ScalingHistory,
    counts: (i32, i32),
) -> LimitedCount {
    limit(behavior, history, counts, RANGE, NOW)
}

#[test]
fn without_behaviour_the_highest_of_five_minutes_holds_and_at_most_twice_as_many_are_made() {
    // (recommendations, replicas now, asked for, done, reasons of AbleToScale and ScalingLimited)
    for (recommended, counts, expected, able, limit) in [
        (vec![], (4, 6), 6, "ReadyForNewScale", "DesiredWithinRange"),
        (vec![], (4, 20), 8, "ReadyForNewScale", "ScaleUpLimit"),
        (vec![], (1, 20), 4, "ReadyForNewScale", "ScaleUpLimit"),
        (vec![], (80, 200), 100, "ReadyForNewScale", "TooManyReplicas"),
        (vec![], (4, 0), 2, "ReadyForNewScale", "TooFewReplicas"),
        (vec![(299, 9), (10, 4)], (9, 3), 9, "ScaleDownStabilized", "DesiredWithinRange"),
        (vec![(301, 9), (10, 4)], (9, 3), 4, "ScaleDownStabilized", "DesiredWithinRange"),
        (vec![(301, 9)], (9, 3), 3, "ReadyForNewScale", "DesiredWithinRange"),
    ] {
        let found = limited(None, &history(&recommended, &[]), counts);
        assert_eq!(
            (found.replicas, found.stabilized.0, found.limit.0),
            (expected, able, limit),
            "{recommended:?} {counts:?}"
        );
    }
}

#[test]
fn each_direction_has_its_window() {
    let slow_up = behavior(rules(Some(60), "Max", &[("Percent", 100, 15)]), default_down());
    let fast_down = behavior(default_up(), rules(Some(0), "Max", &[("Percent", 100, 15)]));
    for (behavior, recommended, counts, expected, reason) in [
        (&slow_up, vec![(59, 5), (30, 9)], (5, 9), 5, "ScaleUpStabilized"),
        (&slow_up, vec![(60, 5), (30, 8)], (5, 9), 8, "ScaleUpStabilized"),
        (&slow_up, vec![(60, 5)], (5, 9), 9, "ReadyForNewScale"),
        (&slow_up, vec![(299, 7)], (9, 3), 7, "ScaleDownStabilized"),
        (&fast_down, vec![(1, 9)], (9, 3), 3, "ReadyForNewScale"),
    ] {
        let found = limited(Some(behavior), &history(&recommended, &[]), counts);
        assert_eq!((found.replicas, found.stabilized.0), (expected, reason), "{recommended:?}");
    }
}

#[test]
fn policies_count_from_what_there_was_when_their_period_began() {
    let up = |select, policies: &[_]| behavior(rules(Some(0), select, policies), default_down());
    let down = |select, policies: &[_]| behavior(default_up(), rules(Some(0), select, policies));
    let both = [("Pods", 4, 60), ("Percent", 10, 60)];
    for (behavior, changes, counts, expected, reason) in [
        (up("Max", &both), vec![], (10, 50), 14, "ScaleUpLimit"),
        (up("Min", &both), vec![], (10, 50), 11, "ScaleUpLimit"),
        (up("Max", &both), vec![], (90, 99), 99, "DesiredWithinRange"),
        (up("Disabled", &both), vec![], (10, 50), 10, "ScaleUpLimit"),
        // three of the four of this minute are used up
        (up("Max", &both), vec![(59, 3)], (10, 50), 11, "ScaleUpLimit"),
        (up("Max", &both), vec![(60, 3)], (10, 50), 14, "ScaleUpLimit"),
        // what went away since does not count as made
        (up("Max", &both), vec![(50, 4), (20, -2)], (12, 50), 14, "ScaleUpLimit"),
        (down("Max", &both), vec![], (80, 2), 72, "ScaleDownLimit"),
        (down("Min", &both), vec![], (80, 2), 76, "ScaleDownLimit"),
        (down("Max", &both), vec![(59, -6)], (74, 2), 72, "ScaleDownLimit"),
        (down("Disabled", &both), vec![], (80, 2), 80, "ScaleDownLimit"),
        (down("Max", &[("Percent", 100, 15)]), vec![], (80, 0), 2, "TooFewReplicas"),
        (up("Max", &[("Percent", 900, 15)]), vec![], (50, 400), 100, "TooManyReplicas"),
        // a share of few is rounded up, or nothing would ever grow
        (up("Max", &[("Percent", 10, 60)]), vec![], (2, 50), 3, "ScaleUpLimit"),
    ] {
        let found = limited(Some(&behavior), &history(&[], &changes), counts);
        assert_eq!((found.replicas, found.limit.0), (expected, reason), "{changes:?} {counts:?}");
    }
}

fn any_rules() -> impl Strategy<Value = HPAScalingRules> {
    let policy = (prop_oneof![Just("Pods"), Just("Percent")], 1..200_i32, 1..1_800_i32);
    let select = prop_oneof![Just("Max"), Just("Min"), Just("Disabled")];
    let window = prop::option::of(0..=3_600_i32);
    (window, select, prop::collection::vec(policy, 1..4))
        .prop_map(|(window, select, policies)| rules(window, select, &policies))
}

fn any_behavior() -> impl Strategy<Value = Option<HorizontalPodAutoscalerBehavior>> {
    prop::option::of((any_rules(), any_rules()).prop_map(|(up, down)| behavior(up, down)))
}

fn any_history() -> impl Strategy<Value = ScalingHistory> {
    let entries = |counts| prop::collection::vec((0..4_000_u64, counts), 0..20);
    (entries(0..200_i32), entries(-50..50_i32)).prop_map(|(mut recommendations, mut changes)| {
        recommendations.sort_by_key(|(secs, _)| std::cmp::Reverse(*secs));
        changes.sort_by_key(|(secs, _)| std::cmp::Reverse(*secs));
        history(&recommendations, &changes)
    })
}

proptest! {
    #[test]
    fn nothing_leads_out_of_the_range_or_past_what_is_asked_for(
        behavior in any_behavior(), history in any_history(),
        min in 1..20_i32, more in 0..80_i32, place in 0..100_i32, desired in 0..200_i32,
    ) {
        let range = ReplicaRange { min, max: min + more };
        let current = min + place.min(more);
        let found = limit(behavior.as_ref(), &history, (current, desired), range, NOW);
        prop_assert!((range.min..=range.max).contains(&found.replicas));
        // never further than what was ever asked for within an hour
        let asked = history.recommendations.iter().map(|(_, count)| *count).chain([desired]);
        let (least, most) = asked.fold((current, current), |(a, b), c| (a.min(c), b.max(c)));
        prop_assert!(found.replicas >= least.min(range.max).max(range.min));
        prop_assert!(found.replicas <= most.max(range.min));
    }

    #[test]
    fn fewer_are_never_left_than_any_recommendation_in_the_window(
        history in any_history(), current in 2..=100_i32, desired in 0..100_i32, window in 1..3_600_u64,
    ) {
        let seconds = i32::try_from(window).unwrap();
        let down = rules(Some(seconds), "Max", &[("Percent", 100, 15)]);
        let behavior = behavior(default_up(), down);
        let found = limited(Some(&behavior), &history, (current, desired));
        let length = TickDuration::from_secs(window);
        let recent = history.recommendations.iter().filter(|(at, _)| NOW.since(*at) < length);
        let highest = recent.map(|(_, count)| *count).max().unwrap_or(0).min(current);
        prop_assert!(found.replicas >= highest, "{} < {highest}", found.replicas);
    }

    #[test]
    fn a_direction_that_is_disabled_is_never_taken(
        history in any_history(), current in 2..=100_i32, desired in 0..200_i32,
    ) {
        let none = || rules(Some(0), "Disabled", &[("Pods", 100, 15)]);
        let found = limited(Some(&behavior(none(), none())), &history, (current, desired));
        prop_assert_eq!(found.replicas, current);
    }
}
