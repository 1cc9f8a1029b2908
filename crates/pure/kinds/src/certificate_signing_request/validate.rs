//! What a CertificateSigningRequest may say. Wording and order of mistakes follow upstream's
//! `pkg/apis/certificates/validation`.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use der::Decode;
use k8s_openapi::api::certificates::v1::{
    CertificateSigningRequest, CertificateSigningRequestCondition, CertificateSigningRequestSpec,
};
use rekindle_types::pem_blocks::CERTIFICATE;
use rekindle_types::validation::field_error::FieldError;
use x509_cert::Certificate;

use super::{APPROVED, DENIED, FAILED, certificate, conditions};
use crate::certificate_signing_request::CertificateRequest;
use crate::validation::{ListKeys, Path, items, signer_name};

const EXPIRATION_SECONDS_MIN: i32 = 600;

/// What a certificate may be for, in the order of error texts.
const USAGES: [&str; 23] = [
    "any",
    "cert sign",
    "client auth",
    "code signing",
    "content commitment",
    "crl sign",
    "data encipherment",
    "decipher only",
    "digital signature",
    "email protection",
    "encipher only",
    "ipsec end system",
    "ipsec tunnel",
    "ipsec user",
    "key agreement",
    "key encipherment",
    "microsoft sgc",
    "netscape sgc",
    "ocsp signing",
    "s/mime",
    "server auth",
    "signing",
    "timestamping",
];

/// What an update through a subresource may change beside other conditions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AllowedChange {
    /// The certificate, once.
    Certificate,
    /// The conditions Approved and Denied.
    Approval,
}

/// What is wrong with what is asked for. Who has the key is checked by admission.
pub(super) fn spec_errors(spec: &CertificateSigningRequestSpec) -> Vec<FieldError> {
    let field = Path::new("spec");
    let mut errors = Vec::new();
    if let Err(error) = CertificateRequest::parse(&spec.request.0) {
        errors.push(request_error(spec, &error.to_string()));
    }
    errors.extend(usage_errors(items(spec.usages.as_ref()), &field.child("usages")));
    errors.extend(signer_name::errors(&spec.signer_name, &field.child("signerName")));
    if let Some(seconds) =
        spec.expiration_seconds.filter(|seconds| *seconds < EXPIRATION_SECONDS_MIN)
    {
        let why = "may not specify a duration less than 600 seconds (10 minutes)";
        errors.push(FieldError::invalid(field.child("expirationSeconds"), seconds, why));
    }
    errors
}

/// Something is wrong with the request in PEM.
pub fn request_error(spec: &CertificateSigningRequestSpec, why: &str) -> FieldError {
    let field = Path::new("spec").child("request");
    if spec.request.0.is_empty() {
        // upstream shows bytes that are not there as null
        return FieldError::invalid_json(field, &serde_json::Value::Null, why);
    }
    FieldError::invalid(field, STANDARD.encode(&spec.request.0), why)
}

fn usage_errors(usages: &[String], field: &Path) -> Vec<FieldError> {
    if usages.is_empty() {
        return vec![FieldError::required(field, "")];
    }
    let unknown = usages.iter().enumerate().filter(|(_, usage)| !USAGES.contains(&usage.as_str()));
    let mut errors: Vec<FieldError> = unknown
        .map(|(index, usage)| FieldError::not_supported(field.index(index), usage, &USAGES))
        .collect();
    let mut known = ListKeys::new();
    for (index, usage) in usages.iter().enumerate() {
        if known.add(usage.as_str()).is_some() {
            errors.push(FieldError::duplicate(field.index(index), usage));
        }
    }
    errors
}

/// What is wrong with the status of a request.
pub(super) fn status_errors(request: &CertificateSigningRequest) -> Vec<FieldError> {
    let field = Path::new("status");
    let mut errors = condition_errors(conditions(request), &field.child("conditions"));
    if let Some(why) = wrong_with_certificate(certificate(request)) {
        let field = field.child("certificate");
        errors.push(FieldError::invalid(field, "<certificate data>", why));
    }
    errors
}

fn condition_errors(
    conditions: &[CertificateSigningRequestCondition],
    field: &Path,
) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let mut known = ListKeys::new();
    for (index, condition) in conditions.iter().enumerate() {
        let field = field.index(index);
        let type_ = condition.type_.as_str();
        if type_.is_empty() {
            errors.push(FieldError::required(field.child("type"), ""));
        }
        let allowed: &[&str] = match type_ {
            APPROVED | DENIED | FAILED => &["True"],
            _ => &["False", "True", "Unknown"],
        };
        match condition.status.as_str() {
            "" => errors.push(FieldError::required(field.child("status"), "")),
            status if allowed.contains(&status) => {}
            status => {
                errors.push(FieldError::not_supported(field.child("status"), status, allowed))
            }
        }
        let opposite = match type_ {
            APPROVED => Some(DENIED),
            DENIED => Some(APPROVED),
            _ => None,
        };
        if opposite.is_some_and(|opposite| known.has(&opposite)) {
            let why = "Approved and Denied conditions are mutually exclusive";
            errors.push(FieldError::invalid(field.child("type"), type_, why));
        }
        if known.add(type_).is_some() {
            errors.push(FieldError::duplicate(field.child("type"), type_));
        }
    }
    errors
}

fn wrong_with_certificate(text: &[u8]) -> Option<String> {
    if text.is_empty() {
        return None;
    }
    let blocks = pem::parse_many(text).unwrap_or_default();
    if blocks.is_empty() {
        return Some("must contain at least one CERTIFICATE PEM block".to_owned());
    }
    blocks.iter().find_map(|block| {
        if block.tag() != CERTIFICATE {
            let found = block.tag();
            return Some(format!("only CERTIFICATE PEM blocks are allowed, found {found:?}"));
        }
        if block.headers().iter().next().is_some() {
            return Some("no PEM block headers are permitted".to_owned());
        }
        Certificate::from_der(block.contents()).err().map(|error| error.to_string())
    })
}

/// What a change of the status may not do.
pub(super) fn change_errors(
    new: &CertificateSigningRequest,
    old: &CertificateSigningRequest,
    allowed: AllowedChange,
) -> Vec<FieldError> {
    let field = Path::new("status");
    let on_conditions = |why: String| FieldError::forbidden(field.child("conditions"), why);
    let of_type = |request, type_| -> Vec<&CertificateSigningRequestCondition> {
        conditions(request).iter().filter(|condition| condition.type_ == type_).collect()
    };
    let mut errors = Vec::new();
    for type_ in [APPROVED, DENIED, FAILED] {
        if of_type(new, type_).len() < of_type(old, type_).len() {
            let why = format!("updates may not remove a condition of type {type_:?}");
            errors.push(on_conditions(why));
        }
    }
    if allowed != AllowedChange::Approval {
        for type_ in [APPROVED, DENIED] {
            let (new, old) = (of_type(new, type_), of_type(old, type_));
            if new.len() > old.len() {
                let why = format!("updates may not add a condition of type {type_:?}");
                errors.push(on_conditions(why));
            } else if new.len() == old.len() && new != old {
                let why = format!("updates may not modify a condition of type {type_:?}");
                errors.push(on_conditions(why));
            }
        }
    }
    if certificate(new) != certificate(old) {
        let field = field.child("certificate");
        if allowed != AllowedChange::Certificate {
            errors.push(FieldError::forbidden(field, "updates may not set certificate content"));
        } else if !certificate(old).is_empty() {
            let why = "updates may not modify existing certificate content";
            errors.push(FieldError::forbidden(field, why));
        }
    }
    errors
}
