//! RuntimeClass (node.k8s.io/v1): a way to run pods. The embedded runtime is the only one; see
//! `admission/runtime_classes` for what pods take over from a class.

use k8s_openapi::api::core::v1::Toleration;
use k8s_openapi::api::node::v1::RuntimeClass;
use rekindle_types::Tick;
use rekindle_types::validation::field_error::{FieldError, FieldProblem};
use serde_json::json;

use super::defaults;
use crate::registry::object_meta::FinalizerRule;
use crate::registry::resource::{ApiKind, ResourceNames, ResourceScope, TableCell, TableColumn};
use crate::table::{AGE, NAME, age, column};
use crate::validation::tolerations::tolerations;
use crate::validation::{
    ListKeys, MISTAKES_MAX, Path, invalid_each, items, labels, names, quantities, resource_names,
    text,
};

/// The handler of the embedded runtime.
pub const HANDLER: &str = "rekindle";

impl ApiKind for RuntimeClass {
    const NAMES: ResourceNames = ResourceNames {
        singular: "runtimeclass",
        short_names: &[],
        categories: &[],
        scope: ResourceScope::Cluster,
    };
    const FINALIZERS: FinalizerRule = FinalizerRule::Any;
    const NEEDS_VERSION_ON_UPDATE: bool = true;
    const COLUMNS: &'static [TableColumn] = &[
        NAME,
        column(
            "Handler",
            "string",
            "The runtime and its configuration that pods of this class get.",
        ),
        AGE,
    ];

    fn set_defaults(&mut self) {
        if let Some(overhead) = &mut self.overhead {
            quantities::canonicalize_list(overhead.pod_fixed.as_mut());
        }
        if let Some(scheduling) = &mut self.scheduling {
            defaults::drop_empty_map(&mut scheduling.node_selector);
            defaults::drop_empty_list(&mut scheduling.tolerations);
        }
    }

    fn validate(&self) -> Vec<FieldError> {
        let handler = Path::new("handler");
        let mut errors: Vec<FieldError> = match self.handler.as_str() {
            "" => vec![FieldError::required(handler, "")],
            name => invalid_each(&handler, name, names::dns_label(name)).collect(),
        };
        let overhead = self.overhead.as_ref().and_then(|overhead| overhead.pod_fixed.as_ref());
        for (resource, amount) in overhead.into_iter().flatten() {
            // upstream checks it as the limits of a container
            let field = Path::new("overhead").child("limits").key(resource);
            errors.extend(resource_names::of_container(resource, &field));
            errors.extend(quantities::check_non_negative(amount, &field).err());
        }
        if let Some(scheduling) = &self.scheduling {
            let field = Path::new("scheduling");
            let selector = scheduling.node_selector.as_ref();
            errors.extend(labels::labels(selector, &field.child("nodeSelector")));
            let list = items(scheduling.tolerations.as_ref());
            let field = field.child("tolerations");
            errors.extend(tolerations(list, &field));
            errors.extend(repeated_tolerations(list, &field));
        }
        errors
    }

    fn validate_update(&self, old: &Self) -> Vec<FieldError> {
        let is_same = self.handler == old.handler;
        let error = FieldError::invalid("handler", &self.handler, "field is immutable");
        (!is_same).then_some(error).into_iter().collect()
    }

    fn warnings(&self) -> Vec<String> {
        if self.handler == HANDLER {
            return Vec::new();
        }
        vec![format!(
            "handler: no node has the handler {:?}: pods of this class are not bound; the handler of the embedded \
             runtime is {HANDLER:?}",
            self.handler
        )]
    }

    fn row(&self, now: Tick) -> Vec<TableCell> {
        vec![
            text(self.metadata.name.as_ref()).into(),
            self.handler.as_str().into(),
            age(self.metadata.creation_timestamp.as_ref(), now).into(),
        ]
    }
}

/// Each toleration that says the same as one before it, as upstream shows it.
fn repeated_tolerations(tolerations: &[Toleration], field: &Path) -> Vec<FieldError> {
    let mut known = ListKeys::new();
    let mut errors = Vec::new();
    for (index, toleration) in tolerations.iter().enumerate() {
        let [key, operator, value, effect] =
            [&toleration.key, &toleration.operator, &toleration.value, &toleration.effect]
                .map(|part| text(part.as_ref()));
        if known.add((key, operator, value, effect)).is_some() && errors.len() < MISTAKES_MAX {
            let [key, operator, value, effect] =
                [key, operator, value, effect].map(|part| json!(part).to_string());
            let seconds = json!(toleration.toleration_seconds);
            let shown = format!(
                "{{\"Key\":{key},\"Operator\":{operator},\"Value\":{value},\"Effect\":{effect},\
                 \"TolerationSeconds\":{seconds}}}"
            );
            errors.push(FieldError {
                field: field.index(index).into(),
                problem: FieldProblem::Duplicate(shown),
                detail: String::new(),
            });
        }
    }
    errors
}
