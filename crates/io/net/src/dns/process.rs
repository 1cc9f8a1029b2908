//! Cluster DNS as a process of its own. It outlives the engine, as shims do, so that names resolve
//! while no engine runs.
//!
//! ```text
//!  engine ── connects ────────────────────────► unix socket of the process
//!         ◄── {"program":…,"settings":…,"sockets":…} ── greeting
//!         ── {"update":{"service":[…]}} … "synced" ──► snapshot, then each change
//! ```
//! Each message is one line of JSON. The process answers no question before an engine has sent the
//! first whole snapshot. If the engine dies, the process answers from the last state it has.
//!
//! A process with another version or other settings is replaced: the new process takes its sockets,
//! and the old one exits between two questions. No question about the cluster is lost. The client
//! repeats a question that was forwarded to the node's resolvers.

use std::io::{self, ErrorKind};
use std::os::fd::{OwnedFd, RawFd};
use std::path::Path;
use std::sync::PoisonError;
use std::time::Duration;

use rustix::net::{RecvFlags, recv, sockopt};
use rustix::process::{
    PidfdFlags, PidfdGetfdFlags, Signal, pidfd_getfd, pidfd_open, pidfd_send_signal,
};
use serde::{Deserialize, Serialize};
use tokio::io::unix::AsyncFd;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::oneshot;

use super::PORT;
use super::server::{DnsServer, DnsSettings, SharedView};
use super::view::DnsUpdate;
use crate::error::NetError;

/// Timeout for the greeting. A process that misses it hangs.
const GREETING_TIMEOUT: Duration = Duration::from_secs(2);
/// Timeout for the exit of a process that is replaced.
const HANDOVER_TIMEOUT: Duration = Duration::from_secs(1);

/// Identifies a process of cluster DNS. One with another identity is replaced.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DnsProcessIdentity {
    /// Identifies the version of the program.
    pub program: String,
    /// The zone and the resolvers.
    pub settings: DnsSettings,
}

/// The first message on a connection, from the process.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Greeting {
    #[serde(flatten)]
    identity: DnsProcessIdentity,
    /// The file descriptors of its UDP and TCP sockets, in that process.
    sockets: [RawFd; 2],
}

/// A message from the engine.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
enum EngineMessage {
    Update(DnsUpdate),
    /// The snapshot is complete.
    Synced,
    /// Another process has taken the sockets: exit.
    HandOver,
}

/// Serves the names that the engine sends; the last engine to connect counts. Returns when another
/// process takes over.
///
/// # Errors
/// When the unix socket accepts no connections any more.
pub async fn serve_process(
    server: DnsServer,
    program: String,
    listener: UnixListener,
) -> io::Result<()> {
    let identity = DnsProcessIdentity { program, settings: server.settings().clone() };
    let greeting = line_of(&Greeting { identity, sockets: server.socket_numbers() })?;
    let view = SharedView::default();
    let (synced, when_synced) = oneshot::channel();
    let serving = async {
        match when_synced.await {
            Ok(()) => server.serve(view.clone()).await,
            // `follow_engines` returned, and so does this function.
            Err(_) => std::future::pending().await,
        }
    };
    // This drops the server while it waits for a question: it answers a question about the cluster
    // without a pause after it has read it.
    tokio::select! {
        ended = follow_engines(&listener, &greeting, &view, synced) => ended,
        () = serving => Err(io::Error::other("the DNS server ended")),
    }
}

async fn follow_engines(
    listener: &UnixListener,
    greeting: &[u8],
    view: &SharedView,
    synced: oneshot::Sender<()>,
) -> io::Result<()> {
    let mut engine: Option<Lines<BufReader<UnixStream>>> = None;
    let mut synced = Some(synced);
    loop {
        let message = tokio::select! {
            accepted = listener.accept() => {
                let (mut stream, _) = accepted?;
                // If the write fails, the next read fails as well.
                drop(stream.write_all(greeting).await);
                engine = Some(BufReader::new(stream).lines());
                continue;
            }
            message = next(&mut engine) => message,
        };
        match message {
            Ok(Some(EngineMessage::Update(update))) => {
                view.write().unwrap_or_else(PoisonError::into_inner).apply(update);
            }
            Ok(Some(EngineMessage::Synced)) => {
                if let Some(synced) = synced.take() {
                    let _serving = synced.send(());
                }
            }
            Ok(Some(EngineMessage::HandOver)) => return Ok(()),
            Ok(None) => engine = None,
            Err(error) => {
                tracing::warn!(%error, "failed to read an update of names from the engine");
                engine = None;
            }
        }
    }
}

/// The next message of the engine. Never resolves without a connection.
async fn next(
    engine: &mut Option<Lines<BufReader<UnixStream>>>,
) -> io::Result<Option<EngineMessage>> {
    match engine {
        None => std::future::pending().await,
        Some(lines) => match lines.next_line().await? {
            None => Ok(None),
            Some(line) => Ok(Some(serde_json::from_str(&line)?)),
        },
    }
}

fn line_of(message: &impl Serialize) -> io::Result<Vec<u8>> {
    let mut line = serde_json::to_vec(message)?;
    line.push(b'\n');
    Ok(line)
}

/// A connection to the process of cluster DNS.
#[derive(Debug)]
pub struct DnsProcessClient {
    stream: BufReader<UnixStream>,
    greeting: Greeting,
}

impl DnsProcessClient {
    /// Connects to the process that listens there; `None` without one. Kills a process that hangs
    /// or has an unknown greeting.
    ///
    /// # Errors
    /// When it cannot be reached or killed.
    pub async fn connect(socket: &Path) -> io::Result<Option<Self>> {
        let stream = match UnixStream::connect(socket).await {
            Ok(stream) => stream,
            Err(error)
                if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::ConnectionRefused) =>
            {
                return Ok(None);
            }
            Err(error) => return Err(error),
        };
        let mut stream = BufReader::new(stream);
        let mut line = String::new();
        if let Ok(read) = tokio::time::timeout(GREETING_TIMEOUT, stream.read_line(&mut line)).await
        {
            read?;
            if let Ok(greeting) = serde_json::from_str(&line) {
                return Ok(Some(Self { stream, greeting }));
            }
        }
        end(stream.get_ref()).await.map(|()| None)
    }

    /// The identity of the process.
    pub fn identity(&self) -> &DnsProcessIdentity {
        &self.greeting.identity
    }

    /// Sends one update.
    ///
    /// # Errors
    /// When the process has ended.
    pub async fn send(&mut self, update: DnsUpdate) -> io::Result<()> {
        self.send_message(&EngineMessage::Update(update)).await
    }

    /// Says that the snapshot is complete.
    ///
    /// # Errors
    /// When the process has ended.
    pub async fn synced(&mut self) -> io::Result<()> {
        self.send_message(&EngineMessage::Synced).await
    }

    async fn send_message(&mut self, message: &EngineMessage) -> io::Result<()> {
        self.stream.write_all(&line_of(message)?).await
    }

    /// Resolves when the process has exited, or follows another engine.
    pub async fn closed(&self) {
        let stream = self.stream.get_ref();
        while stream.readable().await.is_ok() {
            // The process sends nothing after its greeting, so this reads the end or would block.
            match stream.try_read(&mut [0]) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Ok(_) | Err(_) => return,
            }
        }
    }

    /// Replaces the process by a server with these settings, which takes its sockets if it listens
    /// at the same address.
    ///
    /// # Errors
    /// When the process cannot be killed, or the address cannot be bound.
    pub async fn take_over(mut self, settings: DnsSettings) -> Result<DnsServer, NetError> {
        let before = &self.identity().settings;
        let same_address = before.zone.server == settings.zone.server;
        let address = settings.zone.server;
        let failed = |source| NetError::Dns { address: (address, PORT).into(), source };
        let stream = self.stream.get_ref();
        let sockets = match same_address {
            true => sockets_of(stream, self.greeting.sockets).unwrap_or_else(|error| {
                // before Linux 5.6
                tracing::info!(%error, "failed to take over the sockets of cluster DNS: questions are refused for a moment");
                None
            }),
            false => None,
        };
        let exited = async {
            self.send_message(&EngineMessage::HandOver).await?;
            self.closed().await;
            io::Result::Ok(())
        };
        // killed below if it does not exit
        drop(tokio::time::timeout(HANDOVER_TIMEOUT, exited).await);
        end(self.stream.get_ref()).await.map_err(failed)?;
        match sockets {
            Some([udp, tcp]) => DnsServer::with_sockets(udp, tcp, settings).map_err(failed),
            None => DnsServer::open(settings).await,
        }
    }

    /// Kills the process and waits for its exit.
    ///
    /// # Errors
    /// When it cannot be killed.
    pub async fn end_process(self) -> io::Result<()> {
        end(self.stream.get_ref()).await
    }
}

/// A handle of the process at the other end; `None` if it has exited.
fn process_of(stream: &UnixStream) -> io::Result<Option<OwnedFd>> {
    let process = match pidfd_open(sockopt::socket_peercred(stream)?.pid, PidfdFlags::empty()) {
        Err(rustix::io::Errno::SRCH) => return Ok(None),
        process => process?,
    };
    // The connection still stands, so the kernel has not reused the pid for another process.
    let mut byte = [0_u8; 1];
    match recv(stream, &mut byte, RecvFlags::PEEK | RecvFlags::DONTWAIT) {
        Err(rustix::io::Errno::AGAIN) => Ok(Some(process)),
        Ok((_, 0)) | Err(rustix::io::Errno::CONNRESET) => Ok(None),
        Ok(_) => Ok(Some(process)),
        Err(error) => Err(error.into()),
    }
}

/// Duplicates the sockets of the process at the other end.
fn sockets_of(stream: &UnixStream, numbers: [RawFd; 2]) -> io::Result<Option<[OwnedFd; 2]>> {
    let Some(process) = process_of(stream)? else { return Ok(None) };
    let [udp, tcp] = numbers.map(|number| pidfd_getfd(&process, number, PidfdGetfdFlags::empty()));
    Ok(Some([udp?, tcp?]))
}

async fn end(stream: &UnixStream) -> io::Result<()> {
    let Some(process) = process_of(stream)? else { return Ok(()) };
    // It has no state on disk.
    match pidfd_send_signal(&process, Signal::KILL) {
        Ok(()) | Err(rustix::io::Errno::SRCH) => {}
        Err(error) => return Err(error.into()),
    }
    #[expect(
        deprecated,
        reason = "unsound only for types whose descriptor changes, which an OwnedFd's cannot; the new way is unsafe"
    )]
    let process = AsyncFd::new(process)?;
    process.readable().await.map(drop)
}
