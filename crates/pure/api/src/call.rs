//! One request to one kind: what every verb and subresource works with.

use std::cell::RefCell;
use std::sync::{Arc, PoisonError};

use bytes::Bytes;
use http::StatusCode;
use rekindle_store::{
    Mutation, PendingWrite, Revision, StoreError, StoreWrite, StoredObject, WriteEpoch,
    WritePrecondition,
};

use rekindle_kinds::registry::{AnyObject, KindEntry, RequestContext};
use rekindle_types::Tick;

use crate::admission_session::AdmissionSession;
use crate::custom::VersionCodec;
use crate::custom::{ObjectConversion, with_revision_of};
use crate::outcome::{ApiAnswer, RequestOutcome, WriteInFlight};
use crate::represent::ObjectRenderer;
use crate::request::accept::{self, AnswerForm, MetadataShape, Representation};
use crate::request::{AnswerEncoding, ApiRequest, RequestOptions, ResourcePath};
use crate::resource_quotas::{QuotaWrite, until_decided};
use crate::shared::ApiShared;
use crate::status::ApiError;
use crate::{expiry, keys, protobuf, service_addresses};
pub(crate) use rekindle_kinds::registry::ObjectPart;

/// One request to one kind, with everything that its handling needs.
pub(crate) struct ApiCall<'a> {
    pub(crate) api: &'a ApiShared,
    pub(crate) entry: &'a Arc<KindEntry>,
    pub(crate) path: &'a ResourcePath,
    pub(crate) options: RequestOptions,
    pub(crate) request: &'a ApiRequest,
    pub(crate) session: &'a AdmissionSession,
    pub(crate) written_in: WrittenVersion,
}

/// The version that a change of an object is stored in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WrittenVersion {
    /// That of the definition: a webhook may have to convert it.
    Storage,
    /// The one that the object is in already: no webhook is asked.
    AsStored,
}

/// How often a read-modify-write is tried again when somebody else writes in between. Each attempt
/// reads the newest state, so only a storm of writes to one object gets near it.
pub(crate) const ATTEMPTS_MAX: usize = 64;

/// Runs `attempt` until no other writer comes in between.
///
/// # Errors
/// That of the attempt, and 409 for the object of this name when others wrote each time.
pub(crate) fn with_retries<T>(
    entry: &KindEntry,
    name: &str,
    mut attempt: impl FnMut() -> Result<T, ApiWriteFailure>,
) -> Result<T, ApiError> {
    for _ in 0..ATTEMPTS_MAX {
        match attempt() {
            Ok(outcome) => return Ok(outcome),
            Err(ApiWriteFailure::Raced) => {}
            Err(ApiWriteFailure::Api(error)) => return Err(error),
        }
    }
    Err(ApiError::modified(entry, name))
}

impl<'a> ApiCall<'a> {
    /// What is changed is stored in the version of the definition.
    pub(crate) fn new(
        api: &'a ApiShared,
        entry: &'a Arc<KindEntry>,
        path: &'a ResourcePath,
        options: RequestOptions,
        (request, session): (&'a ApiRequest, &'a AdmissionSession),
    ) -> Self {
        let written_in = WrittenVersion::Storage;
        Self { api, entry, path, options, request, session, written_in }
    }

    pub(crate) fn context(&self) -> RequestContext<'a> {
        RequestContext { now: self.request.now, identity: &self.request.identity }
    }

    /// The same request in the version that its object is stored in, and stays in.
    pub(crate) fn in_stored_version<'b>(&self, entry: &'b Arc<KindEntry>) -> ApiCall<'b>
    where
        'a: 'b,
    {
        let options = self.options.clone();
        let Self { api, path, request, session, .. } = *self;
        ApiCall {
            api,
            entry,
            path,
            options,
            request,
            session,
            written_in: WrittenVersion::AsStored,
        }
    }

    /// Whether its objects can be written as protobuf.
    pub(crate) fn has_protobuf(&self) -> bool {
        protobuf::message_of(&self.entry.api_version, &self.entry.kind).is_some()
    }

    /// What the client wants to be shown, and how that is written.
    pub(crate) fn answer_form(&self) -> Result<AnswerForm, ApiError> {
        let accept = (self.request.accept.as_str(), self.has_protobuf());
        accept::negotiate(accept, &self.options.include_object)
    }

    /// How the answer is written: as JSON where the client has no say.
    pub(crate) fn answer_encoding(&self) -> AnswerEncoding {
        self.answer_form().map_or(AnswerEncoding::Json, |form| form.encoding)
    }

    /// What the client wants to be shown.
    pub(crate) fn form(&self) -> Result<Representation, ApiError> {
        self.answer_form().map(|form| form.shows)
    }

    /// The form of a list.
    pub(crate) fn list_form(&self) -> Result<Representation, ApiError> {
        let kind = &self.entry.list_kind;
        match self.form()? {
            Representation::Metadata(MetadataShape::Object, _) => {
                Err(ApiError::not_acceptable_form(format!(
                    "you requested PartialObjectMetadata, but the requested object is a list ({kind})"
                )))
            }
            form => Ok(form),
        }
    }

    /// The form of one object.
    fn object_form(&self) -> Result<Representation, ApiError> {
        let kind = &self.entry.kind;
        match self.form()? {
            Representation::Metadata(MetadataShape::List, _) => {
                Err(ApiError::not_acceptable_form(format!(
                    "you requested PartialObjectMetadataList, but the requested object is not a list ({kind})"
                )))
            }
            form => Ok(form),
        }
    }

    pub(crate) fn renderer(&self) -> Result<ObjectRenderer<'a>, ApiError> {
        Ok(ObjectRenderer { entry: self.entry, form: self.object_form()?, now: self.request.now })
    }

    /// The UID of the object that the request makes.
    pub(crate) fn new_uid(&self) -> String {
        self.session.uid(|| self.api.new_uid())
    }

    /// A number by which something is chosen for the object.
    pub(crate) fn random_number(&self) -> u128 {
        self.session.number(|| self.api.random_number())
    }

    /// A name that the object, or a part of it, gets.
    pub(crate) fn generated_name(&self, prefix: &str) -> String {
        self.session.name(prefix, || self.api.generated_name(prefix))
    }

    pub(crate) fn key(&self) -> String {
        keys::object(self.entry, &self.path.namespace, &self.path.name)
    }

    pub(crate) fn not_found(&self) -> ApiError {
        ApiError::not_found(self.entry, &self.path.name)
    }

    /// The object that the path names, as durably stored.
    pub(crate) fn stored(&self) -> Result<Arc<StoredObject>, ApiError> {
        self.api.store.get(&self.key()).ok_or_else(|| self.not_found())
    }

    /// The object that the path names, with writes that are still on their way to the disk: for
    /// read-modify-write.
    pub(crate) fn newest(&self) -> Result<Arc<StoredObject>, ApiError> {
        self.api.store.newest(&self.key()).ok_or_else(|| self.not_found())
    }

    /// What is behind a stored text in the version of the request, to look at.
    pub(crate) fn read(&self, object: &Arc<StoredObject>) -> Result<Arc<dyn AnyObject>, ApiError> {
        let shown = ObjectConversion::of_call(self).object(self.entry, object)?;
        self.api.read(self.entry, &shown)
    }

    /// Whether a change of this stored object leaves it in its version.
    pub(crate) fn keeps_version(&self, stored: &StoredObject) -> bool {
        match self.written_in {
            WrittenVersion::Storage => self.entry.codec.is_stored_form(&stored.value),
            WrittenVersion::AsStored => VersionCodec::of_converted(self.entry)
                .is_some_and(|codec| codec.is_of(&stored.value)),
        }
    }

    /// A stored object as an answer of this form shows it. Metadata alone is shown as it is stored.
    pub(crate) fn shown(
        &self,
        form: Representation,
        stored: Arc<StoredObject>,
    ) -> Result<Arc<StoredObject>, ApiError> {
        match form {
            Representation::Metadata(..) => Ok(stored),
            Representation::Objects | Representation::Table(..) => {
                ObjectConversion::of_call(self).object(self.entry, &stored)
            }
        }
    }

    /// The same of several.
    pub(crate) fn all_shown(
        &self,
        form: Representation,
        stored: Vec<Arc<StoredObject>>,
    ) -> Result<Vec<Arc<StoredObject>>, ApiError> {
        match form {
            Representation::Metadata(..) => Ok(stored),
            Representation::Objects | Representation::Table(..) => {
                ObjectConversion::of_call(self).objects(self.entry, stored)
            }
        }
    }

    /// The same, to be changed.
    pub(crate) fn decode_stored(
        &self,
        object: &Arc<StoredObject>,
    ) -> Result<Box<dyn AnyObject>, ApiError> {
        Ok(self.read(object)?.boxed_clone())
    }

    /// Remembers that this object expires, if its kind does.
    pub(crate) fn note_event_write(&self, key: &str) {
        if expiry::expires(self.entry) {
            let mut expiry = self.api.expiry.lock().unwrap_or_else(PoisonError::into_inner);
            expiry.note(key, self.request.now);
        }
    }

    /// See [`with_retries`], for the object that the path names.
    pub(crate) fn with_retries(
        &self,
        attempt: impl FnMut() -> Result<RequestOutcome, ApiWriteFailure>,
    ) -> Result<RequestOutcome, ApiError> {
        with_retries(self.entry, &self.path.name, attempt)
    }

    /// The answer to a write that is on its way: the object as written. `shown` is what the version
    /// of the request has of it, if that is another one than what is stored.
    pub(crate) fn when_written(
        &self,
        pending: Vec<PendingWrite>,
        shown: Option<Bytes>,
        (code, warnings): (StatusCode, Vec<String>),
    ) -> Result<RequestOutcome, ApiError> {
        let (entry, form, now) = (self.entry.clone(), self.object_form()?, self.request.now);
        Ok(RequestOutcome::Write(WriteInFlight::new(pending, move |written| {
            let first = written.into_iter().next();
            let object = first.and_then(|written| written.object.or(written.previous));
            let Some(object) = object else {
                return ApiError::internal("the store gave no object back").into();
            };
            let text = match shown {
                Some(shown) => with_revision_of(&entry, &shown, object.revision),
                None => Ok(object.value.clone()),
            };
            let rendered = ObjectRenderer { entry: &entry, form, now };
            answer_with(text.and_then(|text| rendered.object(&text)), code, warnings)
        })))
    }

    /// An answer that shows an object which is not (or not only) what the store holds. See
    /// [`Self::when_written`] for `shown`.
    pub(crate) fn answer_object(
        &self,
        object: &dyn AnyObject,
        shown: Option<Bytes>,
        (code, warnings): (StatusCode, Vec<String>),
    ) -> Result<RequestOutcome, ApiError> {
        let text = shown.unwrap_or_else(|| object.to_json().into());
        Ok(answer_with(self.renderer()?.object(&text), code, warnings).into())
    }

    /// The same, but only once `pending` is durable.
    pub(crate) fn answer_object_after(
        &self,
        pending: Vec<PendingWrite>,
        object: &dyn AnyObject,
        warnings: Vec<String>,
    ) -> Result<RequestOutcome, ApiError> {
        let rendered = self.renderer()?.object(&object.to_json().into());
        let answer = answer_with(rendered, StatusCode::OK, warnings);
        Ok(RequestOutcome::Write(WriteInFlight::new(pending, move |_| answer)))
    }
}

fn answer_with(
    rendered: Result<Bytes, ApiError>,
    code: StatusCode,
    warnings: Vec<String>,
) -> ApiAnswer {
    match rendered {
        Ok(body) => ApiAnswer::json(code, body).with_warnings(warnings),
        Err(error) => error.into(),
    }
}

/// Why a write did not happen.
pub(crate) enum ApiWriteFailure {
    /// Somebody else wrote in between: read again and try again.
    Raced,
    /// It cannot be done.
    Api(ApiError),
}

impl From<ApiError> for ApiWriteFailure {
    fn from(error: ApiError) -> Self {
        Self::Api(error)
    }
}

impl From<StoreError> for ApiWriteFailure {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Conflict { .. }
            | StoreError::NotFound { .. }
            | StoreError::AlreadyExists { .. }
            | StoreError::RolledBack => Self::Raced,
            other => Self::Api(other.into()),
        }
    }
}

/// A change of one object, of several that happen together.
pub(crate) enum ObjectChange {
    /// It is made, or replaced.
    Put {
        /// Where it lives.
        key: String,
        /// What the write requires.
        expect: WritePrecondition,
        /// The object.
        object: Box<dyn AnyObject>,
    },
    /// It goes, if it is still this version.
    Remove(Arc<StoredObject>),
}

/// An object on its way into the store's queue: encoded there, with the revision that it gets.
struct EncodedPut {
    object: RefCell<Box<dyn AnyObject>>,
    written: RefCell<(Revision, Bytes)>,
}

impl EncodedPut {
    fn new(object: Box<dyn AnyObject>) -> Self {
        Self { object: RefCell::new(object), written: RefCell::default() }
    }

    /// Its `resourceVersion` becomes the revision of the write.
    fn encode(&self, revision: Revision) -> Bytes {
        let mut object = self.object.borrow_mut();
        object.meta_mut().resource_version = Some(revision.to_string());
        // boxed, so that what stays in memory has no room left over from its encoding
        let encoded = Bytes::from(object.to_json().into_boxed_slice());
        self.written.replace((revision, encoded.clone()));
        encoded
    }

    /// Remembers what was queued.
    fn remember(self, api: &ApiShared, key: &str) {
        let (revision, value) = self.written.into_inner();
        let stored = StoredObject::new(key, revision, value);
        api.decoded.put(&stored, self.object.into_inner().into_stored_form().into());
    }
}

/// Queues the write of an object; its `resourceVersion` becomes the revision of the write.
pub(crate) fn put(
    api: &ApiShared,
    key: &str,
    expect: WritePrecondition,
    object: Box<dyn AnyObject>,
) -> Result<PendingWrite, StoreError> {
    let put = EncodedPut::new(object);
    let pending = api.store.write(key, expect, Mutation::Put(&|revision| put.encode(revision)))?;
    put.remember(api, key);
    Ok(pending)
}

/// Queues changes of different objects as one step: all of them happen, or none. They were decided
/// in this epoch.
pub(crate) fn put_together(
    api: &ApiShared,
    changes: Vec<ObjectChange>,
    epoch: WriteEpoch,
) -> Result<Vec<PendingWrite>, StoreError> {
    if changes.is_empty() {
        return Ok(Vec::new());
    }
    let mut parts: Vec<(String, WritePrecondition, Option<EncodedPut>)> = Vec::new();
    for change in changes {
        parts.push(match change {
            ObjectChange::Put { key, expect, object } => {
                (key, expect, Some(EncodedPut::new(object)))
            }
            ObjectChange::Remove(stored) => {
                let expect = WritePrecondition::Revision(stored.revision);
                (stored.key.as_str().to_owned(), expect, None)
            }
        });
    }
    let encoders: Vec<_> = parts
        .iter()
        .map(|(_, _, put)| put.as_ref().map(|put| |revision| put.encode(revision)))
        .collect();
    let writes = parts.iter().zip(&encoders).map(|((key, expect, _), encoder)| StoreWrite {
        key,
        expect: *expect,
        mutation: encoder.as_ref().map_or(Mutation::Delete, |encode| Mutation::Put(encode)),
    });
    let pending = api.store.write_all(&writes.collect::<Vec<_>>(), epoch)?;
    drop(encoders);
    for (key, _, put) in parts {
        match put {
            Some(put) => put.remember(api, &key),
            None => api.decoded.forget(&key),
        }
    }
    Ok(pending)
}

/// Queues the removal of an object at the revision that was looked at, with what goes with it.
pub(crate) fn remove(
    api: &ApiShared,
    entry: &KindEntry,
    object: &Arc<StoredObject>,
    now: Tick,
) -> Result<Vec<PendingWrite>, StoreError> {
    let key = object.key.as_str();
    until_decided(key, || {
        let quotas = || QuotaWrite::of_removal(api, entry, object, now);
        if service_addresses::is_service(entry) {
            return service_addresses::remove(api, object, (now, quotas));
        }
        if let Some(quotas) = quotas() {
            return quotas.queue(ObjectChange::Remove(Arc::clone(object)));
        }
        let expect = WritePrecondition::Revision(object.revision);
        let pending = api.store.write(key, expect, Mutation::Delete)?;
        api.decoded.forget(key);
        Ok(vec![pending])
    })
}
