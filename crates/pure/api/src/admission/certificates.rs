//! Who may approve and sign requests for certificates, and what no one may ask for. Source:
//! upstream's `plugin/pkg/admission/certificates`.

use k8s_openapi::api::certificates::v1::CertificateSigningRequest;
use rekindle_kinds::certificate_signing_request::{CertificateRequest, CertificateRequestError};
use rekindle_kinds::certificate_signing_request::{GROUP, request_error};
use rekindle_kinds::identity::ClientIdentity;
use rekindle_kinds::identity::MASTERS;

use super::ObjectWrite;
use crate::auth::AccessAttributes;
use crate::authority::AccessDecision;
use crate::call::{ApiCall, ObjectPart};
use crate::certificates::BuiltInSigner;
use crate::status::ApiError;

/// The resource that rights over signers name. There are no such objects.
const SIGNERS: &str = "signers";

/// The requests of a write: the new one, and the one that it replaces.
fn requests<'w>(
    write: &ObjectWrite<'w>,
) -> Option<(&'w CertificateSigningRequest, Option<&'w CertificateSigningRequest>)> {
    let new = write.new.as_any().downcast_ref()?;
    Some((new, write.old.and_then(|old| old.as_any().downcast_ref())))
}

/// Refuses requests for certificates that would make their owners administrators.
pub(super) fn check_subject(write: &ObjectWrite<'_>) -> Result<(), ApiError> {
    let Some((request, _)) = requests(write) else { return Ok(()) };
    if request.spec.signer_name != BuiltInSigner::ApiClient.name() {
        return Ok(());
    }
    // what cannot be read is refused by validation
    let Ok(parsed) = CertificateRequest::parse(&request.spec.request.0) else { return Ok(()) };
    if !parsed.organizations().contains(&MASTERS) {
        return Ok(());
    }
    let why = format!(
        "use of {} signer with {MASTERS} group is not allowed",
        BuiltInSigner::ApiClient.name()
    );
    Err(refusal(write.call, request, &why))
}

/// Checks that the sender of a new request has the key that is to be certified.
pub(super) fn check_key(write: &ObjectWrite<'_>) -> Result<(), ApiError> {
    let Some((request, _)) = requests(write) else { return Ok(()) };
    let call = write.call;
    let parsed = CertificateRequest::parse(&request.spec.request.0);
    let checked = parsed.and_then(|parsed| match call.api.signature_verifier() {
        Some(verifier) => parsed.check_signature(verifier),
        None => Err(CertificateRequestError::NoVerifier),
    });
    checked.map_err(|error| {
        let name = request.metadata.name.as_deref().unwrap_or_default();
        ApiError::invalid(call.entry, name, &[request_error(&request.spec, &error.to_string())])
    })
}

/// Checks that the writer of a decision may approve for the signer.
pub(super) fn check_approval(write: &ObjectWrite<'_>) -> Result<(), ApiError> {
    let Some((request, _)) = requests(write) else { return Ok(()) };
    match write.part {
        ObjectPart::Approval => check_right(write.call, request, "approve"),
        ObjectPart::Main
        | ObjectPart::Status
        | ObjectPart::Finalize
        | ObjectPart::Resize
        | ObjectPart::EphemeralContainers => Ok(()),
    }
}

/// Checks that the writer of a certificate or of conditions may sign for the signer.
pub(super) fn check_signing(write: &ObjectWrite<'_>) -> Result<(), ApiError> {
    let Some((request, Some(old))) = requests(write) else { return Ok(()) };
    match write.part {
        ObjectPart::Status if request.status != old.status => {
            check_right(write.call, request, "sign")
        }
        ObjectPart::Status
        | ObjectPart::Approval
        | ObjectPart::Main
        | ObjectPart::Finalize
        | ObjectPart::Resize
        | ObjectPart::EphemeralContainers => Ok(()),
    }
}

fn check_right(
    call: &ApiCall<'_>,
    request: &CertificateSigningRequest,
    verb: &str,
) -> Result<(), ApiError> {
    let signer = request.spec.signer_name.as_str();
    if may(call, verb, signer)? {
        return Ok(());
    }
    let why = format!("user not permitted to {verb} requests with signerName {signer:?}");
    Err(refusal(call, request, &why))
}

/// Whether the client has a right over one signer, or over all of its domain.
pub(super) fn may(call: &ApiCall<'_>, verb: &str, signer: &str) -> Result<bool, ApiError> {
    let ClientIdentity::User(user) = &call.request.identity else {
        return Err(ApiError::unauthorized());
    };
    let domain = signer.split('/').next().unwrap_or_default();
    for name in [signer, &format!("{domain}/*")] {
        let what = AccessAttributes::Resource {
            verb,
            group: GROUP,
            resource: SIGNERS,
            subresource: "",
            namespace: "",
            name,
        };
        if call.api.decide(user, &what)? != AccessDecision::Deny {
            return Ok(true);
        }
    }
    Ok(false)
}

fn refusal(call: &ApiCall<'_>, request: &CertificateSigningRequest, why: &str) -> ApiError {
    let name = request.metadata.name.as_deref().unwrap_or_default();
    ApiError::forbidden(call.entry, name, why)
}
