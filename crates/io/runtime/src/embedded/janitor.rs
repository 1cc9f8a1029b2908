//! Taking away what is over, off everybody's path: first it leaves its place by a rename, then it
//! is deleted.

use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags};
use rustix::process::{Pid, PidfdFlags, Signal};

use super::cgroup::CgroupError;
use super::clearing::{ClearingPace, LEISURE, SOON};
use super::sandbox::{EmbeddedSandbox, SandboxLifecycle};
use super::shim_process::ShimSocket;
use super::{SharedRuntime, trash};
use crate::spec::SandboxKey;

/// A cgroup is busy until the kernel has done with its last process: milliseconds. What is busy
/// longer than this is left to the next start of the engine.
const TRIES_MAX: u32 = 12;
const FIRST_WAIT: Duration = Duration::from_millis(1);

/// Makes sure that nothing of a sandbox runs: whatever survived its shim is killed.
pub(crate) fn end_now(shared: &SharedRuntime, sandbox: &EmbeddedSandbox) -> io::Result<()> {
    shared.cgroups.kill_sandbox(&sandbox.key).map_err(io::Error::other)?;
    trash::take(&shared.layout, &sandbox.dir)?;
    ShimSocket { run: shared.layout.run(), name: &sandbox.id }.remove()
}

/// Clears away what is left of a sandbox: shim, cgroups, files. Keeps nobody waiting.
pub(crate) fn retire(shared: &Arc<SharedRuntime>, sandbox: &Arc<EmbeddedSandbox>) {
    let (owned, sandbox) = (shared.clone(), sandbox.clone());
    shared.clearing.begin(move || {
        let shared = owned;
        reap_shim(&sandbox);
        if let Err(error) = end_now(&shared, &sandbox) {
            tracing::warn!(%error, pod = %sandbox.key.pod, "failed to move a sandbox's remains to the trash");
        }
        empty_trash(&shared);
        let (key, held) = (sandbox.key.clone(), Arc::downgrade(&shared));
        shared.clearing.begin_after(LEISURE, move |pace| {
            if let Some(shared) = held.upgrade() {
                remove_cgroups(&shared, &key, pace);
            }
        });
    });
}

/// Deletes what was moved out of the way, when what takes its place has had its turn. An agent that
/// is gone by then leaves it to the next.
fn empty_trash(shared: &Arc<SharedRuntime>) {
    let held = Arc::downgrade(shared);
    shared.clearing.begin_after(SOON, move |_pace| {
        if let Some(shared) = held.upgrade() {
            trash::empty(&shared.layout);
        }
    });
}

/// Takes a sandbox's cgroups away, unless the same attempt is made again meanwhile: then they are
/// its.
fn remove_cgroups(shared: &SharedRuntime, key: &SandboxKey, pace: ClearingPace) {
    match pace {
        ClearingPace::AtLeisure => shared.cgroups.forget_sandbox(key),
        ClearingPace::AtOnce => {}
    }
    let removed = patiently(|| {
        let sandboxes = shared.sandboxes();
        if sandboxes.contains_key(key) { Ok(()) } else { shared.cgroups.remove_sandbox(key) }
    });
    if let Err(error) = removed {
        tracing::warn!(%error, pod = %key.pod, "failed to remove a sandbox's cgroup");
    }
}

/// Ends the shim, should it still be there, and waits for it.
fn reap_shim(sandbox: &EmbeddedSandbox) {
    let (pid, child) = match sandbox.enter(SandboxLifecycle::Going { pid: None, child: None }) {
        SandboxLifecycle::New => return,
        SandboxLifecycle::Ready { pid, child, .. } => (Some(pid), child),
        SandboxLifecycle::Going { pid, child } => (pid, child),
        SandboxLifecycle::Dead { child } => (None, child),
    };
    if let Some(mut child) = child {
        // It has ended by itself after a shutdown; a stopped or stuck one needs this.
        let ended = child.kill().and_then(|()| child.wait());
        if let Err(error) = ended {
            tracing::warn!(%error, pod = %sandbox.key.pod, "failed to reap a shim");
        }
        return;
    }
    // An earlier agent's child. Its number is still its own: it held the socket until just now.
    let Some(pidfd) = pid.and_then(open_shim) else { return };
    if kill_shim(&pidfd) {
        let mut ended = [PollFd::new(&pidfd, PollFlags::IN)];
        // Nobody waits for this thread; an interrupted wait only makes the cgroup busy a little
        // longer.
        let _ = rustix::event::poll(&mut ended, None);
    }
}

/// The process of this number, if it is a shim.
pub(crate) fn open_shim(pid: u32) -> Option<OwnedFd> {
    let pid = Pid::from_raw(pid.cast_signed())?;
    let pidfd = rustix::process::pidfd_open(pid, PidfdFlags::empty()).ok()?;
    let cmdline = fs::read_to_string(format!("/proc/{}/cmdline", pid.as_raw_nonzero()));
    cmdline.is_ok_and(|cmdline| cmdline.starts_with("rekindle-shim")).then_some(pidfd)
}

/// Kills it. False when it has ended by itself.
pub(crate) fn kill_shim(shim: &OwnedFd) -> bool {
    rustix::process::pidfd_send_signal(shim, Signal::KILL).is_ok()
}

/// Clears away one container's root and cgroup.
pub(crate) fn retire_container(
    shared: &Arc<SharedRuntime>,
    sandbox: &Arc<EmbeddedSandbox>,
    slot: &str,
    root: Option<String>,
) {
    retire_root(shared, sandbox, root);
    // An agent that ends is not held up by it: its links have to go for the next one to be told
    // what happens.
    let (held, of, slot) = (Arc::downgrade(shared), Arc::downgrade(sandbox), slot.to_owned());
    shared.clearing.begin_after(LEISURE, move |pace| {
        if let (Some(shared), Some(sandbox)) = (held.upgrade(), of.upgrade()) {
            remove_cgroup(&shared, &sandbox, &slot, pace);
        }
    });
}

/// Clears away the folder of a writable layer, if there is one.
pub(crate) fn retire_root(
    shared: &Arc<SharedRuntime>,
    sandbox: &EmbeddedSandbox,
    root: Option<String>,
) {
    if let Some(root) = root.map(|name| sandbox.roots.dir().join(name))
        && let Err(error) = trash::take(&shared.layout, &root)
    {
        tracing::warn!(%error, path = %root.display(), "failed to move a container's rootfs to the trash");
    }
    empty_trash(shared);
}

/// Takes a container's cgroup away, unless the same start of it is made again meanwhile: then it is
/// its.
fn remove_cgroup(
    shared: &SharedRuntime,
    sandbox: &EmbeddedSandbox,
    slot: &str,
    pace: ClearingPace,
) {
    let gate = sandbox.container_gate(slot);
    let _gate = gate.blocking_lock();
    if sandbox.container(slot, |_| ()).is_some() {
        return;
    }
    match pace {
        ClearingPace::AtLeisure => shared.cgroups.forget_container(&sandbox.key, slot),
        ClearingPace::AtOnce => {}
    }
    let removed = patiently(|| shared.cgroups.remove_container(&sandbox.key, slot));
    if let Err(error) = removed {
        tracing::warn!(%error, pod = %sandbox.key.pod, slot, "failed to remove a container's cgroup");
    }
    sandbox.forget(slot); // with its gate
}

/// Tries again while a cgroup is busy.
pub(crate) fn patiently(
    mut work: impl FnMut() -> Result<(), CgroupError>,
) -> Result<(), CgroupError> {
    let mut wait = FIRST_WAIT;
    for _ in 0..TRIES_MAX {
        match work() {
            Err(error) if error.is_busy() => {}
            result => return result,
        }
        // The kernel tells nobody when a version 1 cgroup is free to go.
        std::thread::sleep(wait);
        wait *= 2;
    }
    work()
}
