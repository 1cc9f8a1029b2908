//! What the front needs of a node: processes with open files, and connections to pods' ports.

use std::pin::Pin;

use futures::future::BoxFuture;
use rekindle_api::node_query::{AttachQuery, ExecQuery, PodOnNode};
use tokio::io::{AsyncRead, AsyncWrite};

/// Bytes from a process.
pub type Reader = Pin<Box<dyn AsyncRead + Send>>;
/// Bytes to a process; dropping it ends them.
pub type Writer = Pin<Box<dyn AsyncWrite + Send>>;

/// Opens streams into pods. The node implements it.
pub trait NodeStreams: Send + Sync + 'static {
    /// Runs a command in a container.
    fn exec(&self, query: ExecQuery)
    -> BoxFuture<'static, Result<ProcessSession, NodeStreamError>>;
    /// Joins a container's first process.
    fn attach(
        &self,
        query: AttachQuery,
    ) -> BoxFuture<'static, Result<ProcessSession, NodeStreamError>>;
    /// Connects to a port on the pod's own loopback.
    fn connect(
        &self,
        pod: PodOnNode,
        port: u16,
    ) -> BoxFuture<'static, Result<PortConnection, NodeStreamError>>;
}

/// A process and its files. Dropping it ends a command that was run for it.
pub struct ProcessSession {
    /// Its input, when it was wanted.
    pub stdin: Option<Writer>,
    /// Its output, when it was wanted. An error is its end.
    pub stdout: Option<Reader>,
    /// Its error output, when it was wanted.
    pub stderr: Option<Reader>,
    /// Tells its terminal how many rows and columns it has, when it has one.
    pub resize: Option<Box<dyn Fn(u16, u16) + Send + Sync>>,
    /// Resolves with its exit code (128 and the number for a signal).
    pub ended: BoxFuture<'static, Result<i32, NodeStreamError>>,
}

/// A connection to a pod's port.
pub struct PortConnection {
    /// What the pod sends.
    pub reader: Reader,
    /// What it gets.
    pub writer: Writer,
}

/// Why there is no stream. The text is for the user.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct NodeStreamError(pub String);

/// For an API without nodes.
#[derive(Clone, Copy, Debug)]
pub struct NoStreams;

impl NodeStreams for NoStreams {
    fn exec(
        &self,
        query: ExecQuery,
    ) -> BoxFuture<'static, Result<ProcessSession, NodeStreamError>> {
        no_node(&query.pod)
    }

    fn attach(
        &self,
        query: AttachQuery,
    ) -> BoxFuture<'static, Result<ProcessSession, NodeStreamError>> {
        no_node(&query.pod)
    }

    fn connect(
        &self,
        pod: PodOnNode,
        _port: u16,
    ) -> BoxFuture<'static, Result<PortConnection, NodeStreamError>> {
        no_node(&pod)
    }
}

fn no_node<T: Send + 'static>(pod: &PodOnNode) -> BoxFuture<'static, Result<T, NodeStreamError>> {
    let error = NodeStreamError(format!("no node {:?} is running here", pod.node));
    Box::pin(async move { Err(error) })
}
