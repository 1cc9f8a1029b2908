//! Every reason that a node writes for a container that waits or has ended is known. The ladder has
//! the same test: crates/ladder/src/evidence/tests.rs.
#![allow(clippy::unwrap_used, reason = "a test")]

mod support;

use rekindle_types::ExitStatus;
use rekindle_types::reasons::waiting;
use rekindle_why::{Cause, of_pod};
use serde_json::json;
use support::{NOW, crashed, evidence, pod};

#[test]
fn every_reason_for_which_a_container_waits_is_known() {
    for &reason in waiting::ALL {
        let waits = pod(json!({"state": {"waiting": {"reason": reason, "message": "x"}}}));
        let is_known = !of_pod(&evidence(waits, vec![]), NOW).containers.is_empty();
        assert_eq!(is_known, !waiting::ON_THE_WAY.contains(&reason), "{reason}");
    }
}

#[test]
fn every_reason_for_which_a_container_ends_is_known() {
    for (status, cause) in [
        (ExitStatus::Code { code: 0 }, Cause::ExitedUnasked),
        (ExitStatus::Code { code: 1 }, Cause::ExitCode),
        (ExitStatus::Signal { signal: 11 }, Cause::Signal),
        (ExitStatus::OomKilled, Cause::OutOfMemory),
        (ExitStatus::StartError, Cause::StartError),
        (ExitStatus::Unknown, Cause::Unknown),
    ] {
        let end = json!({"exitCode": status.code(), "reason": status.reason(), "message": "x"});
        let account = of_pod(&evidence(crashed(1, end), vec![]), NOW);
        assert_eq!(account.containers[0].cause, cause, "{}", status.reason());
    }
}
