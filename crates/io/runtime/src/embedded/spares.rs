//! Sandboxes made ahead of need: shim, namespaces and folders stand, and the pod's own settings are
//! missing.
//!
//! ```text
//!   prepare (no pod waits)          claim (a pod waits)
//!   ----------------------> spare -> its pod's settings, cgroup, record -> sandbox
//! ```
//! What makes a spare a pod's is its record, written last: an agent that dies before leaves a
//! spare, which the next agent ends and replaces. Nothing of a pod has ever run in a spare.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use rekindle_shim::frame;
use rekindle_shim::protocol::{NamespacesPlan, SandboxPlan, ShimCall, ShimRequest};

use super::layout::{MOUNT_POINT, ROOTS};
use super::roots::RootFolders;
use super::sandbox::{self, MessageTarget, SpareSandbox};
use super::shim_process::{SHUTDOWN_TIME, ShimSocket};
use super::sysctls::default_sysctls;
use super::{SharedRuntime, blocking, contact, trash, unavailable};
use crate::error::{Cause, RuntimeError};
use crate::spec::{
    NamespaceOwner, Namespaces, ProcessVisibility, SandboxInfo, SandboxSpec, SandboxUsers,
};

/// How many stand ready: one for a pod that is restarted, one for another at the same time.
const READY_MAX: usize = 2;
/// Bytes of a spare's /dev/shm: what every pod has that does not ask for another size.
pub(crate) const SHM_BYTES: u64 = 64 * 1024 * 1024;
/// A spare shares nothing but the host's users.
const NAMESPACES: Namespaces = Namespaces {
    network: NamespaceOwner::Own,
    ipc: NamespaceOwner::Own,
    processes: ProcessVisibility::Container,
    users: SandboxUsers::Host,
};

/// Whether a spare can become this sandbox. Whose processes its containers see is settled when it
/// does: a PID namespace is made by a fork, and that of the host is there already. Whose users hold
/// cannot be: they own the other namespaces.
pub(crate) fn fits(spec: &SandboxSpec) -> bool {
    let Namespaces { network, ipc, processes: _, users } = spec.namespaces;
    spec.shm_bytes == SHM_BYTES
        && network == NAMESPACES.network
        && ipc == NAMESPACES.ipc
        && users == NAMESPACES.users
}

/// The spares of one runtime.
#[derive(Default)]
pub(crate) struct Spares {
    ready: Mutex<Vec<SpareSandbox>>,
    /// Held while one is made.
    supply: tokio::sync::Mutex<SpareSupply>,
    count: AtomicU64,
}

/// When spares are made.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum SpareSupply {
    /// When fewer stand ready than should.
    #[default]
    WhenMissing,
    /// Never again: they were ended for good. A call that was under way then must not leave one
    /// behind.
    Ended,
}

impl Spares {
    fn ready(&self) -> MutexGuard<'_, Vec<SpareSandbox>> {
        self.ready.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// One that lives, if there is one.
    pub(crate) fn take(&self) -> Option<SpareSandbox> {
        let mut ready = self.ready();
        while let Some(mut spare) = ready.pop() {
            match spare.child.try_wait() {
                Ok(None) => return Some(spare),
                // Its folder is found without a record by the next agent.
                Ok(Some(status)) => {
                    tracing::warn!(%status, id = spare.id, "lost a spare sandbox: it died")
                }
                Err(error) => tracing::warn!(%error, id = spare.id, "lost a spare sandbox"),
            }
        }
        None
    }
}

/// Makes one, when one is missing.
pub(crate) async fn prepare(
    shared: &Arc<SharedRuntime>,
) -> Result<Option<SandboxInfo>, RuntimeError> {
    let supply = shared.spares.supply.lock().await;
    if *supply == SpareSupply::Ended || shared.spares.ready().len() >= READY_MAX {
        return Ok(None);
    }
    let made = make(shared).await;
    let (spare, pid) = made.map_err(|e| unavailable("make a sandbox ahead of need", e))?;
    let info = sandbox::info(&spare.id, pid, NAMESPACES);
    shared.spares.ready().push(spare);
    Ok(Some(info))
}

async fn make(shared: &Arc<SharedRuntime>) -> Result<(SpareSandbox, u32), Cause> {
    let number = shared.spares.count.fetch_add(1, Ordering::Relaxed);
    let id = shared.layout.spare_id(shared.now(), number);
    let dir = shared.layout.sandbox_dir(&id);
    let started = {
        let (shared, id, dir) = (shared.clone(), id.clone(), dir.clone());
        blocking(move || {
            let started = shared.program.start(&shared.layout, &id)?;
            let roots = RootFolders::new(dir.join(ROOTS));
            roots.refill()?;
            Ok::<_, Cause>((started, roots))
        })
    };
    let (started, roots) = started.await?;
    let target = MessageTarget::default();
    let link = contact::follow(shared, target.clone(), started.socket)?;
    let mount_point = dir.join(MOUNT_POINT);
    let plan = SandboxPlan {
        hostname: "spare".to_owned(),
        sysctls: default_sysctls(NAMESPACES),
        shm_bytes: SHM_BYTES,
        mount_point: mount_point.to_str().ok_or("the data folder's path is not UTF-8")?.to_owned(),
        namespaces: NamespacesPlan::default(),
    };
    link.call(ShimRequest::Configure(plan)).await?;
    let pid = started.child.id();
    let child = started.child;
    Ok((SpareSandbox { id, link, target, child, records: started.records, roots }, pid))
}

/// Ends those that no pod has claimed, and makes no more.
pub(crate) async fn end_all(shared: &Arc<SharedRuntime>) {
    let mut supply = shared.spares.supply.lock().await;
    *supply = SpareSupply::Ended;
    let spares = std::mem::take(&mut *shared.spares.ready());
    for spare in spares {
        // Gone already is as good.
        let _ = spare.link.call_within(ShimRequest::Shutdown, SHUTDOWN_TIME).await;
        let owned = shared.clone();
        blocking(move || {
            let mut child = spare.child;
            if let Err(error) = child.kill().and_then(|()| child.wait()) {
                tracing::warn!(%error, id = spare.id, "failed to reap a spare sandbox");
            }
            clear(&owned, &spare.id);
        })
        .await;
    }
}

/// A shim of an earlier agent that no pod's record speaks of: it was made ahead, or half made.
pub(crate) struct UnclaimedShim {
    id: String,
    shim: UnixStream,
}

/// Takes what has no record out of its place; `None` when no shim is behind it. At the start,
/// before another shim can get the same id.
pub(crate) fn take_away(shared: &SharedRuntime, id: &str) -> io::Result<Option<UnclaimedShim>> {
    let socket = ShimSocket { run: shared.layout.run(), name: id };
    let shim = socket.connect().ok();
    trash::take(&shared.layout, &shared.layout.sandbox_dir(id))?;
    socket.remove()?;
    Ok(shim.map(|shim| UnclaimedShim { id: id.to_owned(), shim }))
}

impl UnclaimedShim {
    /// Ends the shim. Blocks.
    pub(crate) fn end(self) {
        if let Err(error) = shut_down(self.shim) {
            let id = self.id;
            tracing::warn!(%error, id, "failed to end a spare sandbox of an earlier agent");
        }
    }
}

/// Until the shim has closed its end, which it does by exiting.
fn shut_down(mut shim: UnixStream) -> io::Result<()> {
    shim.set_read_timeout(Some(SHUTDOWN_TIME))?;
    let mut bytes = Vec::new();
    frame::write(&ShimCall { seq: 0, request: ShimRequest::Shutdown }, &mut bytes)
        .map_err(io::Error::other)?;
    shim.write_all(&bytes)?;
    bytes.clear();
    shim.read_to_end(&mut bytes).map(drop)
}

fn clear(shared: &SharedRuntime, id: &str) {
    let socket = ShimSocket { run: shared.layout.run(), name: id };
    let moved = trash::take(&shared.layout, &shared.layout.sandbox_dir(id));
    if let Err(error) = moved.and_then(|()| socket.remove()) {
        tracing::warn!(%error, id, "failed to remove what a spare sandbox left");
    }
    trash::empty(&shared.layout);
}
