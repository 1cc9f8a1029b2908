//! create: a new object under its own or a generated name.

use http::StatusCode;
use rekindle_kinds::registry::object_meta::with_errors_of_new;
use rekindle_kinds::registry::{AnyObject, ResourceScope};
use rekindle_store::{PendingWrite, StoreError, WritePrecondition};

use crate::admission::{self, AdmissionStage, WriteReview};
use crate::call::{ApiCall, ApiWriteFailure, ObjectChange, ObjectPart, put, with_retries};
use crate::custom::{ObjectConversion, StorageForm};
use crate::managed_fields::{self, ServerFilled};
use crate::outcome::RequestOutcome;
use crate::request::options::DryRun;
use crate::resource_quotas::QuotaWrite;
use crate::service_addresses::ServiceWrite;
use crate::status::ApiError;
use crate::verbs::update::FieldOwnership;
use crate::{decode, keys, object_meta};

/// How many generated names are tried before giving up.
const NAMES_TRIED_MAX: usize = 8;

pub(crate) fn create(call: &ApiCall<'_>) -> Result<RequestOutcome, ApiError> {
    let format = decode::body_format(&call.request.content_type)?;
    let document = (format, call.request.body.as_ref());
    let decoded = decode::object(call.entry, document, call.options.field_validation)?;
    create_object(call, decoded.object, decoded.warnings, FieldOwnership::Tracked)
}

/// Creates an object that was read.
pub(crate) fn create_object(
    call: &ApiCall<'_>,
    mut object: Box<dyn AnyObject>,
    mut warnings: Vec<String>,
    ownership: FieldOwnership,
) -> Result<RequestOutcome, ApiError> {
    if let Err(error) = complete(call, object.as_mut(), ownership, &mut warnings) {
        return Err(error.with_warnings(warnings));
    }
    let prefix = object.meta().generate_name.clone().unwrap_or_default();
    if !object_meta::name(object.as_ref()).is_empty() || prefix.is_empty() {
        return write_named(call, object, &warnings)?
            .map_err(|name| taken_error(call, &name).with_warnings(warnings.clone()));
    }
    let mut taken = String::new();
    for _ in 0..NAMES_TRIED_MAX {
        let mut named = object.boxed_clone();
        named.meta_mut().name = Some(call.generated_name(&prefix));
        match write_named(call, named, &warnings)? {
            Ok(outcome) => return Ok(outcome),
            Err(name) => taken = name,
        }
    }
    Err(ApiError::already_exists(call.entry, &taken).with_warnings(warnings))
}

/// Fills in all that a new object gets before its name is final.
fn complete(
    call: &ApiCall<'_>,
    object: &mut dyn AnyObject,
    ownership: FieldOwnership,
    warnings: &mut Vec<String>,
) -> Result<(), ApiError> {
    check_new(call, object)?;
    let review = WriteReview::of_new(call);
    warnings.extend(review.run(AdmissionStage::Received, object)?);
    object_meta::prepare_new(object.meta_mut(), call.new_uid(), call.request.now);
    let filled = ServerFilled::of_new(object);
    warnings.extend(review.run(AdmissionStage::Identified, object)?);
    object.set_defaults();
    match ownership {
        FieldOwnership::Tracked => managed_fields::track_new(call, object, &filled),
        FieldOwnership::Applied => {}
    }
    let of_preparation = object.warnings_of_preparation();
    object.prepare_for_create(&call.context());
    warnings.extend(review.run(AdmissionStage::Defaulted, object)?);
    warnings.extend(of_preparation);
    Ok(())
}

/// 409, which says so when the object that has the name is being deleted.
fn taken_error(call: &ApiCall<'_>, name: &str) -> ApiError {
    let key = keys::object(call.entry, &call.path.namespace, name);
    let stored = call.api.store.newest(&key);
    let holder = stored.and_then(|stored| call.api.read(call.entry, &stored).ok());
    match holder.is_some_and(|holder| object_meta::is_being_deleted(holder.meta())) {
        true => ApiError::still_exists(call.entry, name),
        false => ApiError::already_exists(call.entry, name),
    }
}

/// Prepares, checks and writes an object that has its name. The inner error is the name, when it
/// was taken already.
fn write_named(
    call: &ApiCall<'_>,
    mut object: Box<dyn AnyObject>,
    warnings: &[String],
) -> Result<Result<RequestOutcome, String>, ApiError> {
    object.prepare_named();
    // the addresses of a Service may be taken in between, by a record of the user's: choose again
    with_retries(call.entry, object_meta::name(object.as_ref()), || {
        write_once(call, object.boxed_clone(), warnings)
    })
}

fn write_once(
    call: &ApiCall<'_>,
    mut object: Box<dyn AnyObject>,
    warnings: &[String],
) -> Result<Result<RequestOutcome, String>, ApiWriteFailure> {
    let mut service = ServiceWrite::begin(call, ObjectPart::Main)?;
    let mut warnings = warnings.to_vec();
    if let Err(error) = admit(call, object.as_mut(), service.as_mut(), &mut warnings) {
        return Err(error.with_warnings(warnings).into());
    }
    write(call, object, service, &warnings)
}

/// Checks an object that has its name. Adds the warnings.
fn admit(
    call: &ApiCall<'_>,
    object: &mut dyn AnyObject,
    service: Option<&mut ServiceWrite<'_>>,
    warnings: &mut Vec<String>,
) -> Result<(), ApiError> {
    let review = WriteReview::of_new(call);
    warnings.extend(review.run(AdmissionStage::Named, object)?);
    if let Some(service) = service {
        service.complete(&|| call.random_number(), object, None)?;
    }
    validate(call, object)?;
    // what is invalid gets none of these, as upstream
    warnings.extend(object.warnings_of_new());
    warnings.extend(object.warnings());
    warnings.extend(review.run(AdmissionStage::Warned, object)?);
    warnings.extend(review.run(AdmissionStage::Valid, object)?);
    warnings.extend(review.run(AdmissionStage::Final, object)?);
    Ok(())
}

/// What is refused before anything else is looked at.
fn check_new(call: &ApiCall<'_>, object: &mut dyn AnyObject) -> Result<(), ApiError> {
    let meta = object.meta_mut();
    if call.entry.scope == ResourceScope::Namespaced && call.path.namespace.is_empty() {
        return Err(ApiError::method_not_allowed());
    }
    object_meta::settle_namespace(call.entry, meta, call.path)
}

fn validate(call: &ApiCall<'_>, object: &dyn AnyObject) -> Result<(), ApiError> {
    let rules = call.entry.metadata_rules();
    let errors = with_errors_of_new(object.meta(), &rules, || object.validate_created());
    if errors.is_empty() {
        return Ok(());
    }
    Err(ApiError::invalid(call.entry, object_meta::name(object), &errors))
}

/// Queues the write. The inner error is the name that was taken already.
fn write(
    call: &ApiCall<'_>,
    mut object: Box<dyn AnyObject>,
    service: Option<ServiceWrite<'_>>,
    warnings: &[String],
) -> Result<Result<RequestOutcome, String>, ApiWriteFailure> {
    let name = object_meta::name(object.as_ref()).to_owned();
    let key = keys::object(call.entry, &call.path.namespace, &name);
    match call.options.dry_run {
        DryRun::No => object_meta::drop_given_version(object.meta_mut())
            .map_err(|error| error.with_warnings(warnings.to_vec()))?,
        DryRun::All => {}
    }
    let converted = ObjectConversion::of_call(call).storage_form(call.entry, object);
    let StorageForm { mut object, shown } =
        converted.map_err(|error| error.with_warnings(warnings.to_vec()))?;
    // its lock comes before those of namespaces
    let _until_queued = call.api.custom.admit_new(call)?;
    let quotas = QuotaWrite::of_create(call, object.as_mut())
        .map_err(|error| error.with_warnings(warnings.to_vec()))?;
    match call.options.dry_run {
        DryRun::All if call.api.store.newest(&key).is_some() => return Ok(Err(name)),
        DryRun::All => {
            let as_answered = (StatusCode::CREATED, warnings.to_vec());
            return Ok(call.answer_object(object.as_ref(), shown, as_answered).map(Ok)?);
        }
        DryRun::No => {}
    }
    let expect = WritePrecondition::Absent;
    let mut pending = match queue(call, &key, expect, object, (service, quotas)) {
        Ok(pending) => pending,
        Err(StoreError::AlreadyExists { key: taken, .. }) if taken.as_str() == key => {
            return Ok(Err(name));
        }
        Err(error) => return Err(error.into()),
    };
    pending.extend(admission::after_create(call, &name)?);
    call.note_event_write(&key);
    let as_answered = (StatusCode::CREATED, warnings.to_vec());
    Ok(call.when_written(pending, shown, as_answered).map(Ok)?)
}

/// Queues the write of an object, with what is counted with it.
pub(super) fn queue(
    call: &ApiCall<'_>,
    key: &str,
    expect: WritePrecondition,
    object: Box<dyn AnyObject>,
    (service, quotas): (Option<ServiceWrite<'_>>, Option<QuotaWrite<'_>>),
) -> Result<Vec<PendingWrite>, StoreError> {
    match (service, quotas) {
        (Some(service), quotas) => service.queue(key, expect, object, (call.request.now, quotas)),
        (None, Some(quotas)) => {
            quotas.queue(ObjectChange::Put { key: key.to_owned(), expect, object })
        }
        (None, None) => put(call.api, key, expect, object).map(|write| vec![write]),
    }
}
