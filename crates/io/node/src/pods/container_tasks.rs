//! What runs on behalf of a container besides it: probes and hooks. When it ends, so do they.

use std::collections::BTreeMap;

use rekindle_pod::{ContainerStartKey, CoreAction};
use rekindle_types::SandboxAttempt;
use tokio::sync::watch;

/// The containers that are asked something.
#[derive(Default)]
pub(super) struct ContainerTasks(BTreeMap<ContainerStartKey, watch::Sender<()>>);

/// Tells when a container has ended.
pub(super) struct ContainerEndWatch(watch::Receiver<()>);

impl ContainerTasks {
    /// An action is begun. The end of the container that it asks something of; `None` for actions
    /// of other kinds.
    pub(super) fn begins(&mut self, action: &CoreAction) -> Option<ContainerEndWatch> {
        match action {
            CoreAction::TearDownSandbox { attempt } => {
                self.sandbox_gone(*attempt);
                None
            }
            CoreAction::RemoveContainer { key } => {
                self.ended(key);
                None
            }
            CoreAction::RunProbe { key, .. } | CoreAction::RunHook { key, .. } => {
                let sender = self.0.entry(key.clone()).or_insert_with(|| watch::Sender::new(()));
                Some(ContainerEndWatch(sender.subscribe()))
            }
            CoreAction::UpdateSandbox { .. }
            | CoreAction::UpdateContainer { .. }
            | CoreAction::MountVolumes
            | CoreAction::RefreshVolumes
            | CoreAction::SetUpSandbox { .. }
            | CoreAction::FindImage { .. }
            | CoreAction::PullImage { .. }
            | CoreAction::StartContainer { .. }
            | CoreAction::SignalContainer { .. }
            | CoreAction::KillContainer { .. } => None,
        }
    }

    /// A container has ended.
    pub(super) fn ended(&mut self, key: &ContainerStartKey) {
        self.0.remove(key);
    }

    /// A sandbox is gone with all that was in it.
    pub(super) fn sandbox_gone(&mut self, attempt: SandboxAttempt) {
        self.0.retain(|key, _| key.sandbox != attempt);
    }
}

impl ContainerEndWatch {
    /// Until the container has ended.
    pub(super) async fn reached(mut self) {
        // nothing is ever sent: the sender goes when the container ends
        let _gone = self.0.changed().await;
    }
}
