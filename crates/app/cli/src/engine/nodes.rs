//! Joins the API's questions about nodes to the node's answers.

use std::sync::{Arc, OnceLock};

use futures::future::BoxFuture;
use rekindle_api::ApiAnswer;
use rekindle_api::node_query::NodeGet;
use rekindle_api::resource_metrics::{NodeFigures, PodFigures, UsageFigures};
use rekindle_api_server::{NodeQueries, NodeUnavailable};
use rekindle_node::node_api as node;

/// The node of this process, once it has started.
#[derive(Clone, Default)]
pub struct NodeSource {
    node: Arc<OnceLock<StartedNode>>,
}

struct StartedNode {
    name: String,
    api: node::NodeApi,
}

impl NodeSource {
    /// The node has started.
    pub fn set(&self, name: &str, api: node::NodeApi) {
        // a process starts one node; a second call would change nothing
        let _ = self.node.set(StartedNode { name: name.to_owned(), api });
    }

    fn find(&self, name: &str) -> Result<node::NodeApi, NodeUnavailable> {
        match self.node.get() {
            Some(node) if node.name == name => Ok(node.api.clone()),
            Some(_) => Err(NodeUnavailable(format!("node {name:?} does not run in this engine"))),
            None => Err(NodeUnavailable(format!("node {name:?} is starting; try again"))),
        }
    }
}

impl NodeQueries for NodeSource {
    fn get(&self, question: NodeGet) -> BoxFuture<'static, Result<ApiAnswer, NodeUnavailable>> {
        let node = self.find(&question.node);
        Box::pin(async move {
            let path = question.path.trim_matches('/');
            let told = node?.get(path, &question.query).await;
            Ok(ApiAnswer::relayed(told.code, told.content_type, told.body))
        })
    }

    fn figures(&self) -> BoxFuture<'static, Result<Vec<NodeFigures>, NodeUnavailable>> {
        let source = self.clone();
        Box::pin(async move {
            // without a node there is nothing to tell of
            let Some(node) = source.node.get() else { return Ok(Vec::new()) };
            let told = node.api.resource_figures().await;
            let told = told.map_err(|error| NodeUnavailable(error.chain()))?;
            Ok(vec![figures_of(&node.name, told)])
        })
    }
}

fn figures_of(name: &str, told: node::ResourceFigures) -> NodeFigures {
    let pods = told.pods.into_iter().map(|pod| PodFigures {
        namespace: pod.pod_ref.namespace,
        name: pod.pod_ref.name,
        labels: pod.labels,
        containers: pod.containers.into_iter().map(|(name, used)| (name, figures(used))).collect(),
    });
    NodeFigures {
        name: name.to_owned(),
        taken_at: told.taken_at,
        window: told.window,
        usage: figures(told.node),
        pods: pods.collect(),
    }
}

fn figures(used: node::ComputeFigures) -> UsageFigures {
    UsageFigures { cpu_nanocores: used.cpu_nanocores, memory_bytes: used.memory_bytes }
}
