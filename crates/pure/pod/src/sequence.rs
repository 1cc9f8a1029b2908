//! Whose turn it is: init containers and sidecars one after the other in the order of the spec,
//! then all regular ones. Ephemeral ones wait for nobody.
//!
//! An init container lets the next one start when it has succeeded, a sidecar when it has been
//! started, hook and startup probe included. A sidecar that crashes later restarts by itself and
//! keeps nobody waiting [KEP-753]. A regular container with a postStart hook keeps the regular ones
//! after it from their first start until the hook has ended, as in the kubelet, which runs it
//! before it looks at the next container; other than there, a restart does not wait for it.

use crate::blueprint::Role;
use crate::container::Container;
use crate::core::PodCore;
use crate::journal::Standing;

impl PodCore {
    /// Brings each container whose turn it is nearer to running.
    pub(crate) fn drive_containers(&mut self) {
        let mut turn = Turn::Come;
        self.drive_ephemeral_containers();
        for place in 0..self.containers.len() {
            if self.containers[place].definition.role == Role::Ephemeral {
                continue;
            }
            match turn {
                Turn::Come => self.drive_container(place),
                Turn::ToRestart if self.containers[place].standing == Standing::Due => {}
                Turn::ToRestart => self.drive_container(place),
                Turn::NotYet => return,
            }
            let container = &self.containers[place];
            if !container.lets_others_start() {
                turn = Turn::NotYet;
            } else if container.is_in_start_with_hook() {
                turn = Turn::ToRestart;
            }
        }
    }

    /// Every init container has done its part in this round.
    pub(crate) fn is_initialized(&self) -> bool {
        self.containers.iter().all(Container::lets_others_start)
    }

    /// An init container has failed and is not tried again: the pod can never run.
    pub(crate) fn initialization_failed(&self) -> bool {
        self.containers.iter().any(|container| {
            container.definition.role == Role::Init
                && container.standing == Standing::Done
                && !container.has_succeeded()
        })
    }

    /// Every regular container has ended and is not started again.
    pub(crate) fn work_is_done(&self) -> bool {
        let mut regular = self.containers.iter().filter(|c| c.definition.role == Role::Regular);
        regular.all(|container| container.standing == Standing::Done)
    }
}

/// Whether containers from here on may start.
#[derive(Clone, Copy)]
enum Turn {
    Come,
    /// Only what has been started before in this round.
    ToRestart,
    NotYet,
}
