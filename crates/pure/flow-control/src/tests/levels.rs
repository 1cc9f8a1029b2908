//! Seats of levels: how many, who lends whom, and what changes of objects do.

use proptest::prelude::*;
use rekindle_types::TickDuration;

use super::bench::{LevelBench, queueing, rejecting, sharing};
use crate::{FlowRefusal, SERVER_SEATS, WAIT_MAX, defaults};

#[test]
fn the_default_levels_have_upstreams_seats() {
    let levels = [defaults::mandatory_levels(), defaults::suggested_levels()].concat();
    let bench = LevelBench::new(SERVER_SEATS, &levels);
    let seats: Vec<(String, u32, u32)> = bench
        .control
        .figures()
        .into_iter()
        .map(|level| (level.name, level.nominal_seats, level.lower_seats))
        .collect();
    let expected = [
        ("catch-all", 13, 13),
        ("exempt", 0, 0),
        ("global-default", 49, 24),
        ("leader-election", 25, 25),
        ("node-high", 98, 73),
        ("system", 74, 50),
        ("workload-high", 98, 49),
        ("workload-low", 245, 24),
    ];
    let expected: Vec<_> = expected
        .into_iter()
        .map(|(name, nominal, lower)| (name.to_owned(), nominal, lower))
        .collect();
    assert_eq!(seats, expected);
}

/// Catch-all has 5 of 20 shares of 20 seats.
#[test]
fn a_level_without_queues_refuses_what_finds_no_seat() {
    let mut bench = LevelBench::new(20, &[rejecting("tiny", 2), rejecting("rest", 13)]);
    for _ in 0..3 {
        bench.arrive("tiny", 1, 1);
    }
    assert_eq!(bench.running.len(), 2);
    assert_eq!(bench.refused, [(1, FlowRefusal::ConcurrencyLimit)]);
    bench.arrive("rest", 2, 1);
    assert_eq!(bench.running.len(), 3, "another level is not disturbed");
    bench.finish(0);
    bench.arrive("tiny", 1, 1);
    assert_eq!(bench.running.len(), 3);
}

#[test]
fn what_waits_is_bounded_in_number_and_time() {
    let mut bench = LevelBench::new(20, &[queueing("narrow", 15, (1, 1, 2))]);
    for flow in 0..20 {
        bench.arrive("narrow", flow, 1);
    }
    assert_eq!((bench.running.len(), bench.waiting.len()), (15, 2));
    assert_eq!(bench.refused.len(), 3);
    assert!(bench.refused.iter().all(|(_, why)| *why == FlowRefusal::QueueFull));
    bench.pass(WAIT_MAX);
    assert!(bench.waiting.is_empty());
    assert_eq!(bench.refused[3..], [(15, FlowRefusal::TimeOut), (16, FlowRefusal::TimeOut)]);
    assert_eq!(bench.longest_wait, WAIT_MAX);
}

#[test]
fn exempt_requests_pass_whatever_waits() {
    let mut bench = LevelBench::new(20, &[queueing("narrow", 15, (1, 1, 50))]);
    for flow in 0..40 {
        bench.arrive("narrow", flow, 1);
    }
    let running = bench.running.len();
    for flow in 0..1000 {
        bench.arrive("exempt", flow, 10);
    }
    assert_eq!(bench.running.len(), running + 1000);
    assert_eq!(bench.figures("exempt").running, 1000);
}

#[test]
fn a_request_is_no_wider_than_its_level() {
    let mut bench =
        LevelBench::new(20, &[queueing("narrow", 3, (4, 1, 50)), rejecting("rest", 12)]);
    bench.arrive("narrow", 1, 10);
    assert_eq!(bench.figures("narrow").used_seats, 3);
    bench.arrive("narrow", 2, 1);
    assert_eq!(bench.waiting.len(), 1);
    bench.finish(0);
    assert_eq!(bench.figures("narrow").used_seats, 1);
}

#[test]
fn a_level_without_shares_holds_what_comes() {
    let mut bench = LevelBench::new(20, &[queueing("jail", 0, (1, 1, 50))]);
    bench.arrive("jail", 1, 1);
    assert_eq!((bench.running.len(), bench.waiting.len()), (0, 1));
    bench.pass(WAIT_MAX);
    assert_eq!(bench.refused, [(1, FlowRefusal::TimeOut)]);
}

/// 10 seats each, catch-all apart.
#[test]
fn levels_lend_what_they_do_not_use_and_get_it_back_first() {
    let lender = sharing(queueing("lender", 10, (4, 1, 50)), 50, Some(0));
    let borrower = sharing(queueing("borrower", 10, (4, 1, 50)), 0, Some(30));
    let mut bench = LevelBench::new(25, &[lender, borrower]);
    for flow in 0..20 {
        bench.arrive("borrower", flow, 1);
    }
    assert_eq!(bench.figures("borrower").used_seats, 13, "its own, and 30 % of these");
    for flow in 100..110 {
        bench.arrive("lender", flow, 1);
    }
    assert_eq!(bench.figures("lender").used_seats, 7, "three are lent");
    for given_back in 1..=3 {
        bench.finish(0);
        assert_eq!(bench.figures("lender").used_seats, 7 + given_back);
        assert_eq!(bench.figures("borrower").used_seats, 13 - given_back);
    }
    bench.finish(0);
    assert_eq!(bench.figures("borrower").used_seats, 10, "it has its own as ever");
    bench.drain();
}

/// Else narrow requests of a borrower would take each seat that comes back.
#[test]
fn a_wide_request_gets_lent_seats_back_before_borrowers_take_them() {
    let lender = sharing(queueing("lender", 10, (4, 1, 50)), 50, Some(0));
    let borrower = sharing(queueing("borrower", 10, (4, 1, 50)), 0, Some(50));
    let mut bench = LevelBench::new(25, &[lender, borrower]);
    for flow in 0..30 {
        bench.arrive("borrower", flow, 1);
    }
    for flow in 100..105 {
        bench.arrive("lender", flow, 1);
    }
    bench.arrive("lender", 105, 3);
    for (borrowed, lent) in [(14, 5), (13, 5), (12, 8)] {
        bench.finish(0);
        assert_eq!(bench.figures("borrower").used_seats, borrowed);
        assert_eq!(bench.figures("lender").used_seats, lent);
    }
    bench.drain();
}

#[test]
fn changed_objects_act_at_once_and_keep_what_waits() {
    let narrow = queueing("level", 1, (1, 1, 50));
    let rest = rejecting("rest", 14);
    let mut bench = LevelBench::new(20, &[narrow, rest.clone()]);
    for flow in 0..10 {
        bench.arrive("level", flow, 1);
    }
    assert_eq!((bench.running.len(), bench.waiting.len()), (1, 9));
    bench.configure(&[queueing("level", 1, (8, 2, 1)), rest.clone()]);
    assert_eq!(bench.waiting.len(), 9, "other queues, however short");
    bench.configure(&[rejecting("level", 1), rest.clone()]);
    assert_eq!(bench.waiting.len(), 9, "no queues for those to come");
    bench.arrive("level", 77, 1);
    assert_eq!(bench.refused, [(77, FlowRefusal::ConcurrencyLimit)]);
    bench.finish(0);
    assert_eq!(bench.waiting.len(), 8);
    bench.configure(std::slice::from_ref(&rest));
    assert_eq!(bench.waiting.len(), 8, "a level that is gone ends with what it holds");
    bench.arrive("level", 78, 1);
    assert_eq!(bench.refused.len(), 2, "it takes nothing new");
    bench.configure(&[queueing("level", 20, (8, 2, 50)), rest]);
    assert!(bench.waiting.is_empty(), "seats for all");
    bench.drain();
}

#[test]
fn an_abandoned_request_frees_its_place() {
    let mut bench = LevelBench::new(20, &[queueing("level", 15, (1, 1, 1))]);
    for flow in 0..16 {
        bench.arrive("level", flow, 1);
    }
    let (id, _) = bench.waiting.first_key_value().unwrap();
    bench.abandon(*id);
    assert_eq!(bench.control.poll_timeout(), None);
    bench.arrive("level", 99, 1);
    assert_eq!(bench.waiting.len(), 1);
    bench.drain();
}

#[derive(Clone, Debug)]
enum Move {
    Arrive { level: usize, flow: u64, width: u32 },
    Finish(usize),
    Pass { millis: u64 },
    Abandon(usize),
}

fn moves() -> impl Strategy<Value = Vec<Move>> {
    let one = prop_oneof![
        5 => (0usize..3, 0u64..6, 1u32..5)
            .prop_map(|(level, flow, width)| Move::Arrive { level, flow, width }),
        4 => (0usize..100).prop_map(Move::Finish),
        2 => (0u64..6000).prop_map(|millis| Move::Pass { millis }),
        1 => (0usize..100).prop_map(Move::Abandon),
    ];
    prop::collection::vec(one, 1..200)
}

fn levels()
-> impl Strategy<Value = Vec<k8s_openapi::api::flowcontrol::v1::PriorityLevelConfiguration>> {
    let one =
        (0i32..20, 0i32..=100, prop::option::of(0i32..300), prop::option::of((1i32..5, 1i32..6)));
    prop::collection::vec(one, 3).prop_map(|levels| {
        let level = |(index, (shares, lendable, borrowing, queues)): (usize, _)| {
            let name = NAMES[index];
            let level = match queues {
                None => rejecting(name, shares),
                Some((queues, length)) => queueing(name, shares, (queues, 1, length)),
            };
            sharing(level, lendable, borrowing)
        };
        levels.into_iter().enumerate().map(level).collect()
    })
}

const NAMES: [&str; 3] = ["a", "b", "c"];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn seats_are_never_exceeded_nothing_waits_too_long_and_nothing_is_lost(
        levels in levels(),
        other_levels in levels(),
        moves in moves(),
        change_at in 0usize..200,
    ) {
        let mut bench = LevelBench::new(20, &levels);
        let (mut arrived, mut ended, mut abandoned) = (0, 0, 0);
        for (at, one) in moves.into_iter().enumerate() {
            if at == change_at {
                let waiting = bench.waiting.len() + bench.running.len();
                bench.configure(&other_levels);
                prop_assert_eq!(bench.waiting.len() + bench.running.len(), waiting, "kept");
            }
            match one {
                Move::Arrive { level, flow, width } => {
                    bench.arrive(NAMES[level], flow, width);
                    arrived += 1;
                }
                Move::Finish(index) if !bench.running.is_empty() => {
                    bench.finish(index % bench.running.len());
                    ended += 1;
                }
                Move::Abandon(index) if !bench.waiting.is_empty() => {
                    let id = *bench.waiting.keys().nth(index % bench.waiting.len()).unwrap();
                    bench.abandon(id);
                    abandoned += 1;
                }
                Move::Finish(_) | Move::Abandon(_) => {}
                Move::Pass { millis } => bench.pass(TickDuration::from_millis(millis)),
            }
            let settled = bench.running.len() + bench.waiting.len() + bench.refused.len();
            prop_assert_eq!(arrived, settled + ended + abandoned, "each has one outcome");
            prop_assert!(bench.longest_wait <= WAIT_MAX);
            if at < change_at {
                let figures = bench.control.figures();
                let (mut used, mut nominal) = (0, 0);
                for level in figures.iter().filter(|level| !level.is_exempt) {
                    prop_assert!(level.used_seats <= level.upper_seats, "{:?}", level);
                    used += level.used_seats;
                    nominal += level.nominal_seats;
                }
                prop_assert!(used <= nominal, "{:?}", figures);
            }
        }
        // a level without seats of its own keeps what waits until its time is over
        while !bench.running.is_empty() {
            bench.finish(0);
        }
        bench.pass(WAIT_MAX);
        prop_assert!(bench.waiting.is_empty());
    }
}
