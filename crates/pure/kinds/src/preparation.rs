//! Preparation: what a write may not change stays as it was, and the generation follows the spec.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

/// Whether the desired state of an object changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DesiredState {
    /// It did.
    Changed,
    /// It did not.
    Same,
}

impl DesiredState {
    /// Compares two desired states.
    pub(crate) fn compare<T: PartialEq>(new: &T, old: &T) -> Self {
        if new == old { DesiredState::Same } else { DesiredState::Changed }
    }
}

/// For a kind of which the user writes `spec` and a controller `status`: an update of the spec
/// leaves the status, and the generation follows the spec. Stands in an `impl ApiKind`.
macro_rules! updates_of_spec {
    () => {
        fn prepare_for_update(
            &mut self,
            old: &Self,
            _ctx: &$crate::registry::resource::RequestContext<'_>,
        ) {
            let desired = $crate::preparation::DesiredState::compare(&self.spec, &old.spec);
            $crate::preparation::next_generation(&mut self.metadata, &old.metadata, desired);
            self.status.clone_from(&old.status);
        }
    };
}
pub(crate) use updates_of_spec;

/// For a kind that has no status: this field is what the user wants. Stands in an `impl ApiKind`.
macro_rules! writes_of {
    ($desired:ident) => {
        fn prepare_for_create(&mut self, _ctx: &$crate::registry::resource::RequestContext<'_>) {
            $crate::preparation::first_generation(&mut self.metadata);
        }

        fn prepare_for_update(
            &mut self,
            old: &Self,
            _ctx: &$crate::registry::resource::RequestContext<'_>,
        ) {
            let desired = $crate::preparation::DesiredState::compare(&self.$desired, &old.$desired);
            $crate::preparation::next_generation(&mut self.metadata, &old.metadata, desired);
        }
    };
}
pub(crate) use writes_of;

/// The same of an update of the status, which leaves the spec. Stands in an
/// `impl SubresourceStrategy<StatusPart>`.
macro_rules! updates_of_status {
    () => {
        fn prepare_part(
            &mut self,
            old: &Self,
            _ctx: &$crate::registry::resource::RequestContext<'_>,
        ) {
            self.spec.clone_from(&old.spec);
            self.metadata.generation = old.metadata.generation;
            // who may write the status decides neither when the object goes nor with whom
            self.metadata.finalizers.clone_from(&old.metadata.finalizers);
            self.metadata.owner_references.clone_from(&old.metadata.owner_references);
        }
    };
}
pub(crate) use updates_of_status;

/// The same of a kind for which an update of the status changes all metadata, too: upstream takes
/// nothing but the spec back.
macro_rules! updates_of_status_and_metadata {
    () => {
        fn prepare_part(
            &mut self,
            old: &Self,
            _ctx: &$crate::registry::resource::RequestContext<'_>,
        ) {
            self.spec.clone_from(&old.spec);
            self.metadata.generation = old.metadata.generation;
        }
    };
}
pub(crate) use updates_of_status_and_metadata;

/// What an update of the status changes, where metadata stays as it is: upstream resets it for this
/// kind.
macro_rules! updates_of_status_alone {
    () => {
        const KEEPS_METADATA: bool = true;

        fn prepare_part(
            &mut self,
            old: &Self,
            _ctx: &$crate::registry::resource::RequestContext<'_>,
        ) {
            self.spec.clone_from(&old.spec);
            let entries = self.metadata.managed_fields.take();
            let resource_version = self.metadata.resource_version.take();
            self.metadata.clone_from(&old.metadata);
            self.metadata.managed_fields = entries;
            self.metadata.resource_version = resource_version;
        }
    };
}
pub(crate) use updates_of_status_alone;

/// The generation of a new object.
pub(crate) const fn first_generation(meta: &mut ObjectMeta) {
    meta.generation = Some(1);
}

/// The generation after an update: one more when the desired state changed, whatever the client
/// sent.
pub(crate) fn next_generation(meta: &mut ObjectMeta, old: &ObjectMeta, desired: DesiredState) {
    meta.generation = match desired {
        DesiredState::Changed => Some(old.generation.unwrap_or(0) + 1),
        DesiredState::Same => old.generation,
    };
}
