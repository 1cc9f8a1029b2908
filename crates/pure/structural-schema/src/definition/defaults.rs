//! Defaults validate against their own schema, and have no unknown fields
//! (apiextensions-apiserver `schema/defaulting`).

use rekindle_types::validation::{FieldError, field_error::FieldProblem};
use serde_json::{Value, json};

use crate::{
    StructuralSchema,
    cel::run::RulesChecked,
    error_list::ErrorList,
    shown::{json as shown_json, shown},
    validation::field_below,
};

/// Everything wrong with the defaults of a schema.
pub(super) fn check(root: &StructuralSchema, path: &str) -> Vec<FieldError> {
    let mut check = DefaultCheck { errors: ErrorList::default() };
    check.node(root, true, path, &Surrounding { resource: root, parts: Vec::new() }, false);
    check.errors.into_vec()
}

/// The resource around a default, with the way from one to the other.
struct Surrounding<'a> {
    resource: &'a StructuralSchema,
    parts: Vec<SurroundingPart<'a>>,
}

#[derive(Clone, Copy)]
enum SurroundingPart<'a> {
    Field(&'a str),
    Item,
}

impl<'a> Surrounding<'a> {
    fn child(&self, part: SurroundingPart<'a>) -> Self {
        let parts = self.parts.iter().copied().chain([part]).collect();
        Self { resource: self.resource, parts }
    }

    /// The smallest resource that holds a default.
    fn with(&self, default: &Value) -> Value {
        let inner = self.parts.iter().rev().fold(default.clone(), |inner, part| match part {
            SurroundingPart::Field(name) => json!({ *name: inner }),
            SurroundingPart::Item => json!([inner]),
        });
        let mut resource = json!({"apiVersion": "validation/v1", "kind": "Validation"});
        if let (Some(fields), Value::Object(inner)) = (resource.as_object_mut(), inner) {
            fields.extend(inner);
        }
        resource
    }
}

struct DefaultCheck {
    errors: ErrorList,
}

impl DefaultCheck {
    /// `is_resource` is true of the root, too, whatever it says.
    fn node(
        &mut self,
        node: &StructuralSchema,
        is_resource: bool,
        path: &str,
        around: &Surrounding<'_>,
        is_in_metadata: bool,
    ) {
        if self.errors.is_full() {
            return;
        }
        let own = Surrounding { resource: node, parts: Vec::new() };
        let around = if is_resource { &own } else { around };
        let is_in_metadata = is_in_metadata && !is_resource;
        if let Some(default) = &node.default {
            let field = format!("{path}.default");
            self.default(node, is_resource, default, &field, is_in_metadata.then_some(around));
        }
        if let Some(items) = &node.items {
            let around = around.child(SurroundingPart::Item);
            let place = format!("{path}.items");
            self.node(items, items.is_embedded_resource, &place, &around, is_in_metadata);
        }
        for (name, schema) in &node.properties {
            let is_meta = is_resource && matches!(&**name, "metadata" | "apiVersion" | "kind");
            let around = around.child(SurroundingPart::Field(name));
            let place = format!("{path}.properties[{name}]");
            let is_in_metadata = is_in_metadata || is_meta;
            self.node(schema, schema.is_embedded_resource, &place, &around, is_in_metadata);
        }
    }

    fn default(
        &mut self,
        node: &StructuralSchema,
        is_resource: bool,
        default: &Value,
        field: &str,
        metadata_of: Option<&Surrounding<'_>>,
    ) {
        let refused = |detail: String| FieldError {
            field: field.to_owned(),
            problem: FieldProblem::Invalid(shown(default)),
            detail,
        };
        match metadata_of {
            Some(around) => {
                let mut resource = around.with(default);
                let mut problems = match around.resource.coerce_resource(&mut resource) {
                    Err(error) => vec![error.to_string()],
                    Ok(()) => {
                        let found = around.resource.validate_resources(&resource, true);
                        found.iter().map(FieldError::to_string).collect()
                    }
                };
                if !problems.is_empty() {
                    let all = match problems.len() {
                        1 => problems.remove(0),
                        _ => format!("[{}]", problems.join(", ")),
                    };
                    self.errors.push(refused(format!("must result in valid metadata: {all}")));
                    return;
                }
            }
            None => {
                let mut pruned = default.clone();
                node.prune_default(is_resource, &mut pruned);
                if shown_json(&pruned) != shown_json(default) {
                    self.errors.push(refused("must not have unknown fields".to_owned()));
                }
                if is_resource && let Err(error) = node.coerce_resource(&mut pruned) {
                    let field = field_below(field, &error.field);
                    self.errors.push(FieldError { field, ..error });
                    return;
                }
                let found = node.validate_resources(default, is_resource);
                if !found.is_empty() {
                    let below = found.into_iter().map(|error| FieldError {
                        field: field_below(field, &error.field),
                        ..error
                    });
                    self.errors.extend(below);
                    return;
                }
            }
        }
        let found = node.validate_default(field, default);
        if found.is_empty() {
            let run = |old| node.run_rules(field, RulesChecked::Now, is_resource, (default, old));
            // as a value that is new, and as one that stays
            let mut found = run(None);
            if found.is_empty() {
                found = run(Some(default));
            }
            self.errors.extend(found);
        }
        self.errors.extend(found);
    }
}
