//! Joins the API's question for a log to the node's answer.

use std::sync::{Arc, OnceLock};

use futures::future::BoxFuture;
use rekindle_api::node_query::LogQuery;
use rekindle_api_server::{LogRequestError, LogStream, NodeLogs};
use rekindle_node::logs as node;

/// The logs of the node of this process, once it has started.
#[derive(Clone, Default)]
pub struct LogSource {
    logs: Arc<OnceLock<node::Logs>>,
}

impl LogSource {
    /// The node has started.
    pub fn set(&self, logs: node::Logs) {
        // a process starts one node; a second call would change nothing
        let _ = self.logs.set(logs);
    }
}

impl NodeLogs for LogSource {
    fn read(&self, query: LogQuery) -> BoxFuture<'static, Result<LogStream, LogRequestError>> {
        let logs = self.logs.get().cloned();
        Box::pin(async move {
            let Some(logs) = logs else {
                return Err(LogRequestError::NoNode(format!(
                    "node {:?} is starting; try again",
                    query.pod.node
                )));
            };
            match logs.read(&query.pod.uid, &query.container, query.options).await {
                Ok(stream) => Ok(stream),
                Err(error @ node::LogError::NoSuchPod(_)) => {
                    Err(LogRequestError::NoNode(error.to_string()))
                }
                Err(error @ node::LogError::NotThere(_)) => {
                    Err(LogRequestError::NotThere(error.to_string()))
                }
                Err(error @ node::LogError::Failed { .. }) => {
                    Err(LogRequestError::Failed(error.to_string()))
                }
            }
        })
    }
}
