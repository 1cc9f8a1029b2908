//! Versions as errors of upstream show them. It keeps what all versions have in common apart from
//! them, so that the versions show none of it.

use rekindle_structural_schema::{InternalField, NamedField, internal_form};
use serde_json::{Value, json};

use super::CommonParts;
use InternalField::{Flag, Json, Object, Objects, Schema, Text};

const VERSION: &[NamedField] = &[
    ("Name", "name", Text),
    ("Served", "served", Flag),
    ("Storage", "storage", Flag),
    ("Deprecated", "deprecated", Flag),
    ("DeprecationWarning", "deprecationWarning", Json),
    ("Schema", "schema", Object(&[("OpenAPIV3Schema", "openAPIV3Schema", Schema)])),
    ("Subresources", "subresources", Object(SUBRESOURCES)),
    ("AdditionalPrinterColumns", "additionalPrinterColumns", Objects(COLUMN)),
    ("SelectableFields", "selectableFields", Objects(&[("JSONPath", "jsonPath", Text)])),
];
const SUBRESOURCES: &[NamedField] =
    &[("Status", "status", Json), ("Scale", "scale", Object(SCALE))];
const SCALE: &[NamedField] = &[
    ("SpecReplicasPath", "specReplicasPath", Text),
    ("StatusReplicasPath", "statusReplicasPath", Text),
    ("LabelSelectorPath", "labelSelectorPath", Json),
];
const COLUMN: &[NamedField] = &[
    ("Name", "name", Text),
    ("Type", "type", Text),
    ("Format", "format", Text),
    ("Description", "description", Text),
    ("Priority", "priority", InternalField::Number),
    ("JSONPath", "jsonPath", Text),
];

/// The list of versions in an error. `versions` is the list as JSON. One without versions is shown
/// as one that is not there: the two cannot be told apart here.
pub(super) fn versions(versions: &Value, common: CommonParts) -> String {
    let mut versions = versions.clone();
    if versions.as_array().is_some_and(Vec::is_empty) {
        versions = json!(null);
    }
    let hidden = [
        ("schema", common.schema),
        ("subresources", common.subresources),
        ("additionalPrinterColumns", common.columns),
        ("selectableFields", common.selectable),
    ];
    for version in versions.as_array_mut().into_iter().flatten() {
        for (part, _) in hidden.iter().filter(|(_, is_hidden)| *is_hidden) {
            version[*part] = json!(null);
        }
    }
    internal_form(Objects(VERSION), &versions)
}

/// A text that is a pointer upstream, which errors show as JSON.
pub(super) fn json(text: &str) -> String {
    internal_form(Json, &text.into())
}
