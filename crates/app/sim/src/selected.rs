//! Which ladders have selected a pod so far: one that never does was probably not meant to be as it
//! is.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use rekindle_controllers::{NamespacedName, ViewObject};
use rekindle_types::held::HeldPod;
use rekindle_types::v1alpha1::RestartLadder;

/// The account. A ladder that has selected one costs nothing more.
#[derive(Debug, Default)]
pub(crate) struct SelectedLadders {
    idle: BTreeMap<NamespacedName, Arc<RestartLadder>>,
    busy: BTreeSet<NamespacedName>,
}

impl SelectedLadders {
    /// A ladder is there, or there in another version, beside these objects.
    pub(crate) fn ladder<'a>(
        &mut self,
        ladder: &Arc<RestartLadder>,
        mut all: impl Iterator<Item = &'a ViewObject>,
    ) {
        let name = NamespacedName::from_meta(&ladder.metadata);
        if self.busy.contains(&name) {
            return;
        }
        match all.any(|object| matches!(object, ViewObject::Pod(pod) if selects(ladder, pod))) {
            true => self.is_busy(name),
            false => drop(self.idle.insert(name, ladder.clone())),
        }
    }

    /// A pod is there, or there in another version.
    pub(crate) fn pod(&mut self, pod: &HeldPod) {
        let found = self.idle.iter().filter(|(_, ladder)| selects(ladder, pod));
        let found: Vec<NamespacedName> = found.map(|(name, _)| name.clone()).collect();
        found.into_iter().for_each(|name| self.is_busy(name));
    }

    fn is_busy(&mut self, name: NamespacedName) {
        self.idle.remove(&name);
        self.busy.insert(name);
    }

    /// Those that have selected none.
    pub(crate) fn idle(&self) -> Vec<String> {
        self.idle.keys().map(ToString::to_string).collect()
    }
}

fn selects(ladder: &RestartLadder, pod: &HeldPod) -> bool {
    rekindle_ladder::select(std::iter::once(ladder), pod).is_some()
}
