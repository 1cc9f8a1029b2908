//! Kinds of flowcontrol.apiserver.k8s.io: what they say decides which requests run first
//! (docs/adr/0092).

mod flow_schema;
mod policy_rules;
mod priority_level;

use std::fmt::Debug;

use rekindle_flow_control::MaintainedObject;
use rekindle_types::validation::field_error::FieldError;

use crate::validation::{Path, text};

/// The group of both kinds.
pub const GROUP: &str = "flowcontrol.apiserver.k8s.io";
/// The resource of FlowSchema.
pub const SCHEMAS: &str = "flowschemas";
/// The resource of PriorityLevelConfiguration.
pub const LEVELS: &str = "prioritylevelconfigurations";

/// What is wrong with the spec of an object that the server cannot do without.
fn mandatory_errors<K: MaintainedObject, S: Debug>(
    object: &K,
    spec: impl Fn(&K) -> &S,
) -> Vec<FieldError> {
    let name = &object.metadata().name;
    let fixed = K::mandatory().into_iter().find(|fixed| fixed.metadata().name == *name);
    let differs = fixed.is_some_and(|fixed| {
        let mut meant = object.clone();
        meant.fix(&fixed);
        meant != *object
    });
    if !differs {
        return Vec::new();
    }
    let why = format!("spec of '{}' must equal the fixed value", text(name.as_ref()));
    vec![FieldError::invalid(Path::new("spec"), spec(object), why)]
}
