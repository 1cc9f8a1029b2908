//! ResourceClaim (resource.k8s.io/v1): devices that pods ask for by the name of the claim.

use k8s_openapi::api::resource::v1::{ResourceClaim, ResourceClaimStatus};
use rekindle_types::Tick;
use rekindle_types::validation::field_error::FieldError;

use super::device_constraint::{claim_errors, set_claim_defaults};
use super::{claim_status, stored_only};
use crate::registry::resource::{
    ApiKind, RequestContext, ResourceNames, ResourceScope, Subresource, TableCell, TableColumn,
};
use crate::registry::strategy::{StatusPart, Strategies, SubresourceStrategy};
use crate::table::{AGE, NAME, age, column};
use crate::validation::{Path, fixed, items, text};

impl ApiKind for ResourceClaim {
    const NAMES: ResourceNames = ResourceNames {
        singular: "resourceclaim",
        short_names: &[],
        categories: &[],
        scope: ResourceScope::Namespaced,
    };
    const SUBRESOURCES: &'static [Subresource] = &[Subresource::Status];
    const STRATEGIES: Strategies<Self> = Strategies::of_status();
    const COLUMNS: &'static [TableColumn] = &[
        NAME,
        column("State", "string", "Whether it is pending, allocated, reserved or deleted."),
        AGE,
    ];

    fn set_defaults(&mut self) {
        set_claim_defaults(self.spec.get_or_insert_default());
        self.status.iter_mut().for_each(claim_status::set_defaults);
    }

    fn prepare_for_create(&mut self, _ctx: &RequestContext<'_>) {
        self.status = Some(ResourceClaimStatus::default());
    }

    fn prepare_for_update(&mut self, old: &Self, _ctx: &RequestContext<'_>) {
        self.status.clone_from(&old.status);
    }

    // a later change cannot make it right: the spec is fixed
    fn validate_new(&self) -> Vec<FieldError> {
        claim_errors(self.spec.as_ref(), &Path::new("spec"))
    }

    fn validate_update(&self, old: &Self) -> Vec<FieldError> {
        let error = || fixed(&Path::new("spec"), &self.spec);
        (self.spec != old.spec).then(error).into_iter().collect()
    }

    fn warnings(&self) -> Vec<String> {
        stored_only("ResourceClaim")
    }

    fn row(&self, now: Tick) -> Vec<TableCell> {
        vec![
            text(self.metadata.name.as_ref()).into(),
            state(self).into(),
            age(self.metadata.creation_timestamp.as_ref(), now).into(),
        ]
    }
}

impl SubresourceStrategy<StatusPart> for ResourceClaim {
    fn prepare_part(&mut self, old: &Self, _ctx: &RequestContext<'_>) {
        self.spec.clone_from(&old.spec);
        let (new, kept) = (&mut self.metadata, &old.metadata);
        new.generation = kept.generation;
        new.labels.clone_from(&kept.labels);
        new.annotations.clone_from(&kept.annotations);
        new.finalizers.clone_from(&kept.finalizers);
        new.owner_references.clone_from(&kept.owner_references);
        claim_status::drop_deallocated(self, old);
    }

    fn validate_part(&self, old: &Self) -> Vec<FieldError> {
        claim_status::errors(self, old)
    }
}

/// What a table says of a claim.
fn state(claim: &ResourceClaim) -> String {
    let is_deleted = claim.metadata.deletion_timestamp.is_some();
    let status = claim.status.as_ref();
    let is_allocated = status.is_some_and(|status| status.allocation.is_some());
    let consumers = items(status.and_then(|status| status.reserved_for.as_ref()));
    let states = [
        ("deleted", is_deleted),
        ("pending", !is_deleted && !is_allocated),
        ("allocated", is_allocated),
        ("reserved", is_allocated && !consumers.is_empty()),
    ];
    let named = states.into_iter().filter(|(_, is_so)| *is_so);
    named.map(|(name, _)| name).collect::<Vec<_>>().join(",")
}
