//! ControllerRevision (apps/v1): one state that a StatefulSet or a DaemonSet had, and can be
//! brought back to.

use k8s_openapi::api::apps::v1::ControllerRevision;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use rekindle_types::Tick;
use rekindle_types::owners::controller_of;
use rekindle_types::validation::field_error::{FieldError, FieldProblem};
use serde_json::Value;

use crate::registry::resource::{ApiKind, ResourceNames, ResourceScope, TableCell, TableColumn};
use crate::table::{AGE, NAME, age, column};
use crate::validation::{Path, numbers, text};

impl ApiKind for ControllerRevision {
    const NAMES: ResourceNames = ResourceNames {
        singular: "controllerrevision",
        short_names: &[],
        categories: &[],
        scope: ResourceScope::Namespaced,
    };
    const COLUMNS: &'static [TableColumn] = &[
        NAME,
        column("Controller", "string", "Controller of the object."),
        column("Revision", "string", "Revision of the state that the object represents."),
        AGE,
    ];

    /// Upstream always prints the revision.
    fn set_defaults(&mut self) {
        self.revision.get_or_insert(0);
    }

    fn validate_new(&self) -> Vec<FieldError> {
        let why = match &self.data.0 {
            Value::Object(_) => return Vec::new(),
            Value::Null => "data is mandatory",
            Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
                "data must be a valid JSON object"
            }
        };
        vec![FieldError::required("data", why)]
    }

    fn validate(&self) -> Vec<FieldError> {
        let revision = self.revision.unwrap_or(0);
        numbers::non_negative(revision, &Path::new("revision")).into_iter().collect()
    }

    fn validate_update(&self, old: &Self) -> Vec<FieldError> {
        if self.data == old.data {
            return Vec::new();
        }
        vec![FieldError {
            field: "data".to_owned(),
            problem: FieldProblem::Invalid(self.data.0.to_string()),
            detail: "field is immutable".to_owned(),
        }]
    }

    fn row(&self, now: Tick) -> Vec<TableCell> {
        vec![
            text(self.metadata.name.as_ref()).into(),
            controller(&self.metadata).into(),
            TableCell::Int(self.revision.unwrap_or(0)),
            age(self.metadata.creation_timestamp.as_ref(), now).into(),
        ]
    }
}

/// `statefulset.apps/web`, or `<none>`.
fn controller(meta: &ObjectMeta) -> String {
    let Some(owner) = controller_of(meta) else {
        return "<none>".to_owned();
    };
    let kind = owner.kind.to_lowercase();
    match owner.api_version.split_once('/') {
        Some((group, _)) => format!("{kind}.{group}/{}", owner.name),
        None => format!("{kind}/{}", owner.name),
    }
}
