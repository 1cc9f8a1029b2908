//! Whatever the order of answers: no action goes ahead of its journal, no container is ended while
//! rules lead to it, every accepted status is written at last, and nothing is lost or done twice.
//! The world checks each effect.

use proptest::prelude::*;
use rekindle_pod::{CoreEvent, RestartRequest, Series};
use rekindle_types::TickDuration;
use rekindle_types::v1alpha1::{EmptyDirPolicy, Rung};
use serde_json::json;

use crate::world::{ApiSays, World, pod};

#[derive(Clone, Debug)]
enum Happening {
    /// An action at this place is answered.
    Answered(usize),
    /// It fails.
    Failed(usize),
    JournalWritten,
    /// No rule leads to the pod any more.
    Withdrawn,
    /// The disk is full.
    JournalLost,
    Status(ApiSays),
    Exit(bool, i32),
    Pass(u64),
    /// Another writer changes the object.
    Changed,
    /// The agent sees the object as it is.
    Seen,
    Deleted(i64),
    Restart(u8),
    Crash,
}

fn happening() -> impl Strategy<Value = Happening> {
    let says =
        prop_oneof![Just(ApiSays::Written), Just(ApiSays::Unavailable), Just(ApiSays::Conflict)];
    prop_oneof![
        12 => (0usize..4).prop_map(Happening::Answered),
        2 => (0usize..4).prop_map(Happening::Failed),
        12 => Just(Happening::JournalWritten),
        4 => Just(Happening::Withdrawn),
        3 => Just(Happening::JournalLost),
        6 => says.prop_map(Happening::Status),
        3 => (any::<bool>(), 0i32..2).prop_map(|(app, code)| Happening::Exit(app, code)),
        4 => (0u64..15_000).prop_map(Happening::Pass),
        1 => Just(Happening::Changed),
        2 => Just(Happening::Seen),
        1 => (0i64..40).prop_map(Happening::Deleted),
        1 => (0u8..3).prop_map(Happening::Restart),
        1 => Just(Happening::Crash),
    ]
}

fn happen(world: &mut World, happening: Happening) {
    match happening {
        Happening::Answered(place) if place < world.under_way.len() => world.answer(place),
        Happening::Failed(place) if place < world.under_way.len() => world.fail(place),
        Happening::Answered(_) | Happening::Failed(_) => {}
        Happening::Withdrawn => world.routes_end(),
        Happening::JournalWritten => world.journal_ends(true),
        Happening::JournalLost => world.journal_ends(false),
        Happening::Status(says) => world.status_ends(says),
        Happening::Exit(app, code) => world.exit(if app { "app" } else { "side" }, code),
        Happening::Pass(millis) => world.pass(TickDuration::from_millis(millis)),
        Happening::Changed => world.change(|pod| {
            let labels = pod.metadata.labels.get_or_insert_default();
            let count = labels.len();
            labels.insert(format!("l{count}"), String::new());
        }),
        Happening::Seen => world.see(),
        Happening::Deleted(grace) => world.delete(grace),
        Happening::Restart(id) => {
            let request = RestartRequest {
                id: format!("id{id}"),
                name: format!("restart-{id}"),
                rung: Rung::Containers,
                container: None,
                empty_dirs: EmptyDirPolicy::Clear,
                grace: None,
                reason: String::new(),
                is_fast: false,
                series: Series::Anew,
                group: None,
            };
            world.driver.handle(world.now, CoreEvent::RestartRequested(request));
            world.drive();
        }
        // an agent dies between two effects, or while its journal is being written
        Happening::Crash => world.crash(),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: ProptestConfig::default().cases * 2, ..ProptestConfig::default() })]
    #[test]
    fn whatever_the_order_of_answers_journals_go_first_and_the_last_status_is_written(
        happenings in prop::collection::vec(happening(), 0..120), answers_at_once: bool,
    ) {
        let spec = json!({"restartPolicy": "Always", "containers": [
            {"name": "app", "image": "demo:1"}, {"name": "side", "image": "demo:2"},
        ]});
        let mut world = World::new(pod(spec));
        world.answers_at_once = answers_at_once;
        for happening in happenings {
            happen(&mut world, happening);
        }
        let is_deleted = world.pod.metadata.deletion_timestamp.is_some();
        world.see();
        world.settle_for(TickDuration::from_secs(1_200));
        prop_assert!(world.driver.is_status_settled(), "{:?}", world.driver);
        prop_assert!(!world.driver.is_held_up());
        if let (Some(written), Some(shown)) = (world.written.last(), world.shown.last()) {
            prop_assert_eq!(written, shown);
        }
        if is_deleted {
            prop_assert!(world.finishes > 0, "{:?}", world.log);
        } else {
            prop_assert_eq!(world.phase(), Some("Running"));
            prop_assert_eq!(world.runtime.running().count(), 2);
        }
    }
}
