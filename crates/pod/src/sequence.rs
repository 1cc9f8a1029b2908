//! Whose turn it is: init containers and sidecars one after the other in the order of the spec, then all regular ones.
//!
//! An init container lets the next one start when it has succeeded, a sidecar when it has been started. A sidecar that
//! crashes later restarts by itself and keeps nobody waiting [KEP-753].

use crate::blueprint::Role;
use crate::container::Container;
use crate::core::PodCore;
use crate::journal::Standing;

impl PodCore {
    /// Brings each container whose turn it is nearer to running.
    pub(crate) fn drive_containers(&mut self) {
        let mut turn = Turn::Come;
        for place in 0..self.containers.len() {
            match turn {
                Turn::Come => self.drive_container(place),
                Turn::NotYet => return,
            }
            if !self.containers[place].lets_others_start() {
                turn = Turn::NotYet;
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
    NotYet,
}
