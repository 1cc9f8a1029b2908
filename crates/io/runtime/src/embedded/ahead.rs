//! Getting ready for a container's next start: folders for writable layers, and what lasts of its
//! root put together already.
//!
//! ```text
//! started -- a while later, when it still runs -> MakeRoot -- stands -> kept here and in the shim
//! kept -- the same container starts again -> its root
//!      +- another plan, another agent, a new link -> thrown away
//! ```
//! A root that was made ahead is nobody's. Whether it serves a start is decided by comparing what
//! it was made of with what that start's own plan says; the shim, which decides by the same
//! comparison, has none that is not noted here.

use std::sync::Arc;

use rekindle_shim::protocol::{
    ContainerPhase, ContainerPlan, RootAhead, ShimRequest, WritableLayer,
};
use rekindle_types::ContainerAttempt;
use tokio::runtime::Handle;

use super::clearing::{ClearingPace, LEISURE, SOON};
use super::roots::ReadyRoot;
use super::sandbox::EmbeddedSandbox;
use super::{SharedRuntime, contact, janitor};
use crate::spec::{ContainerSpec, ExpectedRestart, SandboxUsers};

/// What may be made for the container's next start.
pub(crate) fn wanted(
    sandbox: &EmbeddedSandbox,
    spec: &ContainerSpec,
    plan: &ContainerPlan,
) -> Option<RootAhead> {
    match (spec.renewal, sandbox.namespaces.users) {
        (ExpectedRestart::Expected, SandboxUsers::Host) if sandbox.makes_roots() => {
            RootAhead::new(&spec.key.name.0, plan)
        }
        (
            ExpectedRestart::Expected | ExpectedRestart::NotExpected,
            SandboxUsers::Host | SandboxUsers::Own(_),
        ) => None,
    }
}

/// Makes folders for the containers to come, and what is wanted for this one: soon where it was
/// started again already, as it will be once more, else when the start of all that was started with
/// it does not wait for the disk any more.
pub(crate) fn get_ready(
    shared: &Arc<SharedRuntime>,
    sandbox: &Arc<EmbeddedSandbox>,
    slot: &str,
    attempt: ContainerAttempt,
    wanted: Option<RootAhead>,
) {
    let wait = if attempt > ContainerAttempt(0) { SOON } else { LEISURE };
    let (held, of, slot) = (Arc::downgrade(shared), Arc::downgrade(sandbox), slot.to_owned());
    shared.clearing.begin_after(wait, move |pace| {
        match pace {
            ClearingPace::AtLeisure => {}
            ClearingPace::AtOnce => return, // the engine ends: the next one makes its own
        }
        let (Some(shared), Some(sandbox)) = (held.upgrade(), of.upgrade()) else { return };
        let runs =
            sandbox.container(&slot, |found| matches!(found.phase, ContainerPhase::Running { .. }));
        if let Some(plan) = wanted.filter(|_| runs == Some(true)) {
            make_root(&shared, &sandbox, plan);
        }
        // A sandbox on its way out has no use for them, nor the place.
        if !sandbox.is_going()
            && let Err(error) = sandbox.roots.refill()
            && !sandbox.is_going()
        {
            tracing::debug!(%error, pod = %sandbox.key.pod, "no folders are made ahead");
        }
    });
}

/// On a thread that may block.
fn make_root(shared: &Arc<SharedRuntime>, sandbox: &Arc<EmbeddedSandbox>, mut plan: RootAhead) {
    let Some(link) = sandbox.link() else { return };
    let folder = match &mut plan.root.upper {
        WritableLayer::Tmpfs { .. } => None,
        WritableLayer::Directory { dir } => {
            let Ok(name) = sandbox.roots.take() else { return };
            let Some(path) = sandbox.roots.dir().join(&name).to_str().map(str::to_owned) else {
                return;
            };
            *dir = path;
            Some(name)
        }
    };
    let ready = ReadyRoot { plan, folder };
    let asked = contact::ask(&link, ShimRequest::MakeRoot(Box::new(ready.plan.clone())));
    let left = match Handle::current().block_on(asked) {
        Ok(_) => sandbox.keep_root(&link, ready),
        Err(error) => {
            tracing::debug!(%error, pod = %sandbox.key.pod, "no root is made ahead");
            Some(ready)
        }
    };
    if let Some(left) = left {
        janitor::retire_root(shared, sandbox, left.folder);
    }
}
