//! The agent's end of a shim's socket: calls out, answers and exits in.
//!
//! One task owns the socket. A caller that is cancelled leaves a whole frame behind, never half of one.

use std::collections::BTreeMap;
use std::io;

use rekindle_shim::frame;
use rekindle_shim::protocol::{Answer, Call, ExitRecord, Failure, Message, Request};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::sync::{mpsc, oneshot};

/// Why a call has no answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CallError {
    /// The shim said no.
    #[error("{}", .0.problem)]
    Refused(Failure),
    /// The shim is gone, or does not answer.
    #[error("the sandbox's shim is gone")]
    Gone,
}

/// What the owner of a link does about what comes in. Called in the order of the socket, before any caller goes on.
pub(crate) trait Receiver: Send + Sync + 'static {
    /// A container ended.
    fn exited(&self, slot: &str, exit: &ExitRecord);
    /// A start was answered.
    fn started(&self, slot: &str, answer: &Result<Answer, Failure>);
    /// The socket closed: no more will come.
    fn closed(&self);
}

struct Outgoing {
    request: Request,
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

    /// Asks, and waits for the answer.
    pub(crate) async fn call(&self, request: Request) -> Result<Answer, CallError> {
        let (reply, answer) = oneshot::channel();
        self.calls.send(Outgoing { request, reply }).map_err(|_| CallError::Gone)?;
        answer.await.map_err(|_| CallError::Gone)?.map_err(CallError::Refused)
    }
}

async fn serve(
    mut socket: UnixStream,
    mut incoming: mpsc::UnboundedReceiver<Outgoing>,
    receiver: &impl Receiver,
) -> io::Result<()> {
    let mut pending: BTreeMap<u64, Pending> = BTreeMap::new();
    let mut next_seq = 0;
    let mut input = Vec::new();
    loop {
        tokio::select! {
            read = socket.read_buf(&mut input) => {
                if read? == 0 {
                    return Ok(());
                }
                while let Some(message) = frame::take(&mut input).map_err(io::Error::other)? {
                    deliver(message, &mut pending, receiver);
                }
                if input.is_empty() {
                    input = Vec::new();
                }
            }
            outgoing = incoming.recv() => {
                let Some(Outgoing { request, reply }) = outgoing else { return Ok(()) };
                let start_of = match &request {
                    Request::Start { slot } => Some(slot.clone()),
                    Request::Configure(_)
                    | Request::Claim(_)
                    | Request::Create(_)
                    | Request::Signal { .. }
                    | Request::Remove { .. }
                    | Request::State
                    | Request::Shutdown => None,
                };
                // its own buffer for each call: an idle pod keeps none
                let mut output = Vec::new();
                frame::write(&Call { seq: next_seq, request }, &mut output)
                    .map_err(io::Error::other)?;
                pending.insert(next_seq, Pending { reply, start_of });
                next_seq += 1;
                // The shim never blocks on its own writing, so this ends without reading meanwhile.
                socket.write_all(&output).await?;
            }
        }
    }
}

fn deliver(message: Message, pending: &mut BTreeMap<u64, Pending>, receiver: &impl Receiver) {
    match message {
        Message::Exited { slot, exit } => receiver.exited(&slot, &exit),
        Message::Answer { seq, result } => {
            let Some(call) = pending.remove(&seq) else { return };
            if let Some(slot) = &call.start_of {
                receiver.started(slot, &result);
            }
            // A caller that went away wants no answer.
            let _ = call.reply.send(result);
        }
    }
}
