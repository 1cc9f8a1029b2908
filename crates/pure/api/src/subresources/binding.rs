//! `pods/binding`, and `bindings`, where the body names the pod: the scheduler's decision, written
//! once.

use http::Method;
use k8s_openapi::api::core::v1::{Binding, Pod, PodCondition};
use rekindle_kinds::registry::AnyObject;
use rekindle_kinds::validation::{items, text};
use rekindle_store::{StoredObject, WritePrecondition};
use rekindle_types::validation::field_error::FieldError;

use crate::admission::request_bodies::{self, RequestBody};
use crate::admission::runtime_classes;
use crate::call::{ApiCall, put};
use crate::decode::{UnstoredBody, UnstoredKind, unstored};
use crate::object_meta;
use crate::outcome::{ApiAnswer, RequestOutcome, WriteInFlight};
use crate::request::ResourcePath;
use crate::request::options::DryRun;
use crate::status::{ApiError, Status};

/// The resource that names its pod in the body, as discovery shows it.
pub(crate) const COLLECTION: &str = "bindings";
const BINDING: &str = "binding";
const KIND: UnstoredKind = UnstoredKind { api_version: "v1", kind: "Binding" };

pub(crate) fn create(call: &ApiCall<'_>) -> Result<RequestOutcome, ApiError> {
    let body = unstored::<Binding>(call.request, call.options.field_validation, KIND)?;
    check_names(call, &body.object)?;
    let node = target(&body.object)?;
    write(call, &body, &node)
}

/// The collection of pods that a path of `bindings` stands for, if it is one.
pub(crate) fn pods_of_collection(path: &ResourcePath) -> Option<ResourcePath> {
    let place = [&path.group, &path.version, &path.resource, &path.name, &path.subresource];
    let is_collection = place == ["", "v1", COLLECTION, "", ""] && !path.namespace.is_empty();
    is_collection.then(|| ResourcePath { resource: "pods".to_owned(), ..path.clone() })
}

/// Binds the pod that the body names, of the namespace of the call.
pub(crate) fn create_by_body(call: &ApiCall<'_>) -> Result<RequestOutcome, ApiError> {
    if call.request.method != Method::POST {
        return Err(ApiError::method_not_allowed());
    }
    let mut body = unstored::<Binding>(call.request, call.options.field_validation, KIND)?;
    object_meta::settle_namespace(call.entry, &mut body.object.metadata, call.path)?;
    let node = target(&body.object)?;
    let name = text(body.object.metadata.name.as_ref()).to_owned();
    if name.is_empty() {
        return Err(ApiError::bad_request("Name parameter required."));
    }
    let path = ResourcePath { name, subresource: BINDING.to_owned(), ..call.path.clone() };
    let ApiCall { api, entry, request, session, .. } = *call;
    let call = ApiCall::new(api, entry, &path, call.options.clone(), (request, session));
    write(&call, &body, &node)
}

fn write(
    call: &ApiCall<'_>,
    body: &UnstoredBody<Binding>,
    node: &str,
) -> Result<RequestOutcome, ApiError> {
    let UnstoredBody { object: binding, warnings } = body;
    let mut warnings = warnings.clone();
    warnings.extend(request_bodies::check(call, &RequestBody::created(KIND, binding))?);
    call.with_retries(|| {
        let stored = call.newest()?;
        let mut object = call.decode_stored(&stored)?;
        check_preconditions(call, binding, object.as_ref(), &stored)?;
        bind(call, object.as_mut(), node, binding)?;
        let answer = ApiAnswer::status(&Status::created()).with_warnings(warnings.clone());
        if call.options.dry_run == DryRun::All {
            return Ok(answer.into());
        }
        let expect = WritePrecondition::Revision(stored.revision);
        let pending = put(call.api, stored.key.as_str(), expect, object)?;
        Ok(RequestOutcome::Write(WriteInFlight::new(vec![pending], move |_| answer)))
    })
}

/// A binding of another pod than the path's does not bind.
fn check_names(call: &ApiCall<'_>, binding: &Binding) -> Result<(), ApiError> {
    let namespace = text(binding.metadata.namespace.as_ref());
    if !namespace.is_empty() && namespace != call.path.namespace {
        return Err(ApiError::bad_request(
            "namespace in URL does not match namespace in Binding object",
        ));
    }
    if text(binding.metadata.name.as_ref()) != call.path.name {
        return Err(ApiError::bad_request("name in URL does not match name in Binding object"));
    }
    Ok(())
}

/// The node that a binding names. A wrong one is answered with 500, as upstream.
fn target(binding: &Binding) -> Result<String, ApiError> {
    let target = &binding.target;
    let kind = target.kind.as_deref().unwrap_or_default();
    let name = target.name.clone().unwrap_or_default();
    let mut errors = Vec::new();
    if !matches!(kind, "" | "Node") {
        errors.push(FieldError::not_supported("target.kind", kind, &["Node", "<empty>"]));
    }
    if name.is_empty() {
        errors.push(FieldError::required("target.name", ""));
    }
    match errors.as_slice() {
        [] => Ok(name),
        [one] => Err(ApiError::failure(one.to_string())),
        all => {
            let all: Vec<String> = all.iter().map(FieldError::to_string).collect();
            Err(ApiError::failure(format!("[{}]", all.join(", "))))
        }
    }
}

/// The pod is the one that the binding means, and in the version that it means.
fn check_preconditions(
    call: &ApiCall<'_>,
    binding: &Binding,
    object: &dyn AnyObject,
    stored: &StoredObject,
) -> Result<(), ApiError> {
    let actual = (text(object.meta().uid.as_ref()), stored.revision.to_string());
    let meta = &binding.metadata;
    for (name, wanted, actual) in [
        ("UID", text(meta.uid.as_ref()), actual.0),
        ("ResourceVersion", text(meta.resource_version.as_ref()), actual.1.as_str()),
    ] {
        if !wanted.is_empty() && wanted != actual {
            let why = format!(
                "Precondition failed: {name} in precondition: {wanted}, {name} in object meta: {actual}"
            );
            return Err(ApiError::conflict(call.entry, &call.path.name, &why));
        }
    }
    Ok(())
}

fn bind(
    call: &ApiCall<'_>,
    object: &mut dyn AnyObject,
    node: &str,
    binding: &Binding,
) -> Result<(), ApiError> {
    let name = &call.path.name;
    let conflict =
        |why: String| Err(ApiError::conflict_of_subresource(call.entry, BINDING, name, &why));
    if object_meta::is_being_deleted(object.meta()) {
        return conflict(format!("pod {name} is being deleted, cannot be assigned to a host"));
    }
    let annotations = binding.metadata.annotations.clone().unwrap_or_default();
    if !annotations.is_empty() {
        object.meta_mut().annotations.get_or_insert_default().extend(annotations);
    }
    let Some(pod) = object.as_any_mut().downcast_mut::<Pod>() else {
        return Err(ApiError::method_not_allowed());
    };
    runtime_classes::check_binding(call, pod)?;
    let spec = pod.spec.get_or_insert_default();
    if !items(spec.scheduling_gates.as_ref()).is_empty() {
        return conflict(format!("pod {name} has non-empty .spec.schedulingGates"));
    }
    match spec.node_name.as_deref().unwrap_or_default() {
        "" => spec.node_name = Some(node.to_owned()),
        taken => return conflict(format!("pod {name} is already assigned to node {taken:?}")),
    }
    let status = pod.status.get_or_insert_default();
    // Nothing is to be kept free for it any more (upstream's
    // ClearingNominatedNodeNameAfterBinding).
    status.nominated_node_name = None;
    let conditions = status.conditions.get_or_insert_default();
    conditions.retain(|condition| condition.type_ != "PodScheduled");
    conditions.push(PodCondition {
        type_: "PodScheduled".to_owned(),
        status: "True".to_owned(),
        last_transition_time: Some(call.request.now.to_time()),
        ..PodCondition::default()
    });
    Ok(())
}
