//! Everything that is refused in the schema of a definition.
//!
//! Source: apiextensions-apiserver `apis/apiextensions/validation` and `apiserver/schema`. Errors
//! come in its order, but properties are looked at by name where upstream's order is random.

mod defaults;
mod field_path;
mod formats;
mod keywords;
mod list_keywords;
mod rule_checks;
mod rule_texts;
mod structural;
mod walk;

pub(crate) use field_path::resolve as resolve_field_path;
pub use field_path::{FieldPathError, type_of_field};
pub use formats::unrecognized_formats;
use rekindle_types::validation::{FieldError, MISTAKES_MAX, field_error::FieldProblem};
use serde_json::Value;

use crate::{
    SchemaCompileError, StructuralSchema,
    internal_form::{InternalField, internal_form},
    schema_node::{SchemaNode, is_zero},
};

/// The schema of one version of a definition, as it was written.
#[derive(Clone, Copy, Debug)]
pub struct DefinitionSchema<'a> {
    /// The content of `openAPIV3Schema`.
    pub schema: &'a Value,
    /// Where it stands. With one version, upstream says `spec.validation.openAPIV3Schema`.
    pub path: &'a str,
    /// Whether the version has the subresource `status`: then few keywords are allowed at the root.
    pub has_status: bool,
}

/// The keywords that a root may have beside the subresource `status`.
const ROOT_KEYWORDS: [(&str, &str); 22] = [
    ("description", "Description"),
    ("type", "Type"),
    ("format", "Format"),
    ("title", "Title"),
    ("maximum", "Maximum"),
    ("exclusiveMaximum", "ExclusiveMaximum"),
    ("minimum", "Minimum"),
    ("exclusiveMinimum", "ExclusiveMinimum"),
    ("maxLength", "MaxLength"),
    ("minLength", "MinLength"),
    ("pattern", "Pattern"),
    ("maxItems", "MaxItems"),
    ("minItems", "MinItems"),
    ("uniqueItems", "UniqueItems"),
    ("multipleOf", "MultipleOf"),
    ("required", "Required"),
    ("items", "Items"),
    ("properties", "Properties"),
    ("externalDocs", "ExternalDocs"),
    ("example", "Example"),
    ("x-kubernetes-preserve-unknown-fields", "XPreserveUnknownFields"),
    ("x-kubernetes-validations", "XValidations"),
];

/// Whether a schema has a default anywhere.
pub fn has_default(schema: &Value) -> bool {
    SchemaNode::new(schema).is_some_and(|root| {
        root.get("default").is_some()
            || root.schemas_below().any(|below| has_default(below.value()))
    })
}

/// Everything wrong with the schema of a version. An empty list means that
/// [`StructuralSchema::compile`] takes it.
pub fn check_definition_schema(definition: &DefinitionSchema<'_>) -> Vec<FieldError> {
    let DefinitionSchema { schema, path, has_status } = *definition;
    let compiled = StructuralSchema::compile(schema);
    let Some(root) = SchemaNode::new(schema) else {
        return vec![FieldError::invalid(path, "", "must be an object")];
    };
    // a limit is broken: nothing else is looked at, so that the work is bounded
    match &compiled {
        Err(problem) if *problem != SchemaCompileError::NotAnObject => {
            return vec![FieldError::forbidden(path, problem.to_string())];
        }
        Ok(_) | Err(_) => {}
    }
    let mut errors = Vec::new();
    keywords::check(root, path, &mut errors);
    if !errors.is_empty() {
        errors.truncate(MISTAKES_MAX);
        return errors;
    }
    if has_status {
        errors.extend(check_root_with_status(root, path));
    }
    if root.is_set("nullable") {
        let detail = "nullable cannot be true at the root";
        errors.push(FieldError::forbidden(format!("{path}.nullable"), detail));
    }
    let mut structural = None;
    if structural::is_convertible(root) {
        let mut found = structural::check(root, path);
        if found.is_empty()
            && let Ok(compiled) = &compiled
        {
            found = defaults::check(compiled, path);
            structural = found.is_empty().then_some(compiled);
        }
        errors.extend(found);
    }
    errors.extend(walk::check(root, path, structural));
    if errors.is_empty()
        && let Err(problem) = &compiled
    {
        errors.push(FieldError::forbidden(path, problem.to_string()));
    }
    errors.truncate(MISTAKES_MAX);
    errors
}

fn check_root_with_status(root: SchemaNode<'_>, path: &str) -> Option<FieldError> {
    let type_name = root.type_name();
    if !type_name.is_empty() && type_name != "object" {
        let detail = "only \"object\" is allowed as the type at the root of the schema if the \
                      status subresource is enabled";
        return Some(FieldError::invalid(format!("{path}.type"), type_name, detail));
    }
    let is_allowed = |keyword: &str| ROOT_KEYWORDS.iter().any(|(allowed, _)| *allowed == keyword);
    let is_refused =
        root.keywords().any(|(keyword, value)| !is_zero(value) && !is_allowed(keyword));
    if !is_refused {
        return None;
    }
    let names: Vec<&str> = ROOT_KEYWORDS.iter().map(|(_, name)| *name).collect();
    Some(FieldError {
        field: path.to_owned(),
        problem: FieldProblem::Invalid(internal_form(InternalField::Schema, root.value())),
        detail: format!(
            "only [{}] fields are allowed at the root of the schema if the status subresource is \
             enabled",
            names.join(" ")
        ),
    })
}
