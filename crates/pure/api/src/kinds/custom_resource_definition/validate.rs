//! What is wrong with a definition, in upstream's words and order
//! (`apiextensions-apiserver/pkg/apis/apiextensions/validation`).
//!
//! Upstream keeps what all versions have in common apart from them, and names it so in its errors:
//! `spec.validation`, `spec.additionalPrinterColumns`, `spec.selectableFields`.

use std::collections::BTreeSet;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceColumnDefinition, CustomResourceDefinition, CustomResourceDefinitionNames,
    CustomResourceDefinitionVersion, SelectableField,
};
use rekindle_structural_schema::{
    DefinitionSchema, FieldPathError, check_definition_schema, type_of_field,
};
use rekindle_types::ObjectJson;
use rekindle_types::definition::is_established;
use serde_json::Value;

use crate::custom::read_json_path;
use crate::registry::field_error::{FieldError, FieldProblem};
use crate::validation::object_meta::immutable;
use crate::validation::{Path, items, names, text};

mod conversion;

/// The annotation that says who has approved a group of the Kubernetes community.
const APPROVED: &str = "api-approved.kubernetes.io";
const COLUMN_TYPES: [&str; 5] = ["boolean", "date", "integer", "number", "string"];
const COLUMN_FORMATS: [&str; 8] =
    ["byte", "date", "date-time", "double", "float", "int32", "int64", "password"];
const SELECTABLE_FIELDS_MAX: usize = 8;

/// Everything wrong with a definition.
pub(super) fn definition(definition: &CustomResourceDefinition) -> Vec<FieldError> {
    let tree = definition.to_value();
    let spec = &definition.spec;
    let field = Path::new("spec");
    let mut errors = Vec::from_iter(group_error(&spec.group, &field.child("group")));
    errors.extend(scope_error(&spec.scope, &field.child("scope")));
    if spec.preserve_unknown_fields == Some(true) {
        errors.push(FieldError::invalid(
            field.child("preserveUnknownFields"),
            true,
            "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in \
             spec.versions[*].schema instead",
        ));
    }
    let in_common = InCommon::of(&spec.versions);
    errors.extend(versions_errors(&spec.versions, in_common, &tree, &field));
    errors.extend(names_errors(&spec.names, &field.child("names")));
    if in_common == InCommon::Yes
        && let [first, ..] = spec.versions.as_slice()
    {
        errors.extend(content_errors(first, &tree["spec"]["versions"][0], &VersionPaths::common()));
    }
    errors.extend(conversion::errors(spec, &field.child("conversion")));
    if items(definition.status.as_ref().and_then(|s| s.stored_versions.as_ref())).is_empty() {
        errors.push(shown_invalid(
            Path::new("status").child("storedVersions"),
            "null",
            "must have at least one stored version",
        ));
    }
    errors
}

/// What a new definition may not have, beside that.
pub(super) fn new_definition(definition: &CustomResourceDefinition) -> Vec<FieldError> {
    let spec = &definition.spec;
    let name = text(definition.metadata.name.as_ref());
    let mut errors = Vec::new();
    let is_named = name == format!("{}.{}", spec.names.plural, spec.group);
    if !is_named && names::dns_subdomain(name).is_empty() {
        let must = "must be spec.names.plural+\".\"+spec.group";
        errors.push(FieldError::invalid("metadata.name", name, must));
    }
    errors.extend(approval_error(definition));
    errors
}

/// What may not change.
pub(super) fn update(
    new: &CustomResourceDefinition,
    old: &CustomResourceDefinition,
) -> Vec<FieldError> {
    let field = Path::new("spec");
    let is_established = is_established(old);
    let (spec, before) = (&new.spec, &old.spec);
    let names = field.child("names");
    let fixed = [
        (field.child("scope"), &spec.scope, &before.scope, is_established),
        (names.child("kind"), &spec.names.kind, &before.names.kind, is_established),
        (field.child("group"), &spec.group, &before.group, true),
        (names.child("plural"), &spec.names.plural, &before.names.plural, true),
    ];
    let changed = fixed.into_iter().filter(|(_, new, old, is_fixed)| *is_fixed && new != old);
    changed.map(|(field, new, ..)| immutable(field, new)).collect()
}

/// Whether all versions say the same, names aside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum InCommon {
    Yes,
    No,
}

impl InCommon {
    fn of(versions: &[CustomResourceDefinitionVersion]) -> Self {
        let Some((first, others)) = versions.split_first() else { return Self::Yes };
        let is_alike = |other: &CustomResourceDefinitionVersion| {
            other.schema == first.schema
                && other.subresources == first.subresources
                && other.additional_printer_columns == first.additional_printer_columns
                && other.selectable_fields == first.selectable_fields
        };
        if others.iter().all(is_alike) { Self::Yes } else { Self::No }
    }
}

/// How errors name what a version says.
struct VersionPaths {
    /// A schema that is missing.
    no_schema: Path,
    schema: Path,
    columns: Path,
    selectable: Path,
    subresources: Path,
}

impl VersionPaths {
    /// What all versions have in common.
    fn common() -> Self {
        let spec = Path::new("spec");
        Self {
            no_schema: Self::of_version(0).no_schema,
            schema: spec.child("validation").child("openAPIV3Schema"),
            columns: spec.child("additionalPrinterColumns"),
            selectable: spec.child("selectableFields"),
            subresources: spec.child("subresources"),
        }
    }

    fn of_version(index: usize) -> Self {
        let version = Path::new("spec").child("versions").index(index);
        let schema = version.child("schema").child("openAPIV3Schema");
        Self {
            no_schema: schema.clone(),
            schema,
            columns: version.child("additionalPrinterColumns"),
            selectable: version.child("selectableFields"),
            subresources: version.child("subresources"),
        }
    }
}

fn group_error(group: &str, field: &Path) -> Option<FieldError> {
    let wrong = names::dns_subdomain(group);
    if group.is_empty() {
        Some(FieldError::required(field, ""))
    } else if !wrong.is_empty() {
        Some(FieldError::invalid(field, group, wrong.join(",")))
    } else if !group.contains('.') {
        Some(FieldError::invalid(field, group, "should be a domain with at least one dot"))
    } else {
        None
    }
}

fn scope_error(scope: &str, field: &Path) -> Option<FieldError> {
    match scope {
        "Cluster" | "Namespaced" => None,
        "" => Some(FieldError::required(field, "")),
        other => Some(FieldError::not_supported(field, other, &["Cluster", "Namespaced"])),
    }
}

fn versions_errors(
    versions: &[CustomResourceDefinitionVersion],
    in_common: InCommon,
    tree: &Value,
    spec: &Path,
) -> Vec<FieldError> {
    let field = spec.child("versions");
    let mut errors = Vec::new();
    let mut known = BTreeSet::new();
    for (index, version) in versions.iter().enumerate() {
        let wrong = names::dns_1035_label(&version.name);
        if !wrong.is_empty() {
            let field = field.index(index).child("name");
            errors.push(FieldError::invalid(field, &version.name, wrong.join(",")));
        }
        if in_common == InCommon::No {
            let tree = &tree["spec"]["versions"][index];
            errors.extend(content_errors(version, tree, &VersionPaths::of_version(index)));
        }
        known.insert(&version.name);
        errors.extend(deprecation_error(version, &field.index(index)));
    }
    let shown = || tree["spec"]["versions"].to_string();
    if known.len() < versions.len() {
        errors.push(shown_invalid(field.clone(), &shown(), "must contain unique version names"));
    }
    if versions.iter().filter(|version| version.storage).count() != 1 {
        let must = "must have exactly one version marked as storage version";
        errors.push(shown_invalid(field, &shown(), must));
    }
    // upstream keeps the name of the first version once more
    let first = versions.first().map_or("", |version| &version.name);
    let wrong = if first.is_empty() { Vec::new() } else { names::dns_1035_label(first) };
    if !wrong.is_empty() {
        errors.push(FieldError::invalid(spec.child("version"), first, wrong.join(",")));
    }
    errors
}

fn deprecation_error(
    version: &CustomResourceDefinitionVersion,
    field: &Path,
) -> Option<FieldError> {
    let warning = version.deprecation_warning.as_ref()?;
    let field = field.child("deprecationWarning");
    let must = match warning {
        _ if version.deprecated != Some(true) => "can only be set for deprecated versions",
        text if text.is_empty() => "must not be an empty string",
        text if text.len() > 256 => "must be <= 256 characters long",
        text if text.chars().any(char::is_control) => "must only contain printable characters",
        _ => return None,
    };
    Some(FieldError::invalid(field, warning, must))
}

fn names_errors(names: &CustomResourceDefinitionNames, field: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let singular = text(names.singular.as_ref());
    let list_kind = text(names.list_kind.as_ref());
    let required = [
        ("plural", names.plural.as_str()),
        ("singular", singular),
        ("kind", &names.kind),
        ("listKind", list_kind),
    ];
    for (name, value) in required {
        if value.is_empty() {
            errors.push(FieldError::required(field.child(name), ""));
        }
    }
    let mut label = |field: Path, value: &str, checked: &str, intro: &str| {
        let wrong = names::dns_1035_label(checked);
        if !value.is_empty() && !wrong.is_empty() {
            errors.push(FieldError::invalid(field, value, format!("{intro}{}", wrong.join(","))));
        }
    };
    label(field.child("plural"), &names.plural, &names.plural, "");
    label(field.child("singular"), singular, singular, "");
    for (index, name) in names.short_names.iter().flatten().enumerate() {
        label(field.child("shortNames").index(index), name, name, "");
    }
    let mixed = "may have mixed case, but should otherwise match: ";
    label(field.child("kind"), &names.kind, &names.kind.to_lowercase(), mixed);
    label(field.child("listKind"), list_kind, &list_kind.to_lowercase(), mixed);
    for (index, name) in names.categories.iter().flatten().enumerate() {
        label(field.child("categories").index(index), name, name, "");
    }
    if !names.kind.is_empty() && names.kind == list_kind {
        let must = "kind and listKind may not be the same";
        errors.push(FieldError::invalid(field.child("listKind"), list_kind, must));
    }
    errors
}

/// Schema, subresources, columns and selectable fields of a version.
fn content_errors(
    version: &CustomResourceDefinitionVersion,
    tree: &Value,
    paths: &VersionPaths,
) -> Vec<FieldError> {
    let mut errors = match tree.pointer("/schema/openAPIV3Schema") {
        Some(schema) => check_definition_schema(&DefinitionSchema {
            schema,
            path: &String::from(&paths.schema),
            has_status: tree.pointer("/subresources/status").is_some(),
        }),
        None => vec![FieldError::required(&paths.no_schema, "")],
    };
    errors.extend(scale_errors(tree, &paths.subresources));
    for (index, column) in version.additional_printer_columns.iter().flatten().enumerate() {
        errors.extend(column_errors(column, &paths.columns.index(index)));
    }
    errors.extend(selectable_errors(version, tree, &paths.selectable));
    errors
}

fn scale_errors(tree: &Value, field: &Path) -> Vec<FieldError> {
    let Some(scale) = tree.pointer("/subresources/scale") else { return Vec::new() };
    let field = field.child("scale");
    let mut errors = Vec::new();
    for (name, root, is_required) in [
        ("specReplicasPath", ".spec.", true),
        ("statusReplicasPath", ".status.", true),
        ("labelSelectorPath", "", false),
    ] {
        let path = scale[name].as_str().unwrap_or_default();
        let field = field.child(name);
        let may_begin = if root.is_empty() { &[".spec.", ".status."][..] } else { &[root][..] };
        if path.is_empty() {
            errors.extend(is_required.then(|| FieldError::required(field, "")));
        } else if let Err(why) = simple_path(path) {
            errors.push(FieldError::invalid(field, path, why));
        } else if !may_begin.iter().any(|root| path.starts_with(root)) {
            let must = format!("should be a json path under {}", may_begin.join(" or "));
            errors.push(FieldError::invalid(field, path, must));
        }
    }
    errors
}

/// A path of names: what a Scale and a selectable field may name.
fn simple_path(path: &str) -> Result<(), &'static str> {
    match path {
        path if !path.starts_with('.') => Err("must be a simple json path starting with ."),
        path if path.contains('[') => Err("must be a simple json path without array notation"),
        path if read_json_path(path).is_err() => Err("must be a simple json path"),
        _ => Ok(()),
    }
}

fn column_errors(column: &CustomResourceColumnDefinition, field: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if column.name.is_empty() {
        errors.push(FieldError::required(field.child("name"), ""));
    }
    let types = format!("must be one of {}", COLUMN_TYPES.join(","));
    if column.type_.is_empty() {
        errors.push(FieldError::required(field.child("type"), types));
    } else if !COLUMN_TYPES.contains(&column.type_.as_str()) {
        errors.push(FieldError::invalid(field.child("type"), &column.type_, types));
    }
    let format = text(column.format.as_ref());
    if !format.is_empty() && !COLUMN_FORMATS.contains(&format) {
        let must = format!("must be one of {}", COLUMN_FORMATS.join(","));
        errors.push(FieldError::invalid(field.child("format"), format, must));
    }
    let (path, field) = (&column.json_path, field.child("JSONPath"));
    if path.is_empty() {
        errors.push(FieldError::required(field, ""));
    } else if !path.starts_with('.') {
        let must = "must be a simple json path starting with .";
        errors.push(FieldError::invalid(field, path, must));
    } else if errors.is_empty()
        && let Err(why) = read_json_path(path)
    {
        errors.push(FieldError::invalid(field, path, format!("cannot be read: {why}")));
    }
    errors
}

fn selectable_errors(
    version: &CustomResourceDefinitionVersion,
    tree: &Value,
    field: &Path,
) -> Vec<FieldError> {
    let fields: &[SelectableField] = items(version.selectable_fields.as_ref());
    let schema = tree.pointer("/schema/openAPIV3Schema").unwrap_or(&Value::Null);
    let mut errors = Vec::new();
    let mut known = BTreeSet::new();
    for (index, selectable) in fields.iter().enumerate() {
        let (path, field) = (&selectable.json_path, field.index(index).child("jsonPath"));
        if path.is_empty() {
            errors.push(FieldError::required(field, ""));
        } else if let Err(why) = selectable_path(path, schema) {
            errors.push(FieldError::invalid(field, path, why));
        } else if let Err(why) = read_json_path(path) {
            errors.push(FieldError::invalid(field, path, format!("is an invalid path: {why}")));
        } else if !known.insert(path) {
            errors.push(FieldError::duplicate(field, path));
        }
    }
    if fields.len() > SELECTABLE_FIELDS_MAX {
        errors.push(FieldError::too_many_of(field, fields.len(), SELECTABLE_FIELDS_MAX));
    }
    errors
}

/// Checks that a path leads to one text, number or truth value of the schema, outside of metadata.
fn selectable_path(path: &str, schema: &Value) -> Result<(), String> {
    let is_in_metadata = path == ".metadata" || path.starts_with(".metadata.");
    let found = match type_of_field(schema, path) {
        Ok(_) if is_in_metadata => Err(FieldPathError::UnknownField),
        found => found,
    };
    match found.map_err(|why| format!("is an invalid path: {why}"))? {
        "string" | "boolean" | "integer" => Ok(()),
        _ => Err("must point to a field of type string, boolean or integer. Enum string fields \
                  and strings with formats are allowed."
            .to_owned()),
    }
}

/// Groups of the Kubernetes community need a word of who approved them.
fn approval_error(definition: &CustomResourceDefinition) -> Option<FieldError> {
    let group = &definition.spec.group;
    let is_of = |domain: &str| group == domain || group.ends_with(&format!(".{domain}"));
    if !is_of("k8s.io") && !is_of("kubernetes.io") {
        return None;
    }
    let field = Path::new("metadata").child("annotations").key(APPROVED);
    let said = definition.metadata.annotations.as_ref().and_then(|all| all.get(APPROVED));
    let see = "see https://github.com/kubernetes/enhancements/pull/1111";
    let must = format!("protected groups must have approval annotation {APPROVED:?}");
    match text(said) {
        "" => Some(FieldError::required(field, format!("{must}, {see}"))),
        said if said.starts_with("unapproved") => None,
        said if said.starts_with("https://") || said.starts_with("http://") => None,
        said => Some(FieldError::invalid(
            field,
            said,
            format!("{must} with either a URL or a reason starting with \"unapproved\", {see}"),
        )),
    }
}

/// A value that is not acceptable, as JSON.
fn shown_invalid(field: Path, value: &str, detail: &str) -> FieldError {
    FieldError {
        field: field.into(),
        problem: FieldProblem::Invalid(value.to_owned()),
        detail: detail.to_owned(),
    }
}
