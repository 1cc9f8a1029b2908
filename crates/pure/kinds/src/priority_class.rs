//! PriorityClass (scheduling.k8s.io/v1).
//!
//! Source: API reference; documentation, "Pod Priority and Preemption". What a pod takes over from
//! its class is in `admission/priority.rs`.

use k8s_openapi::api::scheduling::v1::PriorityClass;
use rekindle_types::validation::field_error::FieldError;
use rekindle_types::{ObjectJson, Tick};

use super::defaults;
use super::preparation;
use crate::registry::resource::{
    ApiKind, MetadataChecks, RequestContext, ResourceNames, ResourceScope, TableCell, TableColumn,
};
use crate::table::{AGE, NAME, age, column};
use crate::validation::{Path, text};

/// What names of the system's own classes begin with.
const SYSTEM_PREFIX: &str = "system-";
/// The highest value that a user may give.
const USER_VALUE_MAX: i32 = 1_000_000_000;
/// What a class says of preemption unless it says otherwise.
pub const PREEMPTION_POLICY: &str = "PreemptLowerPriority";

/// A class that every cluster has.
#[derive(Clone, Copy, Debug)]
pub struct SystemClass {
    /// Its name.
    pub name: &'static str,
    /// Its value.
    pub value: i32,
    /// Its description.
    pub description: &'static str,
}

/// The classes that every cluster has.
pub const SYSTEM_CLASSES: [SystemClass; 2] = [
    SystemClass {
        name: "system-node-critical",
        value: 2_000_001_000,
        description: "Used for system critical pods that must not be moved from their current node.",
    },
    SystemClass {
        name: "system-cluster-critical",
        value: 2_000_000_000,
        description: "Used for system critical pods that must run in the cluster, but can be moved to another node if necessary.",
    },
];

impl ApiKind for PriorityClass {
    const NAMES: ResourceNames = ResourceNames {
        singular: "priorityclass",
        short_names: &["pc"],
        categories: &[],
        scope: ResourceScope::Cluster,
    };
    const METADATA_CHECKS: MetadataChecks = MetadataChecks::OfUpdate;
    const COLUMNS: &'static [TableColumn] = &[
        NAME,
        column("Value", "integer", "The priority that pods of this class get."),
        column("Global-Default", "boolean", "Whether pods that name no class get this one."),
        AGE,
        column("PreemptionPolicy", "string", "Whether its pods may end pods of lower priority."),
    ];

    fn set_defaults(&mut self) {
        self.value.get_or_insert(0);
        defaults::drop_false(&mut self.global_default);
        defaults::drop_empty_text(&mut self.description);
        self.preemption_policy.get_or_insert_with(|| PREEMPTION_POLICY.to_owned());
    }

    /// A value of 0 is what every class has upstream, before anyone owns it.
    fn tracked_value(&self) -> serde_json::Value {
        let mut value = ObjectJson::to_value(self);
        if self.value == Some(0)
            && let Some(fields) = value.as_object_mut()
        {
            fields.remove("value");
        }
        value
    }

    fn prepare_for_create(&mut self, _ctx: &RequestContext<'_>) {
        preparation::first_generation(&mut self.metadata);
    }

    fn prepare_for_update(&mut self, old: &Self, _ctx: &RequestContext<'_>) {
        self.metadata.generation = old.metadata.generation;
    }

    fn validate(&self) -> Vec<FieldError> {
        let mut errors = Vec::new();
        if text(self.metadata.name.as_ref()).starts_with(SYSTEM_PREFIX) {
            errors.extend(system_error(self).map(|error| {
                FieldError::forbidden(
                    Path::new("metadata").child("name"),
                    format!(
                        "priority class names with '{SYSTEM_PREFIX}' prefix are reserved for system use only. error: {error}"
                    ),
                )
            }));
        } else if self.value.unwrap_or_default() > USER_VALUE_MAX {
            errors.push(FieldError::forbidden(
                Path::new("value"),
                format!("maximum allowed value of a user defined priority is {USER_VALUE_MAX}"),
            ));
        }
        errors
    }

    fn validate_new(&self) -> Vec<FieldError> {
        let policies = [PREEMPTION_POLICY, "Never"];
        let policy = self.preemption_policy.as_deref().filter(|policy| !policies.contains(policy));
        let error = policy.map(|policy| match policy {
            "" => FieldError::required("preemptionPolicy", ""),
            other => FieldError::not_supported("preemptionPolicy", other, &policies),
        });
        error.into_iter().collect()
    }

    fn validate_update(&self, old: &Self) -> Vec<FieldError> {
        let mut errors = Vec::new();
        if self.value != old.value {
            let why = "may not be changed in an update.";
            errors.push(FieldError::forbidden(Path::new("value"), why));
        }
        if self.preemption_policy != old.preemption_policy {
            errors.push(FieldError::invalid(
                Path::new("preemptionPolicy"),
                text(self.preemption_policy.as_ref()),
                "field is immutable",
            ));
        }
        errors
    }

    fn row(&self, now: Tick) -> Vec<TableCell> {
        vec![
            text(self.metadata.name.as_ref()).into(),
            TableCell::Int(self.value.unwrap_or_default().into()),
            TableCell::Json(self.global_default.unwrap_or_default().into()),
            age(self.metadata.creation_timestamp.as_ref(), now).into(),
            text(self.preemption_policy.as_ref()).into(),
        ]
    }
}

/// Why a class with a system name is none of the system's.
fn system_error(class: &PriorityClass) -> Option<String> {
    let name = text(class.metadata.name.as_ref());
    let Some(known) = SYSTEM_CLASSES.iter().find(|known| known.name == name) else {
        return Some(format!("{name} is not a known system priority class"));
    };
    if class.value != Some(known.value) {
        return Some(format!("value of {name} PriorityClass must be {}", known.value));
    }
    (class.global_default == Some(true))
        .then(|| format!("globalDefault of {name} PriorityClass must be false"))
}
