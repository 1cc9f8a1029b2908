//! StorageVersionMigration (storagemigration.k8s.io/v1, KEP-4192): writes all objects of a resource
//! again in the version that is stored today, so that an old version of a definition can go.
//! `storage_migration` of the API decides what is to be done.

use k8s_openapi::api::storagemigration::v1::{
    StorageVersionMigration, StorageVersionMigrationStatus,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, GroupResource};
use rekindle_types::Tick;
use rekindle_types::validation::field_error::FieldError;

use crate::preparation;
use crate::registry::resource::{
    ApiKind, RequestContext, ResourceNames, ResourceScope, Subresource, TableCell, TableColumn,
};
use crate::registry::strategy::{StatusPart, Strategies, SubresourceStrategy};
use crate::table::{NAME, column};
use crate::validation::{Path, conditions, fixed, items, names, text};

/// The group of the kind.
pub const GROUP: &str = "storagemigration.k8s.io";
/// Its resource.
pub const PLURAL: &str = "storageversionmigrations";

/// The condition of a migration that is under way.
pub const RUNNING: &str = "Running";
/// The condition of one that has written all objects.
pub const SUCCEEDED: &str = "Succeeded";
/// The condition of one that has given up.
pub const FAILED: &str = "Failed";

impl ApiKind for StorageVersionMigration {
    const NAMES: ResourceNames = ResourceNames {
        singular: "storageversionmigration",
        short_names: &[],
        categories: &[],
        scope: ResourceScope::Cluster,
    };
    const SUBRESOURCES: &'static [Subresource] = &[Subresource::Status];
    const STRATEGIES: Strategies<Self> = Strategies::of_status();
    const NEEDS_VERSION_ON_UPDATE: bool = true;
    const COLUMNS: &'static [TableColumn] = &[
        NAME,
        column("Resource", "string", "The resource of which all objects are written again."),
    ];

    fn prepare_for_create(&mut self, _ctx: &RequestContext<'_>) {
        self.status = Some(StorageVersionMigrationStatus::default());
    }

    fn prepare_for_update(&mut self, old: &Self, _ctx: &RequestContext<'_>) {
        self.status.clone_from(&old.status);
    }

    fn validate(&self) -> Vec<FieldError> {
        let field = Path::new("spec").child("resource");
        let none = GroupResource::default();
        let GroupResource { group, resource } = resource(self).unwrap_or(&none);
        let mut errors = Vec::new();
        if resource.is_empty() {
            let why = "resource is required to be set";
            errors.push(FieldError::required(field.child("resource"), why));
        }
        let of_resource = ("resource", resource, names::dns_1035_label(resource));
        let of_group = ("group", group, names::dns_subdomain(group));
        for (name, value, messages) in [of_resource, of_group] {
            if !value.is_empty() && !messages.is_empty() {
                errors.push(FieldError::invalid(field.child(name), value, messages.join(",")));
            }
        }
        errors
    }

    fn validate_update(&self, old: &Self) -> Vec<FieldError> {
        let error = fixed(&Path::new("spec"), &self.spec);
        (self.spec != old.spec).then_some(error).into_iter().collect()
    }

    fn row(&self, _now: Tick) -> Vec<TableCell> {
        let shown = resource(self).map(|what| format!("{}.{}", what.resource, what.group));
        vec![text(self.metadata.name.as_ref()).into(), shown.unwrap_or_default().into()]
    }
}

impl SubresourceStrategy<StatusPart> for StorageVersionMigration {
    preparation::updates_of_status_alone!();

    fn validate_part(&self, old: &Self) -> Vec<FieldError> {
        let field = Path::new("status");
        let of_conditions = field.child("conditions");
        let mut errors = conditions::errors(conditions(self), &of_conditions);
        let revision = |of: &Self| {
            let status = of.status.as_ref();
            text(status.and_then(|status| status.resource_version.as_ref())).to_owned()
        };
        let (new, before) = (revision(self), revision(old));
        let of_revision = field.child("resourceVersion");
        if !new.is_empty() && new.parse::<u64>().is_err() {
            errors.push(FieldError::invalid(&of_revision, &new, "must be a number"));
        }
        if !before.is_empty() && new != before {
            errors.push(fixed(&of_revision, &new));
        }
        for (is_wrong, why) in [
            (
                is_true(self, SUCCEEDED) && is_true(self, FAILED),
                "Both success and failed conditions cannot be true at the same time",
            ),
            (
                is_true(self, SUCCEEDED) && is_true(self, RUNNING),
                "Running condition cannot be true when success condition is true",
            ),
            (
                is_true(self, FAILED) && is_true(self, RUNNING),
                "Running condition cannot be true when failed condition is true",
            ),
            (
                is_true(old, SUCCEEDED) && !is_true(self, SUCCEEDED),
                "Success condition cannot be set to false once it is true",
            ),
            (
                is_true(old, FAILED) && !is_true(self, FAILED),
                "Failed condition cannot be set to false once it is true",
            ),
        ] {
            if is_wrong {
                errors.push(FieldError::invalid_json(&of_conditions, &conditions(self), why));
            }
        }
        errors
    }
}

/// What is migrated.
pub fn resource(migration: &StorageVersionMigration) -> Option<&GroupResource> {
    migration.spec.as_ref().map(|spec| &spec.resource)
}

fn conditions(migration: &StorageVersionMigration) -> &[Condition] {
    let status = migration.status.as_ref();
    items(status.and_then(|status| status.conditions.as_ref()))
}

/// Whether it has a condition of this type that is True.
pub fn is_true(migration: &StorageVersionMigration, type_: &str) -> bool {
    let mut all = conditions(migration).iter();
    all.any(|condition| condition.type_ == type_ && condition.status == "True")
}

/// Whether it is over.
pub fn is_over(migration: &StorageVersionMigration) -> bool {
    is_true(migration, SUCCEEDED) || is_true(migration, FAILED)
}
