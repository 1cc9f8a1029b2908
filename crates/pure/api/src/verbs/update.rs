//! update: replaces an object. The steps that a patch shares are here too.

use std::sync::Arc;

use http::{Method, StatusCode};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use rekindle_kinds::registry::AnyObject;
use rekindle_kinds::registry::object_meta::check_change;
use rekindle_kinds::validation::{new_mistakes, text};
use rekindle_store::{StoredObject, WritePrecondition};

use super::create;
use crate::admission::{self, AdmissionStage, WriteReview};
use crate::auth::AccessAttributes;
use crate::call::{ApiCall, ApiWriteFailure, ObjectPart, WrittenVersion, remove};
use crate::custom::{ObjectConversion, StorageForm};
use crate::decode::DecodedObject;
use crate::outcome::RequestOutcome;
use crate::request::RequestVerb;
use crate::request::options::DryRun;
use crate::resource_quotas::QuotaWrite;
use crate::service_addresses::ServiceWrite;
use crate::status::ApiError;
use crate::{decode, managed_fields, object_meta, removal, revision};

pub(crate) fn update(call: &ApiCall<'_>, part: ObjectPart) -> Result<RequestOutcome, ApiError> {
    let format = decode::body_format(&call.request.content_type)?;
    let document = (format, call.request.body.as_ref());
    let decoded = decode::object(call.entry, document, call.options.field_validation)?;
    let mut object = decoded.object;
    check_place(call, object.meta_mut())
        .map_err(|error| error.with_warnings(decoded.warnings.clone()))?;
    if part == ObjectPart::Main && is_to_be_created(call) {
        let decoded = DecodedObject { object, warnings: decoded.warnings };
        return create_in_place(call, decoded);
    }
    let changed = change(call, part, |_| {
        Ok(ProposedObject {
            object: object.boxed_clone(),
            warnings: decoded.warnings.clone(),
            ownership: FieldOwnership::Tracked,
        })
    });
    // what is not there is found missing before anything is proposed
    changed.map_err(|error| match error.code() {
        StatusCode::NOT_FOUND => error.with_warnings(decoded.warnings),
        _ => error,
    })
}

/// The namespace and the name of an object must be those of the path.
pub(super) fn check_place(call: &ApiCall<'_>, meta: &mut ObjectMeta) -> Result<(), ApiError> {
    object_meta::settle_namespace(call.entry, meta, call.path)?;
    object_meta::check_name(meta, call.path)
}

/// Whether the update makes the object: it is not there, and upstream lets an update of its kind do
/// so.
fn is_to_be_created(call: &ApiCall<'_>) -> bool {
    call.entry.creates_on_update && call.api.store.newest(&call.key()).is_none()
}

/// An update of what is not there. It needs the right to create as well.
fn create_in_place(call: &ApiCall<'_>, decoded: DecodedObject) -> Result<RequestOutcome, ApiError> {
    let what = AccessAttributes::Resource {
        verb: RequestVerb::Create.name(),
        group: &call.entry.group,
        resource: &call.entry.plural,
        subresource: "",
        namespace: &call.path.namespace,
        name: &call.path.name,
    };
    call.api.authorize(&call.request.identity, &what)?;
    let given = text(decoded.object.meta().uid.as_ref());
    if !given.is_empty() {
        return Err(unmet_uid(call, given, ""));
    }
    let DecodedObject { object, warnings } = decoded;
    create::create_object(call, object, warnings, FieldOwnership::Tracked)
}

fn unmet_uid(call: &ApiCall<'_>, given: &str, actual: &str) -> ApiError {
    let why =
        format!("Precondition failed: UID in precondition: {given}, UID in object meta: {actual}");
    ApiError::conflict(call.entry, &call.path.name, &why)
}

/// What an object should become.
pub(crate) struct ProposedObject {
    /// The object.
    pub(crate) object: Box<dyn AnyObject>,
    /// For Warning headers.
    pub(crate) warnings: Vec<String>,
    /// Who owns its fields.
    pub(crate) ownership: FieldOwnership,
}

/// How it becomes known who owns the fields of a written object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FieldOwnership {
    /// Who writes owns what the write changes.
    Tracked,
    /// An apply has decided it.
    Applied,
}

/// Changes an object into what `propose` makes of its current state, again when somebody else
/// writes in between.
pub(crate) fn change(
    call: &ApiCall<'_>,
    part: ObjectPart,
    mut propose: impl FnMut(&dyn AnyObject) -> Result<ProposedObject, ApiError>,
) -> Result<RequestOutcome, ApiError> {
    call.with_retries(|| {
        let stored = call.newest()?;
        let old = call.read(&stored)?;
        let mut proposal = propose(old.as_ref())?;
        check_preconditions(call, proposal.object.as_ref(), old.as_ref(), &stored)
            .map_err(|error| error.with_warnings(proposal.warnings.clone()))?;
        let review = WriteReview::of_change(call, part, old.as_ref());
        let mut service = ServiceWrite::begin(call, part)?;
        let proposed = (proposal.object, proposal.ownership, service.as_mut());
        let warnings = &mut proposal.warnings;
        let mut object = settle(&review, (call, part), proposed, (old.as_ref(), warnings))
            .map_err(|error| error.with_warnings(proposal.warnings.clone()))?;
        let more = review
            .run(AdmissionStage::Final, object.as_mut())
            .map_err(|error| error.with_warnings(proposal.warnings.clone()))?;
        proposal.warnings.extend(more);
        managed_fields::keep_times_of_unchanged(object.as_mut(), old.as_ref());
        let before = ChangedObject { stored: &stored, old: old.as_ref(), part };
        store_change(call, &before, object, service, proposal.warnings)
    })
}

/// `resourceVersion` and `uid`, when given, must be those of the object.
fn check_preconditions(
    call: &ApiCall<'_>,
    new: &dyn AnyObject,
    old: &dyn AnyObject,
    stored: &StoredObject,
) -> Result<(), ApiError> {
    let name = &call.path.name;
    let given = new.meta().resource_version.as_deref().unwrap_or_default();
    let given = revision::parse(given)?.filter(|given| given.0 != 0);
    // a patch may take the version away
    let is_of_client = [Method::PUT, Method::PATCH].contains(&call.request.method);
    let is_of_object = is_of_client && !call.path.is_scale();
    if given.is_none() && is_of_object && call.entry.needs_version_on_update {
        return Err(ApiError::unconditional_update(call.entry, name));
    }
    if given.is_some_and(|given| given != stored.revision) {
        return Err(ApiError::modified(call.entry, name));
    }
    let (given, actual) = (text(new.meta().uid.as_ref()), text(old.meta().uid.as_ref()));
    // in a patch it is a change of what cannot change, which validation refuses
    if !given.is_empty() && given != actual && call.request.method != Method::PATCH {
        return Err(unmet_uid(call, given, actual));
    }
    Ok(())
}

/// Defaults, separation of spec and status, validation: what turns a proposal into the object to
/// store. Adds the warnings of admission.
fn settle(
    review: &WriteReview<'_>,
    (call, part): (&ApiCall<'_>, ObjectPart),
    (mut object, ownership, service): (
        Box<dyn AnyObject>,
        FieldOwnership,
        Option<&mut ServiceWrite<'_>>,
    ),
    (old, warnings): (&dyn AnyObject, &mut Vec<String>),
) -> Result<Box<dyn AnyObject>, ApiError> {
    object_meta::prepare_changed(object.meta_mut(), old.meta());
    object.meta_mut().resource_version.clone_from(&old.meta().resource_version);
    object.set_defaults();
    let is_tracked = ownership == FieldOwnership::Tracked;
    if is_tracked && !part.is_few_fields() {
        managed_fields::track_change(call, part, object.as_mut(), old);
    }
    match part {
        ObjectPart::Finalize => object = removal::with_finalizers_of(object.as_ref(), old),
        ObjectPart::Main
        | ObjectPart::Status
        | ObjectPart::Resize
        | ObjectPart::EphemeralContainers
        | ObjectPart::Approval => {
            object.prepare_update(part, old, &call.context());
        }
    }
    // what the preparation took back is not the writer's
    if is_tracked && part.is_few_fields() {
        managed_fields::track_change(call, part, object.as_mut(), old);
    }
    warnings.extend(review.run(AdmissionStage::Defaulted, object.as_mut())?);
    warnings.extend(review.run(AdmissionStage::Named, object.as_mut())?);
    if let Some(service) = service {
        service.complete(&|| call.random_number(), object.as_mut(), Some(old))?;
    }
    let rules = call.entry.metadata_rules();
    let mut errors = check_change((object.meta(), old.meta()), &rules);
    let own = match part {
        ObjectPart::Main | ObjectPart::EphemeralContainers | ObjectPart::Resize => {
            new_mistakes(object.validate(), || old.validate())
        }
        ObjectPart::Status | ObjectPart::Finalize | ObjectPart::Approval => Vec::new(),
    };
    let of_change = object.validate_change(part, old);
    errors.extend(match object.is_compared_first() {
        true => [of_change, own].concat(),
        false => [own, of_change].concat(),
    });
    if !errors.is_empty() {
        return Err(ApiError::invalid(call.entry, &call.path.name, &errors));
    }
    warn(review, part, (object.as_mut(), old), warnings)?;
    warnings.extend(review.run(AdmissionStage::Valid, object.as_mut())?);
    Ok(object)
}

/// Adds the warnings of a change that is valid, whether admission refuses it or not.
fn warn(
    review: &WriteReview<'_>,
    part: ObjectPart,
    (object, old): (&mut dyn AnyObject, &dyn AnyObject),
    warnings: &mut Vec<String>,
) -> Result<(), ApiError> {
    match part {
        ObjectPart::Main => {
            warnings.extend(object.warnings_of_change(old));
            warnings.extend(review.run(AdmissionStage::Warned, object)?);
        }
        // of what is new; of the rest it was warned before
        ObjectPart::EphemeralContainers => {
            let known = old.warnings();
            let new = object.warnings().into_iter().filter(|text| !known.contains(text));
            warnings.extend(new);
        }
        ObjectPart::Status | ObjectPart::Finalize | ObjectPart::Resize | ObjectPart::Approval => {}
    }
    Ok(())
}

/// An object as it is before a change.
struct ChangedObject<'o> {
    stored: &'o Arc<StoredObject>,
    old: &'o dyn AnyObject,
    part: ObjectPart,
}

/// Writes the object, or removes it when that was all it waited for.
fn store_change(
    call: &ApiCall<'_>,
    before: &ChangedObject<'_>,
    mut object: Box<dyn AnyObject>,
    service: Option<ServiceWrite<'_>>,
    warnings: Vec<String>,
) -> Result<RequestOutcome, ApiWriteFailure> {
    let ChangedObject { stored, old, part } = *before;
    let goes = removal::may_go(object.as_ref());
    if goes && call.options.dry_run == DryRun::No {
        drop(service);
        let mut pending = remove(call.api, call.entry, stored, call.request.now)?;
        pending.extend(admission::after_only_removal(call, &call.path.namespace, &call.path.name)?);
        return Ok(call.answer_object_after(pending, object.as_ref(), warnings)?);
    }
    let quotas = QuotaWrite::of_change(call, part, object.as_mut(), old)
        .map_err(|error| error.with_warnings(warnings.clone()))?;
    // what was stored in another version is written in that of today, as upstream
    let keeps_version = call.keeps_version(stored);
    if keeps_version && object.same_as(old) && call.options.dry_run == DryRun::No {
        // Nothing to write; but what is shown must be durable.
        let pending = call.api.store.barrier()?;
        return Ok(call.answer_object_after(vec![pending], object.as_ref(), warnings)?);
    }
    let StorageForm { object, shown } = match call.written_in {
        WrittenVersion::AsStored if keeps_version => StorageForm { object, shown: None },
        WrittenVersion::AsStored | WrittenVersion::Storage => {
            let converted = ObjectConversion::of_call(call).storage_form(call.entry, object);
            converted.map_err(|error| error.with_warnings(warnings.clone()))?
        }
    };
    if call.options.dry_run == DryRun::All {
        return Ok(call.answer_object(object.as_ref(), shown, (StatusCode::OK, warnings))?);
    }
    let key = stored.key.as_str();
    let expect = WritePrecondition::Revision(stored.revision);
    let mut pending = create::queue(call, key, expect, object, (service, quotas))?;
    pending.extend(admission::after_change(call, &call.path.namespace, &call.path.name)?);
    call.note_event_write(key);
    Ok(call.when_written(pending, shown, (StatusCode::OK, warnings))?)
}
