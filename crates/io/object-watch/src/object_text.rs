//! Objects of any kind from watches and lists: one type for the kube crate, as its code is compiled
//! again for each type, and read by kind.

use std::borrow::Cow;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::core::{ApiResource, DynamicResourceScope};
use rekindle_types::ObjectJson;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

/// An object as its text.
#[derive(Clone, Debug)]
pub struct ObjectText {
    /// Its name, its namespace and its revision.
    metadata: ObjectMeta,
    text: Box<RawValue>,
}

impl ObjectText {
    /// The object's JSON.
    pub fn as_bytes(&self) -> &[u8] {
        self.text.get().as_bytes()
    }

    /// The object.
    ///
    /// # Errors
    /// When it is of another kind.
    pub fn read<K: ObjectJson>(&self) -> Result<K, serde_json::Error> {
        K::from_json(self.as_bytes())
    }
}

impl<'de> Deserialize<'de> for ObjectText {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        struct Identified {
            #[serde(default)]
            metadata: Identity,
        }
        /// As much of the metadata as a watch goes by; what is read by kind has all of it.
        #[derive(Default, Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Identity {
            name: Option<String>,
            namespace: Option<String>,
            resource_version: Option<String>,
        }
        let text = Box::<RawValue>::deserialize(from)?;
        let Identified { metadata } = serde_json::from_str(text.get()).map_err(D::Error::custom)?;
        let Identity { name, namespace, resource_version } = metadata;
        let metadata = ObjectMeta { name, namespace, resource_version, ..ObjectMeta::default() };
        Ok(Self { metadata, text })
    }
}

impl kube::Resource for ObjectText {
    type DynamicType = ApiResource;
    type Scope = DynamicResourceScope;

    fn kind(of: &ApiResource) -> Cow<'_, str> {
        (&of.kind).into()
    }
    fn group(of: &ApiResource) -> Cow<'_, str> {
        (&of.group).into()
    }
    fn version(of: &ApiResource) -> Cow<'_, str> {
        (&of.version).into()
    }
    fn plural(of: &ApiResource) -> Cow<'_, str> {
        (&of.plural).into()
    }
    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }
    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}
