//! Taking stock after a start: every sandbox on disk is matched with its shim, if it has one that
//! lives.

use std::fs;
use std::sync::Arc;

use futures::future::try_join_all;
use rekindle_shim::protocol::{ContainerReport, SandboxPhase, ShimAnswer, ShimRequest};

use super::contact;
use super::link::ShimLink;
use super::oom_watch::{self, KillsBefore};
use super::records::{self, RecordFile, SandboxRecords, SlotRecord};
use super::sandbox::{EmbeddedSandbox, SandboxLifecycle, SandboxTraits};
use super::spares::UnclaimedShim;
use super::{SharedRuntime, blocking, containers, janitor, spares, trash, unavailable};
use crate::error::RuntimeError;
use crate::spec::SandboxKey;

/// Finds all that stands.
pub(crate) async fn recover(shared: &Arc<SharedRuntime>) -> Result<(), RuntimeError> {
    let owned = shared.clone();
    let found = blocking(move || list(&owned)).await;
    let found = found.map_err(|e| unavailable("read the runtime's records", e))?;
    // side by side: a shim that is stuck keeps nobody waiting but itself
    try_join_all(found.found.into_iter().map(|found| recover_sandbox(shared, found))).await?;
    let mut unclaimed = found.unclaimed;
    unclaimed.extend(without_folder(shared));
    clear_strays(shared, unclaimed);
    Ok(())
}

/// Shims, or only their sockets, whose folders are gone already.
fn without_folder(shared: &SharedRuntime) -> Vec<UnclaimedShim> {
    let known: Vec<String> = shared.all().iter().map(|sandbox| sandbox.id.clone()).collect();
    let strays = entries(shared.layout.run()).into_iter().filter(|id| !known.contains(id));
    let taken = strays.filter_map(|id| match spares::take_away(shared, &id) {
        Ok(unclaimed) => unclaimed,
        Err(error) => {
            tracing::warn!(%error, id, "failed to remove a dead shim's socket");
            None
        }
    });
    taken.collect()
}

/// What is on disk.
#[derive(Default)]
struct DiskListing {
    found: Vec<RecoveredSandbox>,
    /// Shims that no pod's record speaks of.
    unclaimed: Vec<UnclaimedShim>,
}

/// A sandbox's records as they are on disk.
struct RecoveredSandbox {
    sandbox: Arc<EmbeddedSandbox>,
    containers: Vec<(String, SlotRecord)>,
}

fn list(shared: &SharedRuntime) -> std::io::Result<DiskListing> {
    let mut listing = DiskListing::default();
    for entry in fs::read_dir(shared.layout.sandboxes())? {
        let (path, id) = entry.map(|entry| (entry.path(), entry.file_name()))?;
        let id = id.into_string().unwrap_or_default();
        let records = SandboxRecords::read(&path);
        let Some(record) = records.sandbox else {
            // No pod's: made ahead, or half made.
            listing.unclaimed.extend(spares::take_away(shared, &id)?);
            continue;
        };
        if record.engine_id != shared.layout.engine_id() {
            trash::take(&shared.layout, &path)?; // another engine's, copied here
            continue;
        }
        let (layout, events) = (&shared.layout, shared.events.clone());
        let traits = SandboxTraits {
            key: record.key,
            hostname: record.hostname,
            namespaces: record.namespaces,
        };
        let sandbox = EmbeddedSandbox::new(traits, id, layout, events);
        sandbox.keep_records(RecordFile::open(&path)?);
        let roots: Vec<&String> =
            records.containers.values().filter_map(|container| container.root.as_ref()).collect();
        clear_unused_roots(shared, &sandbox, &roots)?;
        let containers = records.containers.into_iter().collect();
        listing.found.push(RecoveredSandbox { sandbox: Arc::new(sandbox), containers });
    }
    Ok(listing)
}

/// Folders made ahead by an earlier agent, and those of attempts that were undone.
fn clear_unused_roots(
    shared: &SharedRuntime,
    sandbox: &EmbeddedSandbox,
    used: &[&String],
) -> std::io::Result<()> {
    let entries = match fs::read_dir(sandbox.roots.dir()) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        result => result?,
    };
    for entry in entries {
        let entry = entry?;
        if !used.iter().any(|name| entry.file_name() == name.as_str()) {
            trash::take(&shared.layout, &entry.path())?;
        }
    }
    Ok(())
}

async fn recover_sandbox(
    shared: &Arc<SharedRuntime>,
    found: RecoveredSandbox,
) -> Result<(), RuntimeError> {
    let sandbox = &found.sandbox;
    shared.sandboxes().insert(sandbox.key.clone(), sandbox.clone());
    let _gate = sandbox.gate.lock().await;
    match contact::dial(shared, sandbox).await {
        Some((link, state)) if state.sandbox == SandboxPhase::Ready => {
            let pid = state.pid;
            sandbox.enter(SandboxLifecycle::Ready { link: link.clone(), pid, child: None });
            sandbox.note_roots_ahead(state.roots_ahead);
            adopt(shared, &found, &link, &state.containers).await;
            // What ended after that answer was told of a container that was not known here yet.
            // Whoever mends a link that has failed since waits at the gate, and catches up as well.
            // One that is stuck now does not keep the others waiting.
            if let Ok(ShimAnswer::State(state)) = contact::ask(&link, ShimRequest::State).await {
                sandbox.catch_up(&state.containers);
            }
            for (slot, _) in sandbox.live_containers() {
                oom_watch::begin(shared, sandbox, &slot, KillsBefore::Counted);
            }
        }
        // It was never configured, and goes away now that nobody is connected: as if it had not
        // been.
        Some(_) => {
            shared.sandboxes().remove(&sandbox.key);
            sandbox.begin_removal();
            janitor::retire(shared, sandbox);
        }
        None => {
            let (owned, gone) = (shared.clone(), sandbox.clone());
            let killed = blocking(move || owned.cgroups.kill_sandbox(&gone.key)).await;
            killed.map_err(|e| unavailable("kill what a dead shim left behind", e))?;
            sandbox.enter(SandboxLifecycle::Dead { child: None });
            take_stock_of_dead(shared, &found);
        }
    }
    Ok(())
}

/// Takes over what the shim holds. A container that it does not know, or not yet, was being created
/// when the agent died: that attempt is undone.
async fn adopt(
    shared: &Arc<SharedRuntime>,
    found: &RecoveredSandbox,
    link: &ShimLink,
    states: &[ContainerReport],
) {
    for (slot, record) in &found.containers {
        match states.iter().find(|state| state.slot == *slot) {
            Some(state) => found.sandbox.insert(slot, record.clone(), state.phase.clone()),
            None => {
                let removed = contact::ask(link, ShimRequest::Remove { slot: slot.clone() }).await;
                if let Err(error) = removed {
                    tracing::warn!(%error, slot, "failed to remove an unfinished container");
                }
                containers::clear(shared, &found.sandbox, slot);
            }
        }
    }
}

fn take_stock_of_dead(shared: &Arc<SharedRuntime>, found: &RecoveredSandbox) {
    let now = shared.now();
    for (slot, record) in &found.containers {
        let path = found.sandbox.dir.join(rekindle_shim::state_file::name(slot));
        let before = records::read_phase(&path);
        let phase = records::phase_without_shim(before.clone(), now);
        // So that the next start tells the same time of its end.
        if before.as_ref() != Some(&phase)
            && let Err(error) = records::write_phase(&path, &phase)
        {
            tracing::warn!(%error, path = %path.display(), "failed to record a container's exit");
        }
        found.sandbox.insert(slot, record.clone(), phase);
    }
}

/// Spares, cgroups, sockets and trash of earlier lives, cleared away behind.
fn clear_strays(shared: &Arc<SharedRuntime>, unclaimed: Vec<UnclaimedShim>) {
    let known: Vec<SandboxKey> = shared.sandboxes().keys().cloned().collect();
    let strays = shared.cgroups.strays(&known);
    let owned = shared.clone();
    shared.clearing.begin(move || {
        let shared = owned;
        unclaimed.into_iter().for_each(UnclaimedShim::end);
        for stray in strays {
            let removed = shared
                .cgroups
                .kill_stray(&stray)
                .and_then(|()| janitor::patiently(|| shared.cgroups.remove_stray(&stray)));
            if let Err(error) = removed {
                tracing::warn!(%error, "failed to remove a cgroup of an earlier engine");
            }
        }
        trash::empty(&shared.layout);
    });
}

/// Names in the run folder that look like sandbox ids; whatever else is there is not ours.
fn entries(dir: &std::path::Path) -> Vec<String> {
    let Ok(entries) = fs::read_dir(dir) else { return Vec::new() };
    let is_id = |name: &String| {
        name.len() == super::layout::SANDBOX_ID_DIGITS
            && name.chars().all(|c| c.is_ascii_hexdigit())
    };
    let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    names.filter(is_id).collect()
}
