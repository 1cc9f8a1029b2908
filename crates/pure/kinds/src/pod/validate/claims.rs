//! Claims of devices (KEP-3063): the pod lists them, its containers say which of them they use. No
//! devices are given by this version; what is wrong would be wrong elsewhere, too.

use k8s_openapi::api::core::v1::{PodResourceClaim, ResourceClaim};
use rekindle_types::validation::field_error::{FieldError, FieldProblem};

use super::checked_pod::CheckedPod;
use crate::validation::{ListKeys, Path, invalid_each, names, shortened, text};

/// Checks the list of a pod.
pub(super) fn validate_pod_claims(claims: &[PodResourceClaim], field: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let mut taken: ListKeys<&str> = ListKeys::new();
    for (index, claim) in claims.iter().enumerate() {
        let field = field.index(index);
        let name = field.child("name");
        if claim.name.is_empty() {
            errors.push(FieldError::required(name, ""));
        } else if taken.add(&claim.name).is_none() {
            errors.extend(invalid_each(&name, &claim.name, names::dns_label(&claim.name)));
        } else {
            errors.push(FieldError::duplicate(name, &claim.name));
        }
        errors.extend(source(claim, &field));
    }
    errors
}

/// One object is named, or one template.
fn source(claim: &PodResourceClaim, field: &Path) -> Vec<FieldError> {
    let sources = [
        ("resourceClaimName", claim.resource_claim_name.as_ref()),
        ("resourceClaimTemplateName", claim.resource_claim_template_name.as_ref()),
    ];
    let mut errors = Vec::new();
    let why = match sources.iter().filter(|(_, name)| name.is_some()).count() {
        0 => Some("must specify one of: `resourceClaimName`, `resourceClaimTemplateName`"),
        1 => None,
        _ => Some(
            "at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified",
        ),
    };
    errors.extend(why.map(|why| FieldError {
        field: field.into(),
        problem: FieldProblem::Invalid(
            serde_json::to_string(claim).expect("a claim is texts only, so JSON can hold it"),
        ),
        detail: why.to_owned(),
    }));
    for (source, name) in sources {
        let Some(name) = name else { continue };
        errors.extend(invalid_each(&field.child(source), name, names::dns_subdomain(name)));
    }
    errors
}

/// Checks which claims of its pod a container uses: each as a whole once, or some of its requests
/// once each.
pub(super) fn validate_container_claims(
    used: &[ResourceClaim],
    pod: &CheckedPod<'_>,
    field: &Path,
) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let (mut names, mut parts): (ListKeys<&str>, ListKeys<(&str, &str)>) =
        (ListKeys::new(), ListKeys::new());
    for (index, claim) in used.iter().enumerate() {
        let field = field.index(index);
        let (name, request) = (claim.name.as_str(), text(claim.request.as_ref()));
        if name.is_empty() {
            errors.push(FieldError::required(field, ""));
            continue;
        }
        if !request.is_empty() {
            let messages = names::dns_label(request);
            errors.extend(invalid_each(&field.child("request"), request, messages));
        }
        let is_whole_known = parts.has(&(name, ""));
        let is_known = names.add(name).is_some();
        let is_part_known = parts.add((name, request)).is_some();
        if is_whole_known || (request.is_empty() && is_known) {
            errors.push(FieldError::duplicate(&field, name));
        } else if is_part_known {
            errors.push(FieldError::duplicate(&field, format!("{name}/{request}")));
        }
        errors.extend(unknown(name, &pod.claims, field));
    }
    errors
}

/// The names that an error lists of those that would be right.
const NAMES_SHOWN_MAX: usize = 16;

fn unknown(name: &str, claims: &ListKeys<&str>, field: Path) -> Option<FieldError> {
    if claims.has(name) {
        return None;
    }
    let mut known: Vec<&str> =
        claims.keys().take(NAMES_SHOWN_MAX + 1).map(|name| shortened(name)).collect();
    if known.len() > NAMES_SHOWN_MAX {
        known[NAMES_SHOWN_MAX] = "...";
    }
    let list = known.join(", ");
    let which = if known.is_empty() { " which is empty".to_owned() } else { format!(": {list}") };
    let detail = format!("must be one of the names in pod.spec.resourceClaims{which}");
    Some(FieldError { detail, ..FieldError::not_found(field, name) })
}
