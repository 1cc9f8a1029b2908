//! Conversion webhooks: servers that know what an object is in another version of its kind.
//!
//! An object is stored in one version, and each request is for one. What comes out of the store is
//! converted before anything looks at it, and what is written is converted when nothing changes it
//! any more. [`review`] is what a webhook is asked and what it says. `admission_session` carries
//! both to the front and back. [`converted_texts`] keeps what was converted.
//!
//! ```text
//!   stored text --> text in the version of the request --> the request --> object
//!                                                                           |
//!   the answer <-- converted back, before the write <-- text to be stored <-+
//! ```
//! So a write whose object cannot be converted does not happen, and nothing of a write that
//! happened depends on a webhook.
//!
//! Source: the API reference of ConversionReview (apiextensions.k8s.io/v1), and upstream's
//! `apiextensions-apiserver/pkg/apiserver/conversion`.

mod converted_texts;
mod review;

use std::collections::BTreeSet;
use std::sync::Arc;

use bytes::Bytes;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinitionSpec;
use rekindle_kinds::registry::{AnyObject, KindEntry};
use rekindle_store::{Revision, StoredObject};
use rekindle_types::Tick;
use sha2::{Digest, Sha256};

pub(crate) use converted_texts::ConvertedTexts;
pub(crate) use review::ConversionReview;

use super::object::CustomObject;
use super::version::VersionCodec;
use crate::admission_session::{AdmissionSession, ContentDigest, WebhookQuestion, waits};
use crate::call::ApiCall;
use crate::shared::ApiShared;
use crate::status::ApiError;
use crate::webhook_location::WebhookLocation;

/// Seconds that a webhook has for one review, as upstream.
const TIMEOUT_SECONDS: u32 = 30;
/// What one review asks at most: so many objects, and so many bytes from which on it asks no more.
const REVIEW_OBJECTS_MAX: usize = 500;
const REVIEW_BYTES_MAX: usize = 2 << 20;
/// The longest answer: one object more than a review may ask, each twice as large as before.
const ANSWER_BYTES_MAX: usize = 10 << 20;

/// What converts the objects of a definition.
pub(super) struct ConversionWebhook {
    /// As upstream calls it.
    name: String,
    /// Tells the version of the definition: another one may have another webhook, and has other
    /// schemas.
    definition: ContentDigest,
    location: WebhookLocation,
    ca_bundle: Bytes,
    review_version: &'static str,
}

impl ConversionWebhook {
    /// None where objects are not converted by a webhook.
    pub(super) fn of_spec(
        stored: &StoredObject,
        spec: &CustomResourceDefinitionSpec,
    ) -> Option<Self> {
        let conversion = spec.conversion.as_ref()?;
        if conversion.strategy != "Webhook" || spec.versions.len() < 2 {
            return None;
        }
        let webhook = conversion.webhook.as_ref()?;
        let client = webhook.client_config.as_ref()?;
        let known = |wanted: &String| review::VERSIONS.into_iter().find(|known| known == wanted);
        let name = stored.key.as_str().rsplit('/').next().unwrap_or_default();
        Some(Self {
            name: format!("conversion_webhook_for_{name}"),
            definition: Sha256::digest(&stored.value).into(),
            location: WebhookLocation::new(client.into())?,
            ca_bundle: client.ca_bundle.clone().map(|pem| pem.0.into()).unwrap_or_default(),
            review_version: webhook.conversion_review_versions.iter().find_map(known)?,
        })
    }

    /// What an object in this version is asked by.
    fn digest(&self, object: &[u8], target: &VersionCodec) -> ContentDigest {
        let mut digest = Sha256::new();
        for part in [&self.definition[..], target.api_version().as_bytes(), object] {
            digest.update(part.len().to_le_bytes());
            digest.update(part);
        }
        digest.finalize().into()
    }
}

/// An object as it is written.
pub(crate) struct StorageForm {
    /// In the version that objects are stored in.
    pub(crate) object: Box<dyn AnyObject>,
    /// What clients of the request's version will see of it, if that is another one. It has no
    /// revision.
    pub(crate) shown: Option<Bytes>,
}

/// Converts the objects of one request.
#[derive(Clone, Copy)]
pub(crate) struct ObjectConversion<'c> {
    pub(crate) api: &'c ApiShared,
    pub(crate) session: &'c AdmissionSession,
    pub(crate) now: Tick,
}

impl<'c> ObjectConversion<'c> {
    pub(crate) fn of_call(call: &ApiCall<'c>) -> Self {
        Self { api: call.api, session: call.session, now: call.request.now }
    }

    /// Stored objects as clients of this kind's version see them.
    ///
    /// # Errors
    /// Why one of them cannot be converted; or the webhook has not answered yet.
    pub(crate) fn objects(
        self,
        entry: &KindEntry,
        stored: Vec<Arc<StoredObject>>,
    ) -> Result<Vec<Arc<StoredObject>>, ApiError> {
        let Some(codec) = VersionCodec::of_converted(entry) else { return Ok(stored) };
        let is_other = |object: &Arc<StoredObject>| !codec.is_of(&object.value);
        let source = |object: &Arc<StoredObject>| {
            let read = codec.read(&object.value).map_err(|error| {
                ApiError::internal(format!("read {} at {}: {error}", entry.kind, object.key))
            });
            Ok(read?.text_to_convert())
        };
        let sources: Result<Vec<_>, ApiError> =
            stored.iter().filter(|object| is_other(object)).map(source).collect();
        let mut converted = self.texts(sources?, codec)?.into_iter();
        let objects = stored.into_iter().map(|object| {
            if !is_other(&object) {
                return Ok(object);
            }
            let text = converted.next().unwrap_or_default();
            let value = with_revision(codec, &text, object.revision)?;
            Ok(Arc::new(StoredObject::new(object.key.clone(), object.revision, value)))
        });
        objects.collect()
    }

    /// The same of one object.
    pub(crate) fn object(
        self,
        entry: &KindEntry,
        stored: &Arc<StoredObject>,
    ) -> Result<Arc<StoredObject>, ApiError> {
        let mut objects = self.objects(entry, vec![Arc::clone(stored)])?;
        Ok(objects.pop().unwrap_or_else(|| Arc::clone(stored)))
    }

    /// An object as it is to be stored. What it is converted to is converted back, so that the
    /// answer shows what will be read.
    ///
    /// # Errors
    /// See [`Self::objects`].
    pub(crate) fn storage_form(
        self,
        entry: &KindEntry,
        object: Box<dyn AnyObject>,
    ) -> Result<StorageForm, ApiError> {
        let asked = VersionCodec::of_converted(entry).map(|codec| (codec, codec.storage()));
        let (Some((codec, storage)), Some(custom)) =
            (asked, object.as_any().downcast_ref::<CustomObject>())
        else {
            return Ok(StorageForm { object, shown: None });
        };
        if custom.api_version() == storage.api_version() {
            return Ok(StorageForm { object, shown: None });
        }
        let text = self.text(custom.text_to_convert(), &storage)?;
        let to_store = storage.read(&text).map_err(ApiError::internal)?;
        let shown = self.text(to_store.text_to_convert(), codec)?;
        Ok(StorageForm { object: Box::new(to_store), shown: Some(shown) })
    }

    /// An object of any version as clients of this kind's version see it, if it is of another one.
    /// It has no revision.
    ///
    /// # Errors
    /// See [`Self::objects`].
    pub(crate) fn shown(
        self,
        entry: &KindEntry,
        object: &dyn AnyObject,
    ) -> Result<Option<Bytes>, ApiError> {
        let custom = object.as_any().downcast_ref::<CustomObject>();
        let (Some(codec), Some(custom)) = (VersionCodec::of_converted(entry), custom) else {
            return Ok(None);
        };
        if custom.api_version() == codec.api_version() {
            return Ok(None);
        }
        self.text(custom.text_to_convert(), codec).map(Some)
    }

    fn text(self, source: Vec<u8>, target: &VersionCodec) -> Result<Bytes, ApiError> {
        Ok(self.texts(vec![source], target)?.pop().unwrap_or_default())
    }

    /// Objects in another version, without their revisions.
    fn texts(self, sources: Vec<Vec<u8>>, target: &VersionCodec) -> Result<Vec<Bytes>, ApiError> {
        let Some(webhook) = target.webhook() else { return Ok(Vec::new()) };
        let (mut known, mut unknown, mut asked) = (Vec::new(), Vec::new(), BTreeSet::new());
        for source in sources {
            let digest = webhook.digest(&source, target);
            match self.session.converted(&digest) {
                Some(Ok(text)) => {
                    self.api.custom.converted.put(digest, &text);
                    known.push(text);
                    continue;
                }
                Some(Err(why)) => return Err(ApiError::failure(why)),
                None => {}
            }
            match self.api.custom.converted.get(&digest) {
                Some(text) => known.push(text),
                None if asked.insert(digest) => unknown.push((digest, source)),
                None => {}
            }
        }
        if unknown.is_empty() {
            return Ok(known);
        }
        self.ask(webhook, unknown, target);
        Err(waits())
    }

    /// Asks for as many objects as one run may.
    fn ask(
        self,
        webhook: &ConversionWebhook,
        objects: Vec<(ContentDigest, Vec<u8>)>,
        target: &VersionCodec,
    ) {
        let mut objects = objects.into_iter().peekable();
        while objects.peek().is_some() && !self.session.is_full() {
            let (mut part, mut bytes) = (Vec::new(), 0);
            while part.len() < REVIEW_OBJECTS_MAX
                && bytes < REVIEW_BYTES_MAX
                && let Some((digest, text)) = objects.next()
            {
                bytes += text.len();
                part.push((digest, text));
            }
            let review = ConversionReview::new(
                (webhook.review_version, self.api.new_uid()),
                part,
                target.clone(),
            );
            let question = WebhookQuestion {
                webhook: webhook.name.clone(),
                target: webhook.location.target(self.api, TIMEOUT_SECONDS, self.now),
                ca_bundle: webhook.ca_bundle.clone(),
                timeout_seconds: TIMEOUT_SECONDS,
                body: review.body(),
                answer_bytes_max: ANSWER_BYTES_MAX,
            };
            self.session.convert(review, question);
        }
    }
}

/// A converted text with the revision of its object.
pub(crate) fn with_revision_of(
    entry: &KindEntry,
    text: &[u8],
    revision: Revision,
) -> Result<Bytes, ApiError> {
    match VersionCodec::of_converted(entry) {
        Some(codec) => with_revision(codec, text, revision),
        None => Ok(Bytes::copy_from_slice(text)),
    }
}

fn with_revision(codec: &VersionCodec, text: &[u8], revision: Revision) -> Result<Bytes, ApiError> {
    let mut object = codec.read(text).map_err(ApiError::internal)?;
    object.meta_mut().resource_version = Some(revision.to_string());
    Ok(object.text_as_shown().into())
}
