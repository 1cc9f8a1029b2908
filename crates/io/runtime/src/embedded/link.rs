//! The agent's end of a shim's socket: calls out, answers and exits in.
//!
//! One task owns the socket. A caller that is cancelled leaves a whole frame behind, never half of
//! one.

use std::collections::BTreeMap;
use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use rekindle_shim::frame;
use rekindle_shim::protocol::{
    Answer, Call, ExecPlan, ExitCause, ExitRecord, Failure, Message, Request,
};
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags};
use tokio::io::{AsyncReadExt, Interest};
use tokio::net::UnixStream;
use tokio::sync::{mpsc, oneshot};

/// Why a call has no answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CallError {
    /// The shim said no.
    #[error("{}", .0.problem)]
    Refused(Failure),
    /// The shim is gone, or is taken for dead.
    #[error("the sandbox's shim is gone")]
    Gone,
    /// It has not answered in this time, and may still do what it was asked for.
    #[error("the sandbox's shim has not answered for {} s", .0.as_secs())]
    Silent(Duration),
}

/// The longest that anybody waits for an answer; the kubelet's own limit for a call to its runtime
/// (`runtimeRequestTimeout`).
const ANSWER_TIME_MAX: Duration = Duration::from_secs(120);

/// What the owner of a link does about what comes in. Called in the order of the socket, before any
/// caller goes on.
pub(crate) trait Receiver: Send + Sync + 'static {
    /// A container ended.
    fn exited(&self, slot: &str, exit: &ExitRecord);
    /// A start was answered.
    fn started(&self, slot: &str, answer: &Result<Answer, Failure>);
    /// The socket closed: no more will come.
    fn closed(&self);
}

/// Descriptors that go with one call.
const FILES_MAX: usize = 4;

struct Outgoing {
    request: Request,
    files: Vec<OwnedFd>,
    /// Who waits for the end of a command, and its number.
    ended: Option<(u64, oneshot::Sender<ExitCause>)>,
    reply: oneshot::Sender<Result<Answer, Failure>>,
}

/// A handle to a shim; cheap to clone.
#[derive(Clone)]
pub(crate) struct Link {
    calls: mpsc::UnboundedSender<Outgoing>,
}

struct Pending {
    reply: oneshot::Sender<Result<Answer, Failure>>,
    /// The container, when the call was a start.
    start_of: Option<String>,
    /// The command's number, when the call was to run one.
    command: Option<u64>,
}

impl Link {
    /// Takes a connected socket over.
    pub(crate) fn spawn(
        socket: std::os::unix::net::UnixStream,
        receiver: impl Receiver,
    ) -> io::Result<Self> {
        socket.set_nonblocking(true)?;
        let socket = UnixStream::from_std(socket)?;
        let (calls, incoming) = mpsc::unbounded_channel();
        tokio::spawn(async move {
            if let Err(error) = serve(socket, incoming, &receiver).await {
                tracing::debug!(%error, "a shim's socket failed");
            }
            receiver.closed();
        });
        Ok(Self { calls })
    }

    /// True when the socket has closed. It is so before the receiver is told.
    pub(crate) fn is_closed(&self) -> bool {
        self.calls.is_closed()
    }

    /// Whether both are one.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        self.calls.same_channel(&other.calls)
    }

    /// Asks, and waits for the answer.
    pub(crate) async fn call(&self, request: Request) -> Result<Answer, CallError> {
        self.call_with(request, Vec::new()).await
    }

    /// The same with descriptors that go along.
    pub(crate) async fn call_with(
        &self,
        request: Request,
        files: Vec<OwnedFd>,
    ) -> Result<Answer, CallError> {
        self.ask_with(request, files)?.given().await
    }

    /// The same, and waits no longer than this.
    pub(crate) async fn call_within(
        &self,
        request: Request,
        time: Duration,
    ) -> Result<Answer, CallError> {
        self.ask(request)?.within(time).await
    }

    /// Asks, and leaves the answer for later: what is asked next comes after it.
    pub(crate) fn ask(&self, request: Request) -> Result<Awaited, CallError> {
        self.ask_with(request, Vec::new())
    }

    fn ask_with(&self, request: Request, files: Vec<OwnedFd>) -> Result<Awaited, CallError> {
        let (reply, answer) = oneshot::channel();
        let outgoing = Outgoing { request, files, ended: None, reply };
        self.calls.send(outgoing).map_err(|_| CallError::Gone)?;
        Ok(Awaited(answer))
    }

    /// Runs a command in a container. Answers when its exec succeeded; a caller that goes away
    /// before has it killed.
    pub(crate) async fn exec(
        &self,
        plan: ExecPlan,
        files: Vec<OwnedFd>,
    ) -> Result<Execution, CallError> {
        let (reply, answer) = oneshot::channel();
        let (sender, ended) = oneshot::channel();
        let id = plan.id;
        let request = Request::Exec(Box::new(plan));
        let outgoing = Outgoing { request, files, ended: Some((id, sender)), reply };
        self.calls.send(outgoing).map_err(|_| CallError::Gone)?;
        let execution = Execution { id, link: self.clone(), ended: Some(ended) };
        Awaited(answer).given().await?;
        Ok(execution)
    }
}

/// An answer to come.
pub(crate) struct Awaited(oneshot::Receiver<Result<Answer, Failure>>);

impl Awaited {
    /// Whether it is here by then, whatever it is. One that is not may still come.
    pub(crate) async fn is_given_within(&mut self, time: Duration) -> bool {
        tokio::time::timeout(time, &mut self.0).await.is_ok()
    }

    /// Waits for it.
    pub(crate) async fn given(self) -> Result<Answer, CallError> {
        self.within(ANSWER_TIME_MAX).await
    }

    async fn within(self, time: Duration) -> Result<Answer, CallError> {
        let answer = tokio::time::timeout(time, self.0).await;
        let answer = answer.map_err(|_elapsed| CallError::Silent(time))?;
        answer.map_err(|_| CallError::Gone)?.map_err(CallError::Refused)
    }
}

/// A command that runs. Dropped before its end, it is killed.
pub(crate) struct Execution {
    id: u64,
    link: Link,
    /// `None` when the end was seen.
    ended: Option<oneshot::Receiver<ExitCause>>,
}

impl Execution {
    /// Waits for the end. Cancel-safe; once only.
    pub(crate) async fn ended(&mut self) -> Result<ExitCause, CallError> {
        let Some(ended) = &mut self.ended else { return Err(CallError::Gone) };
        let cause = ended.await.map_err(|_| CallError::Gone);
        self.ended = None;
        cause
    }
}

impl Drop for Execution {
    fn drop(&mut self) {
        if self.ended.is_some() {
            let (reply, _) = oneshot::channel();
            let request = Request::KillExec { id: self.id };
            // A shim that is gone has taken the command with it.
            let _ =
                self.link.calls.send(Outgoing { request, files: Vec::new(), ended: None, reply });
        }
    }
}

async fn serve(
    mut socket: UnixStream,
    mut incoming: mpsc::UnboundedReceiver<Outgoing>,
    receiver: &impl Receiver,
) -> io::Result<()> {
    let mut pending: BTreeMap<u64, Pending> = BTreeMap::new();
    let mut commands = BTreeMap::new();
    let mut next_seq = 0;
    let mut input = Vec::new();
    loop {
        tokio::select! {
            read = socket.read_buf(&mut input) => {
                if read? == 0 {
                    return Ok(());
                }
                while let Some(message) = frame::take(&mut input).map_err(io::Error::other)? {
                    deliver(message, &mut pending, &mut commands, receiver);
                }
                if input.is_empty() {
                    input = Vec::new();
                }
            }
            outgoing = incoming.recv() => {
                let Some(Outgoing { request, files, ended, reply }) = outgoing else { return Ok(()) };
                let start_of = match &request {
                    Request::Start { slot } => Some(slot.clone()),
                    Request::Configure(_)
                    | Request::Claim(_)
                    | Request::Create(_)
                    | Request::MakeRoot(_)
                    | Request::Signal { .. }
                    | Request::Remove { .. }
                    | Request::Exec(_)
                    | Request::KillExec { .. }
                    | Request::Attach(_)
                    | Request::State
                    | Request::Shutdown => None,
                };
                // its own buffer for each call: an idle pod keeps none
                let mut output = Vec::new();
                frame::write(&Call { seq: next_seq, request }, &mut output)
                    .map_err(io::Error::other)?;
                let command = ended.as_ref().map(|(id, _)| *id);
                pending.insert(next_seq, Pending { reply, start_of, command });
                commands.extend(ended);
                next_seq += 1;
                // The shim never blocks on its own writing, so this ends without reading meanwhile.
                send(&socket, &output, files).await?;
            }
        }
    }
}

/// Sends all of `bytes`; the descriptors go with the first of them.
async fn send(socket: &UnixStream, mut bytes: &[u8], mut files: Vec<OwnedFd>) -> io::Result<()> {
    while !bytes.is_empty() {
        socket.writable().await?;
        let sent = socket.try_io(Interest::WRITABLE, || {
            let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(FILES_MAX))];
            let mut control = SendAncillaryBuffer::new(&mut space);
            let passed: Vec<_> = files.iter().map(AsFd::as_fd).collect();
            if !passed.is_empty() && !control.push(SendAncillaryMessage::ScmRights(&passed)) {
                return Err(io::Error::other("more descriptors than fit a call"));
            }
            let slices = [IoSlice::new(bytes)];
            Ok(rustix::net::sendmsg(socket, &slices, &mut control, SendFlags::NOSIGNAL)?)
        });
        match sent {
            Ok(count) => {
                bytes = &bytes[count..];
                files.clear();
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

fn deliver(
    message: Message,
    pending: &mut BTreeMap<u64, Pending>,
    commands: &mut BTreeMap<u64, oneshot::Sender<ExitCause>>,
    receiver: &impl Receiver,
) {
    match message {
        Message::Exited { slot, exit } => receiver.exited(&slot, &exit),
        Message::ExecEnded { id, cause } => {
            if let Some(waiting) = commands.remove(&id) {
                // A caller that went away wants no answer.
                let _ = waiting.send(cause);
            }
        }
        Message::Answer { seq, result } => {
            let Some(call) = pending.remove(&seq) else { return };
            if let (Some(command), Err(_)) = (call.command, &result) {
                commands.remove(&command);
            }
            if let Some(slot) = &call.start_of {
                receiver.started(slot, &result);
            }
            // A caller that went away wants no answer.
            let _ = call.reply.send(result);
        }
    }
}
