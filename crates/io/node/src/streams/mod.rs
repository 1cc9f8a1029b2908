//! Streams into pods, for people: commands in containers, and connections to ports.
//!
//! What runs is asked of the runtime, not of the pod's status: it knows at once.

mod find;
mod port;

use std::sync::Arc;

use futures::future::BoxFuture;
use rekindle_runtime::{ExecStreams, Runtime, RuntimeError, StreamRequest};
use rekindle_types::PodUid;
use tokio::net::TcpStream;

use crate::commands::why_not_run;
use crate::pods::PodIndex;

/// Why there is no stream.
#[derive(Debug, thiserror::Error)]
pub enum PodStreamError {
    /// Nothing of the pod stands here.
    #[error("pod {0} has no sandbox on this node")]
    NoSandbox(PodUid),
    /// The container does not run. What people find when they look for it, and some programs too.
    #[error("unable to upgrade connection: container not found ({container:?})")]
    NotRunning {
        /// Its name.
        container: String,
    },
    /// The runtime said no.
    #[error("error executing command in container: {}", why_not_run(.0))]
    Runtime(Box<RuntimeError>),
    /// The runtime said no.
    #[error("error attaching to container: {}", .0.chain())]
    Attach(Box<RuntimeError>),
    /// Nobody answers at the port.
    #[error("connect to localhost:{port} inside the pod: {problem}")]
    Connect {
        /// The port.
        port: u16,
        /// Why.
        problem: String,
    },
}

/// Opens streams into this node's pods. Cheap to clone.
#[derive(Clone)]
pub struct PodStreams {
    open: Arc<dyn StreamOpener>,
    index: PodIndex,
}

impl std::fmt::Debug for PodStreams {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("PodStreams")
    }
}

impl PodStreams {
    pub(crate) fn new<R: Runtime>(runtime: Arc<R>, index: PodIndex) -> Self {
        Self { open: Arc::new(RuntimeStreamOpener(runtime)), index }
    }

    /// Runs a command in the container's current run.
    pub async fn exec(
        &self,
        uid: &PodUid,
        container: &str,
        command: &[String],
        request: StreamRequest,
    ) -> Result<ExecStreams, PodStreamError> {
        self.open.exec(&self.index.resolve(uid), container, command, request).await
    }

    /// Joins the first process of the container's current run.
    pub async fn attach(
        &self,
        uid: &PodUid,
        container: &str,
        request: StreamRequest,
    ) -> Result<ExecStreams, PodStreamError> {
        self.open.attach(&self.index.resolve(uid), container, request).await
    }

    /// Connects to a port on the pod's own loopback, as a process of the pod would.
    pub async fn connect(&self, uid: &PodUid, port: u16) -> Result<TcpStream, PodStreamError> {
        self.open.connect(&self.index.resolve(uid), port).await
    }
}

/// The same, whatever the runtime's type is.
trait StreamOpener: Send + Sync {
    fn exec<'a>(
        &'a self,
        uid: &'a PodUid,
        container: &'a str,
        command: &'a [String],
        request: StreamRequest,
    ) -> BoxFuture<'a, Result<ExecStreams, PodStreamError>>;

    fn attach<'a>(
        &'a self,
        uid: &'a PodUid,
        container: &'a str,
        request: StreamRequest,
    ) -> BoxFuture<'a, Result<ExecStreams, PodStreamError>>;

    fn connect<'a>(
        &'a self,
        uid: &'a PodUid,
        port: u16,
    ) -> BoxFuture<'a, Result<TcpStream, PodStreamError>>;
}

struct RuntimeStreamOpener<R>(Arc<R>);

impl<R: Runtime> StreamOpener for RuntimeStreamOpener<R> {
    fn exec<'a>(
        &'a self,
        uid: &'a PodUid,
        container: &'a str,
        command: &'a [String],
        request: StreamRequest,
    ) -> BoxFuture<'a, Result<ExecStreams, PodStreamError>> {
        Box::pin(async move {
            let key = find::running(self.0.as_ref(), uid, container).await?;
            let streams = self.0.exec(&key, command, request).await;
            streams.map_err(|error| PodStreamError::Runtime(Box::new(error)))
        })
    }

    fn attach<'a>(
        &'a self,
        uid: &'a PodUid,
        container: &'a str,
        request: StreamRequest,
    ) -> BoxFuture<'a, Result<ExecStreams, PodStreamError>> {
        Box::pin(async move {
            let key = find::running(self.0.as_ref(), uid, container).await?;
            let streams = self.0.attach(&key, request).await;
            streams.map_err(|error| PodStreamError::Attach(Box::new(error)))
        })
    }

    fn connect<'a>(
        &'a self,
        uid: &'a PodUid,
        port: u16,
    ) -> BoxFuture<'a, Result<TcpStream, PodStreamError>> {
        Box::pin(async move {
            let failed = |problem: String| PodStreamError::Connect { port, problem };
            let info = find::sandbox(self.0.as_ref(), uid).await?;
            let namespace = port::open_namespace(&info).map_err(|e| failed(e.to_string()))?;
            // The path names a process: is it still the one that was meant?
            if find::sandbox(self.0.as_ref(), uid).await? != info {
                return Err(failed("the pod's sandbox was just replaced".to_owned()));
            }
            port::connect(namespace, port).await.map_err(|e| failed(e.to_string()))
        })
    }
}

#[cfg(test)]
mod tests {
    use rekindle_runtime::{ContainerKey, SandboxKey};
    use rekindle_types::{ContainerAttempt, ContainerName, PodRef, SandboxAttempt};

    use super::*;

    /// [kubelet: `GetExec`, `findContainer`; containerd: `execInContainer`]
    #[test]
    fn what_cannot_be_executed_is_told_as_on_any_cluster() {
        let not_running = PodStreamError::NotRunning { container: "web".to_owned() };
        let text = "unable to upgrade connection: container not found (\"web\")";
        assert_eq!(not_running.to_string(), text);
        let pod = PodRef {
            namespace: "default".to_owned(),
            name: "web".to_owned(),
            uid: PodUid("u1".to_owned()),
        };
        let no_such_command = RuntimeError::Start {
            key: ContainerKey {
                sandbox: SandboxKey { pod, attempt: SandboxAttempt(0) },
                name: ContainerName("web".to_owned()),
                attempt: ContainerAttempt(0),
            },
            problem: "exec \"nope\": executable file not found in $PATH".to_owned(),
        };
        assert_eq!(
            PodStreamError::Runtime(Box::new(no_such_command)).to_string(),
            "error executing command in container: failed to exec in container: exec \"nope\": executable file not found in $PATH"
        );
    }
}
