//! Tells of processes that the kernel killed for lack of memory in a container that lives on: a
//! child of its first process, or a command that was run in it. The kernel wakes the watch; nothing
//! polls.
//!
//! With cgroups of version 2 there are none: a kill takes the whole container (`memory.oom.group`),
//! and its end tells of it.

use std::os::fd::OwnedFd;
use std::sync::{Arc, Weak};
use std::time::Duration;

use rustix::io::Errno;
use tokio::io::unix::AsyncFd;

use super::sandbox::EmbeddedSandbox;
use super::{SharedRuntime, blocking};

/// The kernel tells before it kills, and the end of a first process takes its way: that one is told
/// by its end.
const SETTLE: Duration = Duration::from_secs(1);

/// One container that is watched.
struct OomWatch {
    shared: Weak<SharedRuntime>,
    sandbox: Weak<EmbeddedSandbox>,
    slot: String,
    notices: AsyncFd<OwnedFd>,
}

/// Which kills a watch does not tell of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KillsBefore {
    /// None: the container is new, and may have been started before the watch looks.
    None,
    /// Those that are counted when the watch begins: an earlier agent has noted them.
    Counted,
}

/// Watches a container as long as its cgroup stands. One that cannot be watched runs all the same.
pub(crate) fn begin(
    shared: &Arc<SharedRuntime>,
    sandbox: &Arc<EmbeddedSandbox>,
    slot: &str,
    before: KillsBefore,
) {
    let notices = match shared.cgroups.oom_notices(&sandbox.key, slot) {
        Ok(Some(notices)) => notices,
        Ok(None) => return,
        Err(error) => {
            tracing::debug!(%error, slot, "failed to watch the OOM kills of a container");
            return;
        }
    };
    #[expect(
        deprecated,
        reason = "unsound only for types whose descriptor changes, which an OwnedFd's cannot; the new way is unsafe"
    )]
    let notices = match AsyncFd::new(notices) {
        Ok(notices) => notices,
        Err(error) => {
            tracing::debug!(%error, slot, "failed to wait for the OOM kills of a container");
            return;
        }
    };
    let (shared, sandbox) = (Arc::downgrade(shared), Arc::downgrade(sandbox));
    let watch = OomWatch { shared, sandbox, slot: slot.to_owned(), notices };
    tokio::spawn(watch.run(before));
}

impl OomWatch {
    async fn run(self, before: KillsBefore) {
        let Some(mut counted) = self.kills().await else { return };
        let mut noted = match before {
            KillsBefore::None => 0,
            KillsBefore::Counted => counted,
        };
        // of a kill before the watch began there is no notice
        while counted > noted || self.notice().await.is_ok() {
            tokio::time::sleep(SETTLE).await;
            // its cgroup has gone, of which the kernel tells as well
            let (Some(kills), Some(sandbox)) = (self.kills().await, self.sandbox.upgrade()) else {
                return;
            };
            if kills > noted {
                sandbox.note_oom_kills(&self.slot);
            }
            (noted, counted) = (kills, kills);
        }
    }

    /// Until the kernel says that memory is short, or that the cgroup goes.
    async fn notice(&self) -> std::io::Result<()> {
        loop {
            let mut ready = self.notices.readable().await?;
            let mut count = [0; 8];
            match rustix::io::read(self.notices.get_ref(), &mut count) {
                Ok(_) => return Ok(()),
                Err(Errno::AGAIN) => ready.clear_ready(),
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// How many processes of its cgroup were killed so far; none when it has gone, or says nothing.
    async fn kills(&self) -> Option<u64> {
        let (shared, sandbox) = (self.shared.upgrade()?, self.sandbox.upgrade()?);
        let slot = self.slot.clone();
        let read = move || shared.cgroups.container_usage(&sandbox.key, &slot, shared.now());
        blocking(read).await.ok().flatten().map(|usage| usage.memory.oom_kills)
    }
}
