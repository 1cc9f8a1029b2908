//! CSIDriver (storage.k8s.io/v1): what a driver of volumes needs. Stored for drivers that a user
//! installs; no volume of a driver is mounted here.

use k8s_openapi::api::storage::v1::CSIDriver;
use rekindle_types::Tick;
use rekindle_types::validation::field_error::FieldError;

use super::stored_only;
use crate::registry::resource::{
    ApiKind, MetadataChecks, RequestContext, ResourceNames, ResourceScope, TableCell, TableColumn,
};
use crate::table::{AGE, NAME, age, column};
use crate::validation::{ListKeys, Path, fixed, items, text};

const PERSISTENT: &str = "Persistent";
const LIFECYCLES: [&str; 2] = [PERSISTENT, "Ephemeral"];
const BY_FS_TYPE: &str = "ReadWriteOnceWithFSType";

impl ApiKind for CSIDriver {
    const NAMES: ResourceNames = ResourceNames {
        singular: "csidriver",
        short_names: &[],
        categories: &[],
        scope: ResourceScope::Cluster,
    };
    const METADATA_CHECKS: MetadataChecks = MetadataChecks::OfUpdate;
    const NEEDS_VERSION_ON_UPDATE: bool = true;
    const COLUMNS: &'static [TableColumn] = &[
        NAME,
        column(
            "AttachRequired",
            "boolean",
            "Whether volumes are attached before they are mounted.",
        ),
        column("PodInfoOnMount", "boolean", "Whether the driver is given the pod with a mount."),
        column("StorageCapacity", "boolean", "Whether the scheduler heeds the free capacity."),
        column("TokenRequests", "string", "The audiences of tokens that the driver is given."),
        column("RequiresRepublish", "boolean", "Whether mounts are renewed from time to time."),
        column("Modes", "string", "The kinds of volumes that the driver has."),
        AGE,
    ];

    fn set_defaults(&mut self) {
        let spec = &mut self.spec;
        spec.attach_required.get_or_insert(true);
        spec.pod_info_on_mount.get_or_insert(false);
        spec.storage_capacity.get_or_insert(false);
        spec.fs_group_policy.get_or_insert_with(|| BY_FS_TYPE.to_owned());
        if items(spec.volume_lifecycle_modes.as_ref()).is_empty() {
            spec.volume_lifecycle_modes = Some(vec![PERSISTENT.to_owned()]);
        }
        spec.requires_republish.get_or_insert(false);
        spec.se_linux_mount.get_or_insert(false);
    }

    fn prepare_for_update(&mut self, old: &Self, _ctx: &RequestContext<'_>) {
        if self.spec != old.spec {
            let generation = old.metadata.generation.unwrap_or(0);
            self.metadata.generation = Some(generation + 1);
        }
    }

    fn validate(&self) -> Vec<FieldError> {
        let field = Path::new("spec");
        let spec = &self.spec;
        let mut errors = Vec::new();
        let policies = ["File", "None", BY_FS_TYPE];
        let policy = text(spec.fs_group_policy.as_ref());
        if !policies.contains(&policy) {
            errors.push(FieldError::not_supported(field.child("fsGroupPolicy"), policy, &policies));
        }
        let mut audiences: ListKeys<&str> = ListKeys::new();
        for (index, request) in items(spec.token_requests.as_ref()).iter().enumerate() {
            let field = field.child("tokenRequests").index(index);
            if audiences.add(&request.audience).is_some() {
                errors.push(FieldError::duplicate(field.child("audience"), &request.audience));
            }
            if request.expiration_seconds.is_some_and(|seconds| seconds < 600) {
                errors.push(FieldError::invalid(
                    field.child("expirationSeconds"),
                    request.expiration_seconds.unwrap_or_default(),
                    "may not specify a duration less than 10 minutes",
                ));
            }
        }
        if let Some(seconds) = spec.node_allocatable_update_period_seconds
            && seconds < PERIOD_SECONDS_MIN
        {
            let field = field.child("nodeAllocatableUpdatePeriodSeconds");
            let why = "must be greater than or equal to 10 seconds";
            errors.push(FieldError::invalid(field, seconds, why));
        }
        let modes = items(spec.volume_lifecycle_modes.as_ref());
        let unknown = modes.iter().filter(|mode| !LIFECYCLES.contains(&mode.as_str()));
        errors.extend(unknown.map(|mode| {
            FieldError::not_supported(field.child("volumeLifecycleModes"), mode, &LIFECYCLES)
        }));
        errors
    }

    fn validate_update(&self, old: &Self) -> Vec<FieldError> {
        let field = Path::new("spec");
        let mut errors = Vec::new();
        if self.spec.attach_required != old.spec.attach_required {
            // upstream's name for it
            errors.push(fixed(&field.child("attachedRequired"), &self.spec.attach_required));
        }
        if self.spec.volume_lifecycle_modes != old.spec.volume_lifecycle_modes {
            let field = field.child("volumeLifecycleModes");
            errors.push(fixed(&field, &self.spec.volume_lifecycle_modes));
        }
        errors
    }

    fn warnings(&self) -> Vec<String> {
        stored_only("CSIDriver", "no volume of a driver is mounted")
    }

    fn row(&self, now: Tick) -> Vec<TableCell> {
        let spec = &self.spec;
        let flag = |flag: Option<bool>| TableCell::Json(flag.unwrap_or(false).into());
        let audiences: Vec<&str> = items(spec.token_requests.as_ref())
            .iter()
            .map(|request| request.audience.as_str())
            .collect();
        let audiences =
            if audiences.is_empty() { "<unset>".to_owned() } else { audiences.join(",") };
        vec![
            text(self.metadata.name.as_ref()).into(),
            flag(spec.attach_required),
            flag(spec.pod_info_on_mount),
            flag(spec.storage_capacity),
            audiences.into(),
            flag(spec.requires_republish),
            items(spec.volume_lifecycle_modes.as_ref()).join(",").into(),
            age(self.metadata.creation_timestamp.as_ref(), now).into(),
        ]
    }
}

/// The shortest time between two looks at what a node has.
const PERIOD_SECONDS_MIN: i64 = 10;
