//! Joins the API's streams to the node's.

use std::sync::{Arc, OnceLock};

use futures::FutureExt;
use futures::future::BoxFuture;
use rekindle_api::node_query::{AttachQuery, ExecQuery, PodOnNode, StreamFiles};
use rekindle_api_server::{NodeStreamError, NodeStreams, PortConnection, ProcessSession};
use rekindle_node::streams::PodStreams;
use rekindle_runtime::{ExecExit, ExecStreams, StreamRequest};

/// The streams of the node of this process, once it has started.
#[derive(Clone, Default)]
pub struct StreamSource {
    streams: Arc<OnceLock<PodStreams>>,
}

impl StreamSource {
    /// The node has started.
    pub fn set(&self, streams: PodStreams) {
        // a process starts one node; a second call would change nothing
        let _ = self.streams.set(streams);
    }

    fn node(&self, pod: &PodOnNode) -> Result<PodStreams, NodeStreamError> {
        self.streams
            .get()
            .cloned()
            .ok_or_else(|| NodeStreamError(format!("node {:?} is starting; try again", pod.node)))
    }
}

impl NodeStreams for StreamSource {
    fn exec(
        &self,
        query: ExecQuery,
    ) -> BoxFuture<'static, Result<ProcessSession, NodeStreamError>> {
        let node = self.node(&query.pod);
        async move {
            let ExecQuery { pod, container, command, files } = query;
            let streams = node?.exec(&pod.uid, &container, &command, request(files)).await;
            streams.map(session).map_err(told)
        }
        .boxed()
    }

    fn attach(
        &self,
        query: AttachQuery,
    ) -> BoxFuture<'static, Result<ProcessSession, NodeStreamError>> {
        let node = self.node(&query.pod);
        async move {
            let AttachQuery { pod, container, files } = query;
            let streams = node?.attach(&pod.uid, &container, request(files)).await;
            streams.map(session).map_err(told)
        }
        .boxed()
    }

    fn connect(
        &self,
        pod: PodOnNode,
        port: u16,
    ) -> BoxFuture<'static, Result<PortConnection, NodeStreamError>> {
        let node = self.node(&pod);
        async move {
            let stream = node?.connect(&pod.uid, port).await.map_err(told)?;
            let (reader, writer) = stream.into_split();
            Ok(PortConnection { reader: Box::pin(reader), writer: Box::pin(writer) })
        }
        .boxed()
    }
}

fn told(error: rekindle_node::streams::PodStreamError) -> NodeStreamError {
    NodeStreamError(error.to_string())
}

fn request(files: StreamFiles) -> StreamRequest {
    let StreamFiles { stdin, stdout, stderr, terminal } = files;
    StreamRequest { stdin, stdout, stderr, terminal }
}

fn session(streams: ExecStreams) -> ProcessSession {
    let ExecStreams { stdin, stdout, stderr, terminal, running } = streams;
    let ended = async move {
        match running.await {
            Ok(ExecExit::Code(code)) => Ok(code),
            Ok(ExecExit::Signal(signal)) => Ok(128 + signal),
            Ok(ExecExit::TimedOut) => Err(NodeStreamError("its time was over".to_owned())),
            Err(error) => Err(NodeStreamError(error.chain())),
        }
    };
    ProcessSession {
        stdin: stdin.map(|stdin| Box::pin(stdin) as _),
        stdout: stdout.map(|stdout| Box::pin(stdout) as _),
        stderr: stderr.map(|stderr| Box::pin(stderr) as _),
        resize: terminal.map(|terminal| {
            Box::new(move |rows, columns| {
                if let Err(error) = terminal.resize(rows, columns) {
                    tracing::debug!(%error, "resize a terminal");
                }
            }) as _
        }),
        ended: ended.boxed(),
    }
}
