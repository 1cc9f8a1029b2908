//! Lease (coordination.k8s.io/v1).

use k8s_openapi::api::coordination::v1::Lease;
use rekindle_types::Tick;
use rekindle_types::validation::field_error::FieldError;

use crate::registry::object_meta::FinalizerRule;
use crate::registry::resource::{ApiKind, ResourceNames, ResourceScope, TableCell, TableColumn};
use crate::table::{AGE, NAME, age, column};
use crate::validation::{Path, numbers, text};

// An empty `holderIdentity` is no mistake: it is how client-go gives a Lease back.
impl ApiKind for Lease {
    const NAMES: ResourceNames = ResourceNames {
        singular: "lease",
        short_names: &[],
        categories: &[],
        scope: ResourceScope::Namespaced,
    };
    const CREATES_ON_UPDATE: bool = true;
    const FINALIZERS: FinalizerRule = FinalizerRule::Any;
    const NEEDS_VERSION_ON_UPDATE: bool = true;
    const COLUMNS: &'static [TableColumn] =
        &[NAME, column("Holder", "string", "The identity of the holder of a current lease."), AGE];

    /// Upstream always prints the spec.
    fn set_defaults(&mut self) {
        self.spec.get_or_insert_default();
    }

    fn validate(&self) -> Vec<FieldError> {
        let mut errors = Vec::new();
        let Some(spec) = &self.spec else { return errors };
        let field = Path::new("spec");
        if let Some(seconds) = spec.lease_duration_seconds.filter(|seconds| *seconds <= 0) {
            errors.push(FieldError::invalid(
                field.child("leaseDurationSeconds"),
                seconds,
                "must be greater than 0",
            ));
        }
        if let Some(transitions) = spec.lease_transitions {
            let field = field.child("leaseTransitions");
            errors.extend(numbers::non_negative(transitions, &field));
        }
        errors
    }

    fn row(&self, now: Tick) -> Vec<TableCell> {
        let holder = self.spec.as_ref().and_then(|spec| spec.holder_identity.as_ref());
        vec![
            text(self.metadata.name.as_ref()).into(),
            text(holder).into(),
            age(self.metadata.creation_timestamp.as_ref(), now).into(),
        ]
    }
}
