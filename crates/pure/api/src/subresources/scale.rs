//! `scale`: the replica count of a workload as an `autoscaling/v1` Scale, whatever the workload's
//! kind.

use std::collections::BTreeMap;

use http::StatusCode;
use k8s_openapi::api::autoscaling::v1::{Scale, ScaleSpec, ScaleStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta};
use serde_json::Value;

use crate::call::{ApiCall, ObjectPart};
use crate::outcome::{ApiAnswer, RequestOutcome, WriteInFlight};
use crate::patch::Patch;
use crate::registry::{AnyObject, FieldError, KindEntry};
use crate::status::ApiError;
use crate::validation::selector;
use crate::verbs::update::{FieldOwnership, ProposedObject, change};
use crate::{decode, managed_fields, object_meta};

const SCHEMA: &str = "io.k8s.api.autoscaling.v1.Scale";

pub(crate) fn get(call: &ApiCall<'_>) -> Result<RequestOutcome, ApiError> {
    let stored = call.stored()?;
    let scale = scale_of(call.decode_stored(&stored)?.as_ref());
    Ok(ApiAnswer::json(StatusCode::OK, to_json(&scale)?).into())
}

pub(crate) fn update(call: &ApiCall<'_>) -> Result<RequestOutcome, ApiError> {
    let format = decode::body_format(&call.request.content_type)?;
    let body = decode::read(format, &call.request.body)?;
    let mut scale = read(body.value)?;
    object_meta::settle_namespace(call.entry, &mut scale.metadata, call.path)?;
    object_meta::check_name(&scale.metadata, call.path)?;
    change_scale(call, |_| Ok(scale.clone()))
}

pub(crate) fn patch(call: &ApiCall<'_>) -> Result<RequestOutcome, ApiError> {
    if managed_fields::is_apply(&call.request.content_type) {
        return apply(call);
    }
    let patch = Patch::read(&call.request.content_type, &call.request.body)?;
    change_scale(call, |old| {
        let mut before = serde_json::to_value(scale_of(old)).map_err(ApiError::internal)?;
        if before["spec"]["replicas"].is_null() {
            before["spec"]["replicas"] = 0.into();
        }
        let mut scale = read(patch.clone().apply(SCHEMA, before)?)?;
        object_meta::settle_namespace(call.entry, &mut scale.metadata, call.path)?;
        object_meta::check_name(&scale.metadata, call.path)?;
        Ok(scale)
    })
}

fn apply(call: &ApiCall<'_>) -> Result<RequestOutcome, ApiError> {
    let config = managed_fields::apply_scale(call)?;
    let outcome = change(call, ObjectPart::Main, |old| {
        let object = config.change(call, ObjectPart::Main, old)?;
        let warnings = config.warnings.clone();
        Ok(ProposedObject { object, warnings, ownership: FieldOwnership::Applied })
    })?;
    Ok(as_scale(call.entry, outcome))
}

fn read(value: Value) -> Result<Scale, ApiError> {
    serde_json::from_value(value)
        .map_err(|error| ApiError::bad_request(format!("Scale cannot be read: {error}")))
}

/// Writes the replica count that `wanted` asks for; the answer is the Scale of the object as
/// written.
fn change_scale(
    call: &ApiCall<'_>,
    mut wanted: impl FnMut(&dyn AnyObject) -> Result<Scale, ApiError>,
) -> Result<RequestOutcome, ApiError> {
    let outcome = change(call, ObjectPart::Main, |old| {
        let scale = wanted(old)?;
        let replicas = scale.spec.and_then(|spec| spec.replicas).unwrap_or(0);
        if replicas < 0 {
            let error = FieldError::invalid(
                "spec.replicas",
                replicas,
                "must be greater than or equal to 0",
            );
            return Err(ApiError::invalid_kind("autoscaling", "Scale", &call.path.name, &[error]));
        }
        let mut value = old.to_value();
        value["spec"]["replicas"] = replicas.into();
        let decoded = (call.entry.decode)(&value).map_err(ApiError::internal)?;
        let mut object = decoded.object;
        object.meta_mut().resource_version = scale.metadata.resource_version;
        if let Some(uid) = scale.metadata.uid {
            object.meta_mut().uid = Some(uid);
        }
        Ok(ProposedObject { object, warnings: Vec::new(), ownership: FieldOwnership::Tracked })
    })?;
    Ok(as_scale(call.entry, outcome))
}

/// Turns an answer with the object into one with its Scale.
fn as_scale(entry: &KindEntry, outcome: RequestOutcome) -> RequestOutcome {
    let convert = |entry: &KindEntry, answer: ApiAnswer| {
        if !answer.code.is_success() {
            return answer;
        }
        let scale = (entry.decode_stored)(&answer.body)
            .map_err(ApiError::internal)
            .and_then(|object| to_json(&scale_of(object.as_ref())));
        match scale {
            Ok(json) => ApiAnswer { body: json.into(), ..answer },
            Err(error) => error.into(),
        }
    };
    match outcome {
        RequestOutcome::Answer(answer) => RequestOutcome::Answer(convert(entry, answer)),
        RequestOutcome::Write(write) => {
            let entry = entry.clone();
            RequestOutcome::Write(WriteInFlight::then(write, move |answer| convert(&entry, answer)))
        }
        other @ (RequestOutcome::Watch(_)
        | RequestOutcome::Log(_)
        | RequestOutcome::Stream(_)
        | RequestOutcome::Proxy(_)
        | RequestOutcome::Node(_)
        | RequestOutcome::ResourceMetrics(_)
        | RequestOutcome::Metrics) => other,
    }
}

/// The Scale of a workload: every kind that serves it has `spec.replicas`, `spec.selector` and
/// `status.replicas`.
fn scale_of(object: &dyn AnyObject) -> Scale {
    let value = object.to_value();
    let number = |value: &Value| value.as_i64().and_then(|number| i32::try_from(number).ok());
    let selector = selector_of(&value["spec"]["selector"]);
    let meta = object.meta();
    Scale {
        metadata: ObjectMeta {
            name: meta.name.clone(),
            namespace: meta.namespace.clone(),
            uid: meta.uid.clone(),
            resource_version: meta.resource_version.clone(),
            creation_timestamp: meta.creation_timestamp.clone(),
            ..ObjectMeta::default()
        },
        spec: Some(ScaleSpec {
            replicas: number(&value["spec"]["replicas"]).filter(|replicas| *replicas != 0),
        }),
        status: Some(ScaleStatus {
            replicas: number(&value["status"]["replicas"]).unwrap_or(0),
            selector: selector
                .filter(|selector| !selector::is_empty(selector))
                .map(|s| selector::format(&s)),
        }),
    }
}

/// A selector, or the plain labels that a ReplicationController has in its place.
fn selector_of(value: &Value) -> Option<LabelSelector> {
    let labels: Option<BTreeMap<String, String>> = serde_json::from_value(value.clone()).ok();
    match labels {
        Some(labels) => Some(LabelSelector { match_labels: Some(labels), match_expressions: None }),
        None => serde_json::from_value(value.clone()).ok(),
    }
}

fn to_json(scale: &Scale) -> Result<Vec<u8>, ApiError> {
    serde_json::to_vec(scale).map_err(ApiError::internal)
}
