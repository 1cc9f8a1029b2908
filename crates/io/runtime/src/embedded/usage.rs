//! What everything uses, put together from the cgroups and the writable layers. All of it blocks.

use rekindle_shim::protocol::ContainerPhase;
use rekindle_types::Tick;

use super::layout::slot;
use super::sandbox::EmbeddedSandbox;
use super::{SharedRuntime, unavailable};
use crate::error::RuntimeError;
use crate::spec::{ContainerKey, NamespaceOwner};
use crate::tree_usage::walk_tree;
use crate::usage::{LayerUsage, RuntimeContainerUsage, RuntimeUsage, SandboxUsage};

const OPERATION: &str = "read what runs uses";

/// The machine and every sandbox.
pub(crate) fn all(shared: &SharedRuntime) -> Result<RuntimeUsage, RuntimeError> {
    let machine = shared.cgroups.machine_usage(shared.now());
    let machine = machine.map_err(|error| unavailable(OPERATION, error))?;
    let sandboxes = shared.all();
    let sandboxes = sandboxes.iter().map(|found| sandbox(shared, found));
    Ok(RuntimeUsage { machine, sandboxes: sandboxes.collect::<Result<_, _>>()? })
}

fn sandbox(
    shared: &SharedRuntime,
    sandbox: &EmbeddedSandbox,
) -> Result<SandboxUsage, RuntimeError> {
    let cgroup = shared.cgroups.sandbox_usage(&sandbox.key, shared.now());
    let info = sandbox.info();
    let network_pid = info.and_then(|info| match info.namespaces.network {
        NamespaceOwner::Own => Some(info.pid),
        NamespaceOwner::Host => None,
    });
    let containers = sandbox.containers(|record, phase| (record.clone(), started_at(phase)));
    let usage = |(record, started_at): (super::records::SlotRecord, Option<Tick>)| {
        let cgroup = match started_at {
            Some(_) => {
                shared.cgroups.container_usage(&sandbox.key, &slot(&record.key), shared.now())?
            }
            None => None,
        };
        Ok(RuntimeContainerUsage { key: record.key, id: record.id, started_at, cgroup })
    };
    let containers: Result<Vec<_>, super::cgroup::CgroupError> =
        containers.into_iter().map(usage).collect();
    Ok(SandboxUsage {
        key: sandbox.key.clone(),
        cgroup: cgroup.map_err(|error| unavailable(OPERATION, error))?,
        network_pid,
        containers: containers.map_err(|error| unavailable(OPERATION, error))?,
    })
}

fn started_at(phase: &ContainerPhase) -> Option<Tick> {
    match phase {
        ContainerPhase::Running { started_at_us, .. } => Some(Tick::from_micros(*started_at_us)),
        ContainerPhase::Created | ContainerPhase::Exited { .. } => None,
    }
}

/// A container's writable layer.
pub(crate) async fn layer(
    shared: &SharedRuntime,
    key: &ContainerKey,
    entries_max: u64,
) -> Result<Option<LayerUsage>, RuntimeError> {
    let Some(sandbox) = shared.find(&key.sandbox) else { return Ok(None) };
    let root = sandbox.container(&slot(key), |container| container.record.root.clone());
    match root {
        None => Ok(None),
        Some(None) => Ok(Some(LayerUsage::InMemory)),
        Some(Some(name)) => {
            let upper = sandbox.roots.dir().join(name).join("upper");
            let usage = walk_tree(upper, entries_max).await;
            let usage = usage.map_err(|source| RuntimeError::Container {
                key: key.clone(),
                operation: "measure what was written in",
                source: source.into(),
            })?;
            Ok(Some(LayerUsage::OnDisk(usage)))
        }
    }
}
