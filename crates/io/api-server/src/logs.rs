//! Where the logs of containers come from: the node.

use futures::future::BoxFuture;
use rekindle_api::node_query::LogQuery;

use super::body::LogStream;

/// Reads container logs. The node implements it.
pub trait NodeLogs: Send + Sync + 'static {
    /// The log that a query names, as a stream of bytes that ends with the log, or when the client
    /// goes.
    fn read(&self, query: LogQuery) -> BoxFuture<'static, Result<LogStream, LogRequestError>>;
}

/// Why there is no log.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LogRequestError {
    /// The container has not started, or has no earlier run. The text is for the user.
    #[error("{0}")]
    NotThere(String),
    /// The node does not know the pod, or cannot be reached.
    #[error("{0}")]
    NoNode(String),
    /// The log cannot be read.
    #[error("{0}")]
    Failed(String),
}

/// For an API without nodes.
#[derive(Clone, Copy, Debug)]
pub struct NoLogs;

impl NodeLogs for NoLogs {
    fn read(&self, query: LogQuery) -> BoxFuture<'static, Result<LogStream, LogRequestError>> {
        Box::pin(async move {
            Err(LogRequestError::NoNode(format!("no node {:?} is running here", query.pod.node)))
        })
    }
}
