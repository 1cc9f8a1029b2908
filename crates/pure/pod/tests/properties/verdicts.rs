//! A verdict belongs to one start (P12).

use proptest::prelude::*;

use crate::happenings::{Happening, any_happening, play};
use crate::rest::heal;
use crate::shapes::{Care, pods};

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_container_is_ended_for_what_a_probe_said_of_an_earlier_one(
        mut pod in pods(),
        happenings in prop::collection::vec(any_happening(), 0..160),
    ) {
        pod.care = Care::All;
        let mut world = play(pod.pod(), &without_bad_answers(&happenings));
        heal(&mut world);
        let blamed: Vec<_> = world.log.iter().filter(|line| line.contains("failed liveness probe")
            || line.contains("failed startup probe")).collect();
        prop_assert!(blamed.is_empty(), "{blamed:?}");
    }
}

/// What probes say of the container before is nothing to the one that runs now: as long as each
/// probe of what runs passes, and those of what has ended fail, no container is ended because of
/// one.
fn without_bad_answers(happenings: &[Happening]) -> Vec<Happening> {
    let good = |happening: &&Happening| !matches!(happening, Happening::Says(..));
    happenings.iter().filter(good).cloned().collect()
}
