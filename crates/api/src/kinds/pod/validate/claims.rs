//! Claims of devices (KEP-3063): the pod lists them, its containers say which of them they use. No devices are given by this version;
//! what is wrong would be wrong elsewhere, too.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{PodResourceClaim, PodSpec, ResourceClaim};

use crate::registry::field_error::{FieldError, Problem};
use crate::validation::{Path, invalid_each, items, names, text};

/// Checks the list of a pod.
pub(super) fn of_pod(claims: &[PodResourceClaim], field: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let mut taken: BTreeSet<&str> = BTreeSet::new();
    for (index, claim) in claims.iter().enumerate() {
        let field = field.index(index);
        let name = field.child("name");
        if claim.name.is_empty() {
            errors.push(FieldError::required(name, ""));
        } else if taken.insert(&claim.name) {
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
        problem: Problem::Invalid(
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

/// Checks which claims of its pod a container uses: each as a whole once, or some of its requests once each.
pub(super) fn of_container(
    used: &[ResourceClaim],
    spec: &PodSpec,
    field: &Path,
) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let mut seen: BTreeSet<(&str, &str)> = BTreeSet::new();
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
        let of_it = |(other, part): &&(&str, &str)| {
            *other == name && (part.is_empty() || request.is_empty() || *part == request)
        };
        if let Some((_, part)) = seen.iter().find(of_it) {
            let is_part = !part.is_empty() && !request.is_empty();
            let shown = if is_part { format!("{name}/{request}") } else { name.to_owned() };
            errors.push(FieldError::duplicate(&field, shown));
        }
        seen.insert((name, request));
        errors.extend(unknown(name, items(spec.resource_claims.as_ref()), field));
    }
    errors
}

fn unknown(name: &str, claims: &[PodResourceClaim], field: Path) -> Option<FieldError> {
    let mut known: Vec<&str> = claims.iter().map(|claim| claim.name.as_str()).collect();
    known.retain(|known| !known.is_empty());
    known.sort_unstable();
    known.dedup();
    if known.contains(&name) {
        return None;
    }
    let list = known.join(", ");
    let which = if known.is_empty() { " which is empty".to_owned() } else { format!(": {list}") };
    let detail = format!("must be one of the names in pod.spec.resourceClaims{which}");
    Some(FieldError { detail, ..FieldError::not_found(field, name) })
}
