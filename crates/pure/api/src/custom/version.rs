//! One version of a definition, compiled: how its objects are read, completed and shown.

use std::borrow::Cow;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use rekindle_store::StoredObject;
use rekindle_structural_schema::StructuralSchema;
use rekindle_structured_merge::TypedSchema;
use rekindle_types::ObjectJson;
use serde::Deserialize;
use serde::de::Error as _;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::columns::{self, ColumnCells};
use super::json_path::{self, JsonPath};
use super::merge_types::MergeTypes;
use super::object::CustomObject;
use crate::managed_fields::{builtin_types, entries};
use crate::registry::{AnyObject, DecodeError, KindCodec, ParsedObject, strict};

/// What a version says, ready for use.
pub(crate) struct CustomVersion {
    pub(super) api_version: String,
    /// The version that objects are stored in.
    pub(super) stored_as: String,
    pub(super) kind: String,
    pub(super) schema: StructuralSchema,
    pub(super) columns: Vec<ColumnCells>,
    pub(super) selectable: Vec<SelectablePath>,
    pub(super) status: StatusSubresource,
    pub(super) scale: Option<ScalePaths>,
    merge: MergeTypes,
}

/// Whether a version serves `/status`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StatusSubresource {
    Served,
    /// Status is a field like any other.
    None,
}

/// A field that objects can be selected by.
pub(super) struct SelectablePath {
    pub(super) name: String,
    pub(super) path: JsonPath,
}

/// Where an object has what a Scale shows.
pub(crate) struct ScalePaths {
    /// Dots between the names.
    pub(crate) spec_replicas: Cow<'static, str>,
    pub(crate) status_replicas: Cow<'static, str>,
    pub(crate) selector: Option<Cow<'static, str>>,
}

impl CustomVersion {
    fn compile(stored: &StoredObject, index: usize, storage: &str) -> Result<Self, String> {
        let definition: Value =
            serde_json::from_slice(&stored.value).map_err(|error| error.to_string())?;
        let spec = &definition["spec"];
        let version = &spec["versions"][index];
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let group = text(&spec["group"]);
        let schema = &version["schema"]["openAPIV3Schema"];
        let selectable = version["selectableFields"].as_array().into_iter().flatten();
        let selectable = selectable.map(|field| {
            let path = text(&field["jsonPath"]);
            let name = path.trim_start_matches('.').to_owned();
            Ok(SelectablePath { name, path: json_path::read(&path)? })
        });
        let subresources = &version["subresources"];
        let scale = subresources["scale"].as_object().map(|scale| {
            let path = |name: &str| scale.get(name)?.as_str().map(|path| path.to_owned().into());
            ScalePaths {
                spec_replicas: path("specReplicasPath").unwrap_or_default(),
                status_replicas: path("statusReplicasPath").unwrap_or_default(),
                selector: path("labelSelectorPath").filter(|path: &Cow<'_, _>| !path.is_empty()),
            }
        });
        Ok(Self {
            api_version: format!("{group}/{}", text(&version["name"])),
            stored_as: format!("{group}/{storage}"),
            kind: text(&spec["names"]["kind"]),
            columns: columns::cells_of_version(version)?,
            selectable: selectable.collect::<Result<_, String>>()?,
            status: match subresources["status"].is_object() {
                true => StatusSubresource::Served,
                false => StatusSubresource::None,
            },
            scale,
            merge: MergeTypes::of_schema(schema),
            schema: StructuralSchema::compile(schema).map_err(|error| error.to_string())?,
        })
    }
}

/// Reads the objects of a version, which is compiled when the first of them is read.
pub(super) struct VersionCodec {
    definition: Arc<StoredObject>,
    index: usize,
    storage: String,
    compiled: OnceLock<Result<Arc<CustomVersion>, String>>,
    /// See [`KindCodec::schema_source`].
    source: OnceLock<String>,
}

/// The parts of a definition that documents show. No other write of it makes another document.
#[derive(Deserialize)]
struct PublishedParts<'d> {
    #[serde(borrow)]
    spec: &'d RawValue,
    #[serde(borrow, default)]
    status: PublishedStatus<'d>,
}

#[derive(Default, Deserialize)]
struct PublishedStatus<'d> {
    #[serde(borrow, rename = "acceptedNames")]
    accepted_names: Option<&'d RawValue>,
}

impl VersionCodec {
    /// Of the version at this place in the definition.
    pub(super) fn new(definition: Arc<StoredObject>, index: usize, storage: &str) -> Self {
        let storage = storage.to_owned();
        Self { definition, index, storage, compiled: OnceLock::new(), source: OnceLock::new() }
    }

    /// The version, the key of the definition, and a digest of what it says: the same after a
    /// restart, and another one for what another cluster has under the same key.
    fn read_source(&self) -> String {
        let (key, text) = (&self.definition.key, &self.definition.value);
        let mut digest = Sha256::new();
        match serde_json::from_slice::<PublishedParts<'_>>(text) {
            Ok(PublishedParts { spec, status }) => {
                digest.update(spec.get());
                digest.update(status.accepted_names.map_or("", RawValue::get));
            }
            Err(_) => digest.update(text),
        }
        let hex: String = digest.finalize().iter().map(|byte| format!("{byte:02X}")).collect();
        format!("{} {key} {hex}", self.index)
    }

    fn version(&self) -> Result<&Arc<CustomVersion>, &str> {
        let compiled = self.compiled.get_or_init(|| {
            CustomVersion::compile(&self.definition, self.index, &self.storage).map(Arc::new)
        });
        compiled.as_ref().map_err(String::as_str)
    }

    /// An object as it was stored, in whichever version.
    fn read(&self, json: &[u8]) -> Result<CustomObject, serde_json::Error> {
        let version = self.version().map_err(serde_json::Error::custom)?;
        let mut fields: Value = serde_json::from_slice(json)?;
        let mut meta = match fields.as_object_mut().and_then(|fields| fields.remove("metadata")) {
            Some(metadata) => ObjectJson::from_value(&metadata)?,
            None => return Err(serde_json::Error::custom("the object has no metadata")),
        };
        entries::compact(&mut meta);
        let (object, _) = CustomObject::of_fields(Arc::clone(version), meta, fields);
        Ok(object)
    }
}

impl KindCodec for VersionCodec {
    fn decode(&self, value: &Value) -> Result<ParsedObject, DecodeError> {
        let error = |path: &str, problem: &str| DecodeError {
            path: path.to_owned(),
            problem: problem.to_owned(),
        };
        let version = self.version().map_err(|why| error(".", why))?;
        let mut fields = value.clone();
        let embedded = version.schema.coerce_embedded(&mut fields);
        let embedded = embedded.map_err(|wrong| error(&wrong.field, &wrong.body()))?;
        let Some(all) = fields.as_object_mut() else {
            return Err(error(".", "invalid type: expected an object"));
        };
        let metadata = all.remove("metadata").filter(|metadata| !metadata.is_null());
        let (meta, unknown) = match &metadata {
            Some(metadata) => {
                strict::read(metadata).map_err(|failed| match failed.path.as_str() {
                    "." => DecodeError { path: "metadata".to_owned(), ..failed },
                    path => DecodeError { path: format!("metadata.{path}"), ..failed },
                })?
            }
            None => Default::default(),
        };
        let (object, dropped) = CustomObject::of_fields(Arc::clone(version), meta, fields);
        let unknown = unknown.into_iter().map(|path| format!("metadata.{path}"));
        let mut unknown_fields: Vec<_> = unknown.chain(embedded).chain(dropped).collect();
        unknown_fields.sort_unstable();
        Ok(ParsedObject { object: Box::new(object), unknown_fields })
    }

    fn decode_stored(&self, json: &[u8]) -> Result<Box<dyn AnyObject>, serde_json::Error> {
        Ok(Box::new(self.read(json)?))
    }

    fn add_schema(&self, _generator: &mut schemars::SchemaGenerator) {}

    /// What the definition says, with the fields that every object has.
    fn published_schema(&self) -> Option<Value> {
        let definition: Value = serde_json::from_slice(&self.definition.value).ok()?;
        let version = definition.pointer(&format!("/spec/versions/{}", self.index))?;
        let mut schema = version.pointer("/schema/openAPIV3Schema")?.clone();
        let text = |description: &str| json!({"type": "string", "description": description});
        let properties = schema.as_object_mut()?.entry("properties").or_insert_with(|| json!({}));
        properties["apiVersion"] = text("The version of this object's schema.");
        properties["kind"] = text("The kind of this object.");
        properties["metadata"] = json!({"allOf": [crate::openapi::reference(OBJECT_META)]});
        Some(schema)
    }

    fn schema_source(&self) -> Option<String> {
        Some(self.source.get_or_init(|| self.read_source()).clone())
    }

    /// The group backwards, the version, the kind: `org.example.v1.Kite`.
    fn schema_name(&self) -> Cow<'static, str> {
        let Ok(version) = self.version() else { return Cow::Borrowed("") };
        let (group, name) = version.api_version.split_once('/').unwrap_or_default();
        let mut words: Vec<&str> = group.rsplit('.').collect();
        words.extend([name, &version.kind]);
        Cow::Owned(words.join("."))
    }

    fn merge_schema(&self) -> TypedSchema<'_> {
        self.version().map_or_else(|_| builtin_types::of_schema(""), |one| one.merge.root())
    }

    fn shown(&self, stored: &Bytes) -> Result<Bytes, serde_json::Error> {
        let text = self.read(stored)?.text_as_shown();
        Ok(if stored == text.as_slice() { stored.clone() } else { text.into() })
    }
}

const OBJECT_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";
