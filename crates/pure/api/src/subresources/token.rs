//! `serviceaccounts/token`: a new token for an account. Nothing is stored.

use http::StatusCode;
use k8s_openapi::api::authentication::v1::{
    BoundObjectReference, TokenRequest, TokenRequestStatus,
};
use k8s_openapi::api::core::v1::Pod;
use rekindle_kinds::validation::text;
use rekindle_types::TickDuration;
use rekindle_types::validation::field_error::FieldError;
use serde_json::Value;

use crate::admission::node_restriction;
use crate::admission::request_bodies::{self, RequestBody};
use crate::auth::token::{BoundObject, KubernetesClaims};
use crate::call::ApiCall;
use crate::decode::{UnstoredBody, UnstoredKind, unstored};
use crate::keys;
use crate::object_meta;
use crate::outcome::{ApiAnswer, RequestOutcome};
use crate::status::ApiError;
use crate::tokens::{ISSUER, TokenSpec};

const GROUP: &str = "authentication.k8s.io";
const KIND: UnstoredKind =
    UnstoredKind { api_version: "authentication.k8s.io/v1", kind: "TokenRequest" };

/// What a token gets that asks for nothing.
const DEFAULT_SECONDS: i64 = 3600;
/// Shorter ones would be over before anybody has used them.
const SECONDS_MIN: i64 = 600;
const SECONDS_MAX: i64 = 1 << 32;
/// Audiences of one token at most.
const AUDIENCES_MAX: usize = 64;

pub(crate) fn create(call: &ApiCall<'_>) -> Result<RequestOutcome, ApiError> {
    let UnstoredBody { object, warnings } =
        unstored::<TokenRequest>(call.request, call.options.field_validation, KIND)?;
    issue(call, object, warnings.clone()).map_err(|error| error.with_warnings(warnings))
}

fn issue(
    call: &ApiCall<'_>,
    mut request: TokenRequest,
    mut warnings: Vec<String>,
) -> Result<RequestOutcome, ApiError> {
    object_meta::settle_namespace(call.entry, &mut request.metadata, call.path)?;
    let stored = call.stored()?;
    let account = call.decode_stored(&stored)?;
    check_name(call, &request)?;
    warnings.extend(request_bodies::check(call, &RequestBody::created(KIND, &request))?);
    let spec = request.spec.get_or_insert_default();
    node_restriction::check_token(call, spec.bound_object_ref.as_ref())?;
    spec.audiences.take_if(|audiences| audiences.is_empty());
    let audiences = spec.audiences.get_or_insert_with(|| vec![ISSUER.to_owned()]).clone();
    let seconds = *spec.expiration_seconds.get_or_insert(DEFAULT_SECONDS);
    check(seconds, &audiences)?;
    let (seconds, shortening) = shortened(seconds, call.api.token_seconds_max());
    warnings.extend(shortening);
    spec.expiration_seconds = Some(seconds);
    let mut private = KubernetesClaims {
        namespace: call.path.namespace.clone(),
        serviceaccount: BoundObject {
            name: call.path.name.clone(),
            uid: text(account.meta().uid.as_ref()).to_owned(),
        },
        ..KubernetesClaims::default()
    };
    if let Some(reference) = &mut spec.bound_object_ref {
        bind(call, reference, &mut private)?;
    }
    request.metadata.name = Some(call.path.name.clone());
    request.metadata.namespace = Some(call.path.namespace.clone());
    request.metadata.uid = Some(call.api.new_uid());
    request.metadata.creation_timestamp = Some(call.request.now.to_time());
    request.metadata.managed_fields = None;
    // a dry run gives one, too, as upstream
    let lifetime = TickDuration::of_field(seconds);
    let wish = TokenSpec { audiences, lifetime, private };
    let (token, ends) = call.api.tokens.issue(wish, call.api.new_uid(), call.request.now)?;
    request.status =
        Some(TokenRequestStatus { token: Some(token), expiration_timestamp: Some(ends.to_time()) });
    let mut shown = serde_json::to_value(&request).map_err(ApiError::internal)?;
    if request.spec.as_ref().is_none_or(|spec| spec.bound_object_ref.is_none()) {
        // upstream always prints it
        shown["spec"]["boundObjectRef"] = Value::Null;
    }
    let json = shown.to_string().into_bytes();
    Ok(ApiAnswer::json(StatusCode::CREATED, json).with_warnings(warnings).into())
}

/// So many seconds, and a warning when they are fewer than were asked for. Source: upstream's
/// `--service-account-max-token-expiration`.
fn shortened(asked: i64, max: i64) -> (i64, Option<String>) {
    if asked <= max {
        return (asked, None);
    }
    (max, Some(format!("requested expiration of {asked} seconds shortened to {max} seconds")))
}

fn check(seconds: i64, audiences: &[String]) -> Result<(), ApiError> {
    let field = "spec.expirationSeconds";
    let mut errors = Vec::new();
    if seconds < SECONDS_MIN {
        let detail = "may not specify a duration less than 10 minutes";
        errors.push(FieldError::invalid(field, seconds, detail));
    }
    if seconds > SECONDS_MAX {
        let detail = "may not specify a duration larger than 2^32 seconds";
        errors.push(FieldError::invalid(field, seconds, detail));
    }
    if audiences.len() > AUDIENCES_MAX {
        errors.push(FieldError::too_many("spec.audiences", AUDIENCES_MAX));
    }
    if errors.is_empty() {
        return Ok(());
    }
    // upstream does not name it yet
    Err(ApiError::invalid_kind(GROUP, KIND.kind, "", &errors))
}

/// A name, if one is given, is that of the account.
fn check_name(call: &ApiCall<'_>, request: &TokenRequest) -> Result<(), ApiError> {
    let given = text(request.metadata.name.as_ref());
    if given.is_empty() || given == call.path.name {
        return Ok(());
    }
    let detail = "must match the service account name if specified";
    let error = FieldError::invalid("metadata.name", given, detail);
    Err(ApiError::invalid_kind(GROUP, KIND.kind, &call.path.name, &[error]))
}

/// Binds the token to an object, which must be there; with a pod comes its node.
fn bind(
    call: &ApiCall<'_>,
    reference: &mut BoundObjectReference,
    private: &mut KubernetesClaims,
) -> Result<(), ApiError> {
    let name = text(reference.name.as_ref()).to_owned();
    let namespace = call.path.namespace.as_str();
    let kind = (text(reference.api_version.as_ref()), text(reference.kind.as_ref()));
    let (plural, of, place) = match kind {
        ("" | "v1", "Pod") => ("pods", namespace, &mut private.pod),
        ("" | "v1", "Secret") => ("secrets", namespace, &mut private.secret),
        ("" | "v1", "Node") => ("nodes", "", &mut private.node),
        (version, kind) => {
            let (group, version) = version.split_once('/').unwrap_or(("", version));
            return Err(ApiError::bad_request(format!(
                "cannot bind token to object of type {group}/{version}, Kind={kind}"
            )));
        }
    };
    let entry = call.api.registry.find("", "v1", plural).ok_or_else(ApiError::no_such_path)?;
    let meta = call
        .api
        .state()
        .meta_of(plural, of, &name)
        .ok_or_else(|| ApiError::not_found(entry, &name))?;
    let uid = text(meta.uid.as_ref()).to_owned();
    let wanted = text(reference.uid.as_ref());
    if !wanted.is_empty() && wanted != uid {
        let why = format!(
            "the UID in the bound object reference ({wanted}) does not match the UID in record. The object might have been \
             deleted and then recreated"
        );
        return Err(ApiError::unmet_precondition(entry, &name, &why));
    }
    reference.uid = Some(uid.clone());
    *place = Some(BoundObject { name: name.clone(), uid });
    if plural == "pods" {
        private.node = node_of(call, &keys::object(entry, of, &name))?;
    }
    Ok(())
}

/// The node of the pod at this key, which must use the account.
fn node_of(call: &ApiCall<'_>, key: &str) -> Result<Option<BoundObject>, ApiError> {
    let entry = call.api.registry.find("", "v1", "pods").ok_or_else(ApiError::no_such_path)?;
    let Some(stored) = call.api.store.get(key) else { return Ok(None) };
    let object = crate::stored::decode_stored(entry, &stored)?;
    let pod = object.as_any().downcast_ref::<Pod>();
    let Some(spec) = pod.and_then(|pod| pod.spec.as_ref()) else { return Ok(None) };
    if text(spec.service_account_name.as_ref()) != call.path.name {
        return Err(ApiError::bad_request(format!(
            "cannot bind token for serviceaccount {:?} to pod running with different serviceaccount name.",
            call.path.name
        )));
    }
    let Some(node) = spec.node_name.as_deref().filter(|name| !name.is_empty()) else {
        return Ok(None);
    };
    // A node that is not registered (yet) is no reason to refuse.
    let meta = call.api.state().meta_of("nodes", "", node);
    Ok(meta
        .map(|meta| BoundObject { name: node.to_owned(), uid: text(meta.uid.as_ref()).to_owned() }))
}
