//! How requests change through `/status` and `/approval`: signers write the certificate, approvers
//! the conditions Approved and Denied.

use std::collections::BTreeMap;

use k8s_openapi::api::certificates::v1::CertificateSigningRequest;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use rekindle_types::Tick;
use rekindle_types::validation::field_error::FieldError;

use super::conditions;
use super::validate::{self, AllowedChange};
use crate::registry::resource::RequestContext;
use crate::registry::strategy::{ApprovalPart, StatusPart, SubresourceStrategy};
use crate::validation::new_mistakes;

impl SubresourceStrategy<StatusPart> for CertificateSigningRequest {
    fn prepare_part(&mut self, old: &Self, ctx: &RequestContext<'_>) {
        keep_rest(self, old);
        set_times(self, old, ctx.now);
    }

    fn validate_part(&self, old: &Self) -> Vec<FieldError> {
        change_errors(self, old, AllowedChange::Certificate)
    }
}

impl SubresourceStrategy<ApprovalPart> for CertificateSigningRequest {
    fn prepare_part(&mut self, old: &Self, ctx: &RequestContext<'_>) {
        keep_rest(self, old);
        let certificate = old.status.as_ref().and_then(|status| status.certificate.clone());
        self.status.get_or_insert_default().certificate = certificate;
        set_times(self, old, ctx.now);
    }

    fn validate_part(&self, old: &Self) -> Vec<FieldError> {
        change_errors(self, old, AllowedChange::Approval)
    }
}

/// Who may decide or sign changes neither what is asked for, nor when the request goes.
fn keep_rest(new: &mut CertificateSigningRequest, old: &CertificateSigningRequest) {
    new.spec.clone_from(&old.spec);
    new.metadata.finalizers.clone_from(&old.metadata.finalizers);
    new.metadata.owner_references.clone_from(&old.metadata.owner_references);
}

fn change_errors(
    new: &CertificateSigningRequest,
    old: &CertificateSigningRequest,
    allowed: AllowedChange,
) -> Vec<FieldError> {
    let mut errors = new_mistakes(validate::status_errors(new), || validate::status_errors(old));
    errors.extend(validate::change_errors(new, old, allowed));
    errors
}

/// Fills in the times that the writer left out. A condition that was there keeps the time of its
/// last transition.
fn set_times(new: &mut CertificateSigningRequest, old: &CertificateSigningRequest, now: Tick) {
    let transitions: BTreeMap<(&str, &str), &Time> = conditions(old)
        .iter()
        .filter_map(|old| {
            let time = old.last_transition_time.as_ref()?;
            Some(((old.type_.as_str(), old.status.as_str()), time))
        })
        .collect();
    let added = new.status.iter_mut().flat_map(|status| status.conditions.iter_mut().flatten());
    for condition in added {
        condition.last_update_time.get_or_insert_with(|| now.to_time());
        let before = transitions.get(&(condition.type_.as_str(), condition.status.as_str()));
        condition
            .last_transition_time
            .get_or_insert_with(|| before.map_or_else(|| now.to_time(), |time| (*time).clone()));
    }
}
