//! Being in touch with shims: following what one says, finding one that runs, and finding it again
//! when its socket closed.
//!
//! Whoever makes a link a sandbox's own holds the sandbox's gate meanwhile, and so does whoever
//! mends one that failed. So a link that fails in the very moment in which it is taken is noticed
//! all the same: its mender waits until it is in its place.

use std::io;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Weak};
use std::time::Duration;

use rekindle_shim::protocol::{ExitRecord, ShimAnswer, ShimFailure, ShimRequest, ShimState};

use super::link::{CallError, LinkReceiver, ShimLink};
use super::sandbox::{EmbeddedSandbox, MessageTarget};
use super::shim_process::ShimSocket;
use super::{SharedRuntime, blocking, janitor};

/// A shim that does not answer in this time is stopped or stuck.
const ANSWER_TIME: Duration = Duration::from_secs(5);
/// How often a shim that lives is dialled before it is given up. It serves one agent, the newest:
/// one that is on its way out can take it over once more.
const DIALS_MAX: u32 = 3;

/// Keeps a sandbox in step with its shim's socket.
struct ShimFollower {
    target: MessageTarget,
    /// Called when the socket closed.
    on_closed: Box<dyn Fn(Arc<EmbeddedSandbox>) + Send + Sync>,
}

impl LinkReceiver for ShimFollower {
    fn exited(&self, slot: &str, exit: &ExitRecord) {
        if let Some(sandbox) = self.target.get() {
            sandbox.note_exit(slot, exit);
        }
    }

    fn started(&self, slot: &str, answer: &Result<ShimAnswer, ShimFailure>) {
        if let Some(sandbox) = self.target.get() {
            sandbox.note_started(slot, answer);
        }
    }

    fn closed(&self) {
        if let Some(sandbox) = self.target.get() {
            (self.on_closed)(sandbox);
        }
    }
}

/// Keeps a sandbox in step with what its shim says over this socket.
pub(crate) fn follow(
    shared: &Arc<SharedRuntime>,
    target: MessageTarget,
    socket: UnixStream,
) -> io::Result<ShimLink> {
    let weak: Weak<SharedRuntime> = Arc::downgrade(shared);
    let on_closed = Box::new(move |sandbox: Arc<EmbeddedSandbox>| {
        if let Some(shared) = weak.upgrade() {
            tokio::spawn(async move { lost_touch(&shared, &sandbox).await });
        }
    });
    ShimLink::spawn(socket, ShimFollower { target, on_closed })
}

/// Connects to a sandbox's shim, and asks what it holds; `None` when there is no shim, or none that
/// answers. Its caller holds the sandbox's gate.
pub(crate) async fn dial(
    shared: &Arc<SharedRuntime>,
    sandbox: &Arc<EmbeddedSandbox>,
) -> Option<(ShimLink, ShimState)> {
    for _ in 0..DIALS_MAX {
        let socket = ShimSocket { run: shared.layout.run(), name: &sandbox.id }.connect().ok()?;
        let link = follow(shared, sandbox.into(), socket).ok()?;
        match ask(&link, ShimRequest::State).await {
            Ok(ShimAnswer::State(state)) => return Some((link, state)),
            // It was there just now: if it has died, there is nobody to connect to the next time.
            Err(CallError::Gone) => {}
            Ok(ShimAnswer::Done | ShimAnswer::Created(_) | ShimAnswer::Started { .. })
            | Err(CallError::Refused(_)) => return None,
            Err(CallError::Silent(_)) => {
                let pod = &sandbox.key.pod;
                tracing::warn!(%pod, "lost a shim that does not answer; its sandbox counts as dead");
                return None;
            }
        }
    }
    None
}

/// Asks a shim that may be stuck for what it does at once.
pub(crate) async fn ask(link: &ShimLink, request: ShimRequest) -> Result<ShimAnswer, CallError> {
    link.call_within(request, ANSWER_TIME).await
}

/// The same, of what has to be. A shim that does not answer is dialled anew, and when it is silent
/// then, too, its sandbox is taken for dead and all in it is killed: nobody could end it otherwise.
pub(crate) async fn insist(
    shared: &Arc<SharedRuntime>,
    sandbox: &Arc<EmbeddedSandbox>,
    link: &ShimLink,
    request: ShimRequest,
) -> Result<ShimAnswer, CallError> {
    let answer = ask(link, request).await;
    if let Err(CallError::Silent(_)) = answer {
        give_up_silent(shared, sandbox, link).await;
        if sandbox.link().is_none() {
            return Err(CallError::Gone);
        }
    }
    answer
}

/// A shim did not answer over this link: it is dialled anew. When it is silent then, too, its
/// sandbox is taken for dead, and it is killed: it would go on as a stranger.
pub(crate) async fn give_up_silent(
    shared: &Arc<SharedRuntime>,
    sandbox: &Arc<EmbeddedSandbox>,
    link: &ShimLink,
) {
    let _gate = sandbox.gate.lock().await;
    if !sandbox.link().is_some_and(|now| now.is_same(link)) {
        return; // somebody else did it meanwhile
    }
    // while its socket is open: so the number is still its own
    let shim = sandbox.info().and_then(|info| janitor::open_shim(info.pid));
    dial_again(shared, sandbox).await;
    if let (Some(shim), None) = (shim, sandbox.link()) {
        janitor::kill_shim(&shim);
    }
}

/// A socket closed: the shim died, or dropped an agent that was too slow for it, or the sandbox has
/// another link already.
async fn lost_touch(shared: &Arc<SharedRuntime>, sandbox: &Arc<EmbeddedSandbox>) {
    let _gate = sandbox.gate.lock().await;
    if sandbox.is_out_of_touch() {
        dial_again(shared, sandbox).await;
    }
}

/// Finds the shim again, or takes the sandbox for dead. Its caller holds the sandbox's gate.
async fn dial_again(shared: &Arc<SharedRuntime>, sandbox: &Arc<EmbeddedSandbox>) {
    if let Some((link, state)) = dial(shared, sandbox).await {
        sandbox.relink(link);
        sandbox.catch_up(&state.containers);
        return;
    }
    let (owned, key) = (shared.clone(), sandbox.key.clone());
    let killed = blocking(move || owned.cgroups.kill_sandbox(&key)).await;
    if let Err(error) = killed {
        tracing::warn!(%error, pod = %sandbox.key.pod, "failed to kill what a dead shim left");
    }
    sandbox.note_death(shared.now());
}
