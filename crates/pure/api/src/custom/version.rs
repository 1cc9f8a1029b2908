//! One version of a definition, compiled: how its objects are read, completed and shown.

use std::any::Any;
use std::borrow::Cow;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinitionSpec;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use rekindle_kinds::custom_resource_definition::json_path::{self, JsonPath};
use rekindle_kinds::registry::{
    AnyObject, DecodeError, KindCodec, KindEntry, ParsedObject, builtin_types, managed_entries,
};
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
use super::conversion::ConversionWebhook;
use super::merge_types::MergeTypes;
use super::object::CustomObject;

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
    fn compile(versions: &DefinedVersions, index: usize) -> Result<Self, String> {
        let stored = &versions.definition;
        let definition: Value =
            serde_json::from_slice(&stored.value).map_err(|error| error.to_string())?;
        let spec = &definition["spec"];
        let version = &spec["versions"][index];
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
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
        let api_version = versions.all[index].api_version.clone();
        Ok(Self {
            // what a webhook has not converted stays in its own version
            stored_as: match versions.conversion {
                Some(_) => api_version.clone(),
                None => versions.all[versions.storage].api_version.clone(),
            },
            api_version,
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

/// The versions of a definition, each compiled when the first object of it is read.
pub(super) struct DefinedVersions {
    definition: Arc<StoredObject>,
    all: Vec<DefinedVersion>,
    /// The place of the version that objects are stored in.
    storage: usize,
    /// What converts objects between them, if a webhook does.
    conversion: Option<ConversionWebhook>,
}

struct DefinedVersion {
    api_version: String,
    compiled: OnceLock<Result<Arc<CustomVersion>, String>>,
    /// See [`KindCodec::schema_source`].
    source: OnceLock<String>,
}

impl DefinedVersions {
    /// Of a definition as stored.
    pub(super) fn new(stored: Arc<StoredObject>, spec: &CustomResourceDefinitionSpec) -> Arc<Self> {
        let all = spec.versions.iter().map(|version| DefinedVersion {
            api_version: format!("{}/{}", spec.group, version.name),
            compiled: OnceLock::new(),
            source: OnceLock::new(),
        });
        Arc::new(Self {
            conversion: ConversionWebhook::of_spec(&stored, spec),
            definition: stored,
            all: all.collect(),
            storage: spec.versions.iter().position(|version| version.storage).unwrap_or(0),
        })
    }

    /// The place of the version that an object was stored in, if the definition has it.
    fn place_of(&self, stored: &[u8]) -> Option<usize> {
        let api_version = api_version_of(stored)?;
        self.all.iter().position(|version| version.api_version == api_version)
    }
}

/// What a stored object says of its version.
fn api_version_of(stored: &[u8]) -> Option<Cow<'_, str>> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct VersionedText<'t> {
        #[serde(borrow)]
        api_version: Cow<'t, str>,
    }
    // so our own texts begin
    if let Some(rest) = stored.strip_prefix(br#"{"apiVersion":""#)
        && let Some(end) = rest.iter().position(|byte| *byte == b'"')
    {
        return std::str::from_utf8(&rest[..end]).ok().map(Cow::Borrowed);
    }
    serde_json::from_slice::<VersionedText<'_>>(stored).ok().map(|text| text.api_version)
}

/// Reads the objects of a version.
#[derive(Clone)]
pub(crate) struct VersionCodec {
    versions: Arc<DefinedVersions>,
    index: usize,
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
    /// That of a kind with a webhook that converts its objects from version to version.
    pub(crate) fn of_converted(entry: &KindEntry) -> Option<&Self> {
        let codec: &dyn Any = &*entry.codec;
        codec.downcast_ref::<Self>().filter(|codec| codec.versions.conversion.is_some())
    }

    /// Of the version at this place in the definition.
    pub(super) fn new(versions: &Arc<DefinedVersions>, index: usize) -> Self {
        Self { versions: Arc::clone(versions), index }
    }

    /// What converts objects into this version, and from it, if a webhook does.
    pub(super) fn webhook(&self) -> Option<&ConversionWebhook> {
        self.versions.conversion.as_ref()
    }

    pub(super) fn api_version(&self) -> &str {
        &self.versions.all[self.index].api_version
    }

    /// The version that objects are stored in.
    pub(super) fn storage(&self) -> Self {
        Self::new(&self.versions, self.versions.storage)
    }

    /// Whether an object was stored in this version.
    pub(crate) fn is_of(&self, stored: &[u8]) -> bool {
        api_version_of(stored).is_some_and(|api_version| api_version == self.api_version())
    }

    /// The name of the version that an object was stored in, if the definition has it.
    pub(super) fn version_name(&self, stored: &[u8]) -> Option<&str> {
        let version = &self.versions.all[self.versions.place_of(stored)?];
        version.api_version.split_once('/').map(|(_, name)| name)
    }

    /// The version, the key of the definition, and a digest of what it says: the same after a
    /// restart, and another one for what another cluster has under the same key.
    fn read_source(&self) -> String {
        let definition = &self.versions.definition;
        let (key, text) = (&definition.key, &definition.value);
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
        let compiled = self.versions.all[self.index]
            .compiled
            .get_or_init(|| CustomVersion::compile(&self.versions, self.index).map(Arc::new));
        compiled.as_ref().map_err(String::as_str)
    }

    /// An object as it was stored, in whichever version. Where a webhook converts, it is of the
    /// version that it was stored in.
    pub(super) fn read(&self, json: &[u8]) -> Result<CustomObject, serde_json::Error> {
        let stored_in = match self.versions.conversion {
            Some(_) => self.versions.place_of(json).unwrap_or(self.index),
            None => self.index,
        };
        let codec = Self::new(&self.versions, stored_in);
        codec.object_of(serde_json::from_slice(json)?)
    }

    /// An object of this version.
    pub(super) fn object_of(&self, mut fields: Value) -> Result<CustomObject, serde_json::Error> {
        let version = self.version().map_err(serde_json::Error::custom)?;
        let mut meta = match fields.as_object_mut().and_then(|fields| fields.remove("metadata")) {
            Some(metadata) => ObjectJson::from_value(&metadata)?,
            None => return Err(serde_json::Error::custom("the object has no metadata")),
        };
        managed_entries::compact(&mut meta);
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
            Some(metadata) => ObjectMeta::from_value_strictly(metadata).map_err(|failed| {
                match failed.path.as_str() {
                    "." => DecodeError { path: "metadata".to_owned(), ..failed },
                    path => DecodeError { path: format!("metadata.{path}"), ..failed },
                }
            })?,
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
        let definition: Value = serde_json::from_slice(&self.versions.definition.value).ok()?;
        let version = definition.pointer(&format!("/spec/versions/{}", self.index))?;
        let mut schema = version.pointer("/schema/openAPIV3Schema")?.clone();
        let text = |description: &str| json!({"type": "string", "description": description});
        let properties = schema.as_object_mut()?.entry("properties").or_insert_with(|| json!({}));
        properties["apiVersion"] = text("The version of this object's schema.");
        properties["kind"] = text("The kind of this object.");
        properties["metadata"] =
            json!({"allOf": [rekindle_kinds::openapi::reference(OBJECT_META)]});
        Some(schema)
    }

    fn schema_source(&self) -> Option<String> {
        let source = &self.versions.all[self.index].source;
        Some(source.get_or_init(|| self.read_source()).clone())
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

    fn is_stored_form(&self, stored: &[u8]) -> bool {
        self.storage().is_of(stored)
    }
}

const OBJECT_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";
