//! The line with both ends in one process: what is asked of the far node is what the near one would
//! have answered.

use std::sync::Arc;

use bytes::Bytes;
use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt};
use http::StatusCode;
use rekindle_api::node_query::{AttachQuery, ExecQuery, LogQuery, NodeGet, PodOnNode, StreamFiles};
use rekindle_api::outcome::ApiAnswer;
use rekindle_api::resource_metrics::{NodeFigures, UsageFigures};
use rekindle_types::PodUid;
use rekindle_types::log_options::LogOptions;
use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};
use tokio::net::UnixListener;
use tokio::sync::{Notify, oneshot};

use super::{FarNode, NodeParts, serve};
use crate::{
    LogRequestError, LogStream, NodeLogs, NodeQueries, NodeStreamError, NodeStreams,
    NodeUnavailable, PortConnection, ProcessSession,
};

/// A node of which everything is known. `cat` gives its input back, `fail` ends with 3, `hang`
/// never ends.
#[derive(Clone, Default)]
struct Fake {
    /// Told when a session that has not ended is dropped.
    dropped: Arc<Notify>,
}

struct TellsDrop(Arc<Notify>);

impl Drop for TellsDrop {
    fn drop(&mut self) {
        self.0.notify_one();
    }
}

impl NodeLogs for Fake {
    fn read(&self, query: LogQuery) -> BoxFuture<'static, Result<LogStream, LogRequestError>> {
        let dropped = self.dropped.clone();
        async move {
            let pieces = |pieces: Vec<Result<Bytes, std::io::Error>>| {
                Ok(futures::stream::iter(pieces).boxed())
            };
            match query.container.as_str() {
                "whole" => pieces(vec![Ok("one\n".into()), Ok(vec![b'x'; 100_000].into())]),
                "broken" => pieces(vec![Ok("a".into()), Err(std::io::Error::other("disk"))]),
                "follow" => {
                    let first = futures::stream::iter([Ok(Bytes::from("first\n"))]);
                    let guard = TellsDrop(dropped);
                    Ok(first
                        .chain(futures::stream::pending())
                        .map(move |piece| {
                            let _held = &guard;
                            piece
                        })
                        .boxed())
                }
                other => Err(LogRequestError::NotThere(format!("{other} has not started"))),
            }
        }
        .boxed()
    }
}

impl NodeStreams for Fake {
    fn exec(
        &self,
        query: ExecQuery,
    ) -> BoxFuture<'static, Result<ProcessSession, NodeStreamError>> {
        let dropped = self.dropped.clone();
        async move {
            let (stdin, mut input) = duplex(1024);
            let (stdout, mut output) = duplex(1024);
            let (end, ended) = oneshot::channel();
            match query.command[0].as_str() {
                "cat" => drop(tokio::spawn(async move {
                    let _ = tokio::io::copy(&mut input, &mut output).await;
                    let _ = end.send(0);
                })),
                "fail" => drop(end.send(3)),
                "hang" => drop(tokio::spawn(async move {
                    let _still_there = (input, output, end);
                    std::future::pending::<()>().await;
                })),
                other => return Err(NodeStreamError(format!("no such command: {other}"))),
            }
            let guard = TellsDrop(dropped);
            let ended = async move {
                let code = ended.await.map_err(|_| NodeStreamError("lost".to_owned()));
                std::mem::forget(guard);
                code
            };
            Ok(ProcessSession {
                stdin: Some(Box::pin(stdin)),
                stdout: Some(Box::pin(stdout)),
                stderr: None,
                resize: None,
                ended: ended.boxed(),
            })
        }
        .boxed()
    }

    fn attach(
        &self,
        _: AttachQuery,
    ) -> BoxFuture<'static, Result<ProcessSession, NodeStreamError>> {
        async { Err(NodeStreamError("nothing to attach to".to_owned())) }.boxed()
    }

    fn connect(
        &self,
        _: PodOnNode,
        port: u16,
    ) -> BoxFuture<'static, Result<PortConnection, NodeStreamError>> {
        async move {
            if port != 80 {
                return Err(NodeStreamError(format!("connect to port {port}: refused")));
            }
            let (ours, theirs) = duplex(1024);
            let (mut from, mut to) = tokio::io::split(ours);
            tokio::spawn(async move {
                // answers when all has been said
                let mut said = Vec::new();
                from.read_to_end(&mut said).await.unwrap();
                said.reverse();
                to.write_all(&said).await.unwrap();
                to.shutdown().await.unwrap();
            });
            let (reader, writer) = tokio::io::split(theirs);
            Ok(PortConnection { reader: Box::pin(reader), writer: Box::pin(writer) })
        }
        .boxed()
    }
}

impl NodeQueries for Fake {
    fn get(&self, question: NodeGet) -> BoxFuture<'static, Result<ApiAnswer, NodeUnavailable>> {
        async move {
            let body = format!("{} {}", question.path, question.query);
            Ok(ApiAnswer::relayed(404, "application/json", body))
        }
        .boxed()
    }

    fn figures(&self) -> BoxFuture<'static, Result<Vec<NodeFigures>, NodeUnavailable>> {
        async { Ok(vec![figures()]) }.boxed()
    }
}

fn figures() -> NodeFigures {
    NodeFigures {
        name: "n-2".to_owned(),
        taken_at: rekindle_types::Tick::from_secs(5),
        window: rekindle_types::TickDuration::from_secs(1),
        usage: UsageFigures { cpu_nanocores: 7, memory_bytes: 9 },
        pods: Vec::new(),
    }
}

fn pod() -> PodOnNode {
    PodOnNode {
        namespace: "default".to_owned(),
        pod: "web".to_owned(),
        uid: PodUid("u".to_owned()),
        node: "n-2".to_owned(),
    }
}

/// A far node; dropping the folder takes its socket away.
fn far(fake: &Fake) -> (FarNode, tempfile::TempDir) {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("agent.sock");
    let listener = UnixListener::bind(&socket).unwrap();
    let parts = NodeParts {
        logs: Arc::new(fake.clone()),
        streams: Arc::new(fake.clone()),
        nodes: Arc::new(fake.clone()),
    };
    tokio::spawn(serve(listener, parts));
    (FarNode::new("n-2", &socket), dir)
}

fn exec(command: &str) -> ExecQuery {
    let files = StreamFiles { stdin: true, stdout: true, stderr: false, terminal: false };
    ExecQuery { pod: pod(), container: "c".to_owned(), command: vec![command.to_owned()], files }
}

fn log_of(container: &str) -> LogQuery {
    LogQuery { pod: pod(), container: container.to_owned(), options: LogOptions::default() }
}

#[tokio::test]
async fn a_log_arrives_whole_and_says_when_it_is_cut_off() {
    let (node, _dir) = far(&Fake::default());
    let whole: Vec<_> = node.read(log_of("whole")).await.unwrap().collect().await;
    let bytes: Vec<u8> = whole.into_iter().flat_map(|piece| piece.unwrap().to_vec()).collect();
    assert_eq!(bytes.len(), 100_004);
    let broken: Vec<_> = node.read(log_of("broken")).await.unwrap().collect().await;
    assert_eq!(broken.last().unwrap().as_ref().unwrap_err().to_string(), "disk");
    let absent = node.read(log_of("c")).await.err().unwrap();
    assert_eq!(absent, LogRequestError::NotThere("c has not started".to_owned()));
}

#[tokio::test]
async fn a_log_that_nobody_follows_any_more_is_let_go_of_by_the_node() {
    let fake = Fake::default();
    let (node, _dir) = far(&fake);
    let mut log = node.read(log_of("follow")).await.unwrap();
    assert_eq!(log.next().await.unwrap().unwrap(), "first\n");
    drop(log);
    fake.dropped.notified().await;
}

#[tokio::test]
async fn a_commands_files_and_its_end_are_carried_over_the_line() {
    let (node, _dir) = far(&Fake::default());
    let mut session = node.exec(exec("cat")).await.unwrap();
    let mut stdin = session.stdin.take().unwrap();
    let sent = vec![b'y'; 200_000];
    let to_send = sent.clone();
    tokio::spawn(async move { stdin.write_all(&to_send).await.unwrap() });
    let mut got = Vec::new();
    session.stdout.take().unwrap().read_to_end(&mut got).await.unwrap();
    assert!(got == sent, "{} of {} bytes came back", got.len(), sent.len());
    assert_eq!(session.ended.await, Ok(0));
    assert_eq!(node.exec(exec("fail")).await.unwrap().ended.await, Ok(3));
    let refused = node.exec(exec("rm")).await.err().unwrap();
    assert_eq!(refused.to_string(), "no such command: rm");
}

#[tokio::test]
async fn a_session_that_is_dropped_ends_its_command() {
    let fake = Fake::default();
    let (node, _dir) = far(&fake);
    let session = node.exec(exec("hang")).await.unwrap();
    drop(session);
    fake.dropped.notified().await;
}

#[tokio::test]
async fn a_connection_ends_each_way_by_itself() {
    let (node, _dir) = far(&Fake::default());
    let PortConnection { mut reader, mut writer } = node.connect(pod(), 80).await.unwrap();
    writer.write_all(b"abc").await.unwrap();
    writer.shutdown().await.unwrap();
    let mut got = String::new();
    reader.read_to_string(&mut got).await.unwrap();
    assert_eq!(got, "cba");
    let refused = node.connect(pod(), 81).await.err().unwrap();
    assert_eq!(refused.to_string(), "connect to port 81: refused");
}

#[tokio::test]
async fn what_a_node_tells_of_itself_is_relayed() {
    let (node, _dir) = far(&Fake::default());
    let question = NodeGet {
        node: "n-2".to_owned(),
        path: "stats/summary".to_owned(),
        query: "a=b".to_owned(),
    };
    let answer = node.get(question).await.unwrap();
    assert_eq!((answer.code, answer.content_type), (StatusCode::NOT_FOUND, "application/json"));
    assert_eq!(answer.body, "stats/summary a=b");
    assert_eq!(node.figures().await.unwrap(), [figures()]);
}

#[tokio::test]
async fn a_node_that_does_not_run_is_named() {
    let (node, dir) = far(&Fake::default());
    drop(dir);
    let error = node.read(log_of("c")).await.err().unwrap().to_string();
    assert!(error.starts_with("node \"n-2\" does not run: connect to "), "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_node_that_is_stopped_does_not_keep_anybody_waiting_for_ever() {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("agent.sock");
    let _nobody_accepts = UnixListener::bind(&socket).unwrap();
    let error = FarNode::new("n-2", &socket).figures().await.unwrap_err();
    assert_eq!(error.to_string(), "node \"n-2\" does not answer");
}

#[tokio::test]
async fn who_speaks_another_language_is_not_answered() {
    let (_node, dir) = far(&Fake::default());
    for nonsense in [&b"GET / HTTP/1.1\r\n\r\n"[..], &[1, 0, 0, 0, 0], &[0, 0xff, 0xff, 0xff, 0xff]]
    {
        let mut line =
            tokio::net::UnixStream::connect(dir.path().join("agent.sock")).await.unwrap();
        line.write_all(nonsense).await.unwrap();
        let mut got = Vec::new();
        // closed, with or without what was not read
        let _ = line.read_to_end(&mut got).await;
        assert!(got.is_empty(), "{nonsense:?} got {got:?}");
    }
}
