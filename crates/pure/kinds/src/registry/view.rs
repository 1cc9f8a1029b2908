//! A kind in a version, or a group, other than the one that its objects are stored in.
//!
//! What is stored is of the kind's own type, so the rest of the engine knows that type only. A view
//! is a type of its own for what clients of another version write and read.

use std::any::Any;
use std::borrow::Cow;
use std::marker::PhantomData;
use std::sync::Arc;

use bytes::Bytes;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use k8s_openapi::{ListableResource, Metadata};
use rekindle_structured_merge::TypedSchema;
use rekindle_types::validation::field_error::FieldError;
use rekindle_types::{ObjectJson, Tick};
use schemars::JsonSchema;
use serde_json::Value;

use super::DecodeError;
use super::erased::{AnyObject, KindCodec, KindEntry, KindOrigin, ParsedObject};
use super::resource::{ApiKind, RequestContext, TableCell};
use super::strategy::ObjectPart;
use crate::registry::{builtin_types, managed_entries};

/// A kind in another version.
pub trait KindView:
    Metadata<Ty = ObjectMeta> + ListableResource + ObjectJson + JsonSchema + Send + Sync + 'static
{
    /// What is stored.
    type Stored: ApiKind;

    /// What is stored, in this version.
    fn of_stored(stored: &Self::Stored) -> Self;

    /// The same the other way.
    fn into_stored(self) -> Self::Stored;

    /// Fields that are printed as null where they are absent; see [`ApiKind::nulls`].
    fn nulls(&self) -> Vec<&'static str> {
        Vec::new()
    }

    /// Gives fields their names in this version.
    fn rename_fields(_errors: &mut [FieldError]) {}

    /// What this version forbids of a new object beside what the kind forbids.
    fn validate_new(_stored: &Self::Stored) -> Vec<FieldError> {
        Vec::new()
    }

    /// What this version forbids to change beside what the kind forbids.
    fn validate_update(_stored: &Self::Stored, _old: &Self::Stored) -> Vec<FieldError> {
        Vec::new()
    }
}

impl KindEntry {
    /// The entry of a view, of a kind that `home` serves.
    pub fn view<V: KindView>(home: Arc<Self>) -> Self {
        Self {
            group: V::GROUP.into(),
            version: V::VERSION.into(),
            api_version: V::API_VERSION.into(),
            codec: Arc::new(ViewCodec::<V>(PhantomData)),
            home: Some(Arc::clone(&home)),
            ..Self::clone(&home)
        }
    }

    /// Whether clients of this kind get objects as they are stored: not in another version, nor by
    /// a definition, which has versions of its own.
    pub fn shows_stored_text(&self) -> bool {
        self.origin == KindOrigin::BuiltIn && self.home.is_none()
    }

    /// The entry of the version and group that objects of this one are stored in.
    pub fn home(&self) -> &Self {
        self.home.as_deref().unwrap_or(self)
    }
}

/// A stored object as clients of another version see it.
struct ViewObject<V: KindView> {
    stored: V::Stored,
    view: PhantomData<fn() -> V>,
}

impl<V: KindView> ViewObject<V> {
    fn new(stored: V::Stored) -> Self {
        Self { stored, view: PhantomData }
    }

    fn inner(&self) -> &dyn AnyObject {
        &self.stored
    }
}

fn stored_of<V: KindView>(object: &dyn AnyObject) -> &V::Stored {
    object.as_any().downcast_ref().expect("old and new object come from the same registry entry")
}

impl<V: KindView> AnyObject for ViewObject<V> {
    fn meta(&self) -> &ObjectMeta {
        self.stored.metadata()
    }
    fn meta_mut(&mut self) -> &mut ObjectMeta {
        self.stored.metadata_mut()
    }
    fn set_defaults(&mut self) {
        AnyObject::set_defaults(&mut self.stored);
    }
    fn prepare_for_create(&mut self, ctx: &RequestContext<'_>) {
        AnyObject::prepare_for_create(&mut self.stored, ctx);
    }
    fn prepare_named(&mut self) {
        AnyObject::prepare_named(&mut self.stored);
    }
    fn prepare_update(&mut self, part: ObjectPart, old: &dyn AnyObject, ctx: &RequestContext<'_>) {
        self.stored.prepare_update(part, old, ctx);
    }
    fn keeps_metadata(&self, part: ObjectPart) -> bool {
        self.stored.keeps_metadata(part)
    }
    fn validate(&self) -> Vec<FieldError> {
        let mut errors = self.inner().validate();
        V::rename_fields(&mut errors);
        errors
    }
    fn validate_created(&self) -> Vec<FieldError> {
        let mut errors = self.inner().validate_created();
        V::rename_fields(&mut errors);
        errors.extend(V::validate_new(&self.stored));
        errors
    }
    fn validate_change(&self, part: ObjectPart, old: &dyn AnyObject) -> Vec<FieldError> {
        let mut errors = self.stored.validate_change(part, old);
        match part {
            ObjectPart::Main => {
                errors.extend(V::validate_update(&self.stored, stored_of::<V>(old)));
            }
            ObjectPart::Status
            | ObjectPart::Finalize
            | ObjectPart::Resize
            | ObjectPart::EphemeralContainers
            | ObjectPart::Approval => {}
        }
        errors
    }
    fn warnings(&self) -> Vec<String> {
        self.inner().warnings()
    }
    fn selectable_fields(&self) -> Vec<(Cow<'static, str>, String)> {
        self.inner().selectable_fields()
    }
    fn deletion_grace_period_seconds(&self) -> i64 {
        self.inner().deletion_grace_period_seconds()
    }
    fn row(&self, now: Tick) -> Vec<TableCell> {
        self.inner().row(now)
    }
    /// As it is stored.
    fn to_json(&self) -> Vec<u8> {
        self.inner().to_json()
    }
    fn to_value(&self) -> Value {
        V::of_stored(&self.stored).to_value()
    }
    fn to_status_value(
        &self,
        _metadata: &ObjectMeta,
        _is_replaced: &dyn Fn(&str) -> bool,
    ) -> Value {
        AnyObject::to_value(self)
    }
    fn same_as(&self, other: &dyn AnyObject) -> bool {
        self.inner().same_as(other)
    }
    fn become_like(&mut self, other: &dyn AnyObject) {
        self.stored.become_like(other);
    }
    fn boxed_clone(&self) -> Box<dyn AnyObject> {
        Box::new(Self::new(self.stored.clone()))
    }
    fn into_stored_form(self: Box<Self>) -> Box<dyn AnyObject> {
        Box::new(self.stored)
    }
    fn as_any(&self) -> &dyn Any {
        &self.stored
    }
    fn as_any_mut(&mut self) -> &mut dyn Any {
        &mut self.stored
    }
    fn into_any(self: Arc<Self>) -> Arc<dyn Any + Send + Sync> {
        Arc::new(self.stored.clone())
    }
}

/// The codec of a view.
struct ViewCodec<V>(PhantomData<fn() -> V>);

impl<V: KindView> KindCodec for ViewCodec<V> {
    fn decode(&self, value: &Value) -> Result<ParsedObject, DecodeError> {
        let (object, unknown_fields) = V::from_value_strictly(value)?;
        let object = Box::new(ViewObject::<V>::new(object.into_stored()));
        Ok(ParsedObject { object, unknown_fields })
    }

    fn decode_stored(&self, json: &[u8]) -> Result<Box<dyn AnyObject>, serde_json::Error> {
        let mut stored = V::Stored::from_json(json)?;
        managed_entries::compact(stored.metadata_mut());
        Ok(Box::new(ViewObject::<V>::new(stored)))
    }

    fn add_schema(&self, generator: &mut schemars::SchemaGenerator) {
        generator.subschema_for::<V>();
    }

    fn published_schema(&self) -> Option<Value> {
        None
    }

    fn schema_source(&self) -> Option<String> {
        None
    }

    fn schema_name(&self) -> Cow<'static, str> {
        V::schema_name()
    }

    fn merge_schema(&self) -> TypedSchema<'_> {
        builtin_types::of_schema(&V::schema_name())
    }

    fn shown(&self, stored: &Bytes) -> Result<Bytes, serde_json::Error> {
        let mut stored = V::Stored::from_json(stored)?;
        managed_entries::compact(stored.metadata_mut());
        let view = V::of_stored(&stored);
        Ok(super::erased::with_nulls(view.to_json(), &view.nulls()).into())
    }
}
