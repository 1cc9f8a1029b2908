//! Roots that are put together before there is a start for them.

use std::path::Path;

use serde::{Deserialize, Serialize};

use super::{ContainerPlan, Privilege, RootPlan};

/// Whether a shim makes roots ahead of need.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum RootsAhead {
    /// It is of a version that does not know of them.
    #[default]
    Unknown,
    /// It does.
    Made,
}

/// What of a container is the same at each of its starts: the image's layers under a new writable
/// one, /sys, /dev, and what is hidden of them. Neither volumes nor /proc are part of it, nor
/// anything that says who or where the process is: those are of the moment in which it starts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RootAhead {
    /// Whose start it is for, by the container's name in its pod. There is one for each at most.
    pub container: String,
    /// Its writable layer is empty, and no other container's.
    pub root: RootPlan,
    /// Those of [`Confinement::masked_paths`](super::Confinement) that are beneath /sys.
    pub masked_paths: Vec<String>,
}

impl RootAhead {
    /// What can be made for containers with such a plan; `None` when that is nothing: the host's
    /// devices are those of the moment, too, and layers of an image volume are put together where
    /// the host's paths can be seen.
    pub fn new(container: &str, plan: &ContainerPlan) -> Option<Self> {
        let confinement = &plan.confinement;
        match confinement.privilege {
            Privilege::Privileged => return None,
            Privilege::Confined => {}
        }
        if plan.mounts.iter().any(|mount| !mount.layers.is_empty()) {
            return None;
        }
        let masked = confinement.masked_paths.iter().filter(|path| is_of_system(path));
        Some(Self {
            container: container.to_owned(),
            root: plan.root.clone(),
            masked_paths: masked.cloned().collect(),
        })
    }

    /// Whether a container with this plan can start in it.
    pub fn serves(&self, plan: &ContainerPlan) -> bool {
        Self::new(&self.container, plan).is_some_and(|wanted| wanted == *self)
    }
}

/// Whether a path is hidden as soon as /sys is there; the others are beneath /proc, which belongs
/// to a PID namespace.
pub(crate) fn is_of_system(path: &str) -> bool {
    Path::new(path).starts_with("/sys")
}
