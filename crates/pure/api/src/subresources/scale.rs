//! `scale`: the replica count of a workload as an `autoscaling/v1` Scale, whatever the workload's
//! kind.

use std::borrow::Cow;
use std::collections::BTreeMap;

use http::StatusCode;
use k8s_openapi::api::autoscaling::v1::{Scale, ScaleSpec, ScaleStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta};
use rekindle_kinds::registry::{AnyObject, KindEntry};
use rekindle_kinds::validation::selector;
use rekindle_structured_merge::FieldPath;
use rekindle_types::validation::field_error::FieldError;
use serde_json::{Value, json};

use crate::call::{ApiCall, ObjectPart};
use crate::custom::{CustomObject, ScalePaths};
use crate::outcome::{ApiAnswer, RequestOutcome, WriteInFlight};
use crate::patch::Patch;
use crate::status::ApiError;
use crate::verbs::update::{FieldOwnership, ProposedObject, change};
use crate::{decode, managed_fields, object_meta};

const SCHEMA: &str = "io.k8s.api.autoscaling.v1.Scale";

pub(crate) fn get(call: &ApiCall<'_>) -> Result<RequestOutcome, ApiError> {
    let stored = call.stored()?;
    let scale = scale_of(call.decode_stored(&stored)?.as_ref())?;
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
        // a count that is missing is 0 to a patch
        let before = scale_of_value(old, &with_replicas(old));
        let mut before = serde_json::to_value(before).map_err(ApiError::internal)?;
        if before["spec"]["replicas"].is_null() {
            before["spec"]["replicas"] = 0.into();
        }
        let patched = patch.clone().apply(SCHEMA, before)?;
        let mut scale: Scale = serde_json::from_value(patched.clone()).map_err(|error| {
            let shown = patch.shown(&patched);
            ApiError::invalid_patch(&FieldError::invalid("patch", shown, error.to_string()))
        })?;
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
        set(&mut value, &paths_of(old).spec_replicas, replicas.into());
        let decoded = call.entry.codec.decode(&value).map_err(ApiError::internal)?;
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
        let scale = entry
            .codec
            .decode_stored(&answer.body)
            .map_err(ApiError::internal)
            .and_then(|object| scale_of(object.as_ref()))
            .and_then(|scale| to_json(&scale));
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
        other @ (RequestOutcome::List(_)
        | RequestOutcome::Watch(_)
        | RequestOutcome::Log(_)
        | RequestOutcome::Stream(_)
        | RequestOutcome::Proxy(_)
        | RequestOutcome::Aggregated(_)
        | RequestOutcome::Node(_)
        | RequestOutcome::ResourceMetrics(_)
        | RequestOutcome::Metrics
        | RequestOutcome::Webhooks(_)
        | RequestOutcome::Backup) => other,
    }
}

/// Where the built-in kinds that serve a Scale have what it shows.
static OF_WORKLOADS: ScalePaths = ScalePaths {
    spec_replicas: Cow::Borrowed(".spec.replicas"),
    status_replicas: Cow::Borrowed(".status.replicas"),
    selector: Some(Cow::Borrowed(".spec.selector")),
};

fn paths_of(object: &dyn AnyObject) -> &ScalePaths {
    let custom = object.as_any().downcast_ref::<CustomObject>();
    custom.and_then(CustomObject::scale_paths).unwrap_or(&OF_WORKLOADS)
}

/// The field that has an object's count.
pub(crate) fn count_field(object: &dyn AnyObject) -> FieldPath {
    FieldPath::of_fields(&names_of(&paths_of(object).spec_replicas).collect::<Vec<_>>())
}

/// Takes a count of 0 out of an object: a Scale does not show it.
pub(crate) fn drop_zero_count(object: &dyn AnyObject, value: &mut Value) {
    let names: Vec<&str> = names_of(&paths_of(object).spec_replicas).collect();
    let Some((last, parents)) = names.split_last() else { return };
    let parent = parents.iter().try_fold(value, |value, name| value.get_mut(*name));
    if let Some(fields) = parent.and_then(Value::as_object_mut)
        && fields.get(*last) == Some(&json!(0))
    {
        fields.remove(*last);
    }
}

/// Puts a count of 0 back into an object without one.
pub(crate) fn show_zero_count(object: &dyn AnyObject, value: &mut Value) {
    let path = &paths_of(object).spec_replicas;
    if at(value, path).is_none_or(Value::is_null) {
        set(value, path, 0.into());
    }
}

fn names_of(path: &str) -> impl Iterator<Item = &str> {
    path.split('.').filter(|name| !name.is_empty())
}

fn at<'v>(object: &'v Value, path: &str) -> Option<&'v Value> {
    names_of(path).try_fold(object, |value, name| value.get(name))
}

fn set(object: &mut Value, path: &str, value: Value) {
    let mut place = object;
    for name in names_of(path) {
        if !place.is_object() {
            *place = json!({});
        }
        place = &mut place[name];
    }
    *place = value;
}

/// The object with a count of 0 where it has none.
fn with_replicas(object: &dyn AnyObject) -> Value {
    let mut value = object.to_value();
    show_zero_count(object, &mut value);
    value
}

/// The Scale of an object.
fn scale_of(object: &dyn AnyObject) -> Result<Scale, ApiError> {
    let value = object.to_value();
    let path = &paths_of(object).spec_replicas;
    if object.as_any().is::<CustomObject>() && at(&value, path).is_none() {
        let why = format!("the spec replicas field {path:?} does not exist");
        return Err(ApiError::internal(why));
    }
    Ok(scale_of_value(object, &value))
}

fn scale_of_value(object: &dyn AnyObject, value: &Value) -> Scale {
    let paths = paths_of(object);
    let number = |path: &str| at(value, path).and_then(Value::as_i64);
    let number = |path: &str| number(path).and_then(|number| i32::try_from(number).ok());
    let selector = paths.selector.as_ref().and_then(|path| at(value, path));
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
            replicas: number(&paths.spec_replicas).filter(|replicas| *replicas != 0),
        }),
        status: Some(ScaleStatus {
            replicas: number(&paths.status_replicas).unwrap_or(0),
            selector: selector.and_then(shown_selector),
        }),
    }
}

/// The text of a selector; that of a custom object is a text.
fn shown_selector(value: &Value) -> Option<String> {
    if let Some(text) = value.as_str() {
        return Some(text.to_owned()).filter(|text| !text.is_empty());
    }
    let selector = selector_of(value)?;
    (!selector::is_empty(&selector)).then(|| selector::format(&selector))
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
