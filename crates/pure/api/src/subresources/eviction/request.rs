//! The body of an eviction: a `policy/v1` Eviction with the options of a delete inside.

use k8s_openapi::api::policy::v1::Eviction;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use rekindle_types::validation::field_error::FieldError;

use crate::admission::request_bodies::{self, RequestBody};
use crate::call::ApiCall;
use crate::decode::{UnstoredBody, UnstoredKind, unstored};
use crate::object_meta;
use crate::request::options::DryRun;
use crate::status::ApiError;
use crate::verbs::delete::DeleteRequest;

/// Upstream still reads policy/v1beta1, which it does not serve any more either; the fields are the
/// same.
const KIND: UnstoredKind = UnstoredKind { api_version: "policy/v1", kind: "Eviction" };

/// What a client asks for.
pub(super) struct EvictionRequest {
    pub(super) wish: DeleteRequest,
    /// For Warning headers.
    pub(super) warnings: Vec<String>,
}

impl EvictionRequest {
    pub(super) fn read(call: &ApiCall<'_>) -> Result<Self, ApiError> {
        let UnstoredBody { object: mut eviction, mut warnings } =
            unstored::<Eviction>(call.request, call.options.field_validation, KIND)?;
        check_names(call, &mut eviction.metadata)?;
        let asked = RequestBody::created(KIND, &eviction);
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
        let wish = DeleteRequest::of_options(options)?;
        match request_bodies::check(call, &asked) {
            Ok(more) => warnings.extend(more),
            Err(error) => return Err(error.with_warnings(warnings)),
        }
        Ok(Self { wish, warnings })
    }
}

fn check_names(call: &ApiCall<'_>, meta: &mut ObjectMeta) -> Result<(), ApiError> {
    object_meta::settle_namespace(call.entry, meta, call.path)?;
    if meta.name.as_deref() == Some(call.path.name.as_str()) {
        return Ok(());
    }
    Err(ApiError::bad_request("name in URL does not match name in Eviction object"))
}
