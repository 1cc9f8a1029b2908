//! The rolling update of a DaemonSet: the old pods of a few nodes at a time are deleted, and made
//! anew by `manage`; or, with a surge, new ones are made beside them first.

use k8s_openapi::api::apps::v1::DaemonSet;
use rekindle_types::int_or_percent::{Rounding, scaled};

use super::DaemonSetSync;
use super::places::{DaemonNode, DaemonNodes, DaemonPod, NodeFit};

/// How pods get a new template.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DaemonSetStrategy {
    /// When somebody deletes them.
    OnDelete,
    /// Old ones are deleted first; on so many nodes none may be available.
    Unavailable(usize),
    /// New ones are made first; so many nodes may have two.
    Surge(usize),
}

/// The set's strategy, when so many nodes should have a pod. Percentages round up (API reference).
pub(super) fn strategy(set: &DaemonSet, wanted: usize) -> DaemonSetStrategy {
    let strategy = set.spec.update_strategy.as_ref();
    if strategy.and_then(|strategy| strategy.type_.as_deref()) == Some("OnDelete") {
        return DaemonSetStrategy::OnDelete;
    }
    let rolling = strategy.and_then(|strategy| strategy.rolling_update.as_ref());
    let wanted = i32::try_from(wanted).unwrap_or(i32::MAX);
    let count = |amount| usize::try_from(scaled(amount, wanted, Rounding::Up)).unwrap_or(0);
    match rolling.and_then(|rolling| rolling.max_surge.as_ref()).map_or(0, count) {
        0 => {
            let max = rolling.and_then(|rolling| rolling.max_unavailable.as_ref());
            DaemonSetStrategy::Unavailable(max.map_or(1, count).max(1))
        }
        surge => DaemonSetStrategy::Surge(surge),
    }
}

/// The pods of a node that are not going.
enum DaemonPair<'a> {
    /// More than one of a template.
    Muddle,
    None,
    New(&'a DaemonPod<'a>),
    Old(&'a DaemonPod<'a>),
    Both(&'a DaemonPod<'a>, &'a DaemonPod<'a>),
}

impl<'a> DaemonPair<'a> {
    fn from_node(place: &DaemonNode<'a>) -> Self {
        let mut pair = DaemonPair::None;
        for daemon in place.pods.iter().filter(|daemon| daemon.stays()) {
            pair = match (pair, daemon.is_updated) {
                (DaemonPair::None, true) => DaemonPair::New(daemon),
                (DaemonPair::None, false) => DaemonPair::Old(daemon),
                (DaemonPair::Old(old), true) => DaemonPair::Both(daemon, old),
                (DaemonPair::New(new), false) => DaemonPair::Both(new, daemon),
                (DaemonPair::New(_), true) | (DaemonPair::Old(_), false) => {
                    return DaemonPair::Muddle;
                }
                (DaemonPair::Both(..) | DaemonPair::Muddle, _) => return DaemonPair::Muddle,
            };
        }
        pair
    }
}

impl DaemonSetSync<'_> {
    /// Goes on with the rolling update.
    pub(super) fn update(&mut self, places: &DaemonNodes<'_>) {
        match strategy(self.set, places.wanted) {
            DaemonSetStrategy::OnDelete => {}
            DaemonSetStrategy::Unavailable(max) => self.update_in_place(places, max),
            DaemonSetStrategy::Surge(max) => self.update_with_surge(places, max),
        }
    }

    /// What is unavailable and old goes at once: nothing is lost. It counts as unavailable all the
    /// same (upstream counts it not, and takes one more that is available).
    fn update_in_place(&mut self, places: &DaemonNodes<'_>, max_unavailable: usize) {
        let mut unavailable = 0;
        let mut candidates = Vec::new();
        for place in nodes(places) {
            match DaemonPair::from_node(place) {
                DaemonPair::Muddle | DaemonPair::None | DaemonPair::Both(..) => unavailable += 1,
                DaemonPair::New(new) => unavailable += usize::from(!self.is_available(new)),
                DaemonPair::Old(old) if self.is_available(old) => candidates.push(old),
                DaemonPair::Old(old) => {
                    unavailable += 1;
                    self.delete(old.pod);
                }
            }
        }
        let room = max_unavailable.saturating_sub(unavailable);
        candidates.into_iter().take(room).for_each(|daemon| self.delete(daemon.pod));
    }

    /// What is unavailable and old gets a new pod beside it at once; what is available, as many as
    /// the surge leaves room for. An old pod on a node that takes no new one goes when there are
    /// more available than wanted.
    fn update_with_surge(&mut self, places: &DaemonNodes<'_>, max_surge: usize) {
        let (mut surge, mut available) = (0, 0);
        let (mut candidates, mut out_of_place) = (Vec::new(), Vec::new());
        for place in nodes(places) {
            match DaemonPair::from_node(place) {
                DaemonPair::Muddle => surge += 1,
                DaemonPair::None => {}
                DaemonPair::New(new) => available += usize::from(self.is_available(new)),
                DaemonPair::Old(old) => match (self.is_available(old), place.fit) {
                    (false, NodeFit::Wanted) => self.create(place.node),
                    (false, _) => self.delete(old.pod),
                    (true, NodeFit::Wanted) => {
                        available += 1;
                        candidates.push(place.node);
                    }
                    (true, _) => {
                        available += 1;
                        out_of_place.push(old);
                    }
                },
                DaemonPair::Both(new, old) => {
                    available += 1;
                    if self.is_available(new) {
                        self.delete(old.pod);
                    } else {
                        surge += 1;
                    }
                }
            }
        }
        let room = max_surge.saturating_sub(surge);
        candidates.into_iter().take(room).for_each(|node| self.create(node));
        let spare = available.saturating_sub(places.wanted);
        out_of_place.into_iter().take(spare).for_each(|daemon| self.delete(daemon.pod));
    }
}

/// The nodes that have a pod or should have one.
fn nodes<'a, 'b>(places: &'b DaemonNodes<'a>) -> impl Iterator<Item = &'b DaemonNode<'a>> {
    places.all.iter().filter(|place| is_of_interest(place))
}

fn is_of_interest(place: &DaemonNode<'_>) -> bool {
    match place.fit {
        NodeFit::Wanted => true,
        NodeFit::Tolerated => !place.pods.is_empty(),
        NodeFit::Unfit | NodeFit::Gone => false,
    }
}
