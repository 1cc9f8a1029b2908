//! Which node a question goes to: that of this process, or one whose agent has a process of its
//! own.

use futures::FutureExt;
use futures::future::{BoxFuture, join_all};
use rekindle_api::ApiAnswer;
use rekindle_api::node_query::{AttachQuery, ExecQuery, LogQuery, NodeGet, PodOnNode};
use rekindle_api::resource_metrics::NodeFigures;
use rekindle_api_server::node_link::FarNode;
use rekindle_api_server::{
    LogRequestError, LogStream, NodeLogs, NodeQueries, NodeStreamError, NodeStreams,
    NodeUnavailable, PortConnection, ProcessSession,
};

use super::logs::LogSource;
use super::nodes::NodeSource;
use super::streams::StreamSource;
use crate::nodes::NodesFolder;

/// The nodes of an engine. Cheap to clone.
#[derive(Clone)]
pub struct NodeRoutes {
    /// The name of the engine's own node.
    own: String,
    logs: LogSource,
    streams: StreamSource,
    nodes: NodeSource,
    /// All others.
    pub further: NodesFolder,
}

/// Where a node is.
enum NodeRoute {
    Here,
    Far(FarNode),
}

impl NodeRoutes {
    /// The engine's own node, which has not started yet, and all others.
    pub fn new(own: &str, further: NodesFolder) -> Self {
        Self {
            own: own.to_owned(),
            logs: LogSource::default(),
            streams: StreamSource::default(),
            nodes: NodeSource::default(),
            further,
        }
    }

    /// The engine's own node has started.
    pub fn started(&self, node: &rekindle_node::NodeHandle) {
        self.logs.set(node.logs());
        self.streams.set(node.streams());
        self.nodes.set(node.name(), node.node_api());
    }

    fn place(&self, node: &str) -> NodeRoute {
        // a node that is none of ours is for the own one to refuse, by name
        if node == self.own { None } else { self.further.far(node) }
            .map_or(NodeRoute::Here, NodeRoute::Far)
    }
}

impl NodeLogs for NodeRoutes {
    fn read(&self, query: LogQuery) -> BoxFuture<'static, Result<LogStream, LogRequestError>> {
        match self.place(&query.pod.node) {
            NodeRoute::Here => self.logs.read(query),
            NodeRoute::Far(node) => node.read(query),
        }
    }
}

impl NodeStreams for NodeRoutes {
    fn exec(
        &self,
        query: ExecQuery,
    ) -> BoxFuture<'static, Result<ProcessSession, NodeStreamError>> {
        match self.place(&query.pod.node) {
            NodeRoute::Here => self.streams.exec(query),
            NodeRoute::Far(node) => node.exec(query),
        }
    }

    fn attach(
        &self,
        query: AttachQuery,
    ) -> BoxFuture<'static, Result<ProcessSession, NodeStreamError>> {
        match self.place(&query.pod.node) {
            NodeRoute::Here => self.streams.attach(query),
            NodeRoute::Far(node) => node.attach(query),
        }
    }

    fn connect(
        &self,
        pod: PodOnNode,
        port: u16,
    ) -> BoxFuture<'static, Result<PortConnection, NodeStreamError>> {
        match self.place(&pod.node) {
            NodeRoute::Here => self.streams.connect(pod, port),
            NodeRoute::Far(node) => node.connect(pod, port),
        }
    }
}

impl NodeQueries for NodeRoutes {
    fn get(&self, question: NodeGet) -> BoxFuture<'static, Result<ApiAnswer, NodeUnavailable>> {
        match self.place(&question.node) {
            NodeRoute::Here => self.nodes.get(question),
            NodeRoute::Far(node) => node.get(question),
        }
    }

    /// Of the nodes that answer: a dead one has no figures, as with metrics-server.
    fn figures(&self) -> BoxFuture<'static, Result<Vec<NodeFigures>, NodeUnavailable>> {
        let own = self.nodes.figures();
        let further = self.further.all().into_iter().map(|node| {
            let figures = node.figures();
            async move {
                figures.await.unwrap_or_else(|error| {
                    tracing::debug!(%error, "figures of a node");
                    Vec::new()
                })
            }
        });
        let further = join_all(further.collect::<Vec<_>>());
        async move {
            let (own, further) = futures::join!(own, further);
            let mut all = own?;
            all.extend(further.into_iter().flatten());
            Ok(all)
        }
        .boxed()
    }
}
