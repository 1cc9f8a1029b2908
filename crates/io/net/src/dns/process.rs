//! Cluster DNS as a process of its own, which outlives the engine as shims do: names resolve while
//! no engine runs.
//!
//! ```text
//!  engine ── connects ──────────────────────────────► unix socket of the process
//!         ◄── {"program":…,"settings":…,"sockets":…} ── who it is
//!         ── {"update":{"service":[…]}} … "listed" ──► what is known; then each change
//! ```
//! One line of JSON is one message. The process answers nothing before an engine has said all that
//! there is, once; from then on it answers from what it was told last. A process that takes the
//! place of another one, of an earlier version of the program, takes its sockets too, and has it
//! end between two questions: no question is lost. One that the node's resolvers are being asked is
//! asked again by the pod.

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

/// How long a process may take to say who it is. One that takes longer hangs.
const GREETING_MAX: Duration = Duration::from_secs(2);
/// How long one may take to end when another takes its place.
const RETIRED_AFTER: Duration = Duration::from_secs(1);

/// What a process says of itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DnsProcessIdentity {
    /// Tells one version of the program from another.
    pub program: String,
    /// What it serves.
    pub settings: DnsSettings,
}

/// The first line of a connection.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Greeting {
    #[serde(flatten)]
    identity: DnsProcessIdentity,
    /// The numbers of its UDP and its TCP socket, in its own table of files.
    sockets: [RawFd; 2],
}

/// What an engine says.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
enum EngineMessage {
    Update(DnsUpdate),
    /// All that there is has been said.
    Listed,
    /// Another process has the sockets now.
    Retire,
}

/// Serves what engines say, one at a time: the last to connect. Ends when another process takes its
/// place.
///
/// # Errors
/// When connections cannot be taken.
pub async fn serve_process(
    server: DnsServer,
    program: String,
    listener: UnixListener,
) -> io::Result<()> {
    let identity = DnsProcessIdentity { program, settings: server.settings().clone() };
    let greeting = line_of(&Greeting { identity, sockets: server.socket_numbers() })?;
    let view = SharedView::default();
    let (listed, when_listed) = oneshot::channel();
    let serving = async {
        match when_listed.await {
            Ok(()) => server.serve(view.clone()).await,
            // The other side ends, which ends the process.
            Err(_) => std::future::pending().await,
        }
    };
    // What is dropped waits for a question: one of the cluster's names is answered as it is read.
    tokio::select! {
        ended = follow_engines(&listener, &greeting, &view, listed) => ended,
        () = serving => Err(io::Error::other("the DNS server ended")),
    }
}

async fn follow_engines(
    listener: &UnixListener,
    greeting: &[u8],
    view: &SharedView,
    listed: oneshot::Sender<()>,
) -> io::Result<()> {
    let mut engine: Option<Lines<BufReader<UnixStream>>> = None;
    let mut listed = Some(listed);
    loop {
        let message = tokio::select! {
            accepted = listener.accept() => {
                let (mut stream, _) = accepted?;
                // What cannot be written ends the connection, and reading shows it.
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
            Ok(Some(EngineMessage::Listed)) => {
                if let Some(listed) = listed.take() {
                    let _serving = listed.send(());
                }
            }
            Ok(Some(EngineMessage::Retire)) => return Ok(()),
            Ok(None) => engine = None,
            Err(error) => {
                tracing::warn!(%error, "failed to read what the engine says of names");
                engine = None;
            }
        }
    }
}

/// The next message of the engine; waits for ever while there is none.
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

/// A connection to the process that serves names.
#[derive(Debug)]
pub struct DnsLine {
    stream: BufReader<UnixStream>,
    greeting: Greeting,
}

impl DnsLine {
    /// Connects to the process that listens there; `None` when none does. One that hangs, or whose
    /// greeting is that of another version, is ended.
    ///
    /// # Errors
    /// When it cannot be reached, or cannot be ended.
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
        if let Ok(read) = tokio::time::timeout(GREETING_MAX, stream.read_line(&mut line)).await {
            read?;
            if let Ok(greeting) = serde_json::from_str(&line) {
                return Ok(Some(Self { stream, greeting }));
            }
        }
        end(stream.get_ref()).await.map(|()| None)
    }

    /// Who listens.
    pub fn identity(&self) -> &DnsProcessIdentity {
        &self.greeting.identity
    }

    /// Says one thing.
    ///
    /// # Errors
    /// When the process has ended.
    pub async fn send(&mut self, update: DnsUpdate) -> io::Result<()> {
        self.say(&EngineMessage::Update(update)).await
    }

    /// Says that all that there is has been said.
    ///
    /// # Errors
    /// When the process has ended.
    pub async fn listed(&mut self) -> io::Result<()> {
        self.say(&EngineMessage::Listed).await
    }

    async fn say(&mut self, message: &EngineMessage) -> io::Result<()> {
        self.stream.write_all(&line_of(message)?).await
    }

    /// Resolves when the process has ended, or takes another engine's word.
    pub async fn closed(&self) {
        let stream = self.stream.get_ref();
        while stream.readable().await.is_ok() {
            // It says nothing after its greeting: there is an end to read, or nothing yet.
            match stream.try_read(&mut [0]) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Ok(_) | Err(_) => return,
            }
        }
    }

    /// Takes the place of the process: a server with these settings, on its sockets if it listens
    /// at the same address.
    ///
    /// # Errors
    /// When it cannot be ended, or the address cannot be listened at.
    pub async fn take_over(mut self, settings: DnsSettings) -> Result<DnsServer, NetError> {
        let before = &self.identity().settings;
        let same_address = before.zone.server == settings.zone.server;
        let address = settings.zone.server;
        let failed = |source| NetError::Dns { address: (address, PORT).into(), source };
        let stream = self.stream.get_ref();
        let sockets = match same_address {
            true => sockets_of(stream, self.greeting.sockets).unwrap_or_else(|error| {
                // before Linux 5.6
                tracing::info!(%error, "the sockets of the process before cannot be had: questions of this moment are refused");
                None
            }),
            false => None,
        };
        let retired = async {
            self.say(&EngineMessage::Retire).await?;
            self.closed().await;
            io::Result::Ok(())
        };
        // one that does not end by itself is ended
        drop(tokio::time::timeout(RETIRED_AFTER, retired).await);
        end(self.stream.get_ref()).await.map_err(failed)?;
        match sockets {
            Some([udp, tcp]) => DnsServer::with_sockets(udp, tcp, settings).map_err(failed),
            None => DnsServer::open(settings).await,
        }
    }

    /// Ends the process, and waits until it has ended.
    ///
    /// # Errors
    /// When it cannot be ended.
    pub async fn end_process(self) -> io::Result<()> {
        end(self.stream.get_ref()).await
    }
}

/// The process at the other end, by a handle that means no other; `None` when it has ended.
fn process_of(stream: &UnixStream) -> io::Result<Option<OwnedFd>> {
    let process = match pidfd_open(sockopt::socket_peercred(stream)?.pid, PidfdFlags::empty()) {
        Err(rustix::io::Errno::SRCH) => return Ok(None),
        process => process?,
    };
    // Only now: while the connection stands, the number has not become another process's.
    let mut byte = [0_u8; 1];
    match recv(stream, &mut byte, RecvFlags::PEEK | RecvFlags::DONTWAIT) {
        Err(rustix::io::Errno::AGAIN) => Ok(Some(process)),
        Ok((_, 0)) | Err(rustix::io::Errno::CONNRESET) => Ok(None),
        Ok(_) => Ok(Some(process)),
        Err(error) => Err(error.into()),
    }
}

/// The sockets of the process at the other end, as files of this one.
fn sockets_of(stream: &UnixStream, numbers: [RawFd; 2]) -> io::Result<Option<[OwnedFd; 2]>> {
    let Some(process) = process_of(stream)? else { return Ok(None) };
    let [udp, tcp] = numbers.map(|number| pidfd_getfd(&process, number, PidfdGetfdFlags::empty()));
    Ok(Some([udp?, tcp?]))
}

async fn end(stream: &UnixStream) -> io::Result<()> {
    let Some(process) = process_of(stream)? else { return Ok(()) };
    // It keeps nothing that an end could damage.
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
