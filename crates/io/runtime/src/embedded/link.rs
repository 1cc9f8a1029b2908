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
    ExecPlan, ExitCause, ExitRecord, ShimAnswer, ShimCall, ShimFailure, ShimMessage, ShimRequest,
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
    Refused(ShimFailure),
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
pub(crate) trait LinkReceiver: Send + Sync + 'static {
    /// A container ended.
    fn exited(&self, slot: &str, exit: &ExitRecord);
    /// A start was answered.
    fn started(&self, slot: &str, answer: &Result<ShimAnswer, ShimFailure>);
    /// The socket closed: no more will come.
    fn closed(&self);
}

/// Descriptors that go with one call.
const FILES_MAX: usize = 4;

struct OutgoingCall {
    request: ShimRequest,
    files: Vec<OwnedFd>,
    /// Who waits for the end of a command, and its number.
    ended: Option<(u64, oneshot::Sender<ExitCause>)>,
    reply: oneshot::Sender<Result<ShimAnswer, ShimFailure>>,
}

/// A handle to a shim; cheap to clone.
#[derive(Clone)]
pub(crate) struct ShimLink {
    calls: mpsc::UnboundedSender<OutgoingCall>,
}

struct PendingCall {
    reply: oneshot::Sender<Result<ShimAnswer, ShimFailure>>,
    /// The container, when the call was a start.
    start_of: Option<String>,
    /// The command's number, when the call was to run one.
    command: Option<u64>,
}

impl ShimLink {
    /// Takes a connected socket over.
    pub(crate) fn spawn(
        socket: std::os::unix::net::UnixStream,
        receiver: impl LinkReceiver,
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
    pub(crate) async fn call(&self, request: ShimRequest) -> Result<ShimAnswer, CallError> {
        self.call_with(request, Vec::new()).await
    }

    /// The same with descriptors that go along.
    pub(crate) async fn call_with(
        &self,
        request: ShimRequest,
        files: Vec<OwnedFd>,
    ) -> Result<ShimAnswer, CallError> {
        self.ask_with(request, files)?.given().await
    }

    /// The same, and waits no longer than this.
    pub(crate) async fn call_within(
        &self,
        request: ShimRequest,
        time: Duration,
    ) -> Result<ShimAnswer, CallError> {
        self.ask(request)?.within(time).await
    }

    /// Asks, and leaves the answer for later: what is asked next comes after it.
    pub(crate) fn ask(&self, request: ShimRequest) -> Result<AwaitedAnswer, CallError> {
        self.ask_with(request, Vec::new())
    }

    fn ask_with(
        &self,
        request: ShimRequest,
        files: Vec<OwnedFd>,
    ) -> Result<AwaitedAnswer, CallError> {
        let (reply, answer) = oneshot::channel();
        let outgoing = OutgoingCall { request, files, ended: None, reply };
        self.calls.send(outgoing).map_err(|_| CallError::Gone)?;
        Ok(AwaitedAnswer(answer))
    }

    /// Runs a command in a container. Answers when its exec succeeded; a caller that goes away
    /// before has it killed.
    pub(crate) async fn exec(
        &self,
        plan: ExecPlan,
        files: Vec<OwnedFd>,
    ) -> Result<CommandExecution, CallError> {
        let (reply, answer) = oneshot::channel();
        let (sender, ended) = oneshot::channel();
        let id = plan.id;
        let request = ShimRequest::Exec(Box::new(plan));
        let outgoing = OutgoingCall { request, files, ended: Some((id, sender)), reply };
        self.calls.send(outgoing).map_err(|_| CallError::Gone)?;
        let execution = CommandExecution { id, link: self.clone(), ended: Some(ended) };
        AwaitedAnswer(answer).given().await?;
        Ok(execution)
    }
}

/// An answer to come.
pub(crate) struct AwaitedAnswer(oneshot::Receiver<Result<ShimAnswer, ShimFailure>>);

impl AwaitedAnswer {
    /// Whether it is here by then, whatever it is. One that is not may still come.
    pub(crate) async fn is_given_within(&mut self, time: Duration) -> bool {
        tokio::time::timeout(time, &mut self.0).await.is_ok()
    }

    /// Waits for it.
    pub(crate) async fn given(self) -> Result<ShimAnswer, CallError> {
        self.within(ANSWER_TIME_MAX).await
    }

    async fn within(self, time: Duration) -> Result<ShimAnswer, CallError> {
        let answer = tokio::time::timeout(time, self.0).await;
        let answer = answer.map_err(|_elapsed| CallError::Silent(time))?;
        answer.map_err(|_| CallError::Gone)?.map_err(CallError::Refused)
    }
}

/// A command that runs. Dropped before its end, it is killed.
pub(crate) struct CommandExecution {
    id: u64,
    link: ShimLink,
    /// `None` when the end was seen.
    ended: Option<oneshot::Receiver<ExitCause>>,
}

impl CommandExecution {
    /// Waits for the end. Cancel-safe; once only.
    pub(crate) async fn ended(&mut self) -> Result<ExitCause, CallError> {
        let Some(ended) = &mut self.ended else { return Err(CallError::Gone) };
        let cause = ended.await.map_err(|_| CallError::Gone);
        self.ended = None;
        cause
    }
}

impl Drop for CommandExecution {
    fn drop(&mut self) {
        if self.ended.is_some() {
            let (reply, _) = oneshot::channel();
            let request = ShimRequest::KillExec { id: self.id };
            // A shim that is gone has taken the command with it.
            let _ = self.link.calls.send(OutgoingCall {
                request,
                files: Vec::new(),
                ended: None,
                reply,
            });
        }
    }
}

async fn serve(
    mut socket: UnixStream,
    mut incoming: mpsc::UnboundedReceiver<OutgoingCall>,
    receiver: &impl LinkReceiver,
) -> io::Result<()> {
    let mut pending: BTreeMap<u64, PendingCall> = BTreeMap::new();
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
                let Some(OutgoingCall { request, files, ended, reply }) = outgoing else { return Ok(()) };
                let start_of = match &request {
                    ShimRequest::Start { slot } => Some(slot.clone()),
                    ShimRequest::Configure(_)
                    | ShimRequest::Claim(_)
                    | ShimRequest::Create(_)
                    | ShimRequest::MakeRoot(_)
                    | ShimRequest::Signal { .. }
                    | ShimRequest::Remove { .. }
                    | ShimRequest::Exec(_)
                    | ShimRequest::KillExec { .. }
                    | ShimRequest::Attach(_)
                    | ShimRequest::State
                    | ShimRequest::Shutdown => None,
                };
                // its own buffer for each call: an idle pod keeps none
                let mut output = Vec::new();
                frame::write(&ShimCall { seq: next_seq, request }, &mut output)
                    .map_err(io::Error::other)?;
                let command = ended.as_ref().map(|(id, _)| *id);
                pending.insert(next_seq, PendingCall { reply, start_of, command });
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
    message: ShimMessage,
    pending: &mut BTreeMap<u64, PendingCall>,
    commands: &mut BTreeMap<u64, oneshot::Sender<ExitCause>>,
    receiver: &impl LinkReceiver,
) {
    match message {
        ShimMessage::Exited { slot, exit } => receiver.exited(&slot, &exit),
        ShimMessage::ExecEnded { id, cause } => {
            if let Some(waiting) = commands.remove(&id) {
                // A caller that went away wants no answer.
                let _ = waiting.send(cause);
            }
        }
        ShimMessage::Answer { seq, result } => {
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
