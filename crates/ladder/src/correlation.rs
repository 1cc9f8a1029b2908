//! What the other pods do: one sick pod, a sick revision (or something that all its pods depend on), or a sick node.
//!
//! | who fails | what it is | what follows |
//! |---|---|---|
//! | this pod, or fewer than half of its revision | a sick pod | the ladder as written |
//! | more than half of the revision, at least two, in the same way | a bad rollout or a dead dependency | no new pod and no other node: Recreate and Reschedule are held. A restart in place goes on (what it restarts is down anyway) until one of those pods has tried it and fails again. With Rollback listed and a healthy revision before, that is tried instead of holding |
//! | more than half of a node's pods, of at least two workloads, and another node does better | a sick node | Reschedule, if listed; nothing in place helps |
//!
//! Which pods fail, and how, is read from their statuses ([`crate::symptom_of`]): it needs no memory and is the same for every
//! pod that looks.

use rekindle_types::v1alpha1::Rung;

use crate::Policy;

/// What a pod's peers do. All counts hold the pod itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Peers {
    /// The revision: the name of the pod's controller.
    pub revision: String,
    /// Pods of the controller that are neither finished nor going.
    pub replicas: usize,
    /// Those that fail in the same way as this pod.
    pub failing_alike: usize,
    /// The highest rung above Container that one of these has tried inside the window.
    pub tried: Option<Rung>,
    /// Set when the node is worse off than another.
    pub node: Option<NodeTrouble>,
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

/// What it amounts to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Correlation<'a> {
    /// A sick pod.
    None,
    /// A sick revision, or a dead dependency of all its pods.
    OfRevision(&'a Peers),
    /// A sick node, and the ladder may leave it.
    OfNode(&'a NodeTrouble),
}

/// Tells one from the other.
pub(crate) fn read<'a>(peers: &'a Peers, policy: &Policy) -> Correlation<'a> {
    if let Some(trouble) = &peers.node
        && policy.step(Rung::Reschedule).is_some()
    {
        return Correlation::OfNode(trouble);
    }
    if peers.failing_alike >= 2 && peers.failing_alike * 2 > peers.replicas {
        return Correlation::OfRevision(peers);
    }
    Correlation::None
}

impl Peers {
    /// Whether a rung would not help while the revision fails as a whole.
    pub(crate) fn forbids(&self, rung: Rung) -> bool {
        match rung {
            Rung::Container | Rung::Rollback => false,
            Rung::Containers | Rung::Pod => self.tried.is_some_and(|tried| tried >= rung),
            Rung::Recreate | Rung::Reschedule => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy(rungs: &[Rung]) -> Policy {
        let mut ladder = rekindle_types::v1alpha1::RestartLadder::default();
        ladder.spec.rungs = rungs
            .iter()
            .map(|rung| rekindle_types::v1alpha1::LadderRung {
                rung: *rung,
                attempts: None,
                refresh: None,
                avoid_node_for: None,
            })
            .collect();
        Policy::of(&ladder).expect("a valid ladder")
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
            let peers = Peers { failing_alike, replicas, ..Peers::default() };
            let is_sick = matches!(read(&peers, &all), Correlation::OfRevision(_));
            assert_eq!(is_sick, expected, "{failing_alike} of {replicas}");
        }
    }

    #[test]
    fn a_sick_node_is_left_only_by_a_ladder_that_can() {
        let node = Some(NodeTrouble { name: "n1".to_owned(), pods: 4, failing: 3 });
        let peers = Peers { failing_alike: 2, replicas: 2, node, ..Peers::default() };
        let leaves = policy(&[Rung::Pod, Rung::Reschedule]);
        assert!(matches!(read(&peers, &leaves), Correlation::OfNode(_)));
        assert!(matches!(read(&peers, &policy(&[Rung::Pod])), Correlation::OfRevision(_)));
    }

    #[test]
    fn a_rung_in_place_is_tried_by_one_before_it_is_held_for_all() {
        let peers = |tried| Peers { tried, ..Peers::default() };
        assert!(!peers(None).forbids(Rung::Pod));
        assert!(!peers(Some(Rung::Containers)).forbids(Rung::Pod));
        assert!(peers(Some(Rung::Pod)).forbids(Rung::Pod));
        assert!(peers(Some(Rung::Pod)).forbids(Rung::Containers));
        assert!(peers(None).forbids(Rung::Recreate), "a new pod is the same pod");
        assert!(!peers(Some(Rung::Reschedule)).forbids(Rung::Rollback));
    }
}
