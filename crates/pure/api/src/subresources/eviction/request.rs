//! The body of an eviction: a `policy/v1` Eviction with the options of a delete inside.

use k8s_openapi::api::policy::v1::Eviction;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::{Map, Value};

use crate::call::ApiCall;
use crate::decode::{self, FieldValidation};
use crate::object_meta;
use crate::registry::{FieldError, strict};
use crate::request::options::DryRun;
use crate::status::ApiError;
use crate::verbs::delete::DeleteRequest;

const API_VERSION: &str = "policy/v1";
const KIND: &str = "Eviction";

/// What a client asks for.
pub(super) struct EvictionRequest {
    pub(super) wish: DeleteRequest,
    /// For Warning headers.
    pub(super) warnings: Vec<String>,
}

impl EvictionRequest {
    pub(super) fn read(call: &ApiCall<'_>) -> Result<Self, ApiError> {
        let format = decode::body_format(&call.request.content_type)?;
        let mut body = decode::read(format, &call.request.body)?;
        check_type(&mut body.value)?;
        let (mut eviction, mut strict_errors) = decoded(&body.value)?;
        let duplicates = body.duplicate_fields.iter();
        strict_errors.extend(duplicates.map(|path| format!("duplicate field {path:?}")));
        let warnings = match call.options.field_validation {
            FieldValidation::Strict if !strict_errors.is_empty() => {
                let why = format!("strict decoding error: {}", strict_errors.join(", "));
                return Err(unreadable(&why));
            }
            FieldValidation::Strict | FieldValidation::Ignore => Vec::new(),
            FieldValidation::Warn => strict_errors,
        };
        check_names(call, &mut eviction.metadata)?;
        let mut options = eviction.delete_options.unwrap_or_default();
        if call.options.dry_run == DryRun::All {
            options.dry_run = call.options.delete_options().dry_run;
        }
        if options.ignore_store_read_error_with_cluster_breaking_potential == Some(true) {
            let error = FieldError::invalid(
                "deleteOptions.ignoreStoreReadErrorWithClusterBreakingPotential",
                true,
                "can not be set for pod eviction, try after removing the option",
            );
            return Err(ApiError::invalid_kind("policy", "Eviction", &call.path.name, &[error]));
        }
        Ok(Self { wish: DeleteRequest::of_options(options)?, warnings })
    }
}

fn unreadable(why: &str) -> ApiError {
    ApiError::bad_request(format!("{KIND} in version \"v1\" cannot be handled as a {KIND}: {why}"))
}

/// `apiVersion` and `kind` may be left out, as kube-rs does. Upstream still reads policy/v1beta1,
/// which it does not serve any more either; the fields are the same.
fn check_type(value: &mut Value) -> Result<(), ApiError> {
    let Value::Object(fields) = value else { return Err(unreadable("it is no object")) };
    let text = |fields: &Map<String, Value>, field: &str| {
        fields.get(field).and_then(Value::as_str).unwrap_or_default().to_owned()
    };
    let (api_version, kind) = (text(fields, "apiVersion"), text(fields, "kind"));
    let is_ours = matches!(api_version.as_str(), "" | API_VERSION);
    if !is_ours || !matches!(kind.as_str(), "" | KIND) {
        return Err(ApiError::bad_request(format!(
            "no kind {kind:?} is registered for version {api_version:?} that can evict a pod: send {KIND} of {API_VERSION}"
        )));
    }
    fields.remove("apiVersion");
    fields.remove("kind");
    Ok(())
}

/// The eviction, and what a strict reader would refuse.
fn decoded(value: &Value) -> Result<(Eviction, Vec<String>), ApiError> {
    let (eviction, unknown) = strict::read(value).map_err(|error| unreadable(&error.problem))?;
    let unknown = unknown.iter().map(|path| format!("unknown field {path:?}")).collect();
    Ok((eviction, unknown))
}

fn check_names(call: &ApiCall<'_>, meta: &mut ObjectMeta) -> Result<(), ApiError> {
    object_meta::settle_namespace(call.entry, meta, call.path)?;
    if meta.name.as_deref() == Some(call.path.name.as_str()) {
        return Ok(());
    }
    Err(ApiError::bad_request("name in URL does not match name in Eviction object"))
}
