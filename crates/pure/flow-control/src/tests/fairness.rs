//! The share of a flow among others that want more than there is.

use std::collections::BTreeMap;

use proptest::prelude::*;
use rekindle_types::TickDuration;

use super::bench::{LevelBench, queueing};

/// Seats of the level, beside the five of catch-all.
const SEATS: u32 = 10;

/// Each flow keeps some requests waiting, in a queue of its own. Its requests have one width and
/// take one time. Gives the seat-microseconds of each flow, with the fee of each request.
fn compete(flows: &[(u32, u64)], span: TickDuration) -> BTreeMap<u64, u64> {
    let shares = i32::try_from(SEATS).unwrap();
    let mut bench = LevelBench::new(SEATS + 5, &[queueing("level", shares, (64, 1, 50))]);
    // flow numbers below 64 are the numbers of their queues
    let numbered = || (0u64..).zip(flows.iter().copied());
    let end = bench.now + span;
    let mut used = BTreeMap::new();
    while bench.now < end {
        for (flow, (width, _)) in numbered() {
            while bench.waiting.values().filter(|one| one.flow == flow).count() < 12 {
                bench.arrive("level", flow, width);
            }
        }
        let ends = bench.running.iter().map(|one| {
            let (_, millis) = flows[usize::try_from(one.flow).unwrap()];
            one.begun + TickDuration::from_millis(millis)
        });
        let (index, due) = ends.enumerate().min_by_key(|(_, due)| *due).unwrap();
        bench.pass(due.since(bench.now));
        let seats = u64::from(bench.running[index].seat.seats());
        let (flow, seat_micros) = bench.finish(index);
        *used.entry(flow).or_insert(0) += seat_micros + seats * 3_000;
    }
    used
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    /// However wide and long its requests are, a flow gets as much seat time as the others: they
    /// differ by no more than what can be under way at once.
    #[test]
    fn flows_that_want_more_get_equal_seat_time(
        flows in prop::collection::vec((1u32..5, 1u64..100), 2..5),
    ) {
        let used = compete(&flows, TickDuration::from_secs(10));
        let longest = flows.iter().map(|(_, millis)| *millis).max().unwrap();
        let under_way = u64::from(SEATS) * (longest + 3) * 1000;
        let (least, most) = (used.values().min().unwrap(), used.values().max().unwrap());
        prop_assert_eq!(used.len(), flows.len());
        prop_assert!(most - least <= 2 * under_way, "{:?} of {:?}", used, flows);
    }
}

/// A flow that floods all queues of its hand holds up another one by what is under way, no longer.
#[test]
fn a_flood_does_not_starve_a_flow_that_asks_for_little() {
    let shares = i32::try_from(SEATS).unwrap();
    let mut bench = LevelBench::new(SEATS + 5, &[queueing("level", shares, (64, 4, 50))]);
    let takes = TickDuration::from_millis(20);
    let (elephant, mouse) = (7_777_777, 123_456_789);
    let mut waits = Vec::new();
    for round in 0..500 {
        while bench.refused.pop().is_none() {
            bench.arrive("level", elephant, 1);
        }
        if round % 5 == 0 {
            bench.arrive("level", mouse, 1);
        }
        bench.pass(TickDuration::from_millis(2));
        while let Some(index) =
            bench.running.iter().position(|one| bench.now.since(one.begun) >= takes)
        {
            let begun = bench.running[index].begun;
            if bench.finish(index).0 == mouse {
                waits.push(begun);
            }
        }
        let oldest =
            bench.waiting.values().filter(|one| one.flow == mouse).map(|one| one.since).min();
        if let Some(since) = oldest {
            assert!(bench.now.since(since) <= takes, "it waits for one seat");
        }
    }
    assert!(waits.len() >= 95, "{} of 100 were served", waits.len());
}
