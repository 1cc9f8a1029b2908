//! What the signer does about a CertificateSigningRequest: the rules of upstream's
//! `pkg/controller/certificates/signer`.

use k8s_openapi::ByteString;
use k8s_openapi::api::certificates::v1::{
    CertificateSigningRequest, CertificateSigningRequestCondition,
};
use rekindle_kinds::certificate_signing_request::CertificateRequest;
use rekindle_kinds::certificate_signing_request::{FAILED, has_condition, is_approved, is_issued};
use rekindle_types::{Tick, TickDuration};

use super::built_in_signer::{BuiltInSigner, CertificateUsage};
use super::signing_agenda::goes_at;
use crate::object_meta::is_being_deleted;

/// How long a certificate is good if the request does not say, and at most.
const LIFETIME_MAX: TickDuration = TickDuration::from_secs(365 * 24 * 60 * 60);
const LIFETIME_MIN: TickDuration = TickDuration::from_secs(10 * 60);

/// A certificate that a signer has to issue.
#[derive(Clone, Debug)]
pub struct CertificateOrder {
    /// What is asked for.
    pub(super) request: CertificateRequest,
    /// What it may be used for.
    pub(super) usages: Vec<CertificateUsage>,
    /// How long it is good.
    pub(super) lifetime: TickDuration,
}

/// What there is to do about a request.
#[derive(Clone, Debug)]
pub enum SigningDecision {
    /// Nothing: it is not approved, it is done, or it is another signer's.
    Leave,
    /// Issue a certificate.
    Issue(Box<CertificateOrder>),
    /// Say why none is issued.
    Fail(String),
    /// Delete it: it is done, or too old.
    Remove,
}

/// What the signer writes into the status.
#[derive(Clone, Debug)]
pub enum WrittenStatus {
    /// The certificate, PEM.
    Certificate(String),
    /// Why there is none.
    Failure(String),
}

/// Decides what to do about a request.
pub fn decide(request: &CertificateSigningRequest, now: Tick) -> SigningDecision {
    if goes_at(request).is_some_and(|due| due <= now) {
        return SigningDecision::Remove;
    }
    let Some(signer) = BuiltInSigner::from_name(&request.spec.signer_name) else {
        return SigningDecision::Leave;
    };
    if is_being_deleted(&request.metadata)
        || !is_approved(request)
        || has_condition(request, FAILED)
        || is_issued(request)
    {
        return SigningDecision::Leave;
    }
    let spec = &request.spec;
    let parsed = match CertificateRequest::parse(&spec.request.0) {
        Ok(parsed) => parsed,
        Err(error) => return SigningDecision::Fail(error.to_string()),
    };
    match signer.check(&parsed, spec.usages.as_deref().unwrap_or_default()) {
        Ok(usages) => SigningDecision::Issue(Box::new(CertificateOrder {
            request: parsed,
            usages,
            lifetime: lifetime(spec.expiration_seconds),
        })),
        Err(refusal) => SigningDecision::Fail(refusal.to_string()),
    }
}

fn lifetime(wanted_seconds: Option<i32>) -> TickDuration {
    let Some(seconds) = wanted_seconds else { return LIFETIME_MAX };
    let wanted = TickDuration::from_secs(u64::try_from(seconds).unwrap_or(0));
    wanted.clamp(LIFETIME_MIN, LIFETIME_MAX)
}

impl WrittenStatus {
    /// The request with this status.
    pub fn written_into(
        self,
        request: &CertificateSigningRequest,
        now: Tick,
    ) -> CertificateSigningRequest {
        let mut request = request.clone();
        let status = request.status.get_or_insert_default();
        match self {
            Self::Certificate(pem) => status.certificate = Some(ByteString(pem.into_bytes())),
            Self::Failure(message) => {
                status.conditions.get_or_insert_default().push(
                    CertificateSigningRequestCondition {
                        type_: FAILED.to_owned(),
                        status: "True".to_owned(),
                        reason: Some("SignerValidationFailure".to_owned()),
                        message: Some(message),
                        last_update_time: Some(now.to_time()),
                        last_transition_time: None,
                    },
                );
            }
        }
        request
    }
}
