//! The status of a claim: what was allocated, for which consumers, and what drivers say about it.

use std::collections::BTreeSet;
use std::net::IpAddr;

use k8s_openapi::api::resource::v1::{
    AllocatedDeviceStatus, DeviceRequestAllocationResult, NetworkDeviceData, ResourceClaim,
    ResourceClaimConsumerReference, ResourceClaimStatus,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use rekindle_types::validation::field_error::FieldError;

use super::bounded_lists::{UNBOUNDED, entry_errors, set_errors};
use super::qualified_name::{label_errors, pool_errors, uid_error};
use super::request_names::RequestNames;
use super::{allocation, device_configuration};
use crate::defaults;
use crate::validation::driver_name::name_errors as driver_errors;
use crate::validation::{Path, conditions, fixed, items, text};

/// The most consumers of a claim.
const CONSUMERS_MAX: usize = 256;
/// The most conditions of an allocated device.
const CONDITIONS_MAX: usize = 8;
/// The most addresses of a network device.
const ADDRESSES_MAX: usize = 16;
const INTERFACE_BYTES_MAX: usize = 256;
const HARDWARE_ADDRESS_BYTES_MAX: usize = 128;

/// An allocated device: driver, pool, device, and share.
type AllocatedId<'a> = (&'a str, &'a str, &'a str, Option<&'a str>);

fn id_of_result(result: &DeviceRequestAllocationResult) -> AllocatedId<'_> {
    (&result.driver, &result.pool, &result.device, result.share_id.as_deref())
}

fn id_of_status(device: &AllocatedDeviceStatus) -> AllocatedId<'_> {
    (&device.driver, &device.pool, &device.device, device.share_id.as_deref())
}

/// As an error shows it.
fn shown((driver, pool, device, share): AllocatedId<'_>) -> String {
    [driver, pool, device].into_iter().chain(share).collect::<Vec<_>>().join("/")
}

/// The devices that a claim was given.
fn allocated(status: Option<&ResourceClaimStatus>) -> BTreeSet<AllocatedId<'_>> {
    let allocation = status.and_then(|status| status.allocation.as_ref());
    let devices = allocation.and_then(|allocation| allocation.devices.as_ref());
    let results = items(devices.and_then(|devices| devices.results.as_ref()));
    results.iter().map(id_of_result).collect()
}

/// Fills in what a status leaves out.
pub(super) fn set_defaults(status: &mut ResourceClaimStatus) {
    status.allocation.iter_mut().for_each(allocation::set_defaults);
    defaults::drop_empty_list(&mut status.devices);
    defaults::drop_empty_list(&mut status.reserved_for);
}

/// Drops what drivers said about devices that were given back.
pub(super) fn drop_deallocated(claim: &mut ResourceClaim, old: &ResourceClaim) {
    let Some(status) = &mut claim.status else { return };
    let listed = status.devices.take();
    let (before, now) = (allocated(old.status.as_ref()), allocated(Some(status)));
    let kept = listed.into_iter().flatten().filter(|device| {
        let id = id_of_status(device);
        now.contains(&id) || !before.contains(&id)
    });
    let kept: Vec<AllocatedDeviceStatus> = kept.collect();
    status.devices = Some(kept).filter(|kept| !kept.is_empty());
}

/// What is wrong with a status that takes the place of an old one.
pub(super) fn errors(claim: &ResourceClaim, old: &ResourceClaim) -> Vec<FieldError> {
    let Some(status) = &claim.status else { return Vec::new() };
    let field = Path::new("status");
    let consumers = field.child("reservedFor");
    let mut errors = set_errors(
        items(status.reserved_for.as_ref()),
        CONSUMERS_MAX,
        &consumers,
        |consumer| consumer.uid.as_str(),
        consumer_errors,
    );
    let known = allocated(Some(status));
    errors.extend(set_errors(
        items(status.devices.as_ref()),
        UNBOUNDED,
        &field.child("devices"),
        |device| shown(id_of_status(device)),
        |device, field| device_errors(device, &known, field),
    ));
    errors.extend(reservation_error(claim, old, &consumers));
    let before = old.status.as_ref().and_then(|status| status.allocation.as_ref());
    let field = field.child("allocation");
    match (&status.allocation, before) {
        (Some(allocation), Some(before)) if allocation != before => {
            errors.push(fixed(&field, allocation));
        }
        (Some(_), Some(_)) | (None, _) => {}
        (Some(allocation), None) => {
            let devices = claim.spec.as_ref().and_then(|spec| spec.devices.as_ref());
            errors.extend(allocation::errors(allocation, &RequestNames::new(devices), &field));
        }
    }
    errors
}

fn consumer_errors(consumer: &ResourceClaimConsumerReference, field: &Path) -> Vec<FieldError> {
    let texts =
        [("resource", &consumer.resource), ("name", &consumer.name), ("uid", &consumer.uid)];
    let missing = texts.into_iter().filter(|(_, text)| text.is_empty());
    missing.map(|(name, _)| FieldError::required(field.child(name), "")).collect()
}

/// A claim is reserved once it is allocated, and not while it is deleted.
fn reservation_error(
    claim: &ResourceClaim,
    old: &ResourceClaim,
    field: &Path,
) -> Option<FieldError> {
    let consumers = |claim: &'_ ResourceClaim| {
        let status = claim.status.as_ref();
        items(status.and_then(|status| status.reserved_for.as_ref())).to_vec()
    };
    let now = consumers(claim);
    if now.is_empty() {
        return None;
    }
    if claim.status.as_ref().is_none_or(|status| status.allocation.is_none()) {
        let why = "may not be specified when `allocated` is not set";
        return Some(FieldError::forbidden(field, why));
    }
    let key = |consumer: &ResourceClaimConsumerReference| {
        let ResourceClaimConsumerReference { api_group, name, resource, uid } = consumer.clone();
        (api_group.unwrap_or_default(), name, resource, uid)
    };
    let before: BTreeSet<_> = consumers(old).iter().map(key).collect();
    let is_added = now.iter().any(|consumer| !before.contains(&key(consumer)));
    (claim.metadata.deletion_timestamp.is_some() && is_added).then(|| {
        let why = "new entries may not be added while `deallocationRequested` or \
                   `deletionTimestamp` are set";
        FieldError::forbidden(field, why)
    })
}

fn device_errors(
    device: &AllocatedDeviceStatus,
    allocated: &BTreeSet<AllocatedId<'_>>,
    field: &Path,
) -> Vec<FieldError> {
    let mut errors = driver_errors(&device.driver, &field.child("driver"));
    errors.extend(pool_errors(&device.pool, &field.child("pool")));
    errors.extend(label_errors(&device.device, &field.child("device")));
    if let Some(share) = &device.share_id {
        errors.extend(uid_error(share, &field.child("shareID")));
    }
    let id = id_of_status(device);
    if !allocated.contains(&id) {
        let why = "must be an allocated device in the claim";
        errors.push(FieldError::invalid(field, shown(id), why));
    }
    errors.extend(condition_errors(items(device.conditions.as_ref()), &field.child("conditions")));
    if let Some(data) = &device.data {
        errors.extend(device_configuration::data_error(data, &field.child("data")));
    }
    if let Some(network) = &device.network_data {
        errors.extend(network_errors(network, &field.child("networkData")));
    }
    errors
}

fn condition_errors(all: &[Condition], field: &Path) -> Vec<FieldError> {
    let mut errors = entry_errors(all, CONDITIONS_MAX, field, conditions::entry_errors);
    let looked_at = &all[..all.len().min(CONDITIONS_MAX)];
    errors.extend(conditions::duplicate_errors(looked_at, field));
    errors
}

fn network_errors(network: &NetworkDeviceData, field: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for (name, text, max) in [
        ("interfaceName", text(network.interface_name.as_ref()), INTERFACE_BYTES_MAX),
        ("hardwareAddress", text(network.hardware_address.as_ref()), HARDWARE_ADDRESS_BYTES_MAX),
    ] {
        if text.len() > max {
            errors.push(FieldError::too_long(field.child(name), max));
        }
    }
    errors.extend(set_errors(
        items(network.ips.as_ref()),
        ADDRESSES_MAX,
        &field.child("ips"),
        String::as_str,
        |address, field| address_error(address, field).into_iter().collect(),
    ));
    errors
}

/// An address with the length of its network's prefix, in the canonical form.
fn address_error(text: &str, field: &Path) -> Option<FieldError> {
    let parsed = text.split_once('/').and_then(|(address, length)| {
        let address: IpAddr = address.parse().ok()?;
        let bits: u8 = length.parse().ok()?;
        let bits_max = if address.is_ipv4() { 32 } else { 128 };
        (bits <= bits_max).then(|| format!("{address}/{bits}"))
    });
    let why = match parsed {
        Some(canonical) if canonical == text => return None,
        Some(canonical) => format!("must be in canonical form ({canonical:?})"),
        None => {
            "must be a valid address in CIDR form, (e.g. 10.9.8.7/24 or 2001:db8::1/64)".to_owned()
        }
    };
    Some(FieldError::invalid(field, text, why))
}
