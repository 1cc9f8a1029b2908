//! The ladder has an answer to every reason that a node, a kubelet or a runtime writes. Crate
//! `diagnosis` holds that it knows all of those (its `tests/diagnosis/known_reasons.rs`); `why` has
//! the same test: crates/pure/why/tests/why/reasons.rs.

use rekindle_diagnosis::{TerminatedReason, WaitFamily, WaitingReason};
use rekindle_ladder::LadderPolicy;
use rekindle_types::v1alpha1::{HoldReason, LedgerPhase, RestartLadder, RestartLedgerStatus};
use serde_json::json;

use crate::world::{Role, World};

/// A pod with the container `app`, on a ladder with two rungs.
fn world() -> World {
    let ladder: RestartLadder = serde_json::from_value(json!({
        "metadata": {"name": "web"},
        "spec": {"selector": {"matchLabels": {"app": "web"}}, "rungs": [
            {"rung": "Container", "attempts": 1}, {"rung": "Pod", "attempts": 1}]}
    }))
    .expect("a ladder");
    let mut world = World::new(LadderPolicy::from_ladder(&ladder).expect("a valid ladder"));
    world.add("app", Role::Regular);
    world
}

fn answer(ledger: &RestartLedgerStatus) -> (Option<LedgerPhase>, Option<HoldReason>) {
    (ledger.phase, ledger.held_by)
}

#[test]
fn every_reason_for_which_a_container_waits_has_an_answer() {
    let holds = (Some(LedgerPhase::Holding), Some(HoldReason::Futile));
    for reason in WaitingReason::KNOWN {
        let mut world = world();
        world.wait("app", reason.as_str(), "x");
        let expected = match reason.family() {
            // it is answered by the ends of its containers, or by how long it has no sandbox
            WaitFamily::OnItsWay | WaitFamily::AfterFailure | WaitFamily::Sandbox => (None, None),
            WaitFamily::Image
            | WaitFamily::Configuration
            | WaitFamily::Creation
            | WaitFamily::Run
            | WaitFamily::Predecessor => holds,
            WaitFamily::Unknown => panic!("{reason:?} is known"),
        };
        assert_eq!(answer(&world.decide().ledger), expected, "{reason:?}");
    }
}

#[test]
fn every_reason_for_which_a_container_ends_has_an_answer() {
    let holds = (Some(LedgerPhase::Holding), Some(HoldReason::Futile));
    let climbs = (Some(LedgerPhase::Climbing), None);
    for reason in TerminatedReason::KNOWN {
        let (code, expected) = match reason {
            TerminatedReason::Completed => (0, climbs),
            TerminatedReason::Error | TerminatedReason::DeadlineExceeded => (1, climbs),
            TerminatedReason::OomKilled => (137, holds),
            TerminatedReason::StartError | TerminatedReason::ContainerCannotRun => (128, holds),
            TerminatedReason::ContainerStatusUnknown => (137, climbs),
            TerminatedReason::Unknown => (255, climbs),
            TerminatedReason::SeccompKilled => (159, climbs),
            TerminatedReason::Other(_) => panic!("{reason:?} is known"),
        };
        let mut world = world();
        world.run("app");
        world.exit("app", code, reason.as_str(), "x");
        let ledger = world.decide().ledger;
        assert_eq!(answer(&ledger), expected, "{reason:?}");
        let is_by_code = ledger.message.expect("a message").contains("exited with");
        let says_nothing = match reason {
            TerminatedReason::Completed
            | TerminatedReason::Error
            | TerminatedReason::DeadlineExceeded => true,
            TerminatedReason::OomKilled
            | TerminatedReason::StartError
            | TerminatedReason::ContainerCannotRun
            | TerminatedReason::ContainerStatusUnknown
            | TerminatedReason::Unknown
            | TerminatedReason::SeccompKilled
            | TerminatedReason::Other(_) => false,
        };
        assert_eq!(is_by_code, says_nothing, "{reason:?}");
    }
}
