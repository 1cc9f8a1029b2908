//! Images that a restart on request needs: they are made sure of before anything that runs is
//! ended.
//!
//! ```text
//!  a request comes ─► images_before_restart ── all are here ──────► RestartRequested
//!                                           └─ one cannot be had ─► RestartImpossible: the request fails, and all runs on
//! ```
//! A start looks for its image again when it is asked for always, or was removed by force. Were
//! that known only after the end of what ran, a restart that is meant to help would take a healthy
//! pod down. Where nothing runs there is nothing to lose, and the containers themselves show what
//! is the matter with their images.

use rekindle_types::ContainerName;
use rekindle_types::v1alpha1::Rung;

use super::Containers;
use crate::action::PullPolicy;
use crate::blueprint::{Definition, RoleInPod};
use crate::event::RestartRequest;

/// An image that has to be on the node, or to be had, before a restart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NeededImage {
    /// The first container that needs it.
    pub container: ContainerName,
    /// As the pod's spec has it.
    pub image: String,
    /// Whether it may be pulled.
    pub policy: PullPolicy,
}

impl Containers {
    /// The images that a restart needs, each once, in the order of the containers. None for one
    /// that ends no container that runs.
    pub(crate) fn images_before_restart(&self, request: &RestartRequest) -> Vec<NeededImage> {
        let is_named = |definition: &Definition| match &request.container {
            Some(name) => definition.name == *name,
            None => definition.role != RoleInPod::Ephemeral,
        };
        let concerned = self.list.iter().filter(|c| is_named(&c.definition));
        let (running, others): (Vec<_>, Vec<_>) = concerned.partition(|c| c.is_running());
        if running.is_empty() {
            return Vec::new();
        }
        let starting_too = match request.rung {
            Rung::Container => Vec::new(),
            Rung::Containers | Rung::Pod | Rung::Recreate | Rung::Reschedule | Rung::Rollback => {
                others
            }
        };
        let mut needed: Vec<NeededImage> = Vec::new();
        for container in running.into_iter().chain(starting_too) {
            let definition = &container.definition;
            for number in 0..=definition.volume_images.len() {
                let Definition { name, image, pull_policy, .. } = definition.about_image(number);
                if !needed.iter().any(|one| one.image == image && one.policy == pull_policy) {
                    needed.push(NeededImage { container: name, image, policy: pull_policy });
                }
            }
        }
        needed
    }
}
