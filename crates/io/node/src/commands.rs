//! Commands in containers, be they probes, hooks or somebody's: what is told of one that did not
//! run its course, in the kubelet's words.

use std::time::Duration;

use rekindle_pod::go_duration;
use rekindle_runtime::RuntimeError;
use rekindle_types::TickDuration;

/// A command that cannot be started is no container that cannot.
pub(crate) fn why_not_run(error: &RuntimeError) -> String {
    match error {
        RuntimeError::Start { problem, .. } => format!("failed to exec in container: {problem}"),
        RuntimeError::Sandbox { .. }
        | RuntimeError::Container { .. }
        | RuntimeError::Config { .. }
        | RuntimeError::Image { .. }
        | RuntimeError::Unavailable { .. } => error.chain(),
    }
}

/// It took longer than it may.
pub(crate) fn timed_out(command: &[String], timeout: Duration) -> String {
    let (command, span) =
        (command.join(" "), go_duration(TickDuration::from_secs(timeout.as_secs())));
    format!("command timed out: {command:?} timed out after {span}")
}
