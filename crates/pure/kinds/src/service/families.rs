//! What is wrong with the cluster IPs of a Service and the IP families that they are of.

use std::fmt;
use std::net::IpAddr;

use k8s_openapi::api::core::v1::ServiceSpec;
use rekindle_types::IpFamily;
use rekindle_types::validation::field_error::FieldError;

use super::needs::{HEADLESS, is_headless, is_headless_without_selector, needs_cluster_ip};
use crate::validation::{ListKeys, Path, addresses, items, text};

const FAMILIES: [&str; 2] = [IpFamily::V4.name(), IpFamily::V6.name()];
const POLICIES: [&str; 3] = ["PreferDualStack", "RequireDualStack", "SingleStack"];
/// One address of each family.
const CLUSTER_IPS_MAX: usize = 2;
/// So many entries of a list are shown in an error.
const SHOWN_MAX: usize = 4;
const SET_ONCE: &str = "may not change once set";

/// A list as upstream shows it.
pub struct ShownList<'l>(pub &'l [String]);

impl fmt::Debug for ShownList<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown: Vec<String> =
            self.0.iter().take(SHOWN_MAX).map(|text| format!("{text:?}")).collect();
        let more = if self.0.len() > SHOWN_MAX { ",..." } else { "" };
        write!(f, "[{}{more}]", shown.join(","))
    }
}

/// The family of an address, as the API writes it.
pub const fn family_of(address: IpAddr) -> &'static str {
    IpFamily::from_address(address).name()
}

/// Everything wrong with `clusterIP`, `clusterIPs`, `ipFamilies` and `ipFamilyPolicy`.
pub fn cluster_ip_errors(spec: &ServiceSpec) -> Vec<FieldError> {
    let field = Path::new("spec").child("clusterIPs");
    let list = items(spec.cluster_ips.as_ref());
    let mut errors = Vec::new();
    match (&spec.cluster_ip, list.first()) {
        (Some(_), None) => errors.push(FieldError::required(&field, "")),
        (Some(single), Some(first)) if single != first => {
            let detail = "first value must match `clusterIP`";
            errors.push(FieldError::invalid(&field, ShownList(list), detail));
        }
        (None, Some(_)) => {
            let detail = "must be empty when `clusterIP` is not specified";
            errors.push(FieldError::invalid(&field, ShownList(list), detail));
        }
        (Some(_), Some(_)) | (None, None) => {}
    }
    errors.extend(family_errors(spec));
    let unreadable = unreadable_addresses(list, &field);
    let is_readable = unreadable.is_empty();
    errors.extend(unreadable);
    if list.len() > CLUSTER_IPS_MAX {
        let detail = "may only hold up to 2 values";
        errors.push(FieldError::invalid(&field, ShownList(list), detail));
    }
    if is_readable {
        errors.extend(double_family(list, &field));
    }
    if is_readable && errors.is_empty() {
        errors.extend(wrong_families(spec, &field));
    }
    errors
}

fn family_errors(spec: &ServiceSpec) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let field = Path::new("spec").child("ipFamilies");
    let mut seen: ListKeys<&str> = ListKeys::new();
    for (index, family) in items(spec.ip_families.as_ref()).iter().enumerate() {
        if !FAMILIES.contains(&family.as_str()) {
            errors.push(FieldError::not_supported(field.index(index), family, &FAMILIES));
        }
        if seen.add(family).is_some() {
            errors.push(FieldError::duplicate(field.index(index), family));
        }
    }
    let policy = text(spec.ip_family_policy.as_ref());
    if spec.ip_family_policy.is_some() && !POLICIES.contains(&policy) {
        let field = Path::new("spec").child("ipFamilyPolicy");
        errors.push(FieldError::not_supported(field, policy, &POLICIES));
    }
    errors
}

fn unreadable_addresses(list: &[String], field: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for (index, address) in list.iter().enumerate() {
        if index == 0 && address == HEADLESS {
            if list.len() > 1 {
                let detail = "'None' must be the first and only value";
                errors.push(FieldError::invalid(field, ShownList(list), detail));
            }
        } else if address.parse::<IpAddr>().is_err() {
            errors.push(FieldError::invalid(
                field.index(index),
                address,
                addresses::NOT_AN_ADDRESS,
            ));
        }
    }
    errors
}

fn double_family(list: &[String], field: &Path) -> Option<FieldError> {
    let mut seen = ListKeys::new();
    let is_double = list
        .iter()
        .filter_map(|address| address.parse().ok())
        .any(|address| seen.add(family_of(address)).is_some());
    is_double.then(|| {
        let detail = "may specify no more than one IP for each IP family";
        FieldError::invalid(field, ShownList(list), detail)
    })
}

fn wrong_families(spec: &ServiceSpec, field: &Path) -> Vec<FieldError> {
    let list = items(spec.cluster_ips.as_ref()).iter().zip(items(spec.ip_families.as_ref()));
    let list = list.enumerate().filter(|(_, (address, family))| {
        address.parse().is_ok_and(|address| family_of(address) != family.as_str())
    });
    list.map(|(index, (address, family))| {
        let detail = format!("expected an {family} value as indicated by `ipFamilies[{index}]`");
        FieldError::invalid(field.index(index), address, detail)
    })
    .collect()
}

/// What of them may not change: the first of each stays, the second may come and go.
pub(super) fn change_errors(new: &ServiceSpec, old: &ServiceSpec) -> Vec<FieldError> {
    if !needs_cluster_ip(new) || !needs_cluster_ip(old) {
        return Vec::new();
    }
    let mut errors = Vec::new();
    if !(is_headless_without_selector(new) && is_headless_without_selector(old)) {
        let lists = (items(new.ip_families.as_ref()), items(old.ip_families.as_ref()));
        errors.extend(list_change(lists, new, ("ipFamilies", "ipFamily")));
    }
    if !(is_headless(new) && is_headless(old)) {
        let lists = (items(new.cluster_ips.as_ref()), items(old.cluster_ips.as_ref()));
        errors.extend(list_change(lists, new, ("clusterIPs", "clusterIP")));
    }
    errors
}

fn list_change(
    (new, old): (&[String], &[String]),
    spec: &ServiceSpec,
    (plural, singular): (&str, &str),
) -> Vec<FieldError> {
    let field = Path::new("spec").child(plural);
    let changed = |index: usize| {
        let is_changed = new.get(index).zip(old.get(index)).is_some_and(|(new, old)| new != old);
        is_changed.then(|| FieldError::invalid(field.index(index), ShownList(new), SET_ONCE))
    };
    if new.len() == old.len() {
        return (0..new.len().min(CLUSTER_IPS_MAX)).filter_map(changed).collect();
    }
    let mut errors: Vec<FieldError> = changed(0).into_iter().collect();
    if new.is_empty() {
        let detail = format!("primary {singular} can not be unset");
        errors.push(FieldError::invalid(field.index(0), ShownList(new), detail));
    } else if new.len() < old.len() && spec.ip_family_policy.as_deref() != Some("SingleStack") {
        let detail =
            format!("must be set to 'SingleStack' when releasing the secondary {singular}");
        let field = Path::new("spec").child("ipFamilyPolicy");
        let policy = text(spec.ip_family_policy.as_ref());
        errors.push(FieldError::invalid(field, policy, detail));
    }
    errors
}
