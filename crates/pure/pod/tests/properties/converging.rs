//! Every pod comes to rest once faults stop, the same way each time, and nothing that it is told
//! makes the core fail (P2, P7).

use std::sync::Arc;

use proptest::prelude::*;
use rekindle_pod::{CoreEvent, PodCore};
use rekindle_types::TickDuration;

use crate::happenings::{Happening, any_happening, play};
use crate::nonsense::nonsense;
use crate::rest::{End, check_rest, heal};
use crate::shapes::pods;
use crate::world;

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_pod_comes_to_rest_once_faults_stop(
        pod in pods(),
        happenings in prop::collection::vec(any_happening(), 0..120),
    ) {
        let mut world = play(pod.pod(), &happenings);
        heal(&mut world);
        let evicted = happenings.iter().any(|h| matches!(h, Happening::Evict(_)));
        if world.deletion.is_some() {
            check_rest(&world, End::Asked);
        } else if !evicted {
            check_rest(&world, End::NotAsked);
        }
        if !world.core.is_finished() {
            world.tell(CoreEvent::DeleteRequested { grace: TickDuration::from_secs(5) });
            heal(&mut world);
            check_rest(&world, End::Asked);
        }
    }

    #[test]
    fn the_same_events_give_the_same_actions(
        pod in pods(),
        happenings in prop::collection::vec(any_happening(), 0..80),
    ) {
        let first = play(pod.pod(), &happenings);
        let second = play(pod.pod(), &happenings);
        prop_assert_eq!(first.log, second.log);
        prop_assert_eq!(first.core.journal(), second.core.journal());
    }

    /// No driver does this; a core that panicked would take its agent's task with it.
    #[test]
    fn nothing_that_it_is_told_makes_it_panic_or_ask_without_end(
        pod in pods(),
        events in prop::collection::vec(nonsense(), 0..60),
    ) {
        let mut core = PodCore::new(world::START, Arc::new(pod.pod()), world::config());
        let mut now = world::START;
        for (event, millis) in events {
            now = now + TickDuration::from_millis(millis);
            core.handle(now, event);
            let mut actions = 0;
            while core.poll_output().is_some() {
                actions += 1;
                prop_assert!(actions < 500);
            }
            if let Some(deadline) = core.poll_timeout() {
                prop_assert!(deadline > now);
            }
        }
    }
}
