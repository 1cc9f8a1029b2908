//! The IP families of a Service: what its user leaves out follows from its cluster IPs, from the
//! policy, and from the ranges that the engine has. Source: upstream's Service allocators.

use k8s_openapi::api::core::v1::ServiceSpec;
use rekindle_kinds::service::needs::{
    has_selector, is_headless, is_headless_without_selector, needs_cluster_ip,
};
use rekindle_kinds::service::{ShownList, cluster_ip_errors, family_of};
use rekindle_kinds::validation::{Path, items, text};

use rekindle_kinds::service_range::ServiceRanges;
use rekindle_types::validation::field_error::FieldError;

const SINGLE: &str = "SingleStack";
const PREFER: &str = "PreferDualStack";
const REQUIRE: &str = "RequireDualStack";

/// Sets `ipFamilies` and `ipFamilyPolicy`, and takes the second of each away where the policy says
/// so. `old` is what an update changes.
pub(super) fn settle(
    spec: &mut ServiceSpec,
    old: Option<&ServiceSpec>,
    ranges: &ServiceRanges,
) -> Result<(), Vec<FieldError>> {
    if !needs_cluster_ip(spec) || old.is_some_and(|old| keeps_preference(spec, old)) {
        return Ok(());
    }
    if spec.ip_family_policy.is_none() {
        spec.ip_family_policy = Some(default_policy(spec, old).to_owned());
    }
    refuse(cluster_ip_errors(spec))?;
    let mut errors = Vec::new();
    if let Some(old) = old {
        errors.extend(release_second(spec, old));
    }
    errors.extend(too_many_for_policy(spec));
    errors.extend(infer_from_addresses(spec, ranges));
    refuse(errors)?;
    if is_headless_without_selector(spec) {
        let families = spec.ip_families.get_or_insert_default();
        fill(families, spec.ip_family_policy.as_deref() != Some(SINGLE), ranges);
        return Ok(());
    }
    refuse(not_configured(spec, ranges))?;
    let wants_both = spec.ip_family_policy.as_deref() != Some(SINGLE) && ranges.is_dual_stack();
    fill(spec.ip_families.get_or_insert_default(), wants_both, ranges);
    Ok(())
}

/// Whether an update leaves a Service that prefers two families with what it has: the engine may
/// have had another range when it was made.
pub(super) fn keeps_preference(new: &ServiceSpec, old: &ServiceSpec) -> bool {
    let prefers = |spec: &ServiceSpec| spec.ip_family_policy.as_deref() == Some(PREFER);
    prefers(new)
        && (prefers(old) || old.ip_family_policy.is_none())
        && new.type_ == old.type_
        && new.cluster_ips == old.cluster_ips
        && new.ip_families == old.ip_families
}

fn refuse(errors: Vec<FieldError>) -> Result<(), Vec<FieldError>> {
    if errors.is_empty() { Ok(()) } else { Err(errors) }
}

fn default_policy<'s>(spec: &ServiceSpec, old: Option<&'s ServiceSpec>) -> &'s str {
    match old.and_then(|old| old.ip_family_policy.as_deref()) {
        Some(policy) => policy,
        None if is_headless(spec) && !has_selector(spec) => REQUIRE,
        None => SINGLE,
    }
}

fn policy_error(spec: &ServiceSpec, detail: &str) -> FieldError {
    let field = Path::new("spec").child("ipFamilyPolicy");
    FieldError::invalid(field, text(spec.ip_family_policy.as_ref()), detail)
}

fn release_second(spec: &mut ServiceSpec, old: &ServiceSpec) -> Vec<FieldError> {
    if spec.ip_family_policy.as_deref() == Some(SINGLE) {
        if spec.cluster_ips == old.cluster_ips {
            spec.cluster_ips.iter_mut().for_each(|list| list.truncate(1));
        }
        if spec.ip_families == old.ip_families {
            spec.ip_families.iter_mut().for_each(|list| list.truncate(1));
        }
        return Vec::new();
    }
    let is_reduced = |new: &Option<Vec<String>>, old: &Option<Vec<String>>| {
        let (new, old) = (items(new.as_ref()).len(), items(old.as_ref()).len());
        new > 0 && new < old
    };
    let mut errors = Vec::new();
    if is_reduced(&spec.cluster_ips, &old.cluster_ips) {
        let detail = "must be 'SingleStack' to release the secondary cluster IP";
        errors.push(policy_error(spec, detail));
    }
    if is_reduced(&spec.ip_families, &old.ip_families) {
        let detail = "must be 'SingleStack' to release the secondary IP family";
        errors.push(policy_error(spec, detail));
    }
    errors
}

fn too_many_for_policy(spec: &ServiceSpec) -> Vec<FieldError> {
    let lists = [(&spec.cluster_ips, "cluster IPs"), (&spec.ip_families, "IP families")];
    let is_single = spec.ip_family_policy.as_deref() == Some(SINGLE);
    lists
        .into_iter()
        .filter(|(list, _)| is_single && items(list.as_ref()).len() == 2)
        .map(|(_, what)| {
            let detail = format!(
                "must be 'RequireDualStack' or 'PreferDualStack' when multiple {what} are specified"
            );
            policy_error(spec, &detail)
        })
        .collect()
}

fn infer_from_addresses(spec: &mut ServiceSpec, ranges: &ServiceRanges) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let list = spec.cluster_ips.clone().unwrap_or_default();
    let mut families = spec.ip_families.clone().unwrap_or_default();
    for (index, address) in list.iter().enumerate().skip(families.len()) {
        let Ok(address) = address.parse() else { break };
        let family = family_of(address);
        if ranges.of_family(family).is_some() {
            families.push(family.to_owned());
        } else {
            let field = Path::new("spec").child("clusterIPs").index(index);
            let detail = format!("{family} is not configured on this cluster");
            errors.push(FieldError::invalid(field, ShownList(&list), detail));
        }
    }
    spec.ip_families = Some(families).filter(|families| !families.is_empty());
    errors
}

fn not_configured(spec: &ServiceSpec, ranges: &ServiceRanges) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if spec.ip_family_policy.as_deref() == Some(REQUIRE) && !ranges.is_dual_stack() {
        let detail = "this cluster is not configured for dual-stack services";
        errors.push(policy_error(spec, detail));
    }
    let field = Path::new("spec").child("ipFamilies");
    let families = items(spec.ip_families.as_ref()).iter().enumerate();
    errors.extend(families.filter(|(_, family)| ranges.of_family(family).is_none()).map(
        |(index, family)| {
            FieldError::invalid(field.index(index), family, "not configured on this cluster")
        },
    ));
    errors
}

/// Gives the primary family where there is none, and the other one where both are wanted.
fn fill(families: &mut Vec<String>, wants_both: bool, ranges: &ServiceRanges) {
    if families.is_empty() {
        families.push(family_of(ranges.primary().network()).to_owned());
    }
    if wants_both && families.len() == 1 {
        let other = if families[0] == "IPv4" { "IPv6" } else { "IPv4" };
        families.push(other.to_owned());
    }
}
