//! Objects of any kind from watches and lists: one type for the kube crate, whose code is compiled
//! again for each type, and decoded by kind.

use std::borrow::Cow;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::core::DynamicResourceScope;
use rekindle_controllers::{ResourceKind, ViewObject};
use rekindle_reconcile::wire::object_from_json;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

/// An object as its text.
#[derive(Clone, Debug)]
pub(crate) struct ObjectText {
    metadata: ObjectMeta,
    text: Box<RawValue>,
}

impl ObjectText {
    /// The object as the view holds it.
    ///
    /// # Errors
    /// When it is not one of that kind.
    pub(crate) fn decode(&self, kind: ResourceKind) -> Result<ViewObject, serde_json::Error> {
        object_from_json(kind, self.text.get().as_bytes())
    }
}

impl<'de> Deserialize<'de> for ObjectText {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        struct WithMetadata {
            #[serde(default)]
            metadata: ObjectMeta,
        }
        let text = Box::<RawValue>::deserialize(from)?;
        let WithMetadata { metadata } =
            serde_json::from_str(text.get()).map_err(D::Error::custom)?;
        Ok(Self { metadata, text })
    }
}

impl kube::Resource for ObjectText {
    type DynamicType = ResourceKind;
    type Scope = DynamicResourceScope;

    fn kind(of: &ResourceKind) -> Cow<'_, str> {
        of.info().kind.into()
    }
    fn group(of: &ResourceKind) -> Cow<'_, str> {
        of.info().group.into()
    }
    fn version(of: &ResourceKind) -> Cow<'_, str> {
        of.info().version.into()
    }
    fn plural(of: &ResourceKind) -> Cow<'_, str> {
        of.info().plural.into()
    }
    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }
    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}
