//! The way of another process's agent to who writes the rules: a unix socket of the engine, with a
//! line of JSON for each request and for each answer.
//!
//! ```text
//!  agent ── {"withdraw":{"pod":"<uid>","cause":"Restarting"}} ──► engine
//!        ◄──────────────── {"withdrawn":"<uid>"} ────────────────
//! ```
//! An engine that starts again does not know what the one before was told: the agent tells it again
//! what is withdrawn, when it has connected.

use std::collections::BTreeMap;
use std::io;
use std::net::IpAddr;
use std::path::Path;
use std::time::Duration;

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use rekindle_services::WithdrawalCause;
use rekindle_types::PodUid;
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{mpsc, oneshot};

use super::{PodRoutes, RouteRequest};

/// Until an engine that is not there is looked for again.
const CONNECT_AGAIN_AFTER: Duration = Duration::from_millis(200);

type MessageLines = Lines<BufReader<OwnedReadHalf>>;

/// What an agent says.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
enum LineRequest {
    Withdraw { pod: PodUid, cause: WithdrawalCause },
    Admit { pod: PodUid, addresses: Vec<IpAddr> },
    Leave { pod: PodUid },
    Gone { pod: PodUid },
}

/// What the engine says.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
enum LineAnswer {
    Withdrawn(PodUid),
}

/// Serves the agents of other processes, each on a connection of its own.
///
/// # Errors
/// When connections cannot be taken any more.
pub async fn serve_routes(listener: UnixListener, routes: PodRoutes) -> io::Result<()> {
    loop {
        let (stream, _) = listener.accept().await?;
        let routes = routes.clone();
        tokio::spawn(async move {
            if let Err(error) = serve_agent(stream, &routes).await {
                tracing::warn!(%error, "failed to read what a node asks of the rules of Services");
            }
        });
    }
}

async fn serve_agent(stream: UnixStream, routes: &PodRoutes) -> io::Result<()> {
    let (read, mut write) = stream.into_split();
    let mut lines = BufReader::new(read).lines();
    let mut withdrawals = FuturesUnordered::new();
    loop {
        tokio::select! {
            Some(pod) = withdrawals.next(), if !withdrawals.is_empty() => {
                send(&mut write, &LineAnswer::Withdrawn(pod)).await?;
            }
            request = receive::<LineRequest>(&mut lines) => match request? {
                None => return Ok(()),
                Some(LineRequest::Withdraw { pod, cause }) => {
                    let withdrawn = routes.withdraw(pod.clone(), cause);
                    withdrawals.push(async move {
                        withdrawn.await;
                        pod
                    });
                }
                Some(LineRequest::Admit { pod, addresses }) => routes.admit(pod, addresses),
                Some(LineRequest::Leave { pod }) => routes.leave(pod),
                Some(LineRequest::Gone { pod }) => routes.gone(pod),
            },
        }
    }
}

/// What an agent has asked for, and who waits for it.
#[derive(Debug, Default)]
struct AgentRequests {
    withdrawn: BTreeMap<PodUid, WithdrawalCause>,
    waiting: BTreeMap<PodUid, Vec<oneshot::Sender<()>>>,
}

/// Carries the requests of this process's pods to the engine that listens at `socket`, and again to
/// one that starts anew. Ends when no pod can ask any more.
pub async fn follow_requests(socket: &Path, mut requests: mpsc::UnboundedReceiver<RouteRequest>) {
    let mut asked = AgentRequests::default();
    loop {
        match UnixStream::connect(socket).await {
            Ok(stream) => match carry(stream, &mut asked, &mut requests).await {
                Ok(()) => return,
                Err(error) => {
                    tracing::debug!(%error, "the line to the writer of the rules of Services ended");
                }
            },
            Err(error) => {
                tracing::debug!(%error, "cannot reach the writer of the rules of Services");
            }
        }
        tokio::select! {
            () = tokio::time::sleep(CONNECT_AGAIN_AFTER) => {}
            request = requests.recv() => match request {
                Some(request) => drop(asked.note(request)),
                None => return,
            },
        }
    }
}

async fn carry(
    stream: UnixStream,
    asked: &mut AgentRequests,
    requests: &mut mpsc::UnboundedReceiver<RouteRequest>,
) -> io::Result<()> {
    let (read, mut write) = stream.into_split();
    let mut lines = BufReader::new(read).lines();
    for (pod, cause) in &asked.withdrawn {
        let request = LineRequest::Withdraw { pod: pod.clone(), cause: *cause };
        send(&mut write, &request).await?;
    }
    loop {
        tokio::select! {
            answer = receive::<LineAnswer>(&mut lines) => match answer? {
                Some(LineAnswer::Withdrawn(pod)) => asked.answered(&pod),
                None => return Err(io::ErrorKind::UnexpectedEof.into()),
            },
            request = requests.recv() => match request {
                Some(request) => {
                    let request = asked.note(request);
                    send(&mut write, &request).await?;
                }
                None => return Ok(()),
            },
        }
    }
}

impl AgentRequests {
    /// Keeps what an engine that starts anew has to be told.
    fn note(&mut self, request: RouteRequest) -> LineRequest {
        match request {
            RouteRequest::Withdraw(pod, cause, done) => {
                self.withdrawn.insert(pod.clone(), cause);
                self.waiting.entry(pod.clone()).or_default().push(done);
                LineRequest::Withdraw { pod, cause }
            }
            RouteRequest::Admit(pod, addresses) => {
                self.withdrawn.remove(&pod);
                LineRequest::Admit { pod, addresses }
            }
            RouteRequest::Leave(pod) => {
                self.forget(&pod);
                LineRequest::Leave { pod }
            }
            RouteRequest::Gone(pod) => {
                self.forget(&pod);
                LineRequest::Gone { pod }
            }
        }
    }

    fn forget(&mut self, pod: &PodUid) {
        self.withdrawn.remove(pod);
        self.waiting.remove(pod);
    }

    fn answered(&mut self, pod: &PodUid) {
        for waiting in self.waiting.remove(pod).into_iter().flatten() {
            // a worker that waits no longer has gone on without
            let (Ok(()) | Err(())) = waiting.send(());
        }
    }
}

async fn send(write: &mut OwnedWriteHalf, message: &impl Serialize) -> io::Result<()> {
    let mut line = serde_json::to_vec(message)?;
    line.push(b'\n');
    write.write_all(&line).await
}

/// The next message. `None`: the other side has closed. Nothing is lost when it is dropped early.
async fn receive<T: for<'a> Deserialize<'a>>(lines: &mut MessageLines) -> io::Result<Option<T>> {
    match lines.next_line().await? {
        Some(line) => Ok(Some(serde_json::from_str(&line)?)),
        None => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATIENCE: Duration = Duration::from_secs(60);

    fn pod(uid: &str) -> PodUid {
        PodUid(uid.to_owned())
    }

    async fn next(requests: &mut mpsc::UnboundedReceiver<RouteRequest>) -> RouteRequest {
        tokio::time::timeout(PATIENCE, requests.recv()).await.unwrap().unwrap()
    }

    #[tokio::test]
    async fn what_a_far_pod_asks_is_asked_here_and_again_of_an_engine_that_starts_anew() {
        let dir = tempfile::tempdir().unwrap();
        let socket = dir.path().join("routes.sock");
        let (far, far_requests) = PodRoutes::new();
        let path = socket.clone();
        tokio::spawn(async move { follow_requests(&path, far_requests).await });
        // the engine is not there yet
        let mut withdrawn = far.withdraw(pod("a"), WithdrawalCause::Restarting);

        let (routes, mut requests) = PodRoutes::new();
        // a runtime of its own ends with all its connections, as a process does
        let engine = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
        let listener = {
            let _inside = engine.enter();
            UnixListener::bind(&socket).unwrap()
        };
        engine.spawn(serve_routes(listener, routes));
        let RouteRequest::Withdraw(uid, cause, done) = next(&mut requests).await else { panic!() };
        assert_eq!((uid, cause), (pod("a"), WithdrawalCause::Restarting));
        assert!(futures::poll!(&mut withdrawn).is_pending());
        done.send(()).unwrap();
        tokio::time::timeout(PATIENCE, withdrawn).await.unwrap();

        far.admit(pod("b"), vec!["10.88.0.7".parse().unwrap()]);
        assert!(
            matches!(next(&mut requests).await, RouteRequest::Admit(uid, _) if uid == pod("b"))
        );

        engine.shutdown_background();
        std::fs::remove_file(&socket).unwrap();
        let (routes, mut requests) = PodRoutes::new();
        let listener = UnixListener::bind(&socket).unwrap();
        tokio::spawn(serve_routes(listener, routes));
        let again = next(&mut requests).await;
        assert!(matches!(again, RouteRequest::Withdraw(uid, ..) if uid == pod("a")));
    }
}
