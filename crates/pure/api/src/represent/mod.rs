//! From stored objects to the bytes that a client gets: the objects themselves, a table, or only
//! their metadata.

mod list_pieces;
mod table;

pub use list_pieces::ListPieces;
use list_pieces::{ItemText, ListItem};
use table::TableColumns;

use std::borrow::Cow;
use std::sync::Arc;

use bytes::Bytes;
use rekindle_kinds::registry::{KindEntry, KindOrigin};
use rekindle_store::{Memo, Revision, StoredObject};
use rekindle_types::Tick;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::protobuf;
use crate::request::{MetaVersion, Representation};
use crate::status::ApiError;

/// What a list says of itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ListMeta {
    /// The revision at which it was read; empty of a table of an object that was not written.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub resource_version: String,
    /// The token for the next page; empty at the end.
    #[serde(rename = "continue", skip_serializing_if = "String::is_empty")]
    pub continue_token: String,
    /// How many are left after this page, when that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remaining_item_count: Option<usize>,
}

impl ListMeta {
    /// Of a whole list.
    pub fn complete(revision: Revision) -> Self {
        Self { resource_version: revision.to_string(), ..Self::default() }
    }
}

/// Turns objects of one kind into one form.
#[derive(Clone, Copy)]
pub struct ObjectRenderer<'a> {
    /// The kind.
    pub entry: &'a KindEntry,
    /// The form.
    pub form: Representation,
    /// The time, for ages in tables.
    pub now: Tick,
}

impl ObjectRenderer<'_> {
    /// One object, given as JSON.
    pub fn object(&self, json: &Bytes) -> Result<Bytes, ApiError> {
        match self.form {
            Representation::Objects => shown(self.entry, json),
            Representation::Metadata(_, version) => {
                Ok(metadata_only(self.entry, json, version)?.into())
            }
            Representation::Table(include, version) => {
                let meta =
                    ListMeta { resource_version: resource_version(json)?, ..ListMeta::default() };
                let time = (self.now, TableColumns::Shown);
                table::table(
                    self.entry,
                    &meta,
                    (include, version),
                    std::slice::from_ref(json),
                    time,
                )
            }
        }
    }

    /// One object of a watch, for a client that knows the columns of the table.
    pub(crate) fn later_object(&self, json: &Bytes) -> Result<Bytes, ApiError> {
        let Representation::Table(include, version) = self.form else { return self.object(json) };
        let meta = ListMeta { resource_version: resource_version(json)?, ..ListMeta::default() };
        let time = (self.now, TableColumns::Known);
        table::table(self.entry, &meta, (include, version), std::slice::from_ref(json), time)
    }

    /// A list.
    pub fn list(
        &self,
        meta: &ListMeta,
        objects: Vec<Arc<StoredObject>>,
    ) -> Result<ListPieces, ApiError> {
        let (kind, api_version) = match self.form {
            Representation::Objects => (&*self.entry.list_kind, &*self.entry.api_version),
            Representation::Metadata(_, version) => {
                ("PartialObjectMetadataList", version.api_version())
            }
            Representation::Table(include, version) => {
                let values: Vec<Bytes> =
                    objects.iter().map(|object| object.value.clone()).collect();
                let time = (self.now, TableColumns::Shown);
                return table::table(self.entry, meta, (include, version), &values, time)
                    .map(ListPieces::whole);
            }
        };
        let head = format!("{{\"kind\":\"{kind}\",\"apiVersion\":\"{api_version}\",\"metadata\":");
        let mut head = head.into_bytes();
        head.extend_from_slice(&self.list_meta(meta)?);
        if objects.is_empty() && matches!(self.form, Representation::Metadata(..)) {
            head.extend_from_slice(b",\"items\":null}");
            return Ok(ListPieces::whole(head.into()));
        }
        head.extend_from_slice(b",\"items\":[");
        let head_of_object = head_of_object(self.entry);
        let item = |object| self.item(object, &head_of_object);
        let items: Result<Vec<ListItem>, ApiError> = objects.into_iter().map(item).collect();
        Ok(ListPieces::of_items(head, items?))
    }

    /// An object as an item of a list, without this head of it.
    fn item(&self, object: Arc<StoredObject>, head: &str) -> Result<ListItem, ApiError> {
        let (text, head) = match self.form {
            Representation::Metadata(_, version) => {
                let made = metadata_only(self.entry, &object.value, version)?;
                (ItemText::Made(made.into()), "")
            }
            Representation::Objects | Representation::Table(..) => {
                let text = if self.entry.shows_stored_text() {
                    ItemText::Stored(object)
                } else {
                    ItemText::Made(shown(self.entry, &object.value)?)
                };
                (text, head)
            }
        };
        Ok(ListItem::new(text, head))
    }

    /// A list of whole objects in protobuf. None for kinds that have no such form, and when a field
    /// of an object has none: a client gets JSON then.
    pub(crate) fn protobuf_list(
        &self,
        meta: &ListMeta,
        objects: &[Arc<StoredObject>],
    ) -> Result<Option<ListPieces>, ApiError> {
        let entry = self.entry;
        let is_whole = self.form == Representation::Objects;
        if !is_whole || protobuf::message_of(&entry.api_version, &entry.kind).is_none() {
            return Ok(None);
        }
        let mut items = Vec::with_capacity(objects.len());
        for object in objects {
            match self.message(object)? {
                Some(message) => items.push(ListItem::new(ItemText::Message(message), "")),
                None => return Ok(None),
            }
        }
        let kind = (&*entry.api_version, &*entry.list_kind);
        let bytes = items.iter().map(ListItem::len).sum();
        let around = protobuf::around_items(kind, &self.list_meta(meta)?, bytes).ok();
        Ok(around.map(|(head, end)| ListPieces::of_messages(head, items, end)))
    }

    /// An object as a message in a list. It is kept beside the object where all clients are shown
    /// what is stored; elsewhere it depends on the version of the API.
    fn message(&self, object: &StoredObject) -> Result<Option<Arc<[u8]>>, ApiError> {
        let entry = self.entry;
        let kept = entry.shows_stored_text().then_some(&object.other_encoding);
        if let Some(message) = kept.and_then(Memo::get) {
            return Ok(Some(Arc::clone(message)));
        }
        let kind = (&*entry.api_version, &*entry.kind);
        let made = protobuf::list_item(kind, &shown(entry, &object.value)?).ok();
        Ok(made.map(|message| match kept {
            Some(memo) => Arc::clone(memo.get_or_init(|| message.into())),
            None => message.into(),
        }))
    }

    /// What a list says of itself. Upstream says so where nothing follows for the kinds of
    /// definitions only.
    fn list_meta(&self, meta: &ListMeta) -> Result<Vec<u8>, ApiError> {
        let mut json = to_json(meta)?;
        let is_last = meta.continue_token.is_empty() && self.form == Representation::Objects;
        if is_last && self.entry.origin != KindOrigin::BuiltIn {
            json.splice(1..1, *b"\"continue\":\"\",");
        }
        Ok(json)
    }

    /// What a bookmark carries: an object of the kind with nothing but a revision.
    pub fn bookmark(&self, revision: Revision, kind_of_bookmark: BookmarkKind) -> Bytes {
        let (kind, api_version) = match self.form {
            Representation::Objects => (&*self.entry.kind, &*self.entry.api_version),
            Representation::Metadata(_, version) => {
                ("PartialObjectMetadata", version.api_version())
            }
            Representation::Table(_, version) => ("Table", version.api_version()),
        };
        let annotations = match kind_of_bookmark {
            BookmarkKind::InitialEventsEnd => {
                ",\"annotations\":{\"k8s.io/initial-events-end\":\"true\"}"
            }
            BookmarkKind::Progress => "",
        };
        let metadata = format!("\"metadata\":{{\"resourceVersion\":\"{revision}\"{annotations}}}");
        let rest = match self.form {
            Representation::Objects | Representation::Metadata(..) => metadata,
            // A table's metadata has no annotations: clients that stream lists ask for objects.
            Representation::Table(..) => format!(
                "\"metadata\":{{\"resourceVersion\":\"{revision}\"}},\"columnDefinitions\":{},\"rows\":[]",
                table::columns_json(self.entry)
            ),
        };
        format!("{{\"kind\":\"{kind}\",\"apiVersion\":\"{api_version}\",{rest}}}").into()
    }
}

/// What a bookmark says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BookmarkKind {
    /// The state at the start of the watch was sent completely.
    InitialEventsEnd,
    /// The watch has come this far.
    Progress,
}

/// A stored object as clients of its kind's version get it.
fn shown(entry: &KindEntry, json: &Bytes) -> Result<Bytes, ApiError> {
    let shown = entry.codec.shown(json);
    shown.map_err(|error| ApiError::internal(format!("read a stored {}: {error}", entry.kind)))
}

/// What stands at the head of an object, and of no item of a list of its kind. Upstream's items say
/// neither `apiVersion` nor `kind`, but for kinds that a user's definition adds; those of
/// rekindle.dev are such there.
fn head_of_object(entry: &KindEntry) -> String {
    let is_ours = entry.group == rekindle_types::v1alpha1::GROUP;
    if is_ours || entry.origin != KindOrigin::BuiltIn {
        return String::new();
    }
    format!("{{\"apiVersion\":\"{}\",\"kind\":\"{}\",", entry.api_version, entry.kind)
}

#[derive(Deserialize)]
struct ObjectMetadata<'a> {
    #[serde(borrow)]
    metadata: &'a RawValue,
}

/// The text of the metadata inside an object's JSON.
fn metadata(json: &[u8]) -> Result<&RawValue, ApiError> {
    serde_json::from_slice::<ObjectMetadata<'_>>(json)
        .map(|object| object.metadata)
        .map_err(|error| ApiError::internal(format!("read a stored object: {error}")))
}

fn resource_version(json: &[u8]) -> Result<String, ApiError> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct VersionMeta {
        #[serde(default)]
        resource_version: String,
    }
    serde_json::from_str::<VersionMeta>(metadata(json)?.get())
        .map(|meta| meta.resource_version)
        .map_err(|error| ApiError::internal(format!("read a stored object: {error}")))
}

/// Metadata without the annotation that upstream shows with the spec only.
fn without_annotation(metadata: &str, name: &str) -> Result<String, ApiError> {
    let mut metadata: Value = serde_json::from_str(metadata).map_err(ApiError::internal)?;
    if let Some(annotations) = metadata["annotations"].as_object_mut() {
        annotations.remove(name);
        if annotations.is_empty()
            && let Some(metadata) = metadata.as_object_mut()
        {
            metadata.remove("annotations");
        }
    }
    Ok(metadata.to_string())
}

/// A `PartialObjectMetadata`.
fn metadata_only(
    entry: &KindEntry,
    json: &[u8],
    version: MetaVersion,
) -> Result<Vec<u8>, ApiError> {
    let metadata = metadata(json)?.get();
    let metadata: Cow<'_, str> = match entry.spec_annotation {
        Some(name) => without_annotation(metadata, name)?.into(),
        None => metadata.into(),
    };
    Ok(format!(
        "{{\"kind\":\"PartialObjectMetadata\",\"apiVersion\":\"{}\",\"metadata\":{metadata}}}",
        version.api_version()
    )
    .into_bytes())
}

fn to_json(value: &impl Serialize) -> Result<Vec<u8>, ApiError> {
    serde_json::to_vec(value).map_err(ApiError::internal)
}
