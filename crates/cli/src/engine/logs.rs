//! Joins the API's question for a log to the node's answer.

use std::sync::{Arc, OnceLock};

use futures::future::BoxFuture;
use rekindle_api::http::{LogError, LogStream, NodeLogs};
use rekindle_api::subresources::log::{self as api, LogQuery};
use rekindle_node::logs as node;

/// The logs of the node of this process, once it has started.
#[derive(Clone, Default)]
pub struct LogSource {
    logs: Arc<OnceLock<node::Logs>>,
}

impl LogSource {
    /// The node has started.
    pub fn set(&self, logs: node::Logs) {
        // the engine starts one node; a second call would change nothing
        let _ = self.logs.set(logs);
    }
}

impl NodeLogs for LogSource {
    fn read(&self, query: LogQuery) -> BoxFuture<'static, Result<LogStream, LogError>> {
        let logs = self.logs.get().cloned();
        Box::pin(async move {
            let Some(logs) = logs else {
                return Err(LogError::NoNode(format!(
                    "node {:?} is starting; try again",
                    query.node
                )));
            };
            match logs.read(&query.uid, &query.container, options(&query)).await {
                Ok(stream) => Ok(stream),
                Err(error @ node::LogError::NoSuchPod(_)) => {
                    Err(LogError::NoNode(error.to_string()))
                }
                Err(error @ node::LogError::NotThere(_)) => {
                    Err(LogError::NotThere(error.to_string()))
                }
                Err(error @ node::LogError::Failed { .. }) => {
                    Err(LogError::Failed(error.to_string()))
                }
            }
        })
    }
}

fn options(query: &LogQuery) -> node::LogOptions {
    node::LogOptions {
        run: match query.run {
            api::Run::Current => node::Run::Current,
            api::Run::Previous => node::Run::Previous,
        },
        follow: match query.follow {
            api::Follow::Yes => node::Follow::Yes,
            api::Follow::No => node::Follow::No,
        },
        timestamps: match query.timestamps {
            api::Timestamps::Yes => node::Timestamps::Yes,
            api::Timestamps::No => node::Timestamps::No,
        },
        tail_lines: query.tail_lines,
        limit_bytes: query.limit_bytes,
        since: query.since.map(|since| match since {
            api::Since::Seconds(seconds) => node::Since::Seconds(seconds),
            api::Since::Time(time) => node::Since::Time(time),
        }),
    }
}
