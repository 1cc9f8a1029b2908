//! Which pods were made in the place of others that went: what `mendedBy: Recreate` is about.

use std::collections::{BTreeMap, BTreeSet};

use rekindle_controllers::{NamespacedName, owners};
use rekindle_types::pods::{self, AnyPod};

use crate::behaviour::PodOrigin;

/// The account. A place is a pod's controller, or its own name when it has none.
#[derive(Debug, Default)]
pub(super) struct ReplacementAccount {
    /// How many went whose place nobody has taken yet.
    gone: BTreeMap<String, u64>,
    /// The UIDs of those that are on their way out.
    going: BTreeSet<String>,
}

impl ReplacementAccount {
    /// A pod is there in this version. For one that is being deleted, or has failed, its controller
    /// makes another one already.
    pub(super) fn seen(&mut self, pod: &impl AnyPod) {
        let goes = pod.metadata().deletion_timestamp.is_some() || pods::phase(pod) == "Failed";
        if goes && self.going.insert(uid_of(pod)) {
            self.goes(pod);
        }
    }

    /// A pod is gone.
    pub(super) fn deleted(&mut self, pod: &impl AnyPod) {
        if !self.going.remove(&uid_of(pod)) {
            self.goes(pod);
        }
    }

    fn goes(&mut self, pod: &impl AnyPod) {
        *self.gone.entry(place_of(pod)).or_default() += 1;
    }

    /// Why there is a new pod.
    pub(super) fn origin_of(&mut self, pod: &impl AnyPod) -> PodOrigin {
        match self.gone.get_mut(&place_of(pod)).filter(|count| **count > 0) {
            Some(count) => {
                *count -= 1;
                PodOrigin::Replaces
            }
            None => PodOrigin::Wanted,
        }
    }
}

fn uid_of(pod: &impl AnyPod) -> String {
    pod.metadata().uid.clone().unwrap_or_default()
}

fn place_of(pod: &impl AnyPod) -> String {
    match owners::controller_of(pod.metadata()) {
        Some(owner) => owner.uid.clone(),
        None => NamespacedName::from_meta(pod.metadata()).to_string(),
    }
}
