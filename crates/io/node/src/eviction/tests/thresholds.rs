//! When a threshold is met, and what follows from it.

use std::collections::BTreeSet;

use proptest::prelude::*;
use rekindle_types::{Tick, TickDuration};

use crate::eviction::figures::{ImageFs, Observation, Observations};
use crate::eviction::judge::{PressureAssessment, ThresholdWatch, is_short};
use crate::eviction::policy::{ThresholdAmount, ThresholdKind, ThresholdScope};
use crate::eviction::{EvictionPolicy, EvictionSignal, PressureKind, Threshold};

fn at(seconds: u64) -> Tick {
    Tick::from_secs(1_760_000_000 + seconds)
}

fn hard(signal: EvictionSignal, units: u64) -> Threshold {
    Threshold {
        signal,
        amount: ThresholdAmount::Units(units),
        kind: ThresholdKind::Hard,
        min_reclaim: ThresholdAmount::Units(0),
        place: ThresholdScope::Everywhere,
    }
}

fn policy(thresholds: Vec<Threshold>) -> EvictionPolicy {
    EvictionPolicy { thresholds, ..EvictionPolicy::off() }
}

fn seen(list: &[(EvictionSignal, u64)]) -> Observations {
    let by_signal = list.iter().map(|(signal, available)| {
        (*signal, Observation { available: *available, capacity: 1000 })
    });
    Observations { by_signal: by_signal.collect(), image_fs: ImageFs::Shared }
}

fn signal_of(verdict: &PressureAssessment) -> Option<EvictionSignal> {
    verdict.reclaim.map(|reclaim| reclaim.signal)
}

#[test]
fn a_threshold_is_met_below_its_amount_and_not_at_it() {
    let policy = policy(vec![hard(EvictionSignal::MemoryAvailable, 100)]);
    for (available, met) in [(0, true), (99, true), (100, false), (101, false)] {
        let verdict = ThresholdWatch::default().judge(
            &policy,
            at(0),
            &seen(&[(EvictionSignal::MemoryAvailable, available)]),
        );
        assert_eq!(verdict.reclaim.is_some(), met, "{available}");
        assert_eq!(verdict.pressures.contains(&PressureKind::Memory), met, "{available}");
    }
    let unknown = ThresholdWatch::default().judge(&policy, at(0), &seen(&[]));
    assert_eq!(unknown, PressureAssessment::default(), "what cannot be looked at evicts nobody");
}

#[test]
fn a_percentage_is_one_of_the_capacity() {
    let ten = Threshold {
        amount: ThresholdAmount::Millionths(100_000),
        ..hard(EvictionSignal::NodeFsAvailable, 0)
    };
    let policy = policy(vec![ten]);
    for (available, met) in [(99, true), (100, false)] {
        let verdict = ThresholdWatch::default().judge(
            &policy,
            at(0),
            &seen(&[(EvictionSignal::NodeFsAvailable, available)]),
        );
        assert_eq!(verdict.reclaim.map(|reclaim| reclaim.wanted), met.then_some(100));
    }
}

#[test]
fn the_pressure_is_shown_for_the_transition_period_after_it_was_last_seen() {
    let policy = policy(vec![hard(EvictionSignal::MemoryAvailable, 100)]);
    let mut watch = ThresholdWatch::default();
    let (low, fine) = (
        seen(&[(EvictionSignal::MemoryAvailable, 50)]),
        seen(&[(EvictionSignal::MemoryAvailable, 500)]),
    );
    assert!(watch.judge(&policy, at(0), &low).reclaim.is_some());
    let mut shown = |second, seen: &Observations| {
        let verdict = watch.judge(&policy, at(second), seen);
        (verdict.pressures.contains(&PressureKind::Memory), verdict.reclaim.is_some())
    };
    assert_eq!(shown(10, &fine), (true, false));
    assert_eq!(shown(299, &fine), (true, false));
    assert_eq!(shown(300, &fine), (false, false));
    assert_eq!(shown(310, &low), (true, true));
}

#[test]
fn a_soft_threshold_is_shown_at_once_and_evicts_after_its_grace_period() {
    let grace = TickDuration::from_secs(90);
    let soft = Threshold {
        kind: ThresholdKind::Soft { grace },
        ..hard(EvictionSignal::MemoryAvailable, 100)
    };
    let policy = policy(vec![soft]);
    let mut watch = ThresholdWatch::default();
    let (low, fine) = (
        seen(&[(EvictionSignal::MemoryAvailable, 50)]),
        seen(&[(EvictionSignal::MemoryAvailable, 500)]),
    );
    let mut evicts = |second, seen: &Observations| {
        let verdict = watch.judge(&policy, at(second), seen);
        assert!(verdict.pressures.contains(&PressureKind::Memory));
        verdict.reclaim.is_some()
    };
    assert!(!evicts(0, &low));
    assert!(!evicts(89, &low));
    assert!(evicts(90, &low));
    // a short recovery begins the grace anew
    assert!(!evicts(100, &fine));
    assert!(!evicts(110, &low));
    assert!(!evicts(199, &low));
    assert!(evicts(200, &low));
}

#[test]
fn what_was_begun_goes_on_until_the_minimum_is_had_back() {
    let threshold = Threshold {
        min_reclaim: ThresholdAmount::Units(50),
        ..hard(EvictionSignal::NodeFsAvailable, 100)
    };
    let policy = policy(vec![threshold]);
    let mut watch = ThresholdWatch::default();
    let mut evicts = |second, available| {
        let seen = seen(&[(EvictionSignal::NodeFsAvailable, available)]);
        watch.judge(&policy, at(second), &seen).reclaim.is_some()
    };
    assert!(!evicts(0, 120), "not met yet: the minimum does not count");
    assert!(evicts(10, 99));
    assert!(evicts(20, 149));
    assert!(!evicts(30, 150));
    assert!(!evicts(40, 120));
    assert!(is_short(&policy, &seen(&[(EvictionSignal::NodeFsAvailable, 149)])));
    assert!(!is_short(&policy, &seen(&[(EvictionSignal::NodeFsAvailable, 150)])));
}

#[test]
fn memory_is_had_back_before_disk_and_hard_before_soft() {
    let soft = Threshold {
        kind: ThresholdKind::Soft { grace: TickDuration::ZERO },
        ..hard(EvictionSignal::MemoryAvailable, 200)
    };
    let policy = policy(vec![
        hard(EvictionSignal::PidAvailable, 100),
        hard(EvictionSignal::NodeFsAvailable, 100),
        hard(EvictionSignal::MemoryAvailable, 100),
        soft,
    ]);
    let all = [
        (EvictionSignal::PidAvailable, 1),
        (EvictionSignal::NodeFsAvailable, 1),
        (EvictionSignal::MemoryAvailable, 1),
    ];
    let verdict = ThresholdWatch::default().judge(&policy, at(0), &seen(&all));
    assert_eq!(signal_of(&verdict), Some(EvictionSignal::MemoryAvailable));
    assert_eq!(verdict.reclaim.unwrap().kind, ThresholdKind::Hard);
    assert_eq!(
        verdict.pressures,
        BTreeSet::from([PressureKind::Memory, PressureKind::Disk, PressureKind::Pid])
    );
    let verdict = ThresholdWatch::default().judge(&policy, at(0), &seen(&all[..2]));
    assert_eq!(signal_of(&verdict), Some(EvictionSignal::NodeFsAvailable));
    let verdict = ThresholdWatch::default().judge(&policy, at(0), &seen(&all[..1]));
    assert_eq!(signal_of(&verdict), Some(EvictionSignal::PidAvailable));
}

#[test]
fn the_default_for_images_holds_where_they_have_a_file_system_of_their_own() {
    let policy = EvictionPolicy::default();
    let mut found =
        seen(&[(EvictionSignal::ImageFsAvailable, 120), (EvictionSignal::NodeFsAvailable, 120)]);
    assert_eq!(
        ThresholdWatch::default().judge(&policy, at(0), &found),
        PressureAssessment::default()
    );
    found.image_fs = ImageFs::Dedicated;
    let verdict = ThresholdWatch::default().judge(&policy, at(0), &found);
    assert_eq!(signal_of(&verdict), Some(EvictionSignal::ImageFsAvailable));
}

proptest! {
    /// Whatever is seen when: nothing is evicted for a signal that is not short, what is short and
    /// hard is acted upon at once, and a pressure is shown exactly while it is seen or was a while
    /// ago.
    #[test]
    fn a_verdict_follows_from_what_is_seen(
        looks in proptest::collection::vec((0..400_u64, 0..300_u64, 0..300_u64), 1..40),
        reclaim in 0..100_u64,
    ) {
        let disk = Threshold { min_reclaim: ThresholdAmount::Units(reclaim), ..hard(EvictionSignal::NodeFsAvailable, 100) };
        let policy = policy(vec![hard(EvictionSignal::MemoryAvailable, 100), disk]);
        let mut watch = ThresholdWatch::default();
        let mut now = at(0);
        let mut memory_seen: Option<Tick> = None;
        for (wait, memory, disk) in looks {
            now = now + TickDuration::from_secs(wait);
            let found = seen(&[(EvictionSignal::MemoryAvailable, memory), (EvictionSignal::NodeFsAvailable, disk)]);
            let verdict = watch.judge(&policy, now, &found);
            if memory < 100 {
                memory_seen = Some(now);
                prop_assert_eq!(signal_of(&verdict), Some(EvictionSignal::MemoryAvailable));
            } else if disk < 100 {
                prop_assert_eq!(signal_of(&verdict), Some(EvictionSignal::NodeFsAvailable));
            } else if disk >= 100 + reclaim {
                prop_assert_eq!(signal_of(&verdict), None);
            }
            let held = memory_seen.is_some_and(|seen| now.since(seen) < policy.transition_period);
            prop_assert_eq!(verdict.pressures.contains(&PressureKind::Memory), held);
        }
    }
}
