//! exec: a command in the container ends with code 0.

use std::time::Duration;

use rekindle_pod::go_duration;
use rekindle_runtime::{ContainerKey, ExecExit, Runtime, RuntimeError};
use rekindle_types::TickDuration;

use super::{Finding, ProbeError};

pub(super) async fn probe<R: Runtime>(
    runtime: &R,
    key: &ContainerKey,
    command: &[String],
    timeout: Duration,
) -> Result<Finding, ProbeError> {
    let outcome = runtime.exec_sync(key, command, timeout).await;
    let outcome = outcome.map_err(|error| ProbeError::Exec(why_not_run(&error)))?;
    let output = String::from_utf8_lossy(&outcome.output).into_owned();
    Ok(match outcome.exit {
        ExecExit::Code(0) => Finding::success(output),
        ExecExit::Code(_) | ExecExit::Signal(_) => Finding::failure(output),
        ExecExit::TimedOut => Finding::failure(timed_out(command, timeout)),
    })
}

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

/// As the kubelet says it.
pub(crate) fn timed_out(command: &[String], timeout: Duration) -> String {
    let (command, span) =
        (command.join(" "), go_duration(TickDuration::from_secs(timeout.as_secs())));
    format!("command timed out: {command:?} timed out after {span}")
}
