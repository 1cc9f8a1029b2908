//! What the containers may read of the rest of their pod.

use rekindle_types::Tick;

use crate::blueprint::RoleInPod;
use crate::desired_pod::DesiredPod;
use crate::journal::{Halt, Targets};
use crate::lifecycle::{LifecycleStageName, PodLifecycle};
use crate::outbox::Outbox;
use crate::resize::Resize;
use crate::restarts::InPlaceRestarts;
use crate::sandboxes::Sandboxes;
use crate::stop_reason::StopReason;
use crate::volumes::PodVolumes;

/// The time, and the parts of the pod beside its containers. To be read only.
#[derive(Clone, Copy)]
pub(crate) struct PodContext<'a> {
    pub(crate) now: Tick,
    pub(crate) desired: &'a DesiredPod,
    pub(crate) lifecycle: &'a PodLifecycle,
    pub(crate) restarts: &'a InPlaceRestarts,
    pub(crate) sandboxes: &'a Sandboxes,
    pub(crate) volumes: &'a PodVolumes,
    pub(crate) resize: &'a Resize,
}

impl PodContext<'_> {
    /// What all containers have to end for, if they have to.
    pub(crate) fn halt(&self) -> Option<Halt> {
        match self.lifecycle.stage() {
            LifecycleStageName::Recovering | LifecycleStageName::Finished => None,
            LifecycleStageName::Ending => self.lifecycle.ending().map(|ending| ending.halt),
            LifecycleStageName::Active => {
                let of_restart = self.restarts.stopping_halt();
                of_restart.into_iter().chain(self.sandboxes.dead_halt()).reduce(Halt::sooner)
            }
        }
    }

    /// What the journal says that containers have to end for: all of them, or those that are
    /// restarted one by one.
    pub(crate) fn recorded_halt(&self) -> Option<Halt> {
        if self.lifecycle.is_finished() {
            return None;
        }
        self.lifecycle.ending().map(|ending| ending.halt).or_else(|| self.restarts.halt())
    }

    /// The starts that are replaced, if what the journal says that containers have to end for is a
    /// restart one by one.
    pub(crate) fn recorded_targets(&self) -> Option<&Targets> {
        self.restarts.targets().filter(|_| self.lifecycle.ending().is_none())
    }

    /// All containers have to end, and the journal says so.
    pub(crate) fn is_recorded_to_halt(&self) -> bool {
        self.lifecycle.is_ending() || (self.lifecycle.is_active() && self.restarts.is_stopping())
    }

    /// Whether nothing can be asked to end now: the journal cannot be written, and the pod goes on.
    pub(crate) fn stands_still(&self, outbox: &Outbox) -> bool {
        outbox.is_held_up() && self.lifecycle.is_active()
    }

    /// Whether the halt in progress, if there is one, is for containers of this role.
    pub(crate) fn is_halted(&self, role: RoleInPod) -> bool {
        match role {
            RoleInPod::Init | RoleInPod::Sidecar | RoleInPod::Regular => true,
            RoleInPod::Ephemeral => {
                let sandbox_stays = self.lifecycle.is_active() && !self.sandboxes.is_dead();
                !(sandbox_stays && self.restarts.keeps_sandbox())
            }
        }
    }

    /// Whether all has to end for no other reason than that the sandbox has died.
    pub(crate) fn halts_for_sandbox_only(&self) -> bool {
        self.lifecycle.is_active() && !self.restarts.is_stopping()
    }

    /// What the halt in progress gives as the reason.
    pub(crate) fn halt_reason(&self) -> StopReason {
        if self.restarts.is_by_rule() && self.lifecycle.is_active() {
            StopReason::RestartRule
        } else {
            StopReason::Halt
        }
    }
}
