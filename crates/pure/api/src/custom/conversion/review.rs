//! What a conversion webhook is asked, and what it says: a ConversionReview (apiextensions.k8s.io).

use std::collections::BTreeMap;

use bytes::Bytes;
use rekindle_kinds::validation::{Path, labels};
use rekindle_types::null_as_default;
use rekindle_types::validation::field_error::FieldError;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::admission_session::ContentDigest;
use crate::custom::VersionCodec;
use crate::decode::BODY_BYTES_MAX;

/// The versions of reviews, as a definition names them.
pub(super) const VERSIONS: [&str; 2] = ["v1", "v1beta1"];
const V1: &str = "v1";
const GROUP: &str = "apiextensions.k8s.io";
const KIND: &str = "ConversionReview";
const SUCCESS: &str = "Success";

/// One question to a webhook: what some objects are in another version.
pub(crate) struct ConversionReview {
    version: &'static str,
    uid: String,
    /// Their texts, by what names the question for each.
    objects: Vec<(ContentDigest, Vec<u8>)>,
    target: VersionCodec,
}

impl ConversionReview {
    /// There is one object at least.
    pub(super) fn new(
        (version, uid): (&'static str, String),
        objects: Vec<(ContentDigest, Vec<u8>)>,
        target: VersionCodec,
    ) -> Self {
        Self { version, uid, objects, target }
    }

    /// The whole review, as JSON.
    pub(super) fn body(&self) -> Bytes {
        let api_version = self.api_version();
        let desired = self.target.api_version();
        let head = format!(
            "{{\"kind\":\"{KIND}\",\"apiVersion\":\"{api_version}\",\"request\":{{\"uid\":{},\
             \"desiredAPIVersion\":{},\"objects\":[",
            json!(self.uid),
            json!(desired),
        );
        let texts: usize = self.objects.iter().map(|(_, text)| text.len() + 1).sum();
        let mut body = Vec::with_capacity(head.len() + texts + 3);
        body.extend_from_slice(head.as_bytes());
        for (index, (_, text)) in self.objects.iter().enumerate() {
            if index > 0 {
                body.push(b',');
            }
            body.extend_from_slice(text);
        }
        body.extend_from_slice(b"]}}");
        body.into()
    }

    fn api_version(&self) -> String {
        format!("{GROUP}/{}", self.version)
    }

    /// What each object is in the other version, or why that is not known.
    pub(crate) fn read_answer(
        self,
        answer: Result<Bytes, String>,
    ) -> Vec<(ContentDigest, Result<Bytes, String>)> {
        match answer.and_then(|body| self.response(&body)) {
            Ok(converted) if converted.len() == self.objects.len() => {
                let all = converted.into_iter().zip(&self.objects).enumerate();
                all.map(|(index, (converted, (digest, original)))| {
                    (*digest, self.checked(index, original, converted))
                })
                .collect()
            }
            Ok(converted) => {
                let (found, wanted) = (converted.len(), self.objects.len());
                self.failed(|kind| format!("{kind} returned {found} objects, expected {wanted}"))
            }
            Err(why) => self.failed(|kind| format!("{kind} failed: {why}")),
        }
    }

    /// The same error for all objects.
    fn failed(&self, why: impl Fn(&str) -> String) -> Vec<(ContentDigest, Result<Bytes, String>)> {
        let first = self.objects.first().map(|(_, text)| webhook_for(&read_map(text)));
        let why = why(&first.unwrap_or_default());
        self.objects.iter().map(|(digest, _)| (*digest, Err(why.clone()))).collect()
    }

    /// The objects of an answer to this very question.
    fn response(&self, body: &[u8]) -> Result<Vec<Value>, String> {
        let answered: AnsweredConversion =
            serde_json::from_slice(body).map_err(|error| error.to_string())?;
        let is_strict = self.version == V1;
        if is_strict && (answered.api_version != self.api_version() || answered.kind != KIND) {
            return Err(format!(
                "expected webhook response of {}, Kind={KIND}, got {}, Kind={}",
                self.api_version(),
                answered.api_version,
                answered.kind
            ));
        }
        let response = answered.response.ok_or("no response provided")?;
        if is_strict && response.uid != self.uid {
            return Err(format!("expected response.uid={:?}, got {:?}", self.uid, response.uid));
        }
        let ConversionResult { status, message } = response.result;
        match (status.as_str(), message.is_empty()) {
            (SUCCESS, _) => Ok(response.converted_objects),
            (_, false) => Err(message),
            (_, true) => Err(format!("response.result.status was '{status}', not 'Success'")),
        }
    }

    /// One object of the answer, with the metadata that a webhook may not change.
    fn checked(&self, index: usize, original: &[u8], converted: Value) -> Result<Bytes, String> {
        let original = read_map(original);
        let webhook = webhook_for(&original);
        let is_one = self.objects.len() == 1;
        let invalid = |why: String| match is_one {
            true => format!("{webhook} returned invalid object at index 0: {why}"),
            false => format!("{webhook} returned invalid converted object at index {index}: {why}"),
        };
        let Value::Object(mut converted) = converted else {
            return Err(invalid("it is no object".to_owned()));
        };
        let (wanted, found) = (self.target.api_version(), text_of(&converted, "apiVersion"));
        if found != wanted {
            return Err(invalid(format!(
                "invalid groupVersion (expected {wanted}, received {found})"
            )));
        }
        let (wanted, found) = (text_of(&original, "kind"), text_of(&converted, "kind"));
        if found != wanted {
            return Err(invalid(format!("invalid kind (expected {wanted}, received {found})")));
        }
        check_identity(&original, &converted).map_err(|why| match is_one {
            true => format!("{webhook} returned invalid object: {why}"),
            false => invalid(why),
        })?;
        restore_metadata(&original, &mut converted).map_err(|why| match is_one {
            true => format!("{webhook} returned invalid metadata: {why}"),
            false => {
                format!("{webhook} returned invalid metadata in object at index {index}: {why}")
            }
        })?;
        let object = self.target.object_of(Value::Object(converted));
        let text = object.map_err(|error| invalid(error.to_string()))?.text_to_convert();
        if text.len() > BODY_BYTES_MAX {
            return Err(invalid(format!("it is larger than {BODY_BYTES_MAX} bytes")));
        }
        Ok(text.into())
    }
}

/// A ConversionReview that was answered.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct AnsweredConversion {
    #[serde(deserialize_with = "null_as_default")]
    api_version: String,
    #[serde(deserialize_with = "null_as_default")]
    kind: String,
    response: Option<ConversionResponse>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct ConversionResponse {
    #[serde(deserialize_with = "null_as_default")]
    uid: String,
    #[serde(deserialize_with = "null_as_default")]
    converted_objects: Vec<Value>,
    #[serde(deserialize_with = "null_as_default")]
    result: ConversionResult,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ConversionResult {
    #[serde(deserialize_with = "null_as_default")]
    status: String,
    #[serde(deserialize_with = "null_as_default")]
    message: String,
}

/// Our own text of an object.
fn read_map(text: &[u8]) -> Map<String, Value> {
    serde_json::from_slice(text).unwrap_or_default()
}

fn text_of<'m>(object: &'m Map<String, Value>, field: &str) -> &'m str {
    object.get(field).and_then(Value::as_str).unwrap_or_default()
}

/// How errors name the webhook of an object.
fn webhook_for(object: &Map<String, Value>) -> String {
    let (api_version, kind) = (text_of(object, "apiVersion"), text_of(object, "kind"));
    format!("conversion webhook for {api_version}, Kind={kind}")
}

fn metadata_text<'m>(object: &'m Map<String, Value>, field: &str) -> &'m str {
    let metadata = object.get("metadata").and_then(|metadata| metadata.get(field));
    metadata.and_then(Value::as_str).unwrap_or_default()
}

fn check_identity(
    original: &Map<String, Value>,
    converted: &Map<String, Value>,
) -> Result<(), String> {
    for (field, name) in [("name", "name"), ("namespace", "namespace"), ("uid", "UID")] {
        let (wanted, found) = (metadata_text(original, field), metadata_text(converted, field));
        if wanted != found {
            return Err(format!("must have the same {name}: {wanted} != {found}"));
        }
    }
    Ok(())
}

/// The metadata of a converted object is that of the original, but for labels and annotations.
fn restore_metadata(
    original: &Map<String, Value>,
    converted: &mut Map<String, Value>,
) -> Result<(), String> {
    let mut metadata = match original.get("metadata") {
        Some(Value::Object(metadata)) => metadata.clone(),
        Some(_) | None => Map::new(),
    };
    let answered = match converted.remove("metadata") {
        Some(Value::Object(answered)) => answered,
        Some(_) => return Err("invalid metadata in converted object".to_owned()),
        None => return Err("missing metadata in converted object".to_owned()),
    };
    for field in ["labels", "annotations"] {
        let before = metadata.remove(field);
        let texts = match answered.get(field) {
            None | Some(Value::Null) => continue,
            Some(texts) => read_texts(field, texts)?,
        };
        if before != answered.get(field).cloned() {
            check_texts(field, &texts)?;
        }
        metadata.insert(field.to_owned(), json!(texts));
    }
    converted.insert("metadata".to_owned(), Value::Object(metadata));
    Ok(())
}

fn read_texts(field: &str, texts: &Value) -> Result<BTreeMap<String, String>, String> {
    let texts = texts.as_object();
    let texts = texts.ok_or_else(|| format!("invalid metadata.{field} in converted object"))?;
    let text = |(key, value): (&String, &Value)| match value.as_str() {
        Some(text) => Ok((key.clone(), text.to_owned())),
        None => Err(format!("metadata.{field}[{key}] must be a string in converted object")),
    };
    texts.iter().map(text).collect()
}

fn check_texts(field: &str, texts: &BTreeMap<String, String>) -> Result<(), String> {
    let path = Path::new("metadata").child(field);
    let errors = match field {
        "labels" => labels::labels(Some(texts), &path),
        _ => labels::annotations(Some(texts), &path),
    };
    match errors.is_empty() {
        true => Ok(()),
        false => {
            let all: Vec<String> = errors.iter().map(FieldError::to_string).collect();
            Err(all.join(", "))
        }
    }
}
