//! What is wrong with a definition, in upstream's words and order
//! (`apiextensions-apiserver/pkg/apis/apiextensions/validation`).
//!
//! Upstream keeps what all versions have in common apart from them, and names it so in its errors:
//! `spec.validation`, `spec.additionalPrinterColumns`, `spec.selectableFields`.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceColumnDefinition, CustomResourceDefinition, CustomResourceDefinitionNames,
    CustomResourceDefinitionSpec, CustomResourceDefinitionVersion, SelectableField,
};
use rekindle_structural_schema::{
    DefinitionSchema, check_definition_schema, has_default, type_of_field,
};
use rekindle_types::ObjectJson;
use rekindle_types::definition::is_established;
use rekindle_types::validation::field_error::{FieldError, FieldProblem};
use rekindle_types::validation::{is_printable, quoted};
use serde_json::{Value, json};

use super::json_path;
use crate::registry::object_meta::immutable;
use crate::validation::{Path, items, names, text};

mod conversion;
mod internal_form;

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
    errors.extend(defaults_error(spec, &tree, &field));
    let common = CommonParts::of(&spec.versions);
    errors.extend(missing_schemas(&tree, &field));
    errors.extend(versions_errors(&spec.versions, common, &tree, &field));
    errors.extend(names_errors(&spec.names, &field.child("names")));
    if let [first, ..] = spec.versions.as_slice() {
        let content = VersionContent {
            version: first,
            tree: &tree["spec"]["versions"][0],
            has_status: spec.versions.iter().any(has_status),
            parts: common,
            paths: &VersionPaths::common(),
            no_schema: "may only be set when validations.schema is included",
        };
        errors.extend(content.errors());
    }
    errors.extend(conversion::errors(spec, &field.child("conversion")));
    if spec.preserve_unknown_fields == Some(true) {
        errors.push(FieldError::invalid(
            field.child("preserveUnknownFields"),
            true,
            "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in \
             spec.versions[*].schema instead",
        ));
    }
    errors.extend(stored_versions_errors(definition));
    errors
}

/// Defaults need that unknown fields are dropped.
fn defaults_error(
    spec: &CustomResourceDefinitionSpec,
    tree: &Value,
    field: &Path,
) -> Option<FieldError> {
    let versions = tree["spec"]["versions"].as_array().into_iter().flatten();
    let mut schemas = versions.filter_map(|version| version.pointer("/schema/openAPIV3Schema"));
    let is_refused = spec.preserve_unknown_fields == Some(true) && schemas.any(has_default);
    let must = "must be false in order to use defaults in the schema";
    is_refused.then(|| FieldError::invalid(field.child("preserveUnknownFields"), true, must))
}

/// The versions that objects may be stored in are versions of the definition, and the storage
/// version is among them.
fn stored_versions_errors(definition: &CustomResourceDefinition) -> Vec<FieldError> {
    let field = Path::new("status").child("storedVersions");
    let status = definition.status.as_ref();
    let stored: &[String] = items(status.and_then(|status| status.stored_versions.as_ref()));
    if stored.is_empty() {
        let is_said = status.is_some_and(|status| status.stored_versions.is_some());
        let shown = if is_said { "[]" } else { "null" };
        return vec![shown_invalid(field, shown, "must have at least one stored version")];
    }
    let mut errors = Vec::new();
    let mut left: BTreeMap<&str, usize> =
        stored.iter().enumerate().map(|(at, name)| (name.as_str(), at)).collect();
    for version in &definition.spec.versions {
        if left.remove(version.name.as_str()).is_none() && version.storage {
            let must = format!("must have the storage version {}", version.name);
            errors.push(shown_invalid(field.clone(), &json!(stored).to_string(), &must));
        }
    }
    let mut unknown = Vec::from_iter(left);
    unknown.sort_unstable_by_key(|(_, at)| *at);
    errors.extend(unknown.into_iter().map(|(name, at)| {
        FieldError::invalid(field.index(at), name, "must appear in spec.versions")
    }));
    errors
}

/// What is wrong with the name of a new definition, beside what is wrong with any name.
pub(super) fn name_errors(definition: &CustomResourceDefinition) -> Vec<FieldError> {
    let names = &definition.spec.names;
    let wanted = format!("{}.{}", names.plural, definition.spec.group);
    let meta = &definition.metadata;
    let given = [("generateName", &meta.generate_name), ("name", &meta.name)];
    let given = given.map(|(field, name)| (field, text(name.as_ref())));
    let wrong = given.into_iter().filter(|(_, name)| !name.is_empty() && *name != wanted);
    let errors = wrong.map(|(field, name)| {
        let must = "must be spec.names.plural+\".\"+spec.group";
        FieldError::invalid(Path::new("metadata").child(field), name, must)
    });
    errors.collect()
}

/// What a new definition may not have, beside that.
pub(super) fn new_definition(definition: &CustomResourceDefinition) -> Vec<FieldError> {
    approval_error(definition).into_iter().collect()
}

/// Warnings of formats that upstream does not know, each once.
pub(super) fn unrecognized_formats(definition: &CustomResourceDefinition) -> Vec<String> {
    let tree = definition.to_value();
    let versions = tree["spec"]["versions"].as_array().into_iter().flatten();
    let schemas = versions.filter_map(|version| version.pointer("/schema/openAPIV3Schema"));
    let mut known = BTreeSet::new();
    let formats = schemas.flat_map(rekindle_structural_schema::unrecognized_formats);
    let formats = formats.filter(|format| known.insert(*format));
    formats.map(|format| format!("unrecognized format {}", quoted(format))).collect()
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

/// The parts that all versions have in common, or those that a version has for itself.
#[derive(Clone, Copy)]
struct CommonParts {
    schema: bool,
    subresources: bool,
    columns: bool,
    selectable: bool,
}

impl CommonParts {
    fn of(versions: &[CustomResourceDefinitionVersion]) -> Self {
        let Some((first, others)) = versions.split_first() else { return Self::ALL };
        let all = |is_alike: &dyn Fn(&CustomResourceDefinitionVersion) -> bool| {
            others.iter().all(is_alike)
        };
        Self {
            schema: all(&|other| other.schema == first.schema),
            subresources: all(&|other| other.subresources == first.subresources),
            columns: all(&|other| {
                other.additional_printer_columns == first.additional_printer_columns
            }),
            selectable: all(&|other| other.selectable_fields == first.selectable_fields),
        }
    }

    const ALL: Self = Self { schema: true, subresources: true, columns: true, selectable: true };

    /// The parts that are not among these.
    const fn others(self) -> Self {
        Self {
            schema: !self.schema,
            subresources: !self.subresources,
            columns: !self.columns,
            selectable: !self.selectable,
        }
    }
}

fn has_status(version: &CustomResourceDefinitionVersion) -> bool {
    version.subresources.as_ref().is_some_and(|subresources| subresources.status.is_some())
}

/// How errors name what a version says.
struct VersionPaths {
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
            schema: spec.child("validation").child("openAPIV3Schema"),
            columns: spec.child("additionalPrinterColumns"),
            selectable: spec.child("selectableFields"),
            subresources: spec.child("subresources"),
        }
    }

    fn of_version(index: usize) -> Self {
        let version = Path::new("spec").child("versions").index(index);
        Self {
            schema: version.child("schema").child("openAPIV3Schema"),
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

/// Each version has a schema.
fn missing_schemas(tree: &Value, spec: &Path) -> Vec<FieldError> {
    let field = spec.child("versions");
    let versions = tree["spec"]["versions"].as_array().into_iter().flatten().enumerate();
    let bare = versions.filter(|(_, of)| of.pointer("/schema/openAPIV3Schema").is_none());
    let place = |at: usize| field.index(at).child("schema").child("openAPIV3Schema");
    bare.map(|(at, _)| FieldError::required(place(at), "")).collect()
}

fn versions_errors(
    versions: &[CustomResourceDefinitionVersion],
    common: CommonParts,
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
        errors.extend(deprecation_error(version, &field.index(index)));
        let content = VersionContent {
            version,
            tree: &tree["spec"]["versions"][index],
            has_status: has_status(version),
            parts: common.others(),
            paths: &VersionPaths::of_version(index),
            no_schema: "may only be set when `version.schema.openAPIV3Schema` is not included",
        };
        errors.extend(content.errors());
        known.insert(&version.name);
    }
    let shown = || internal_form::versions(&tree["spec"]["versions"], common);
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
        text => {
            let (at, _) = text.char_indices().find(|(_, letter)| !is_printable(*letter))?;
            let must = format!(
                "must only contain printable UTF-8 characters; non-printable character found at \
                 index {at}"
            );
            return Some(shown_invalid(field, &internal_form::json(warning), &must));
        }
    };
    Some(shown_invalid(field, &internal_form::json(warning), must))
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

/// Schema, subresources, columns and selectable fields, of a version or of all.
struct VersionContent<'a> {
    version: &'a CustomResourceDefinitionVersion,
    tree: &'a Value,
    has_status: bool,
    /// Which of them are looked at.
    parts: CommonParts,
    paths: &'a VersionPaths,
    /// Why there are no selectable fields without a schema at the same place.
    no_schema: &'static str,
}

impl VersionContent<'_> {
    fn errors(&self) -> Vec<FieldError> {
        let Self { version, tree, parts, paths, .. } = self;
        let schema = tree.pointer("/schema/openAPIV3Schema").filter(|_| parts.schema);
        let mut errors = Vec::new();
        if let Some(schema) = schema {
            errors.extend(check_definition_schema(&DefinitionSchema {
                schema,
                path: &String::from(&paths.schema),
                has_status: self.has_status,
            }));
        }
        if parts.subresources {
            errors.extend(scale_errors(tree, &paths.subresources));
        }
        if parts.columns {
            for (at, column) in version.additional_printer_columns.iter().flatten().enumerate() {
                errors.extend(column_errors(column, &paths.columns.index(at)));
            }
        }
        let selectable: &[SelectableField] = items(version.selectable_fields.as_ref());
        match schema {
            _ if !parts.selectable || selectable.is_empty() => {}
            Some(schema) => errors.extend(selectable_errors(selectable, schema, &paths.selectable)),
            None => errors.push(FieldError::invalid(&paths.selectable, "", self.no_schema)),
        }
        errors
    }
}

fn scale_errors(tree: &Value, field: &Path) -> Vec<FieldError> {
    let Some(scale) = tree.pointer("/subresources/scale") else { return Vec::new() };
    let field = field.child("scale");
    let mut errors = Vec::new();
    for (name, roots, must) in [
        ("specReplicasPath", &[".spec."][..], "should be a json path under .spec"),
        ("statusReplicasPath", &[".status."], "should be a json path under .status"),
        (
            "labelSelectorPath",
            &[".spec.", ".status."],
            "should be a json path under either .spec or .status",
        ),
    ] {
        let path = scale[name].as_str().unwrap_or_default();
        let field = field.child(name);
        if path.is_empty() {
            let is_required = name != "labelSelectorPath";
            errors.extend(is_required.then(|| FieldError::required(field, "")));
        } else if !path.starts_with('.') {
            let must = "must be a simple json path starting with .";
            errors.push(FieldError::invalid(field, path, must));
        } else if !roots.iter().any(|root| path.starts_with(root)) {
            errors.push(FieldError::invalid(field, path, must));
        }
    }
    errors
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
        && let Err(why) = json_path::read(path)
    {
        errors.push(FieldError::invalid(field, path, format!("cannot be read: {why}")));
    }
    errors
}

fn selectable_errors(fields: &[SelectableField], schema: &Value, field: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let mut known = BTreeSet::new();
    for (index, selectable) in fields.iter().enumerate() {
        let (path, field) = (&selectable.json_path, field.index(index).child("jsonPath"));
        if path.is_empty() {
            errors.push(FieldError::required(field, ""));
            continue;
        }
        let found = type_of_field(schema, path).map_err(|why| why.to_string());
        let type_name = match found.and_then(|name| json_path::read(path).map(|_| name)) {
            Ok(type_name) => type_name,
            Err(why) => {
                errors.push(FieldError::invalid(field, path, format!("is an invalid path: {why}")));
                continue;
            }
        };
        let mistakes = selectable_mistakes(path, type_name);
        let is_right = mistakes.is_empty();
        errors.extend(mistakes.into_iter().map(|why| FieldError::invalid(&field, path, why)));
        if is_right && !known.insert(path) {
            errors.push(FieldError::duplicate(field, path));
        }
    }
    if known.len() > SELECTABLE_FIELDS_MAX {
        errors.push(FieldError::too_many_of(field, known.len(), SELECTABLE_FIELDS_MAX));
    }
    errors
}

/// A path leads to one text, number or truth value of the schema, outside of metadata.
fn selectable_mistakes(path: &str, type_name: &str) -> Vec<&'static str> {
    let is_in_metadata = path == ".metadata" || path.starts_with(".metadata.");
    let is_of_type = matches!(type_name, "string" | "boolean" | "integer");
    let mistakes = [
        (is_in_metadata, "must not point to fields in metadata"),
        (
            !is_of_type,
            "must point to a field of type string, boolean or integer. Enum string fields and \
             strings with formats are allowed.",
        ),
    ];
    mistakes.into_iter().filter(|(is_made, _)| *is_made).map(|(_, why)| why).collect()
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
