//! Filling what the user left out. In the Kubernetes API an absent field, an empty text, a zero, an
//! empty list and an empty map are the same wherever the Go type is no pointer; these functions
//! treat them so.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

/// Sets a text that is absent or empty.
pub(crate) fn text(slot: &mut Option<String>, default: &str) {
    if slot.as_deref().is_none_or(str::is_empty) {
        *slot = Some(default.to_owned());
    }
}

/// Sets a number that is absent or zero.
pub(crate) fn number(slot: &mut Option<i32>, default: i32) {
    if slot.is_none_or(|value| value == 0) {
        *slot = Some(default);
    }
}

/// Makes an empty text absent.
pub(crate) fn drop_empty_text(slot: &mut Option<String>) {
    if slot.as_deref().is_some_and(str::is_empty) {
        *slot = None;
    }
}

/// Makes an empty list absent.
pub(crate) fn drop_empty_list<T>(slot: &mut Option<Vec<T>>) {
    if slot.as_ref().is_some_and(Vec::is_empty) {
        *slot = None;
    }
}

/// Makes an empty map absent.
pub(crate) fn drop_empty_map<K, V>(slot: &mut Option<BTreeMap<K, V>>) {
    if slot.as_ref().is_some_and(BTreeMap::is_empty) {
        *slot = None;
    }
}

/// Makes a `false` absent, for the fields in which both mean the same.
pub(crate) fn drop_false(slot: &mut Option<bool>) {
    if *slot == Some(false) {
        *slot = None;
    }
}

/// Whether the desired state of an object changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Desired {
    /// It did.
    Changed,
    /// It did not.
    Same,
}

impl Desired {
    /// Compares two desired states.
    pub(crate) fn compare<T: PartialEq>(new: &T, old: &T) -> Self {
        if new == old { Desired::Same } else { Desired::Changed }
    }
}

/// For a kind of which the user writes `spec` and a controller `status`: an update of the spec
/// leaves the status, and the generation follows the spec. Stands in an `impl ApiKind`.
macro_rules! updates_of_spec {
    () => {
        fn prepare_for_update(
            &mut self,
            old: &Self,
            _ctx: &$crate::registry::resource::Context<'_>,
        ) {
            let desired = $crate::kinds::fill::Desired::compare(&self.spec, &old.spec);
            $crate::kinds::fill::next_generation(&mut self.metadata, &old.metadata, desired);
            self.status.clone_from(&old.status);
        }
    };
}
pub(crate) use updates_of_spec;

/// The same of an update of the status, which leaves the spec. Stands in an
/// `impl SubresourceStrategy<StatusPart>`.
macro_rules! updates_of_status {
    () => {
        fn prepare_part(&mut self, old: &Self, _ctx: &$crate::registry::resource::Context<'_>) {
            self.spec.clone_from(&old.spec);
            self.metadata.generation = old.metadata.generation;
            // who may write the status decides neither when the object goes nor with whom
            self.metadata.finalizers.clone_from(&old.metadata.finalizers);
            self.metadata.owner_references.clone_from(&old.metadata.owner_references);
        }
    };
}
pub(crate) use updates_of_status;

/// The generation of a new object.
pub(crate) const fn first_generation(meta: &mut ObjectMeta) {
    meta.generation = Some(1);
}

/// The generation after an update: one more when the desired state changed, whatever the client
/// sent.
pub(crate) fn next_generation(meta: &mut ObjectMeta, old: &ObjectMeta, desired: Desired) {
    meta.generation = match desired {
        Desired::Changed => Some(old.generation.unwrap_or(0) + 1),
        Desired::Same => old.generation,
    };
}
