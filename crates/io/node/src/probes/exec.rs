//! exec: a command in the container ends with code 0.

use std::time::Duration;

use rekindle_runtime::{ContainerKey, ExecExit, Runtime};

use super::{ProbeError, ProbeFinding};
use crate::commands::{timed_out, why_not_run};

pub(super) async fn probe<R: Runtime>(
    runtime: &R,
    key: &ContainerKey,
    command: &[String],
    timeout: Duration,
) -> Result<ProbeFinding, ProbeError> {
    let outcome = runtime.exec_sync(key, command, timeout).await;
    let outcome = outcome.map_err(|error| ProbeError::Exec(why_not_run(&error)))?;
    let output = String::from_utf8_lossy(&outcome.output).into_owned();
    Ok(match outcome.exit {
        ExecExit::Code(0) => ProbeFinding::success(output),
        ExecExit::Code(_) | ExecExit::Signal(_) => ProbeFinding::failure(output),
        ExecExit::TimedOut => ProbeFinding::failure(timed_out(command, timeout)),
    })
}
