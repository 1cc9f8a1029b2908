//! Changing limits in place. What is in force is in the kernel's files and nowhere else, so that no
//! record can say otherwise.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::layout;
use super::sandbox::EmbeddedSandbox;
use super::{SharedRuntime, blocking};
use crate::error::RuntimeError;
use crate::spec::{ContainerKey, LimitChange, Resources, SandboxKey, SandboxMemory};

const OPERATION: &str = "change the limits of";

fn ready(
    shared: &SharedRuntime,
    key: &SandboxKey,
    operation: &'static str,
) -> Result<Arc<EmbeddedSandbox>, RuntimeError> {
    let found = shared.find(key).filter(|sandbox| sandbox.link().is_some());
    found.ok_or_else(|| RuntimeError::Sandbox {
        key: key.clone(),
        operation,
        source: "it does not stand".into(),
    })
}

/// See [`crate::Runtime::update_sandbox`].
pub(super) async fn update_sandbox(
    shared: &Arc<SharedRuntime>,
    key: &SandboxKey,
    resources: &Resources,
    change: LimitChange,
) -> Result<(), RuntimeError> {
    let sandbox = ready(shared, key, OPERATION)?;
    let _gate = sandbox.gate.lock().await;
    let (shared, owned, resources) = (shared.clone(), key.clone(), resources.clone());
    let updated = blocking(move || shared.cgroups.update_sandbox(&owned, &resources, change)).await;
    updated.map_err(|error| RuntimeError::Sandbox {
        key: key.clone(),
        operation: OPERATION,
        source: error.into(),
    })
}

/// See [`crate::Runtime::update_container`].
pub(super) async fn update_container(
    shared: &Arc<SharedRuntime>,
    key: &ContainerKey,
    resources: &Resources,
) -> Result<(), RuntimeError> {
    let slot = layout::slot(key);
    let sandbox = ready(shared, &key.sandbox, OPERATION)?;
    let gate = sandbox.container_gate(&slot);
    let _gate = gate.lock().await;
    if !sandbox.live_containers().iter().any(|(live, _)| *live == slot) {
        return Ok(());
    }
    apply(shared, key, resources).await
}

/// Gives them to a container that has not ended. Its caller holds its gate.
pub(super) async fn apply(
    shared: &Arc<SharedRuntime>,
    key: &ContainerKey,
    resources: &Resources,
) -> Result<(), RuntimeError> {
    let (shared, owned, resources) = (shared.clone(), key.clone(), resources.clone());
    let updated = blocking(move || {
        let slot = layout::slot(&owned);
        shared.cgroups.update_container(&owned.sandbox, &slot, &resources)
    });
    updated.await.map_err(|error| RuntimeError::Container {
        key: key.clone(),
        operation: OPERATION,
        source: error.into(),
    })
}

/// See [`crate::Runtime::memory`].
pub(super) async fn memory(
    shared: &Arc<SharedRuntime>,
    key: &SandboxKey,
) -> Result<SandboxMemory, RuntimeError> {
    const OPERATION: &str = "look at the memory of";
    let sandbox = ready(shared, key, OPERATION)?;
    let (shared, owned) = (shared.clone(), key.clone());
    let read = blocking(move || {
        let mut containers = BTreeMap::new();
        for (slot, container) in sandbox.live_containers() {
            // One that has just been taken away uses nothing.
            if let Ok(state) = shared.cgroups.container_memory(&owned, &slot) {
                containers.insert(container, state);
            }
        }
        let pod = shared.cgroups.sandbox_memory(&owned)?;
        Ok(SandboxMemory { pod, containers })
    });
    read.await.map_err(|error: super::cgroup::CgroupError| RuntimeError::Sandbox {
        key: key.clone(),
        operation: OPERATION,
        source: error.into(),
    })
}
