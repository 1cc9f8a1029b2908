//! Running a postStart or preStop hook. When, and what its failure means, is for the pod core.

use std::time::Duration;

use k8s_openapi::api::core::v1::{Container, LifecycleHandler};
use rekindle_pod::HookKind;
use rekindle_runtime::{ExecExit, Runtime};

use crate::probes::http_get::{self, GetError, HttpGet, RequestError};
use crate::probes::{Asked, timed_out};

/// The time of a hook that may take as long as its container runs: longer than any does.
const UNLIMITED: Duration = Duration::from_secs(10 * 365 * 24 * 3600);

/// Why a hook failed. It may hold what the app said, so it goes to the log and into no event.
#[derive(Debug, thiserror::Error)]
pub(crate) enum HookError {
    /// The spec has no such hook, or one that does nothing.
    #[error("container {container:?} has no {hook:?} hook to be run")]
    NoHandler { container: String, hook: HookKind },
    /// As with the kubelet: the API takes it, and it cannot be run.
    #[error("tcpSocket is not a hook that can be run; use exec, httpGet or sleep")]
    TcpSocket,
    #[error("run the command: {0}")]
    Runtime(String),
    #[error("the command ended with {exit}: {output}")]
    Command { exit: String, output: String },
    #[error("{0}")]
    TimedOut(String),
    #[error(transparent)]
    Request(#[from] RequestError),
    #[error(transparent)]
    Get(#[from] GetError),
}

/// Runs a hook of a container to its end, or to its limit.
pub(crate) async fn run<R: Runtime>(
    runtime: &R,
    asked: Asked<'_>,
    hook: HookKind,
    limit: Option<Duration>,
) -> Result<(), HookError> {
    let container = asked.container;
    let no_handler = || HookError::NoHandler { container: container.name.clone(), hook };
    let handler = handler_of(container, hook).ok_or_else(no_handler)?;
    let limit = limit.unwrap_or(UNLIMITED);
    if let Some(action) = &handler.exec {
        let command = action.command.as_deref().unwrap_or_default();
        return exec(runtime, &asked, command, limit).await;
    }
    if let Some(action) = &handler.http_get {
        // Any answer is a success: the kubelet looks at no status here.
        let request = HttpGet::of(action, container, asked.ip)?;
        http_get::get(&request, limit).await?;
        return Ok(());
    }
    if let Some(action) = &handler.sleep {
        let span = Duration::from_secs(u64::try_from(action.seconds).unwrap_or(0));
        tokio::time::sleep(span.min(limit)).await;
        return Ok(());
    }
    Err(if handler.tcp_socket.is_some() { HookError::TcpSocket } else { no_handler() })
}

fn handler_of(container: &Container, hook: HookKind) -> Option<&LifecycleHandler> {
    let lifecycle = container.lifecycle.as_ref()?;
    match hook {
        HookKind::PostStart => lifecycle.post_start.as_ref(),
        HookKind::PreStop => lifecycle.pre_stop.as_ref(),
    }
}

async fn exec<R: Runtime>(
    runtime: &R,
    asked: &Asked<'_>,
    command: &[String],
    limit: Duration,
) -> Result<(), HookError> {
    let outcome = runtime.exec_sync(asked.key, command, limit).await;
    let outcome = outcome.map_err(|error| HookError::Runtime(error.chain()))?;
    let exit = match outcome.exit {
        ExecExit::Code(0) => return Ok(()),
        ExecExit::Code(code) => format!("exit code {code}"),
        ExecExit::Signal(signal) => format!("signal {signal}"),
        ExecExit::TimedOut => return Err(HookError::TimedOut(timed_out(command, limit))),
    };
    let output = String::from_utf8_lossy(&outcome.output).trim_end().to_owned();
    Err(HookError::Command { exit, output })
}
