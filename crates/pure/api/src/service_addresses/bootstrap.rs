//! What is made right at start: Services of an older version get what they lack, and each held
//! address has its record.

use std::collections::BTreeMap;
use std::net::IpAddr;

use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::networking::v1::IPAddress;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use rekindle_kinds::registry::KindEntry;
use rekindle_store::{PendingWrite, StoreError, StoredObject, WritePrecondition};
use rekindle_types::Tick;

use super::holders::ServiceHoldings;
use super::service_write::ServiceWrite;
use super::{further_ranges, records, services};
use crate::call::{ObjectChange, put_together};
use crate::keys;
use crate::resource_quotas::QuotaWrite;
use crate::shared::ApiShared;
use crate::stored::decode_stored;

/// Builds the book, makes the ServiceCIDR, and puts Services, records and further ranges right.
pub(crate) fn bootstrap(api: &ApiShared, now: Tick) -> Result<Vec<PendingWrite>, StoreError> {
    let mut pending = Vec::new();
    let Some(entry) = services(api) else { return Ok(pending) };
    pending.extend(records::publish_ranges(api, &api.service_addresses.ranges(), now)?);
    for stored in api.store.newest_below(&keys::collection(entry, "")).0 {
        pending.extend(complete_older(api, (entry, &stored), now)?);
    }
    pending.extend(put_records_right(api, entry, now)?);
    let (held, epoch) = api.service_addresses.current(api)?;
    pending.extend(further_ranges::settle(api, (&held.book, epoch), now)?);
    Ok(pending)
}

/// Gives a Service what a version without addresses left out.
fn complete_older(
    api: &ApiShared,
    (entry, stored): (&KindEntry, &StoredObject),
    now: Tick,
) -> Result<Vec<PendingWrite>, StoreError> {
    let Ok(mut object) = decode_stored(entry, stored) else { return Ok(Vec::new()) };
    let before = object.boxed_clone();
    object.set_defaults();
    let Ok(mut write) = ServiceWrite::of_api(api, entry) else { return Ok(Vec::new()) };
    let Some(service) = object.as_any_mut().downcast_mut::<Service>() else {
        return Ok(Vec::new());
    };
    // One that cannot have what it asks for stays as it is: its next update says what is wrong.
    if write.complete_stored(service).is_err() || object.same_as(before.as_ref()) {
        return Ok(Vec::new());
    }
    let expect = WritePrecondition::Revision(stored.revision);
    let quotas =
        QuotaWrite::of_own(api, entry, (Some(before.as_ref()), Some(object.as_ref())), now);
    write.queue(stored.key.as_str(), expect, object, (now, quotas))
}

/// Makes the records that are missing, and removes those of addresses that no Service holds.
fn put_records_right(
    api: &ApiShared,
    entry: &KindEntry,
    now: Tick,
) -> Result<Vec<PendingWrite>, StoreError> {
    let Some(of_addresses) = records::addresses(api) else { return Ok(Vec::new()) };
    let (_held, epoch) = api.service_addresses.current(api)?;
    let mut owners: BTreeMap<IpAddr, ObjectMeta> = BTreeMap::new();
    for stored in api.store.newest_below(&keys::collection(entry, "")).0 {
        let Ok(Some(service)) = api.read_as::<Service>(entry, &stored) else { continue };
        for address in ServiceHoldings::of_service(&service).addresses {
            owners.entry(address).or_insert_with(|| service.metadata.clone());
        }
    }
    let mut changes = Vec::new();
    for stored in api.store.newest_below(&keys::collection(of_addresses, "")).0 {
        let found = api.read_as::<IPAddress>(of_addresses, &stored);
        let Ok(Some(record)) = found else { continue };
        let address = record.metadata.name.as_deref().and_then(|name| name.parse().ok());
        let owner = address.and_then(|address: IpAddr| owners.remove(&address));
        if owner.is_none() && records::is_managed(&record) {
            changes.push(ObjectChange::Remove(stored));
        }
    }
    let missing = owners.iter();
    changes.extend(
        missing.filter_map(|(address, service)| records::to_make(api, service, *address, now)),
    );
    put_together(api, changes, epoch)
}
