//! Which container, and which sandbox, is meant: the newest that stands.

use rekindle_runtime::{
    ContainerKey, Runtime, RuntimeContainerState, SandboxInfo, SandboxSnapshot,
};
use rekindle_types::PodUid;

use super::PodStreamError;

async fn sandboxes<R: Runtime>(
    runtime: &R,
    uid: &PodUid,
) -> Result<Vec<SandboxSnapshot>, PodStreamError> {
    let all = runtime.snapshot().await.map_err(|error| PodStreamError::Runtime(Box::new(error)))?;
    Ok(all.into_iter().filter(|sandbox| sandbox.key.pod.uid == *uid).collect())
}

/// The run of a container that is not over.
pub(super) async fn running<R: Runtime>(
    runtime: &R,
    uid: &PodUid,
    container: &str,
) -> Result<ContainerKey, PodStreamError> {
    sandboxes(runtime, uid)
        .await?
        .into_iter()
        .flat_map(|sandbox| sandbox.containers)
        .filter(|found| found.key.name.0 == container)
        .filter(|found| matches!(found.state, RuntimeContainerState::Running { .. }))
        .map(|found| found.key)
        .max()
        .ok_or_else(|| PodStreamError::NotRunning { container: container.to_owned() })
}

/// The newest sandbox that is ready.
pub(super) async fn sandbox<R: Runtime>(
    runtime: &R,
    uid: &PodUid,
) -> Result<SandboxInfo, PodStreamError> {
    let sandboxes = sandboxes(runtime, uid).await?;
    let newest = sandboxes.into_iter().max_by_key(|sandbox| sandbox.key.attempt);
    newest.and_then(|sandbox| sandbox.info).ok_or_else(|| PodStreamError::NoSandbox(uid.clone()))
}
