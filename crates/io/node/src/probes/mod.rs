//! Running a probe once. When a probe is due, and what follows, is for the pod core.
//!
//! No probe has a thread or a task of its own: an execution is a future that the pod's worker
//! drives, ended by its timeout or by the end of the container. What is asked is the pod's own
//! address over the bridge, unless `host` names another; what comes back is read up to
//! [`OUTPUT_BYTES_MAX`]. Verdicts and their words are the kubelet's (`pkg/probe`).

mod exec;
mod grpc;
mod http1;
mod http2;
pub(crate) mod http_get;
pub(crate) mod http_request;
mod location;
mod port;
mod source_port;
mod tcp;
mod tls;

pub use tls::connect_tls;

use std::net::IpAddr;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Container, EnvVar, Probe};
use rekindle_pod::{ProbeKind, ProbeVerdict};
use rekindle_runtime::{ContainerKey, Runtime};

use self::grpc::{GrpcCheck, GrpcTransport};
use self::http_request::HttpGet;
use crate::env::expand_command;

/// What of an answer or of a command's output is looked at.
pub(crate) const OUTPUT_BYTES_MAX: usize = 10 * 1024;
/// How the node introduces itself; the kubelet of this version does it so.
pub(crate) const USER_AGENT: &str = "kube-probe/1.37";

/// What one execution said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ProbeFinding {
    pub(crate) verdict: ProbeVerdict,
    /// In words.
    pub(crate) output: String,
}

impl ProbeFinding {
    pub(crate) fn success(output: impl Into<String>) -> Self {
        Self { verdict: ProbeVerdict::Success, output: output.into() }
    }

    pub(crate) fn failure(output: impl Into<String>) -> Self {
        Self { verdict: ProbeVerdict::Failure, output: output.into() }
    }
}

/// Why an execution came to no verdict.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ProbeError {
    /// The spec has no such probe, or one that does nothing.
    #[error("container {container:?} has no {probe:?} probe to be run")]
    NoHandler { container: String, probe: ProbeKind },
    /// The pod's address is not known.
    #[error("the pod has no address")]
    NoAddress,
    #[error(transparent)]
    Port(#[from] port::PortError),
    #[error(transparent)]
    Request(#[from] http_request::ProbeRequestError),
    /// The command could not be run in the container.
    #[error("{0}")]
    Exec(String),
}

/// Whom a probe or a hook is for.
pub(crate) struct ProbeTarget<'a> {
    pub(crate) container: &'a Container,
    pub(crate) key: &'a ContainerKey,
    /// The pod's first address.
    pub(crate) ip: Option<IpAddr>,
}

impl ProbeTarget<'_> {
    fn ip(&self) -> Result<IpAddr, ProbeError> {
        self.ip.ok_or(ProbeError::NoAddress)
    }
}

/// Runs a probe of a container once.
pub(crate) async fn run<R: Runtime>(
    runtime: &R,
    asked: ProbeTarget<'_>,
    kind: ProbeKind,
    timeout: Duration,
) -> Result<ProbeFinding, ProbeError> {
    let container = asked.container;
    let no_handler = || ProbeError::NoHandler { container: container.name.clone(), probe: kind };
    let probe = probe_of(container, kind).ok_or_else(no_handler)?;
    if let Some(action) = &probe.exec {
        let command = static_command(action.command.as_deref().unwrap_or_default(), container);
        return exec::probe(runtime, asked.key, &command, timeout).await;
    }
    if let Some(action) = &probe.http_get {
        let request = HttpGet::new(action, container, asked.ip)?;
        return Ok(http_finding(&request, timeout).await);
    }
    if let Some(action) = &probe.tcp_socket {
        let port = port::resolve(&action.port, container)?;
        let host = match action.host.as_deref().filter(|host| !host.is_empty()) {
            Some(host) => host.to_owned(),
            None => asked.ip()?.to_string(),
        };
        return Ok(tcp::probe(&host, port, timeout).await);
    }
    if let Some(action) = &probe.grpc {
        let check = GrpcCheck {
            ip: asked.ip()?,
            port: port::in_range(i64::from(action.port))?,
            service: action.service.clone().unwrap_or_default(),
            mode: GrpcTransport::parse(action.mode.as_deref()),
        };
        return Ok(grpc::probe(check, timeout).await);
    }
    Err(no_handler())
}

fn probe_of(container: &Container, kind: ProbeKind) -> Option<&Probe> {
    match kind {
        ProbeKind::Startup => container.startup_probe.as_ref(),
        ProbeKind::Readiness => container.readiness_probe.as_ref(),
        ProbeKind::Liveness => container.liveness_probe.as_ref(),
    }
}

/// A probe's command knows the values that stand in the container's spec, and no others: a variable
/// from elsewhere is empty [kubelet `ExpandContainerCommandOnlyStatic`].
fn static_command(words: &[String], container: &Container) -> Vec<String> {
    let literal = |variable: &EnvVar| {
        let value = variable.value.clone().filter(|_| variable.value_from.is_none());
        (variable.name.clone(), value.unwrap_or_default())
    };
    let env: Vec<_> = container.env.iter().flatten().map(literal).collect();
    expand_command(words, &env)
}

/// 200 to 299 is well. What sends elsewhere and was not followed is well, with a warning.
async fn http_finding(request: &HttpGet, timeout: Duration) -> ProbeFinding {
    match http_get::get(request, timeout).await {
        Ok(answer) => match answer.status {
            200..=299 => ProbeFinding::success(answer.body),
            300..=399 => ProbeFinding {
                verdict: ProbeVerdict::Warning,
                output: format!("Probe terminated redirects, Response body: {}", answer.body),
            },
            status => ProbeFinding::failure(format!("HTTP probe failed with statuscode: {status}")),
        },
        Err(error) => ProbeFinding { verdict: error.verdict(), output: error.to_string() },
    }
}

#[cfg(test)]
mod tests;
