//! What runs on behalf of a container besides it: probes and hooks. When it ends, so do they.

use std::collections::BTreeMap;

use rekindle_pod::{Action, ContainerKey};
use rekindle_types::SandboxAttempt;
use tokio::sync::watch;

/// The containers that are asked something.
#[derive(Default)]
pub(super) struct AskedContainers(BTreeMap<ContainerKey, watch::Sender<()>>);

/// Tells when a container has ended.
pub(super) struct End(watch::Receiver<()>);

impl AskedContainers {
    /// An action is begun. The end of the container that it asks something of; `None` for actions
    /// of other kinds.
    pub(super) fn begins(&mut self, action: &Action) -> Option<End> {
        match action {
            Action::TearDownSandbox { attempt } => {
                self.sandbox_gone(*attempt);
                None
            }
            Action::RemoveContainer { key } => {
                self.ended(key);
                None
            }
            Action::RunProbe { key, .. } | Action::RunHook { key, .. } => {
                let sender = self.0.entry(key.clone()).or_insert_with(|| watch::Sender::new(()));
                Some(End(sender.subscribe()))
            }
            Action::UpdateSandbox { .. }
            | Action::UpdateContainer { .. }
            | Action::MountVolumes
            | Action::RefreshVolumes
            | Action::SetUpSandbox { .. }
            | Action::FindImage { .. }
            | Action::PullImage { .. }
            | Action::StartContainer { .. }
            | Action::SignalContainer { .. }
            | Action::KillContainer { .. } => None,
        }
    }

    /// A container has ended.
    pub(super) fn ended(&mut self, key: &ContainerKey) {
        self.0.remove(key);
    }

    /// A sandbox is gone with all that was in it.
    pub(super) fn sandbox_gone(&mut self, attempt: SandboxAttempt) {
        self.0.retain(|key, _| key.sandbox != attempt);
    }
}

impl End {
    /// Until the container has ended.
    pub(super) async fn reached(mut self) {
        // nothing is ever sent: the sender goes when the container ends
        let _gone = self.0.changed().await;
    }
}
