//! What the driver of a ladder may do with its decisions: carry them out or only note them, and
//! restart pods in place or not.

use rekindle_types::v1alpha1::{CarriedOutBy, Rung};

use crate::LadderPolicy;

/// What can be done for a pod, and whether it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LadderAuthority {
    /// Whether decisions are carried out.
    pub mode: LadderMode,
    /// Whether the pod's node can restart it in place; of a group, the nodes of all its pods.
    pub in_place: InPlaceSupport,
}

/// Whether decisions are carried out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LadderMode {
    /// They are.
    #[default]
    Act,
    /// They are noted in the ledger, and nothing is asked for.
    Observe,
}

/// Whether a node carries out the rungs Containers and Pod.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum InPlaceSupport {
    /// Its agent does.
    #[default]
    Available,
    /// Of a group: its agents restart whole pods. In a sandbox that stays, nothing holds containers
    /// back that a kubelet starts again.
    WholePods,
    /// It has no agent of ours: a kubelet restarts single containers only.
    NoAgent,
}

impl LadderAuthority {
    /// The rungs of a ladder that cannot be carried out for want of an agent. The rung Container is
    /// the kubelet's own.
    pub(crate) fn rungs_without_agent(self, policy: &LadderPolicy) -> Vec<Rung> {
        let is_missing = |rung: &Rung| match self.in_place {
            InPlaceSupport::Available => false,
            InPlaceSupport::WholePods => *rung == Rung::Containers,
            InPlaceSupport::NoAgent => needs_agent(*rung),
        };
        policy.steps.iter().map(|step| step.rung).filter(is_missing).collect()
    }
}

/// Whether only an agent of ours on the pod's node can carry a rung out.
pub fn needs_agent(rung: Rung) -> bool {
    rung > Rung::Container && rung.carried_out_by() == CarriedOutBy::Node
}
