//! The objects that show what is held: an IPAddress for each cluster IP, and the ServiceCIDR.
//! Nothing is decided from them but this: an address with a record is not given again.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::networking::v1::{
    IPAddress, IPAddressSpec, ParentReference, ServiceCIDR, ServiceCIDRSpec, ServiceCIDRStatus,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, ObjectMeta};
use rekindle_kinds::registry::KindEntry;
use rekindle_kinds::service::family_of;
use rekindle_kinds::service_cidr::{DEFAULT_RANGE, FINALIZER, READY};
use rekindle_kinds::service_range::ServiceRanges;
use rekindle_store::{PendingWrite, StoreError, WritePrecondition};
use rekindle_types::Tick;

use super::holders::ServiceHoldings;
use super::services;
use crate::call::{ApiCall, ObjectChange, put};
use crate::shared::ApiShared;
use crate::status::ApiError;
use crate::{keys, object_meta};

pub(super) const GROUP: &str = "networking.k8s.io";
/// The labels that upstream's allocator sets.
const FAMILY_LABEL: &str = "ipaddress.kubernetes.io/ip-family";
const MANAGED_BY: (&str, &str) = ("ipaddress.kubernetes.io/managed-by", "ipallocator.k8s.io");

pub(super) fn addresses(api: &ApiShared) -> Option<&Arc<KindEntry>> {
    api.registry.find(GROUP, "v1", "ipaddresses")
}

/// Whether an address has a record.
pub(super) fn has(api: &ApiShared, address: IpAddr) -> bool {
    addresses(api).is_some_and(|entry| {
        api.store.newest(&keys::object(entry, "", &address.to_string())).is_some()
    })
}

/// The write of the record of an address; none when records are not served.
pub(super) fn to_make(
    api: &ApiShared,
    service: &ObjectMeta,
    address: IpAddr,
    now: Tick,
) -> Option<ObjectChange> {
    let entry = addresses(api)?;
    let mut object = record(service, address);
    object_meta::prepare_new(&mut object.metadata, api.new_uid(), now);
    let key = keys::object(entry, "", &address.to_string());
    Some(ObjectChange::Put { key, expect: WritePrecondition::Absent, object: Box::new(object) })
}

/// The removal of the record of an address; none when there is none.
pub(super) fn to_remove(api: &ApiShared, address: IpAddr) -> Option<ObjectChange> {
    let key = keys::object(addresses(api)?, "", &address.to_string());
    api.store.newest(&key).map(ObjectChange::Remove)
}

fn record(service: &ObjectMeta, address: IpAddr) -> IPAddress {
    let labels = [(FAMILY_LABEL, family_of(address)), MANAGED_BY];
    let labels = labels.map(|(key, value)| (key.to_owned(), value.to_owned()));
    IPAddress {
        metadata: ObjectMeta {
            name: Some(address.to_string()),
            labels: Some(BTreeMap::from(labels)),
            ..ObjectMeta::default()
        },
        spec: IPAddressSpec {
            parent_ref: ParentReference {
                group: None,
                resource: "services".to_owned(),
                namespace: service.namespace.clone(),
                name: service.name.clone().unwrap_or_default(),
            },
        },
    }
}

/// Whether the engine has made a record.
pub(super) fn is_managed(record: &IPAddress) -> bool {
    let labels = record.metadata.labels.as_ref();
    labels.and_then(|labels| labels.get(MANAGED_BY.0)).is_some_and(|by| by == MANAGED_BY.1)
}

/// Puts the record of an address back that was removed while a Service holds the address.
pub(crate) fn restore_record(
    call: &ApiCall<'_>,
    removed: &str,
) -> Result<Vec<PendingWrite>, ApiError> {
    let is_record = call.entry.group == GROUP && call.entry.kind == "IPAddress";
    let (Some(entry), Ok(address)) = (services(call.api), removed.parse::<IpAddr>()) else {
        return Ok(Vec::new());
    };
    if !is_record || !call.api.service_addresses.current(call.api)?.0.book.is_held(address) {
        return Ok(Vec::new());
    }
    let (stored, _) = call.api.store.newest_below(&keys::collection(entry, ""));
    for stored in stored {
        let Some(service) = call.api.read_as::<Service>(entry, &stored)? else { continue };
        if !ServiceHoldings::of_service(&service).addresses.contains(&address) {
            continue;
        }
        if let Some(ObjectChange::Put { key, expect, object }) =
            to_make(call.api, &service.metadata, address, call.request.now)
        {
            return Ok(vec![put(call.api, &key, expect, object)?]);
        }
    }
    Ok(Vec::new())
}

/// Refuses to delete the range of the engine.
pub(crate) fn check_removal(entry: &KindEntry, name: &str) -> Result<(), ApiError> {
    if entry.group == GROUP && entry.kind == "ServiceCIDR" && name == DEFAULT_RANGE {
        let why = "it is the range that this engine chooses cluster IPs from";
        return Err(ApiError::forbidden(entry, name, why));
    }
    Ok(())
}

/// Makes the ServiceCIDR of the engine, or brings it to the ranges that it has now.
pub(super) fn publish_ranges(
    api: &ApiShared,
    ranges: &ServiceRanges,
    now: Tick,
) -> Result<Option<PendingWrite>, StoreError> {
    let Some(entry) = api.registry.find(GROUP, "v1", "servicecidrs") else { return Ok(None) };
    let key = keys::object(entry, "", DEFAULT_RANGE);
    let mut wanted = range_object(ranges, now);
    let Some(stored) = api.store.newest(&key) else {
        object_meta::prepare_new(&mut wanted.metadata, api.new_uid(), now);
        return put(api, &key, WritePrecondition::Absent, Box::new(wanted)).map(Some);
    };
    let Ok(Some(found)) = api.read_as::<ServiceCIDR>(entry, &stored) else { return Ok(None) };
    if found.spec == wanted.spec {
        return Ok(None);
    }
    wanted.metadata = found.metadata.clone();
    put(api, &key, WritePrecondition::Revision(stored.revision), Box::new(wanted)).map(Some)
}

fn range_object(ranges: &ServiceRanges, now: Tick) -> ServiceCIDR {
    let ready = Condition {
        type_: READY.to_owned(),
        status: "True".to_owned(),
        reason: String::new(),
        message: "Kubernetes Service CIDR is ready".to_owned(),
        last_transition_time: now.to_time(),
        observed_generation: None,
    };
    ServiceCIDR {
        metadata: ObjectMeta {
            name: Some(DEFAULT_RANGE.to_owned()),
            finalizers: Some(vec![FINALIZER.to_owned()]),
            ..ObjectMeta::default()
        },
        spec: Some(ServiceCIDRSpec {
            cidrs: Some(ranges.all().map(|range| range.to_string()).collect()),
        }),
        status: Some(ServiceCIDRStatus { conditions: Some(vec![ready]) }),
    }
}
