//! Several operators on one API: never is a write of an old term done after one of a newer term,
//! and one of them brings everything to rest once faults stop.

use rekindle_sim::{Fencing, LeaderWorld};

const SEEDS: std::ops::Range<u64> = 0..6;

/// Two to four operators over so many minutes with faults, and a quiet time after them.
fn run(seed: u64, fencing: Fencing) -> LeaderWorld {
    let operators = 2 + usize::try_from(seed % 3).unwrap();
    let mut leaders = LeaderWorld::new(seed, operators, fencing).unwrap();
    leaders.run(150, 0).unwrap();
    leaders.scale(4).unwrap();
    leaders.run(0, 60).unwrap();
    leaders
}

#[test]
fn no_write_of_an_old_term_is_done_after_one_of_a_newer_term() {
    let (mut refused, mut terms) = (0, 0);
    for seed in SEEDS {
        let leaders = run(seed, Fencing::On);
        assert_eq!(leaders.broken_promise(), None, "seed {seed}");
        assert_eq!(leaders.leading(), 1, "seed {seed}");
        assert_eq!(leaders.pods_placed(), 4, "seed {seed}");
        refused += leaders.refused();
        terms += leaders.newest_term().unwrap();
    }
    assert!(refused > 0, "no operator ever wrote too late: nothing was tried");
    assert!(terms > 6, "hardly anybody took over: {terms} terms");
}

#[test]
fn without_terms_a_paused_operator_writes_after_its_successor_and_the_check_finds_it() {
    let found = (0..20).any(|seed| run(seed, Fencing::Off).broken_promise().is_some());
    assert!(found, "the check finds nothing");
}
