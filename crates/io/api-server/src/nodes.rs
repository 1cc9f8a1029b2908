//! Where the figures of nodes come from.

use futures::future::BoxFuture;
use rekindle_api::node_query::NodeGet;
use rekindle_api::outcome::ApiAnswer;
use rekindle_api::resource_metrics::NodeFigures;

/// What nodes tell of themselves. The engine implements it.
pub trait NodeQueries: Send + Sync + 'static {
    /// What a node's HTTP API answers.
    fn get(&self, question: NodeGet) -> BoxFuture<'static, Result<ApiAnswer, NodeUnavailable>>;

    /// What every node and its pods use now.
    fn figures(&self) -> BoxFuture<'static, Result<Vec<NodeFigures>, NodeUnavailable>>;
}

/// A node does not answer. The text is for the user.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct NodeUnavailable(pub String);

/// For an API without nodes.
#[derive(Clone, Copy, Debug)]
pub struct NoNodes;

impl NodeQueries for NoNodes {
    fn get(&self, question: NodeGet) -> BoxFuture<'static, Result<ApiAnswer, NodeUnavailable>> {
        Box::pin(async move {
            Err(NodeUnavailable(format!("no node {:?} is running here", question.node)))
        })
    }

    fn figures(&self) -> BoxFuture<'static, Result<Vec<NodeFigures>, NodeUnavailable>> {
        Box::pin(async { Ok(Vec::new()) })
    }
}
