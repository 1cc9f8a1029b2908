//! The way of another process's agent to who writes the rules: a unix socket of the engine, with a
//! line of JSON for each request and for each answer.
//!
//! ```text
//!  agent ── {"withdraw":{"pod":"<uid>","cause":"Restarting"}} ──► engine
//!        ◄──────────────── {"withdrawn":"<uid>"} ────────────────
//! ```
//! An engine that starts again does not know what the one before was told: the agent tells it again
//! what is withdrawn, and which ports its pods have, when it has connected. When a connection ends,
//! its agent may have ended, or come back: what leads to its pods stays for a while.

use std::collections::BTreeMap;
use std::io;
use std::net::IpAddr;
use std::path::Path;
use std::time::Duration;

use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use futures::{FutureExt, StreamExt};
use rekindle_services::WithdrawalCause;
use rekindle_types::PodUid;
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{mpsc, oneshot};

use super::routes::{AddressesInUse, AgentLine, PodPorts, PortDemand, PortOutcome};
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
    OpenPorts(PodPorts),
    ClosePorts { sandbox: String },
    KeepPorts(AddressesInUse),
}

/// What the engine says.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
enum LineAnswer {
    Withdrawn(PodUid),
    PortsOpened { pod: PodUid, outcome: PortOutcome },
    PortsClosed { sandbox: String },
}

/// Serves the agents of other processes, each on a connection of its own.
///
/// # Errors
/// When connections cannot be taken any more.
pub async fn serve_routes(listener: UnixListener, routes: PodRoutes) -> io::Result<()> {
    let mut line = AgentLine::default();
    loop {
        let (stream, _) = listener.accept().await?;
        line = AgentLine(line.0 + 1);
        let routes = routes.of_agent(line);
        tokio::spawn(async move {
            if let Err(error) = serve_agent(stream, &routes).await {
                tracing::warn!(%error, "failed to read what a node asks of the rules of Services");
            }
            routes.agent_gone();
        });
    }
}

async fn serve_agent(stream: UnixStream, routes: &PodRoutes) -> io::Result<()> {
    let (read, mut write) = stream.into_split();
    let mut lines = BufReader::new(read).lines();
    let mut answers: FuturesUnordered<BoxFuture<'static, Option<LineAnswer>>> =
        FuturesUnordered::new();
    loop {
        tokio::select! {
            Some(answer) = answers.next(), if !answers.is_empty() => if let Some(answer) = answer {
                send(&mut write, &answer).await?;
            },
            request = receive::<LineRequest>(&mut lines) => match request? {
                None => return Ok(()),
                Some(LineRequest::Withdraw { pod, cause }) => {
                    let withdrawn = routes.withdraw(pod.clone(), cause);
                    answers.push(withdrawn.map(|()| Some(LineAnswer::Withdrawn(pod))).boxed());
                }
                Some(LineRequest::Admit { pod, addresses }) => routes.admit(pod, addresses),
                Some(LineRequest::Leave { pod }) => routes.leave(pod),
                Some(LineRequest::Gone { pod }) => routes.gone(pod),
                Some(LineRequest::OpenPorts(ports)) => {
                    let (pod, opened) = (ports.pod.uid.clone(), routes.ask_to_open(ports));
                    let answer = |outcome| LineAnswer::PortsOpened { pod, outcome };
                    answers.push(opened.map(|outcome| outcome.ok().map(answer)).boxed());
                }
                Some(LineRequest::ClosePorts { sandbox }) => {
                    let closed = routes.ask_to_close(&sandbox);
                    let answer = |()| LineAnswer::PortsClosed { sandbox };
                    answers.push(closed.map(|done| done.ok().map(answer)).boxed());
                }
                Some(LineRequest::KeepPorts(in_use)) => routes.keep_ports(in_use),
            },
        }
    }
}

/// What an agent has asked for, and who waits for it.
#[derive(Debug, Default)]
struct AgentRequests {
    withdrawn: BTreeMap<PodUid, WithdrawalCause>,
    waiting: BTreeMap<PodUid, Vec<oneshot::Sender<()>>>,
    /// The ports of each pod.
    ports: BTreeMap<PodUid, PodPorts>,
    opening: BTreeMap<PodUid, Vec<oneshot::Sender<PortOutcome>>>,
    /// Sandboxes that have their ports closed now.
    closing: BTreeMap<String, Vec<oneshot::Sender<()>>>,
    /// The addresses that sandboxes had when this process began, and those that ports lead to,
    /// without what has been closed since.
    in_use: Option<AddressesInUse>,
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
    for request in asked.again() {
        send(&mut write, &request).await?;
    }
    loop {
        tokio::select! {
            answer = receive::<LineAnswer>(&mut lines) => match answer? {
                Some(answer) => asked.answered(answer),
                None => return Err(io::ErrorKind::UnexpectedEof.into()),
            },
            request = requests.recv() => match request {
                Some(request) => if let Some(request) = asked.note(request) {
                    send(&mut write, &request).await?;
                },
                None => return Ok(()),
            },
        }
    }
}

impl AgentRequests {
    /// Keeps what an engine that starts anew has to be told.
    fn note(&mut self, request: RouteRequest) -> Option<LineRequest> {
        Some(match request {
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
            RouteRequest::OpenPorts(_, ports, answer) => {
                let pod = ports.pod.uid.clone();
                if let Some(in_use) = &mut self.in_use {
                    in_use.addresses.insert(ports.addresses.address, ports.sandbox.clone());
                }
                self.opening.entry(pod.clone()).or_default().push(answer);
                self.ports.insert(pod, ports.clone());
                LineRequest::OpenPorts(ports)
            }
            RouteRequest::ClosePorts(sandbox, done) => {
                self.ports.retain(|_, ports| ports.sandbox != sandbox);
                if let Some(in_use) = &mut self.in_use {
                    in_use.addresses.retain(|_, of| *of != sandbox);
                }
                self.closing.entry(sandbox.clone()).or_default().push(done);
                LineRequest::ClosePorts { sandbox }
            }
            RouteRequest::KeepPorts(in_use) => {
                self.in_use = Some(in_use.clone());
                LineRequest::KeepPorts(in_use)
            }
            // no other agent asks by way of this one, and the engine's own follows ranges
            RouteRequest::AgentGone(_) | RouteRequest::ServeRanges(..) => return None,
        })
    }

    /// What an engine that starts anew is asked again.
    fn again(&self) -> impl Iterator<Item = LineRequest> + '_ {
        let withdrawals = self
            .withdrawn
            .iter()
            .map(|(pod, cause)| LineRequest::Withdraw { pod: pod.clone(), cause: *cause });
        let closing = self.closing.keys().cloned();
        let closing = closing.map(|sandbox| LineRequest::ClosePorts { sandbox });
        let in_use = self.in_use.clone().map(LineRequest::KeepPorts);
        let ports = self.ports.values().cloned().map(LineRequest::OpenPorts);
        // what is to be closed may be known by its address only
        withdrawals.chain(in_use).chain(closing).chain(ports)
    }

    fn forget(&mut self, pod: &PodUid) {
        self.withdrawn.remove(pod);
        self.waiting.remove(pod);
    }

    fn answered(&mut self, answer: LineAnswer) {
        // a worker that waits no longer has gone on without
        match answer {
            LineAnswer::Withdrawn(pod) => {
                for waiting in self.waiting.remove(&pod).into_iter().flatten() {
                    let (Ok(()) | Err(())) = waiting.send(());
                }
            }
            LineAnswer::PortsOpened { pod, outcome } => {
                match (self.ports.get_mut(&pod), &outcome) {
                    // the pod asks again
                    (Some(ports), PortOutcome::Refused(_)) if ports.demand == PortDemand::All => {
                        self.ports.remove(&pod);
                    }
                    // it runs with them: a later engine does not close all for one
                    (Some(ports), _) => ports.demand = PortDemand::WhatIsFree,
                    (None, _) => {}
                }
                for waiting in self.opening.remove(&pod).into_iter().flatten() {
                    drop(waiting.send(outcome.clone()));
                }
            }
            LineAnswer::PortsClosed { sandbox } => {
                for waiting in self.closing.remove(&sandbox).into_iter().flatten() {
                    let (Ok(()) | Err(())) = waiting.send(());
                }
            }
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
    use super::super::SandboxAddresses;
    use super::*;

    const PATIENCE: Duration = Duration::from_secs(60);

    fn pod(uid: &str) -> PodUid {
        PodUid(uid.to_owned())
    }

    fn ports(pod: &str, demand: PortDemand) -> PodPorts {
        let uid = PodUid(pod.to_owned());
        let pod =
            rekindle_types::PodRef { namespace: "shop".to_owned(), name: pod.to_owned(), uid };
        let (sandbox, addresses) = (format!("{}-0", pod.name), at(9));
        PodPorts { pod, sandbox, addresses, ports: Vec::new(), demand }
    }

    fn at(last: u8) -> SandboxAddresses {
        SandboxAddresses { address: [10, 88, 0, last].into(), second_address: None }
    }

    /// On a runtime of its own: it ends with all its connections, as a process does.
    fn start_engine(socket: &Path) -> (EngineRuntime, mpsc::UnboundedReceiver<RouteRequest>) {
        let (routes, requests) = PodRoutes::new();
        let engine = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
        let listener = {
            let _inside = engine.enter();
            UnixListener::bind(socket).unwrap()
        };
        engine.spawn(serve_routes(listener, routes));
        (EngineRuntime(Some(engine)), requests)
    }

    /// A runtime that may end inside another one.
    struct EngineRuntime(Option<tokio::runtime::Runtime>);

    impl Drop for EngineRuntime {
        fn drop(&mut self) {
            if let Some(engine) = self.0.take() {
                engine.shutdown_background();
            }
        }
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

        let (engine, mut requests) = start_engine(&socket);
        let RouteRequest::Withdraw(uid, cause, done) = next(&mut requests).await else { panic!() };
        assert_eq!((uid, cause), (pod("a"), WithdrawalCause::Restarting));
        assert!(futures::poll!(&mut withdrawn).is_pending());
        done.send(()).unwrap();
        tokio::time::timeout(PATIENCE, withdrawn).await.unwrap();

        far.admit(pod("b"), vec!["10.88.0.7".parse().unwrap()]);
        assert!(
            matches!(next(&mut requests).await, RouteRequest::Admit(uid, _) if uid == pod("b"))
        );

        drop(engine);
        std::fs::remove_file(&socket).unwrap();
        let (_engine, mut requests) = start_engine(&socket);
        let again = next(&mut requests).await;
        assert!(matches!(again, RouteRequest::Withdraw(uid, ..) if uid == pod("a")));
    }

    #[tokio::test]
    async fn ports_of_a_far_pod_are_opened_here_and_again_by_an_engine_that_starts_anew() {
        let dir = tempfile::tempdir().unwrap();
        let socket = dir.path().join("routes.sock");
        let (far, far_requests) = PodRoutes::new();
        let path = socket.clone();
        tokio::spawn(async move { follow_requests(&path, far_requests).await });
        let (engine, mut requests) = start_engine(&socket);
        let why = vec!["Service shop/web has it".to_owned()];
        let outcomes = [PortOutcome::Open, PortOutcome::Refused(why), PortOutcome::Open];
        for (pod, outcome) in ["a", "b", "c"].into_iter().zip(outcomes) {
            let answered = far.ask_to_open(ports(pod, PortDemand::All));
            let RouteRequest::OpenPorts(_, asked, answer) = next(&mut requests).await else {
                panic!("{pod}")
            };
            assert_eq!(asked, ports(pod, PortDemand::All));
            answer.send(outcome.clone()).unwrap();
            assert_eq!(tokio::time::timeout(PATIENCE, answered).await.unwrap().unwrap(), outcome);
        }
        let mut closed = far.ask_to_close("c-0");
        let RouteRequest::ClosePorts(sandbox, done) = next(&mut requests).await else { panic!() };
        assert_eq!(sandbox, "c-0");
        assert!(closed.try_recv().is_err(), "not before the kernel has it");
        done.send(()).unwrap();
        tokio::time::timeout(PATIENCE, closed).await.unwrap().unwrap();

        drop(engine);
        std::fs::remove_file(&socket).unwrap();
        let (_engine, mut requests) = start_engine(&socket);
        let RouteRequest::OpenPorts(_, again, answer) = next(&mut requests).await else { panic!() };
        assert_eq!(again, ports("a", PortDemand::WhatIsFree), "it runs: not all or none");
        answer.send(PortOutcome::Open).unwrap();
        far.leave(pod("z"));
        assert!(matches!(next(&mut requests).await, RouteRequest::Leave(_)), "b and c have none");
    }

    #[test]
    fn an_address_is_in_use_until_its_sandbox_gives_its_ports_back() {
        let mut asked = AgentRequests::default();
        let open = |pod: &str, last| {
            let ports = PodPorts { addresses: at(last), ..ports(pod, PortDemand::WhatIsFree) };
            RouteRequest::OpenPorts(AgentLine::default(), ports, oneshot::channel().0)
        };
        let close =
            |sandbox: &str| RouteRequest::ClosePorts(sandbox.to_owned(), oneshot::channel().0);
        let said_again = |asked: &AgentRequests| {
            asked.again().find_map(|request| match request {
                LineRequest::KeepPorts(in_use) => Some(in_use.addresses.into_keys().collect()),
                _ => None,
            })
        };
        // a and b are found, and b is not looked at before it ends; d gets an address of before
        let found = [(at(2), "a-0"), (at(3), "b-0"), (at(4), "c-0")];
        let addresses = found.map(|(at, of)| (at.address, of.to_owned())).into();
        let range = "10.88.0.0/24".parse().unwrap();
        let in_use = AddressesInUse { range, ipv6_prefix: None, addresses };
        let steps = [
            (RouteRequest::KeepPorts(in_use), vec![2, 3, 4]),
            (open("a", 2), vec![2, 3, 4]),
            (close("b-0"), vec![2, 4]),
            (open("d", 4), vec![2, 4]),
            (close("d-0"), vec![2]),
            (open("e", 5), vec![2, 5]),
            (close("a-0"), vec![5]),
        ];
        for (request, expected) in steps {
            let step = format!("{request:?}");
            asked.note(request);
            let expected = expected.into_iter().map(|last| at(last).address).collect();
            assert_eq!(said_again(&asked), Some::<Vec<IpAddr>>(expected), "{step}");
        }
    }

    #[tokio::test]
    async fn an_engine_hears_which_agent_has_ended() {
        let dir = tempfile::tempdir().unwrap();
        let socket = dir.path().join("routes.sock");
        let (_engine, mut requests) = start_engine(&socket);
        let (near, far) = (PodRoutes::new(), PodRoutes::new());
        let mut lines = Vec::new();
        for ((routes, requests_of), name) in [(near, "a"), (far, "b")] {
            let path = socket.clone();
            let agent = tokio::spawn(async move { follow_requests(&path, requests_of).await });
            drop(routes.ask_to_open(ports(name, PortDemand::All)));
            let RouteRequest::OpenPorts(line, asked, _) = next(&mut requests).await else {
                panic!("{name}")
            };
            assert_eq!(asked.pod.name, name);
            lines.push((line, agent, routes));
        }
        assert_ne!(lines[0].0, lines[1].0);
        for (line, agent, _routes) in lines {
            agent.abort();
            let RouteRequest::AgentGone(gone) = next(&mut requests).await else { panic!() };
            assert_eq!(gone, line);
        }
    }

    /// A kernel without nf_tables: there is no one to answer later.
    #[tokio::test]
    async fn a_far_pod_is_told_that_there_are_no_rules() {
        let dir = tempfile::tempdir().unwrap();
        let socket = dir.path().join("routes.sock");
        tokio::spawn(serve_routes(UnixListener::bind(&socket).unwrap(), PodRoutes::default()));
        let (far, far_requests) = PodRoutes::new();
        tokio::spawn(async move { follow_requests(&socket, far_requests).await });
        let opened = far.ask_to_open(ports("a", PortDemand::All));
        let outcome = tokio::time::timeout(PATIENCE, opened).await.unwrap().unwrap();
        assert_eq!(outcome, PortOutcome::Unsupported);
        tokio::time::timeout(PATIENCE, far.ask_to_close("a-0")).await.unwrap().unwrap();
        let withdrawn = far.withdraw(pod("a"), WithdrawalCause::Terminating);
        tokio::time::timeout(PATIENCE, withdrawn).await.unwrap();
    }
}
