//! An object of a kind that a definition describes: its metadata, and its fields as JSON.

use std::any::Any;
use std::borrow::Cow;
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use rekindle_kinds::registry::object_meta::finalizer_warnings;
use rekindle_kinds::registry::{AnyObject, ObjectPart, RequestContext, TableCell, metadata};
use rekindle_types::validation::field_error::FieldError;
use rekindle_types::{ObjectJson, Tick, json_text};
use serde_json::{Map, Value};

use super::version::{CustomVersion, ScalePaths, StatusSubresource};
use crate::object_meta;

/// An object of such a kind, in one of its versions.
#[derive(Clone)]
pub(crate) struct CustomObject {
    version: Arc<CustomVersion>,
    meta: ObjectMeta,
    /// All but `apiVersion`, `kind` and `metadata`; always an object.
    fields: Value,
}

impl CustomObject {
    /// With the defaults of its version, and without the fields that it does not have: their paths
    /// are the second part.
    pub(super) fn of_fields(
        version: Arc<CustomVersion>,
        meta: ObjectMeta,
        mut fields: Value,
    ) -> (Self, Vec<String>) {
        if let Some(fields) = fields.as_object_mut() {
            fields.remove("apiVersion");
            fields.remove("kind");
        }
        let dropped = version.schema.prune_resource(&mut fields);
        version.schema.fill_defaults(&mut fields);
        (Self { version, meta, fields }, dropped)
    }

    /// Its text in the version that it was asked for in.
    pub(super) fn text_as_shown(&self) -> Vec<u8> {
        self.text(&self.version.api_version)
    }

    /// The same without its revision: what a webhook converts, and what it has made of that.
    pub(super) fn text_to_convert(&self) -> Vec<u8> {
        let mut object = self.clone();
        object.meta.resource_version = None;
        object.text_as_shown()
    }

    /// `example.org/v1`.
    pub(super) fn api_version(&self) -> &str {
        &self.version.api_version
    }

    /// Where it has what a Scale shows.
    pub(crate) fn scale_paths(&self) -> Option<&ScalePaths> {
        self.version.scale.as_ref()
    }

    fn text(&self, api_version: &str) -> Vec<u8> {
        let head = format!("{{\"apiVersion\":\"{api_version}\",\"kind\":\"{}\"", self.version.kind);
        let mut text = head.into_bytes();
        text.extend_from_slice(b",\"metadata\":");
        text.extend_from_slice(&self.meta.to_json());
        for (name, value) in self.map() {
            text.push(b',');
            text.extend_from_slice(Value::from(name.as_str()).to_string().as_bytes());
            text.push(b':');
            text.extend(json_text(value).expect("a value has text keys"));
        }
        text.push(b'}');
        text
    }

    fn map(&self) -> &Map<String, Value> {
        self.fields.as_object().expect("the fields are an object")
    }

    fn map_mut(&mut self) -> &mut Map<String, Value> {
        self.fields.as_object_mut().expect("the fields are an object")
    }

    fn set(&mut self, name: &str, value: Option<&Value>) {
        match value {
            Some(value) => {
                self.map_mut().insert(name.to_owned(), value.clone());
            }
            None => {
                self.map_mut().remove(name);
            }
        }
    }

    /// The fields that the generation counts the changes of.
    fn counted(&self) -> impl Iterator<Item = (&String, &Value)> {
        let is_counted =
            move |name: &str| name != STATUS || self.version.status == StatusSubresource::None;
        self.map().iter().filter(move |(name, _)| is_counted(name))
    }

    fn value_as(&self, api_version: &str, metadata: &ObjectMeta) -> Value {
        let mut fields = self.map().clone();
        fields.insert("apiVersion".to_owned(), api_version.into());
        fields.insert("kind".to_owned(), self.version.kind.as_str().into());
        fields.insert("metadata".to_owned(), metadata.to_value());
        Value::Object(fields)
    }
}

const STATUS: &str = "status";

fn of_same_kind(object: &dyn AnyObject) -> &CustomObject {
    object.as_any().downcast_ref().expect("old and new object come from the same registry entry")
}

impl AnyObject for CustomObject {
    fn meta(&self) -> &ObjectMeta {
        &self.meta
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.meta
    }

    fn set_defaults(&mut self) {
        metadata::drop_empty(&mut self.meta);
        let version = Arc::clone(&self.version);
        version.schema.fill_defaults(&mut self.fields);
    }

    fn prepare_for_create(&mut self, _ctx: &RequestContext<'_>) {
        if self.version.status == StatusSubresource::Served {
            self.set(STATUS, None);
        }
        self.meta.generation = Some(1);
    }

    fn prepare_named(&mut self) {}

    fn prepare_update(&mut self, part: ObjectPart, old: &dyn AnyObject, _ctx: &RequestContext<'_>) {
        let old = of_same_kind(old);
        match part {
            ObjectPart::Main => {
                if self.version.status == StatusSubresource::Served {
                    self.set(STATUS, old.map().get(STATUS));
                }
                if !self.counted().eq(old.counted()) {
                    self.meta.generation = Some(old.meta.generation.unwrap_or(0) + 1);
                }
            }
            // nothing but the status, and who owns its fields
            ObjectPart::Status => {
                let status = self.map().get(STATUS).cloned();
                let owners = self.meta.managed_fields.take();
                self.meta = ObjectMeta { managed_fields: owners, ..old.meta.clone() };
                self.fields = old.fields.clone();
                self.set(STATUS, status.as_ref());
            }
            // the version serves none of these
            ObjectPart::Finalize
            | ObjectPart::Resize
            | ObjectPart::EphemeralContainers
            | ObjectPart::Approval => {}
        }
    }

    fn keeps_metadata(&self, part: ObjectPart) -> bool {
        part == ObjectPart::Status
    }

    /// The schema is asked for new objects and for changes, which may leave old mistakes.
    fn validate(&self) -> Vec<FieldError> {
        Vec::new()
    }

    fn validate_created(&self) -> Vec<FieldError> {
        self.version.schema.validate(&self.to_value(), None)
    }

    /// A write of the status is not refused for what is wrong elsewhere: it changes nothing there.
    fn validate_change(&self, part: ObjectPart, old: &dyn AnyObject) -> Vec<FieldError> {
        let (new, old) = (self.to_value(), of_same_kind(old).to_value());
        let schema = &self.version.schema;
        match part {
            ObjectPart::Status => schema.validate_status(&new, &old),
            ObjectPart::Main
            | ObjectPart::Finalize
            | ObjectPart::Resize
            | ObjectPart::EphemeralContainers
            | ObjectPart::Approval => schema.validate(&new, Some(&old)),
        }
    }

    fn warnings(&self) -> Vec<String> {
        finalizer_warnings(&self.meta)
    }

    fn selectable_fields(&self) -> Vec<(Cow<'static, str>, String)> {
        let text = |value: &Value| match value {
            Value::String(text) => text.clone(),
            Value::Null | Value::Array(_) | Value::Object(_) => String::new(),
            other @ (Value::Bool(_) | Value::Number(_)) => other.to_string(),
        };
        let fields = self.version.selectable.iter().map(|field| {
            let value = field.path.value(&self.fields);
            (Cow::Owned(field.name.clone()), value.map(text).unwrap_or_default())
        });
        fields.collect()
    }

    fn deletion_grace_period_seconds(&self) -> i64 {
        0
    }

    fn row(&self, now: Tick) -> Vec<TableCell> {
        let object = self.to_value();
        let mut cells = vec![TableCell::Text(object_meta::name(self).to_owned())];
        cells.extend(self.version.columns.iter().map(|column| column.cell(&object, now)));
        cells
    }

    /// In the version that objects of its kind are stored in.
    fn to_json(&self) -> Vec<u8> {
        self.text(&self.version.stored_as)
    }

    /// In the version that it was asked for in.
    fn to_value(&self) -> Value {
        self.value_as(&self.version.api_version, &self.meta)
    }

    fn to_status_value(&self, metadata: &ObjectMeta, _is_replaced: &dyn Fn(&str) -> bool) -> Value {
        self.value_as(&self.version.api_version, metadata)
    }

    fn same_as(&self, other: &dyn AnyObject) -> bool {
        let other = other.as_any().downcast_ref::<Self>();
        other.is_some_and(|other| self.meta == other.meta && self.fields == other.fields)
    }

    fn become_like(&mut self, other: &dyn AnyObject) {
        self.clone_from(of_same_kind(other));
    }

    fn boxed_clone(&self) -> Box<dyn AnyObject> {
        Box::new(self.clone())
    }

    fn into_stored_form(self: Box<Self>) -> Box<dyn AnyObject> {
        self
    }

    fn as_any(&self) -> &dyn Any {
        self
    }

    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }

    fn into_any(self: Arc<Self>) -> Arc<dyn Any + Send + Sync> {
        self
    }
}
