//! The order of a shutdown. Source: KEP-2712, and the cases of upstream's `Test_groupByPriority` in
//! words of our own.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;

fn secs(seconds: u64) -> TickDuration {
    TickDuration::from_secs(seconds)
}

fn at(seconds: u64) -> Tick {
    Tick::from_secs(1_760_000_000 + seconds)
}

fn pod(name: &str, priority: i32, grace: u64) -> ShutdownCandidate {
    ShutdownCandidate { uid: PodUid(name.to_owned()), priority, grace: secs(grace) }
}

fn groups(groups: &[(i32, u32)]) -> ShutdownPolicy {
    let group = |(priority, shutdown_grace_period_seconds): &(i32, u32)| ShutdownGroup {
        priority: *priority,
        shutdown_grace_period_seconds: *shutdown_grace_period_seconds,
    };
    ShutdownPolicy::by_priority(groups.iter().map(group).collect())
}

/// `name=grace` of each pod that ends in this step.
fn ending(step: ShutdownStep) -> Vec<String> {
    match step {
        ShutdownStep::End(pods) => {
            pods.iter().map(|pod| format!("{}={}", pod.uid.0, pod.grace.as_secs())).collect()
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_priority_belongs_to_the_highest_group_that_is_not_above_it() {
    let policy = groups(&[(1000, 10), (0, 20), (CRITICAL_PRIORITY, 5)]);
    for (priority, group) in [
        (i32::MIN, 0),
        (-1, 0),
        (0, 0),
        (999, 0),
        (1000, 1),
        (1_999_999_999, 1),
        (CRITICAL_PRIORITY, 2),
        (2_000_001_000, 2),
        (i32::MAX, 2),
    ] {
        assert_eq!(policy.group_of(priority), group, "{priority}");
    }
}

#[test]
fn two_periods_are_two_groups() {
    assert_eq!(ShutdownPolicy::of_periods(30, 10), groups(&[(0, 20), (CRITICAL_PRIORITY, 10)]));
    assert!(!ShutdownPolicy::of_periods(0, 0).is_on());
    assert!(!ShutdownPolicy::default().is_on());
}

#[test]
fn critical_pods_end_last_and_nobody_gets_more_than_its_group() {
    let policy = ShutdownPolicy::of_periods(30, 10);
    let pods = [pod("web", 0, 60), pod("dns", CRITICAL_PRIORITY, 60), pod("quick", 5, 3)];
    let mut shutdown = Shutdown::new(&policy, pods);
    assert_eq!(ending(shutdown.step(at(0), |_| true)), ["web=20", "quick=3"]);
    assert_eq!(shutdown.step(at(5), |_| true), ShutdownStep::Wait(at(20)));
    let web_is_here = |uid: &PodUid| uid.0 == "web" || uid.0 == "dns";
    assert_eq!(shutdown.step(at(6), web_is_here), ShutdownStep::Wait(at(20)));
    // its time is over, and the next round does not wait
    assert_eq!(ending(shutdown.step(at(20), web_is_here)), ["dns=10"]);
    assert_eq!(shutdown.step(at(21), |_| true), ShutdownStep::Wait(at(30)));
    assert_eq!(shutdown.step(at(22), |_| false), ShutdownStep::Over);
}

#[test]
fn a_group_without_pods_takes_no_time() {
    let policy = groups(&[(0, 100), (10, 100), (20, 100)]);
    let mut shutdown = Shutdown::new(&policy, [pod("low", 0, 1), pod("high", 25, 1)]);
    assert_eq!(ending(shutdown.step(at(0), |_| true)), ["low=1"]);
    assert_eq!(ending(shutdown.step(at(1), |uid| uid.0 == "high")), ["high=1"]);
    assert_eq!(shutdown.step(at(1), |_| false), ShutdownStep::Over);
    assert_eq!(Shutdown::new(&policy, []).step(at(0), |_| true), ShutdownStep::Over);
}

proptest! {
    /// Whenever it is asked and whatever ends when: every pod is ended once, lower groups first,
    /// within its group's period.
    #[test]
    fn every_pod_is_told_once_and_a_lower_group_before_a_higher(
        periods in proptest::collection::btree_map(-3..3_i32, 0..20_u32, 1..5),
        pods in proptest::collection::vec((-5..5_i32, 0..40_u64), 0..12),
        moves in proptest::collection::vec((0..9_u64, any::<prop::sample::Index>()), 0..60),
    ) {
        let policy = groups(&periods.into_iter().collect::<Vec<_>>());
        let candidates: Vec<ShutdownCandidate> = pods
            .iter()
            .enumerate()
            .map(|(number, (priority, grace))| pod(&number.to_string(), *priority, *grace))
            .collect();
        let mut shutdown = Shutdown::new(&policy, candidates.clone());
        let mut here: BTreeSet<String> = candidates.iter().map(|pod| pod.uid.0.clone()).collect();
        let mut told = Vec::new();
        let mut now = at(0);
        let mut moves = moves.into_iter();
        loop {
            match shutdown.step(now, |uid| here.contains(&uid.0)) {
                ShutdownStep::Over => break,
                ShutdownStep::Wait(deadline) => {
                    prop_assert!(deadline > now);
                    match moves.next() {
                        Some((wait, index)) => {
                            now = now + secs(wait);
                            if let Some(uid) = here.iter().nth(index.index(here.len().max(1))).cloned() {
                                here.remove(&uid);
                            }
                        }
                        None => now = deadline,
                    }
                }
                ShutdownStep::End(leaving) => told.extend(leaving),
            }
        }
        prop_assert_eq!(told.len(), candidates.len());
        let group = |leaving: &EndingPod| {
            let pod = candidates.iter().find(|pod| pod.uid == leaving.uid).unwrap();
            policy.group_of(pod.priority)
        };
        prop_assert!(told.windows(2).all(|pair| group(&pair[0]) <= group(&pair[1])));
        let total: u64 = policy.groups.iter().map(|g| u64::from(g.shutdown_grace_period_seconds)).sum();
        let all_moves: u64 = 9 * 60;
        prop_assert!(now.since(at(0)) <= secs(total + all_moves));
    }
}
