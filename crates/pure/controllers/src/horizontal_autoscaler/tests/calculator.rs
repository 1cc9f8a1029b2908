//! How many replicas one metric asks for. The cases are those of the documentation ("Algorithm
//! details") and of the rules about pods without samples.

use proptest::prelude::*;

use super::super::replica_count::{
    MetricTolerance, NoProposal, PodSample, ReplicaProposal, ResourceTarget, SampleStanding,
    propose,
};
use SampleStanding::{Counted, LeftOut, Missing, Unready};

/// Each pod asks for 1000m.
fn samples(pods: &[(SampleStanding, i64)]) -> Vec<PodSample> {
    let sample = |(standing, used_millis): &(SampleStanding, i64)| PodSample {
        standing: *standing,
        request_millis: 1_000,
        used_millis: *used_millis,
    };
    pods.iter().map(sample).collect()
}

fn replicas(pods: &[(SampleStanding, i64)], target: ResourceTarget, current: i32) -> i32 {
    let tolerance = MetricTolerance::default();
    propose(&samples(pods), target, current, tolerance).unwrap().replicas
}

#[test]
fn the_ratio_of_what_is_to_what_should_be_says_how_many() {
    let percent = ResourceTarget::Utilization;
    let average = ResourceTarget::AverageMillis;
    // (pods, target, replicas now, replicas asked for)
    for (pods, target, current, expected) in [
        // twice as much as there should be
        (vec![(Counted, 1_000); 2], percent(50), 2, 4),
        (vec![(Counted, 200); 2], average(100), 2, 4),
        // half as much
        (vec![(Counted, 250); 4], percent(50), 4, 2),
        (vec![(Counted, 50); 4], average(100), 4, 2),
        // rounded up
        (vec![(Counted, 600); 3], percent(50), 3, 4),
        // within a tenth
        (vec![(Counted, 550); 3], percent(50), 3, 3),
        (vec![(Counted, 450); 3], percent(50), 3, 3),
        (vec![(Counted, 560); 3], percent(50), 3, 4),
        // idle pods ask for none; the range holds at least one
        (vec![(Counted, 0); 3], percent(50), 3, 0),
        // what is left out does not count
        (vec![(Counted, 1_000), (LeftOut, 0)], percent(50), 2, 2),
        // ratios are of whole percents: 33 of 30
        (vec![(Counted, 339); 10], percent(30), 10, 10),
    ] {
        assert_eq!(replicas(&pods, target, current), expected, "{pods:?} {target:?}");
    }
}

#[test]
fn a_pod_without_a_sample_dampens_and_never_turns_a_decision() {
    let percent = ResourceTarget::Utilization;
    for (pods, target, current, expected, why) in [
        (
            vec![(Counted, 900), (Counted, 900), (Missing, 0)],
            percent(50),
            3,
            4,
            "idle when more are asked for: 60 % of three pods instead of 90 % of two",
        ),
        (vec![(Counted, 600), (Missing, 0)], percent(50), 2, 2, "idle, it would turn the decision"),
        (
            vec![(Counted, 100), (Counted, 100), (Missing, 0)],
            percent(50),
            3,
            3,
            "fully used when fewer are asked for: 40 % of three pods",
        ),
        (
            vec![(Counted, 100), (Counted, 100), (Counted, 100), (Missing, 0)],
            percent(200),
            4,
            2,
            "as much as the target when that is above 100 %: 57 %",
        ),
        (
            vec![(Counted, 900), (Unready, 0)],
            percent(50),
            2,
            2,
            "one that starts is idle when more are asked for: 45 %",
        ),
        (
            vec![(Counted, 100), (Unready, 0)],
            percent(50),
            2,
            1,
            "one that starts does not count when fewer are asked for",
        ),
        (
            vec![(Counted, 400), (Missing, 0)],
            ResourceTarget::AverageMillis(100),
            2,
            4,
            "idle: 200 of 100 over two pods",
        ),
        (
            vec![(Counted, 20), (Counted, 20), (Missing, 0)],
            ResourceTarget::AverageMillis(100),
            3,
            2,
            "as much as it should be: 46 of 100 over three pods",
        ),
        (
            vec![(Counted, 100), (Counted, 100), (Missing, 0)],
            ResourceTarget::AverageMillis(100),
            3,
            2,
            "idle when the others use exactly their average, as upstream has it: 66 of 100",
        ),
    ] {
        assert_eq!(replicas(&pods, target, current), expected, "{why}");
    }
}

#[test]
fn what_a_metric_is_is_said_of_the_pods_that_count() {
    let target = ResourceTarget::Utilization(50);
    let found = propose(
        &samples(&[(Counted, 900), (Counted, 700), (Missing, 0), (Unready, 0)]),
        target,
        4,
        MetricTolerance::default(),
    );
    let expected = ReplicaProposal { replicas: 4, utilization: Some(80), average_millis: 800 };
    assert_eq!(found, Ok(expected));
    let nothing = propose(&samples(&[(Missing, 0)]), target, 1, MetricTolerance::default());
    assert_eq!(nothing, Err(NoProposal::NothingMeasured));
    let mut unrequested = samples(&[(Counted, 900)]);
    unrequested[0].request_millis = 0;
    let nothing = propose(&unrequested, target, 1, MetricTolerance::default());
    assert_eq!(nothing, Err(NoProposal::NothingRequested));
}

#[test]
fn each_direction_has_its_own_tolerance() {
    let (fine, coarse) = ("0.01".parse().ok(), "0.5".parse().ok());
    for (tolerance, used, expected) in [
        (MetricTolerance::new(fine, coarse), 1_020, 11),
        (MetricTolerance::new(fine, coarse), 600, 10),
        (MetricTolerance::new(coarse, fine), 1_020, 10),
        (MetricTolerance::new(coarse, fine), 600, 6),
        (MetricTolerance::new(None, None), 1_020, 10),
    ] {
        let pods = samples(&[(Counted, used); 10]);
        let found = propose(&pods, ResourceTarget::Utilization(100), 10, tolerance).unwrap();
        assert_eq!(found.replicas, expected, "{tolerance:?} {used}");
    }
}

fn any_standing() -> impl Strategy<Value = SampleStanding> {
    prop_oneof![Just(Counted), Just(Unready), Just(Missing), Just(LeftOut)]
}

fn any_target() -> impl Strategy<Value = ResourceTarget> {
    prop_oneof![
        (1..=400_i32).prop_map(ResourceTarget::Utilization),
        (1..=5_000_i64).prop_map(ResourceTarget::AverageMillis),
    ]
}

fn any_pods() -> impl Strategy<Value = Vec<PodSample>> {
    let pod = (any_standing(), 0..=4_000_i64, 0..=8_000_i64).prop_map(
        |(standing, request_millis, used_millis)| PodSample {
            standing,
            request_millis,
            used_millis,
        },
    );
    prop::collection::vec(pod, 1..40)
}

proptest! {
    /// Pods of which nothing is known leave a decision as it is, or make it smaller.
    #[test]
    fn pods_without_samples_never_enlarge_a_change(
        pods in any_pods(), target in any_target(), current in 1..100_i32,
    ) {
        let known: Vec<PodSample> =
            pods.iter().filter(|pod| pod.standing == Counted).copied().collect();
        let tolerance = MetricTolerance { up: 0.0, down: 0.0 };
        let (Ok(all), Ok(sure)) = (
            propose(&pods, target, current, tolerance),
            propose(&known, target, current, tolerance),
        ) else {
            return Ok(());
        };
        prop_assert_eq!((all.utilization, all.average_millis), (sure.utilization, sure.average_millis));
        prop_assert!(all.replicas >= 0);
        // upstream takes them for idle when the others use exactly their average
        if target == ResourceTarget::AverageMillis(sure.average_millis) {
            return Ok(());
        }
        // against how many of the known pods there are the change is the same way, or none
        let counted = i32::try_from(known.len()).unwrap();
        if sure.replicas > counted {
            prop_assert!(all.replicas >= current.min(sure.replicas));
        }
        if sure.replicas < counted {
            prop_assert!(all.replicas <= current.max(sure.replicas));
        }
    }

    /// More use never leads to fewer replicas.
    #[test]
    fn more_use_never_asks_for_fewer(
        mut pods in any_pods(), target in any_target(), current in 1..100_i32, more in 1..4_000_i64,
    ) {
        for pod in &mut pods {
            pod.standing = Counted;
        }
        let tolerance = MetricTolerance { up: 0.0, down: 0.0 };
        let Ok(before) = propose(&pods, target, current, tolerance) else { return Ok(()) };
        for pod in &mut pods {
            pod.used_millis += more;
        }
        let after = propose(&pods, target, current, tolerance).unwrap();
        let is_kept = |found: &ReplicaProposal| found.replicas == current;
        if !is_kept(&before) && !is_kept(&after) {
            prop_assert!(after.replicas >= before.replicas);
        }
    }
}
