//! Which node a question goes to: that of this process, or one whose agent has a process of its
//! own.

use futures::FutureExt;
use futures::future::{BoxFuture, join_all};
use rekindle_api::Answer;
use rekindle_api::node_query::{AttachQuery, ExecQuery, LogQuery, NodeGet, PodOnNode};
use rekindle_api::resource_metrics::NodeFigures;
use rekindle_api_server::node_link::FarNode;
use rekindle_api_server::{
    Connection, LogError, LogStream, NodeLogs, NodeStreams, NodeUnavailable, Nodes, Session,
    StreamError,
};

use super::logs::LogSource;
use super::nodes::NodeSource;
use super::streams::StreamSource;
use crate::nodes::Folder;

/// The nodes of an engine. Cheap to clone.
#[derive(Clone)]
pub struct Routes {
    /// The name of the engine's own node.
    own: String,
    logs: LogSource,
    streams: StreamSource,
    nodes: NodeSource,
    /// All others.
    pub further: Folder,
}

/// Where a node is.
enum Place {
    Here,
    Far(FarNode),
}

impl Routes {
    /// The engine's own node, which has not started yet, and all others.
    pub fn new(own: &str, further: Folder) -> Self {
        Self {
            own: own.to_owned(),
            logs: LogSource::default(),
            streams: StreamSource::default(),
            nodes: NodeSource::default(),
            further,
        }
    }

    /// The engine's own node has started.
    pub fn started(&self, node: &rekindle_node::Handle) {
        self.logs.set(node.logs());
        self.streams.set(node.streams());
        self.nodes.set(node.name(), node.node_api());
    }

    fn place(&self, node: &str) -> Place {
        // a node that is none of ours is for the own one to refuse, by name
        if node == self.own { None } else { self.further.far(node) }.map_or(Place::Here, Place::Far)
    }
}

impl NodeLogs for Routes {
    fn read(&self, query: LogQuery) -> BoxFuture<'static, Result<LogStream, LogError>> {
        match self.place(&query.pod.node) {
            Place::Here => self.logs.read(query),
            Place::Far(node) => node.read(query),
        }
    }
}

impl NodeStreams for Routes {
    fn exec(&self, query: ExecQuery) -> BoxFuture<'static, Result<Session, StreamError>> {
        match self.place(&query.pod.node) {
            Place::Here => self.streams.exec(query),
            Place::Far(node) => node.exec(query),
        }
    }

    fn attach(&self, query: AttachQuery) -> BoxFuture<'static, Result<Session, StreamError>> {
        match self.place(&query.pod.node) {
            Place::Here => self.streams.attach(query),
            Place::Far(node) => node.attach(query),
        }
    }

    fn connect(
        &self,
        pod: PodOnNode,
        port: u16,
    ) -> BoxFuture<'static, Result<Connection, StreamError>> {
        match self.place(&pod.node) {
            Place::Here => self.streams.connect(pod, port),
            Place::Far(node) => node.connect(pod, port),
        }
    }
}

impl Nodes for Routes {
    fn get(&self, question: NodeGet) -> BoxFuture<'static, Result<Answer, NodeUnavailable>> {
        match self.place(&question.node) {
            Place::Here => self.nodes.get(question),
            Place::Far(node) => node.get(question),
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
