//! What the other pods do: one sick pod, a sick revision (or something that all its pods depend
//! on), or a sick node.
//!
//! | who fails | what it is | what follows |
//! |---|---|---|
//! | this pod, or fewer than half of its revision | a sick pod | the ladder as written |
//! | more than half of the revision, at least two, in the same way | a bad rollout or a dead dependency | no new pod and no other node: Recreate and Reschedule are held. A restart in place is tried on one of those pods ([`crate::tried`]): when it helps, it is done for the others, too; when it does not, it is held for all of them. With Rollback listed and a healthy revision before, that is tried instead of holding |
//! | more than half of a node's pods, of at least two workloads, and another node does better, though not if this pod's own revision fails alike on all others | a sick node | Reschedule, if listed; nothing in place helps |
//!
//! Which pods fail, and how, is read from their statuses ([`crate::symptom_of`]): it needs no
//! memory and is the same for every pod that looks.

use rekindle_types::v1alpha1::Rung;

use rekindle_types::Tick;

use crate::{LadderPolicy, Trial, TrialState};

/// What a pod's peers do. All counts hold the pod itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RevisionPeers {
    /// The revision: the name of the pod's controller, and what tells its revisions apart when it
    /// has several.
    pub revision: String,
    /// Pods of the revision that are neither finished nor going.
    pub replicas: usize,
    /// Those that fail in the same way as this pod.
    pub failing_alike: usize,
    /// The highest rung above Container after which one of these failed again.
    pub tried: Option<Rung>,
    /// A rung that is being tried on another pod of the controller.
    pub trial: Option<Trial>,
    /// The highest rung above Container since which another pod of the controller is well.
    pub helped: Option<Rung>,
    /// Set when the node is worse off than another, and the revision does not fail alike
    /// everywhere.
    pub node: Option<NodeTrouble>,
    /// Set on a cluster when most pods of the node ended together.
    pub outage: Option<NodeOutage>,
    /// What the node itself says that is wrong with it: a condition, as `NetworkUnavailable`.
    pub node_says: Option<String>,
}

/// A node on which most pods fail, while another one does better.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeTrouble {
    /// The node.
    pub name: String,
    /// Its pods.
    pub pods: usize,
    /// Those that fail, in whatever way.
    pub failing: usize,
}

/// Most pods of a node ended together, and had been well before: its runtime or its network was
/// restarted, or the node was. The kubelet starts them again; new pods would only add to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeOutage {
    /// The node.
    pub name: String,
    /// Its pods.
    pub pods: usize,
    /// Those that ended.
    pub ended: usize,
    /// Until then the kubelet is given time.
    pub over_at: Tick,
}

/// What it amounts to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FailureCorrelation<'a> {
    /// A sick pod.
    None,
    /// A sick revision, or a dead dependency of all its pods.
    OfRevision(&'a RevisionPeers),
    /// A sick node, and the ladder may leave it.
    OfNode(&'a NodeTrouble),
}

/// Tells one from the other.
pub(crate) fn read<'a>(peers: &'a RevisionPeers, policy: &LadderPolicy) -> FailureCorrelation<'a> {
    if let Some(trouble) = &peers.node
        && policy.step(Rung::Reschedule).is_some()
    {
        return FailureCorrelation::OfNode(trouble);
    }
    if peers.failing_alike >= 2 && peers.failing_alike * 2 > peers.replicas {
        return FailureCorrelation::OfRevision(peers);
    }
    FailureCorrelation::None
}

/// Whether a rung may be taken while the revision fails as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RungPermission<'a> {
    /// It may.
    Given,
    /// When it is known what came of it for another pod.
    After(&'a Trial),
    /// It would not help.
    Refused,
}

impl RevisionPeers {
    /// Takes in what was tried on a pod of the controller, which may be one of those that fail
    /// alike.
    pub fn add(&mut self, tried: TrialState, likeness: FailureLikeness) {
        match (tried, likeness) {
            (TrialState::Nothing, _) | (TrialState::InVain(_), FailureLikeness::Other) => {}
            (TrialState::InVain(rung), FailureLikeness::Alike) => {
                self.tried = self.tried.max(Some(rung))
            }
            (TrialState::Helped(rung), _) => self.helped = self.helped.max(Some(rung)),
            (TrialState::Now(trial), _) => self.trial = Some(trial),
        }
    }

    pub(crate) fn leave(&self, rung: Rung) -> RungPermission<'_> {
        match rung {
            Rung::Container | Rung::Rollback => RungPermission::Given,
            Rung::Recreate | Rung::Reschedule => RungPermission::Refused,
            Rung::Containers | Rung::Pod if self.helped.is_some_and(|helped| helped >= rung) => {
                RungPermission::Given
            }
            Rung::Containers | Rung::Pod if self.tried.is_some_and(|tried| tried >= rung) => {
                RungPermission::Refused
            }
            Rung::Containers | Rung::Pod => match &self.trial {
                Some(trial) => RungPermission::After(trial),
                None => RungPermission::Given,
            },
        }
    }
}

/// Whether a pod fails in the same way as the one that is decided for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailureLikeness {
    /// In the same way.
    Alike,
    /// In another way, or not.
    Other,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy(rungs: &[Rung]) -> LadderPolicy {
        let mut ladder = rekindle_types::v1alpha1::RestartLadder::default();
        ladder.spec.rungs = rungs
            .iter()
            .map(|rung| rekindle_types::v1alpha1::LadderRung {
                rung: *rung,
                attempts: None,
                empty_dirs: None,
                avoid_node_for: None,
            })
            .collect();
        ladder.spec.selector.match_labels = Some([("app".to_owned(), "web".to_owned())].into());
        LadderPolicy::from_ladder(&ladder).expect("a valid ladder")
    }

    #[test]
    fn a_revision_is_sick_when_more_than_half_and_at_least_two_fail_alike() {
        let all = policy(&[Rung::Pod, Rung::Reschedule]);
        for (failing_alike, replicas, expected) in [
            (1, 1, false),
            (1, 3, false),
            (2, 4, false),
            (2, 3, true),
            (2, 2, true),
            (51, 100, true),
        ] {
            let peers = RevisionPeers { failing_alike, replicas, ..RevisionPeers::default() };
            let is_sick = matches!(read(&peers, &all), FailureCorrelation::OfRevision(_));
            assert_eq!(is_sick, expected, "{failing_alike} of {replicas}");
        }
    }

    #[test]
    fn a_sick_node_is_left_only_by_a_ladder_that_can() {
        let node = Some(NodeTrouble { name: "n1".to_owned(), pods: 4, failing: 3 });
        let peers =
            RevisionPeers { failing_alike: 2, replicas: 2, node, ..RevisionPeers::default() };
        let leaves = policy(&[Rung::Pod, Rung::Reschedule]);
        assert!(matches!(read(&peers, &leaves), FailureCorrelation::OfNode(_)));
        assert!(matches!(read(&peers, &policy(&[Rung::Pod])), FailureCorrelation::OfRevision(_)));
    }

    #[test]
    fn a_rung_in_place_is_tried_on_one_and_then_done_or_held_for_all() {
        use Rung::{Container, Containers, Pod, Recreate, Reschedule, Rollback};
        use RungPermission::{After, Given, Refused};
        let trial = Trial { pod: "web-1".to_owned(), rung: Pod, over_at: Tick::from_secs(9) };
        // the rung, what was tried in vain, whether one is on trial, what helped, what may be done
        for (rung, tried, on_trial, helped, expected) in [
            (Pod, None, false, None, Given),
            (Pod, None, true, None, After(&trial)),
            (Containers, None, true, None, After(&trial)),
            (Pod, Some(Containers), false, None, Given),
            (Pod, Some(Pod), false, None, Refused),
            (Pod, Some(Pod), true, None, Refused),
            (Containers, Some(Pod), false, None, Refused),
            (Pod, None, true, Some(Pod), Given),
            (Pod, Some(Pod), false, Some(Pod), Given),
            (Pod, Some(Pod), false, Some(Containers), Refused),
            (Recreate, None, false, Some(Recreate), Refused), // a new pod is the same pod
            (Reschedule, None, false, None, Refused),
            (Rollback, Some(Reschedule), true, None, Given),
            (Container, Some(Pod), true, None, Given),
        ] {
            let trial = on_trial.then(|| trial.clone());
            let peers = RevisionPeers { tried, trial, helped, ..RevisionPeers::default() };
            assert_eq!(peers.leave(rung), expected, "{rung} {peers:?}");
        }
    }
}
