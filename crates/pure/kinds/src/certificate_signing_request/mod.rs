//! CertificateSigningRequest (certificates.k8s.io/v1): a client asks for a certificate, a person or
//! a controller approves, and a signer issues it. `certificates` of the API has the signers of the
//! cluster itself.

mod certificate_request;
mod signature;
mod status;
#[cfg(test)]
mod tests;
mod validate;

use k8s_openapi::api::certificates::v1::{
    CertificateSigningRequest, CertificateSigningRequestCondition, CertificateSigningRequestStatus,
};
use rekindle_types::validation::field_error::FieldError;
use rekindle_types::{Tick, TickDuration};

pub use certificate_request::{CertificateRequest, CertificateRequestError};
pub use signature::{SignatureScheme, SignatureVerifier};
pub use validate::request_error;

use crate::registry::resource::{
    ApiKind, RequestContext, ResourceNames, ResourceScope, Subresource, TableCell, TableColumn,
};
use crate::registry::strategy::Strategies;
use crate::table::{AGE, NAME, age, column, human, or_none};
use crate::validation::names::NameRule;
use crate::validation::{items, text};

/// The group of the kind.
pub const GROUP: &str = "certificates.k8s.io";
/// Its resource.
pub const PLURAL: &str = "certificatesigningrequests";

/// The condition of a request that may be signed.
pub const APPROVED: &str = "Approved";
/// The condition of one that may not.
pub const DENIED: &str = "Denied";
/// The condition of one that its signer does not sign.
pub const FAILED: &str = "Failed";

impl ApiKind for CertificateSigningRequest {
    const NAMES: ResourceNames = ResourceNames {
        singular: "certificatesigningrequest",
        short_names: &["csr"],
        categories: &[],
        scope: ResourceScope::Cluster,
    };
    const NAME_RULE: NameRule = NameRule::AnyText;
    const SUBRESOURCES: &'static [Subresource] = &[Subresource::Approval, Subresource::Status];
    const STRATEGIES: Strategies<Self> = Strategies::of_status().with_approval();
    const SELECTABLE_FIELDS: &'static [&'static str] = &["spec.signerName"];
    const HAS_NAMESPACE_SELECTOR: bool = false;
    const COLUMNS: &'static [TableColumn] = &[
        NAME,
        AGE,
        column("SignerName", "string", "The signer that shall issue the certificate."),
        column("Requestor", "string", "The user who made the request."),
        column("RequestedDuration", "string", "How long the certificate shall be good."),
        column("Condition", "string", "Whether the request is approved, denied, failed, issued."),
    ];

    /// The requester is who asks, whatever the client wrote.
    fn prepare_for_create(&mut self, ctx: &RequestContext<'_>) {
        let user = ctx.identity.shown();
        let spec = &mut self.spec;
        spec.username = user.username;
        spec.uid = user.uid.filter(|uid| !uid.is_empty());
        spec.groups = user.groups.filter(|groups| !groups.is_empty());
        spec.extra = user.extra;
        self.status = Some(CertificateSigningRequestStatus::default());
    }

    /// What is asked for never changes, as upstream: the old spec stays, without an error.
    fn prepare_for_update(&mut self, old: &Self, _ctx: &RequestContext<'_>) {
        self.spec.clone_from(&old.spec);
        self.status.clone_from(&old.status);
    }

    fn validate(&self) -> Vec<FieldError> {
        let mut errors = validate::spec_errors(&self.spec);
        errors.extend(validate::status_errors(self));
        errors
    }

    fn selectable_fields(&self) -> Vec<(&'static str, String)> {
        vec![("spec.signerName", self.spec.signer_name.clone())]
    }

    fn row(&self, now: Tick) -> Vec<TableCell> {
        let spec = &self.spec;
        let duration =
            spec.expiration_seconds.map(|seconds| human(TickDuration::of_field(seconds)));
        vec![
            text(self.metadata.name.as_ref()).into(),
            age(self.metadata.creation_timestamp.as_ref(), now).into(),
            or_none(Some(&spec.signer_name)),
            text(spec.username.as_ref()).into(),
            duration.unwrap_or_else(|| "<none>".to_owned()).into(),
            shown_state(self).into(),
        ]
    }
}

/// `Approved,Issued`.
fn shown_state(request: &CertificateSigningRequest) -> String {
    let decision = match (has_condition(request, DENIED), has_condition(request, APPROVED)) {
        (true, _) => DENIED,
        (false, true) => APPROVED,
        (false, false) => "Pending",
    };
    let mut state = vec![decision];
    if has_condition(request, FAILED) {
        state.push(FAILED);
    }
    if is_issued(request) {
        state.push("Issued");
    }
    state.join(",")
}

fn conditions(request: &CertificateSigningRequest) -> &[CertificateSigningRequestCondition] {
    request.status.as_ref().map_or(&[], |status| items(status.conditions.as_ref()))
}

/// Whether it has a condition of this type. Those that decide are never False.
pub fn has_condition(request: &CertificateSigningRequest, type_: &str) -> bool {
    conditions(request).iter().any(|condition| condition.type_ == type_)
}

/// Whether it may be signed.
pub fn is_approved(request: &CertificateSigningRequest) -> bool {
    has_condition(request, APPROVED) && !has_condition(request, DENIED)
}

/// Whether it has its certificate.
pub fn is_issued(request: &CertificateSigningRequest) -> bool {
    !certificate(request).is_empty()
}

fn certificate(request: &CertificateSigningRequest) -> &[u8] {
    let certificate = request.status.as_ref().and_then(|status| status.certificate.as_ref());
    certificate.map_or(&[], |certificate| &certificate.0)
}
