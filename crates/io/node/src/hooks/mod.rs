//! Running a postStart or preStop hook. When, and what its failure means, is for the pod core.

use std::net::IpAddr;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Container, HTTPGetAction, LifecycleHandler};
use rekindle_pod::HookKind;
use rekindle_runtime::{ExecExit, Runtime};

use crate::commands::{timed_out, why_not_run};
use crate::probes::ProbeTarget;
use crate::probes::http_get::{self, GetError};
use crate::probes::http_request::{HttpGet, ProbeRequestError};

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
    Request(#[from] ProbeRequestError),
    #[error(transparent)]
    Get(#[from] GetError),
}

/// How a hook was done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum HookOutcome {
    AsAsked,
    /// It asks for TLS at this host, which speaks none: it was asked without, as the kubelet does
    /// it.
    WithoutTls {
        host: String,
    },
}

/// Runs a hook of a container to its end, or to its limit.
pub(crate) async fn run<R: Runtime>(
    runtime: &R,
    asked: ProbeTarget<'_>,
    hook: HookKind,
    limit: Option<Duration>,
) -> Result<HookOutcome, HookError> {
    let container = asked.container;
    let no_handler = || HookError::NoHandler { container: container.name.clone(), hook };
    let handler = handler_of(container, hook).ok_or_else(no_handler)?;
    let limit = limit.unwrap_or(UNLIMITED);
    if let Some(action) = &handler.exec {
        let command = action.command.as_deref().unwrap_or_default();
        exec(runtime, &asked, command, limit).await?;
        return Ok(HookOutcome::AsAsked);
    }
    if let Some(action) = &handler.http_get {
        return get(HttpGet::new(action, container, asked.ip)?, limit).await;
    }
    if let Some(action) = &handler.sleep {
        let span = Duration::from_secs(u64::try_from(action.seconds).unwrap_or(0));
        tokio::time::sleep(span.min(limit)).await;
        return Ok(HookOutcome::AsAsked);
    }
    Err(if handler.tcp_socket.is_some() { HookError::TcpSocket } else { no_handler() })
}

/// Runs an httpGet hook of a container; `ip` is its pod's, for an action that names no host.
///
/// # Errors
/// The cause, when there is no answer within the limit.
pub async fn run_http_hook(
    action: &HTTPGetAction,
    container: &Container,
    ip: Option<IpAddr>,
    limit: Duration,
) -> Result<(), String> {
    let request = HttpGet::new(action, container, ip).map_err(|error| error.to_string())?;
    match get(request, limit).await {
        Ok(HookOutcome::AsAsked | HookOutcome::WithoutTls { host: _ }) => Ok(()),
        Err(error) => Err(error.to_string()),
    }
}

/// Any answer is a success: the kubelet looks at no status here.
async fn get(request: HttpGet, limit: Duration) -> Result<HookOutcome, HookError> {
    let began = tokio::time::Instant::now();
    match http_get::get(&request, limit).await {
        Ok(_answer) => Ok(HookOutcome::AsAsked),
        Err(GetError::NoTls { url: _ }) => {
            let host = request.authority();
            let left = limit.saturating_sub(began.elapsed());
            http_get::get(&request.without_tls(), left).await?;
            Ok(HookOutcome::WithoutTls { host })
        }
        Err(error) => Err(error.into()),
    }
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
    asked: &ProbeTarget<'_>,
    command: &[String],
    limit: Duration,
) -> Result<(), HookError> {
    let outcome = runtime.exec_sync(asked.key, command, limit).await;
    let outcome = outcome.map_err(|error| HookError::Runtime(why_not_run(&error)))?;
    let exit = match outcome.exit {
        ExecExit::Code(0) => return Ok(()),
        ExecExit::Code(code) => format!("exit code {code}"),
        ExecExit::Signal(signal) => format!("signal {signal}"),
        ExecExit::TimedOut => return Err(HookError::TimedOut(timed_out(command, limit))),
    };
    let output = String::from_utf8_lossy(&outcome.output).trim_end().to_owned();
    Err(HookError::Command { exit, output })
}

#[cfg(test)]
mod tests;
