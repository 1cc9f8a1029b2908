//! Selectors of lists, watches and bulk deletes.

pub mod field;
mod label_terms;

use std::borrow::Cow;
use std::collections::BTreeMap;

use rekindle_kinds::registry::{AnyObject, KindEntry, ResourceScope};
use rekindle_store::{StoredObject, TermFilter};
use serde::Deserialize;

use crate::request::RequestOptions;
use crate::status::ApiError;

pub use field::FieldSelector;
pub use rekindle_types::label_query::{LabelSelector, TERMS_MAX};

/// What an object must be to be selected.
#[derive(Clone, Debug, Default)]
pub struct Selection {
    labels: LabelSelector,
    fields: FieldSelector,
    terms: TermFilter,
}

impl Selection {
    /// The selection that the options of a request name, for objects of this kind.
    pub fn parse(entry: &KindEntry, options: &RequestOptions) -> Result<Self, ApiError> {
        let (labels, fields) = parse_texts(options)?;
        fields.check(entry)?;
        let terms = label_terms::of_selector(&labels);
        Ok(Self { labels, fields, terms })
    }

    /// True when it selects everything.
    pub fn is_everything(&self) -> bool {
        self.labels.is_everything() && self.fields.is_everything()
    }

    /// True when it asks for fields that an object has beside its metadata.
    pub(crate) fn looks_into_objects(&self) -> bool {
        !self.fields.needs_only_names()
    }

    /// The one name that an object must have, if the selection says so.
    pub fn exact_name(&self) -> Option<&str> {
        self.fields.exact("metadata.name")
    }

    /// The one namespace that an object must be in, if the selection says so.
    pub fn exact_namespace(&self) -> Option<&str> {
        self.fields.exact("metadata.namespace")
    }

    /// What the store knows of all objects that are selected, once a reader has looked at them.
    pub(crate) const fn terms(&self) -> TermFilter {
        self.terms
    }

    /// Whether a stored object is selected. Decodes only as much of it as it must.
    pub fn selects(&self, entry: &KindEntry, object: &StoredObject) -> bool {
        if self.is_everything() {
            return true;
        }
        if !object.terms.may_have_all(&self.terms) {
            return false;
        }
        let (namespace, name) = names_of_key(entry, object.key.as_str());
        if self.fields.needs_only_names() {
            return self.fields.matches(|field| name_field(field, namespace, name))
                && (self.labels.is_everything() || self.labels_match(object));
        }
        // What this registry wrote it can read; if not, the object is shown to nobody rather than
        // to the wrong one.
        entry
            .codec
            .decode_stored(&object.value)
            .is_ok_and(|object| self.selects_object(object.as_ref()))
    }

    /// Reads the labels, and leaves them with the object as terms for readers to come.
    fn labels_match(&self, object: &StoredObject) -> bool {
        let labels = labels_of(&object.value);
        object.terms.learn(label_terms::of_object(&labels));
        self.labels.matches(&labels)
    }

    /// Whether a decoded object is selected.
    pub fn selects_object(&self, object: &dyn AnyObject) -> bool {
        let meta = object.meta();
        let none = BTreeMap::new();
        if !self.labels.matches(meta.labels.as_ref().unwrap_or(&none)) {
            return false;
        }
        if self.fields.is_everything() {
            return true;
        }
        let namespace = meta.namespace.as_deref().unwrap_or_default();
        let name = meta.name.as_deref().unwrap_or_default();
        let fields = object.selectable_fields();
        self.fields.matches(|field| {
            name_field(field, namespace, name).or_else(|| {
                let value = fields.iter().find(|(path, _)| *path == field);
                value.map(|(_, value)| Cow::Borrowed(value.as_str()))
            })
        })
    }
}

/// Refuses selectors that cannot be read.
///
/// # Errors
/// 400.
pub(crate) fn check_texts(options: &RequestOptions) -> Result<(), ApiError> {
    parse_texts(options).map(|_| ())
}

fn parse_texts(options: &RequestOptions) -> Result<(LabelSelector, FieldSelector), ApiError> {
    let labels = LabelSelector::parse(&options.label_selector).map_err(ApiError::bad_request)?;
    let fields = FieldSelector::parse(&options.field_selector).map_err(ApiError::bad_request)?;
    Ok((labels, fields))
}

fn name_field<'a>(field: &str, namespace: &'a str, name: &'a str) -> Option<Cow<'a, str>> {
    match field {
        "metadata.name" => Some(Cow::Borrowed(name)),
        "metadata.namespace" => Some(Cow::Borrowed(namespace)),
        _ => None,
    }
}

/// Namespace and name in a key (`/pods/default/web-0`, `/nodes/one`).
pub fn names_of_key<'a>(entry: &KindEntry, key: &'a str) -> (&'a str, &'a str) {
    let inside = key.get(1..).and_then(|key| key.split_once('/')).map_or("", |(_, rest)| rest);
    match entry.scope {
        ResourceScope::Namespaced => inside.split_once('/').unwrap_or(("", inside)),
        ResourceScope::Cluster => ("", inside),
    }
}

#[derive(Deserialize)]
struct LabelledObject {
    #[serde(default)]
    metadata: LabelSet,
}

#[derive(Default, Deserialize)]
struct LabelSet {
    #[serde(default)]
    labels: BTreeMap<String, String>,
}

/// The labels of a stored object.
pub(crate) fn labels_of(json: &[u8]) -> BTreeMap<String, String> {
    // Stored objects are our own JSON; one that cannot be read has no labels.
    serde_json::from_slice::<LabelledObject>(json)
        .map(|object| object.metadata.labels)
        .unwrap_or_default()
}
