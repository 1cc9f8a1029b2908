//! Ranges that users add: ServiceCIDRs beside that of the engine. Source of behaviour: KEP-1880 and
//! upstream's controller, `pkg/controller/servicecidrs`.
//!
//! ```text
//!  created --> Ready, once the node leads there --> cluster IPs come from it
//!                                                       | deleted
//!                                                       v
//!  removed <-- each address of it is free, or of another one <-- Ready False: Terminating
//! ```
//! What decides and what is counted are in one step: a range that is being deleted gives no address
//! from the moment of its mark on, and goes with the write that frees its last one.

use std::net::IpAddr;
use std::sync::Arc;

use k8s_openapi::api::networking::v1::{ServiceCIDR, ServiceCIDRStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use rekindle_kinds::registry::KindEntry;
use rekindle_kinds::service_cidr::{DEFAULT_RANGE, FINALIZER, READY};
use rekindle_kinds::service_range::ServiceRange;
use rekindle_store::{PendingWrite, StoreError, StoredObject, WriteEpoch, WritePrecondition};
use rekindle_types::Tick;

use super::book::AddressBook;
use super::records::GROUP;
use crate::call::{ApiCall, ObjectChange, put_together};
use crate::keys;
use crate::object_meta::is_being_deleted;
use crate::shared::ApiShared;
use crate::status::ApiError;

/// The reason of upstream for a range that cannot go yet, and its message.
const TERMINATING: &str = "Terminating";
const STILL_HELD: &str = "There are still IPAddresses referencing the ServiceCIDR, please remove them or create a new ServiceCIDR";

/// A stored ServiceCIDR of a user.
struct FurtherRange {
    stored: Arc<StoredObject>,
    object: Arc<ServiceCIDR>,
    ranges: Vec<ServiceRange>,
}

/// The ranges beside the engine's that addresses come from now, in the order of their names.
pub(super) fn usable(api: &ApiShared) -> Vec<ServiceRange> {
    let Some(entry) = service_cidrs(api) else { return Vec::new() };
    let further = further(api, entry).into_iter().filter(FurtherRange::is_usable);
    further.flat_map(|further| further.ranges).collect()
}

/// Removes ranges that are being deleted, as far as no address would lose its last range. Of the
/// others the condition says why they stay.
pub(super) fn settle(
    api: &ApiShared,
    (book, epoch): (&AddressBook, WriteEpoch),
    now: Tick,
) -> Result<Vec<PendingWrite>, StoreError> {
    let Some(entry) = service_cidrs(api) else { return Ok(Vec::new()) };
    let (going, staying): (Vec<_>, Vec<_>) = further(api, entry)
        .into_iter()
        .partition(|further| is_being_deleted(&further.object.metadata));
    let staying = staying.iter().filter(|further| further.is_usable());
    let others: Vec<ServiceRange> =
        book.ranges.all().chain(staying.flat_map(|further| further.ranges.clone())).collect();
    let is_covered = |address: IpAddr| others.iter().any(|range| range.contains(address));
    let mut pending = Vec::new();
    for further in going {
        let is_own = |address: IpAddr| further.ranges.iter().any(|range| range.contains(address));
        let is_needed =
            book.held_addresses().any(|address| is_own(address) && !is_covered(address));
        let change = match is_needed {
            true => further.kept(now),
            false => further.let_go(),
        };
        match put_together(api, change.into_iter().collect(), epoch) {
            Ok(more) => pending.extend(more),
            // the write in between looks at the range itself
            Err(StoreError::Conflict { .. } | StoreError::NotFound { .. }) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(pending)
}

/// The same after a write of a ServiceCIDR.
pub(crate) fn settle_written(
    call: &ApiCall<'_>,
    _namespace: &str,
    _name: &str,
) -> Result<Vec<PendingWrite>, ApiError> {
    if call.entry.group != GROUP || call.entry.kind != "ServiceCIDR" {
        return Ok(Vec::new());
    }
    let (held, epoch) = call.api.service_addresses.current(call.api)?;
    Ok(settle(call.api, (&held.book, epoch), call.request.now)?)
}

fn service_cidrs(api: &ApiShared) -> Option<&Arc<KindEntry>> {
    api.registry.find(GROUP, "v1", "servicecidrs")
}

fn further(api: &ApiShared, entry: &KindEntry) -> Vec<FurtherRange> {
    let (all, _) = api.store.newest_below(&keys::collection(entry, ""));
    let read = all.into_iter().filter_map(|stored| {
        // one that cannot be read is not served
        let object = api.read_as::<ServiceCIDR>(entry, &stored).ok().flatten()?;
        let cidrs = object.spec.as_ref().and_then(|spec| spec.cidrs.as_ref());
        // validation lets only ranges in
        let ranges = cidrs.into_iter().flatten().filter_map(|cidr| cidr.parse().ok()).collect();
        Some(FurtherRange { stored, object, ranges })
    });
    read.filter(|further| further.object.metadata.name.as_deref() != Some(DEFAULT_RANGE)).collect()
}

impl FurtherRange {
    fn is_usable(&self) -> bool {
        let is_ready = self.ready().is_some_and(|condition| condition.status == "True");
        is_ready && !is_being_deleted(&self.object.metadata)
    }

    fn ready(&self) -> Option<&Condition> {
        let status = self.object.status.as_ref();
        let mut conditions = status.and_then(|status| status.conditions.as_ref())?.iter();
        conditions.find(|condition| condition.type_ == READY)
    }

    /// The write that says that the range stays for a while; none if it is said already.
    fn kept(&self, now: Tick) -> Option<ObjectChange> {
        let is_said = self.ready().is_some_and(|condition| {
            condition.status == "False" && condition.reason == TERMINATING
        });
        if is_said || !self.has_finalizer() {
            return None;
        }
        let condition = Condition {
            type_: READY.to_owned(),
            status: "False".to_owned(),
            reason: TERMINATING.to_owned(),
            message: STILL_HELD.to_owned(),
            last_transition_time: now.to_time(),
            observed_generation: None,
        };
        let mut object = ServiceCIDR::clone(&self.object);
        let conditions = object
            .status
            .get_or_insert_with(ServiceCIDRStatus::default)
            .conditions
            .get_or_insert_default();
        conditions.retain(|condition| condition.type_ != READY);
        conditions.push(condition);
        Some(self.put(object))
    }

    /// The write that takes the engine's finalizer away, and with the last one the range.
    fn let_go(&self) -> Option<ObjectChange> {
        if !self.has_finalizer() {
            return None;
        }
        let mut object = ServiceCIDR::clone(&self.object);
        let finalizers = object.metadata.finalizers.get_or_insert_default();
        finalizers.retain(|finalizer| finalizer != FINALIZER);
        Some(match finalizers.is_empty() {
            true => ObjectChange::Remove(Arc::clone(&self.stored)),
            false => self.put(object),
        })
    }

    fn has_finalizer(&self) -> bool {
        let finalizers = self.object.metadata.finalizers.as_deref().unwrap_or_default();
        finalizers.iter().any(|finalizer| finalizer == FINALIZER)
    }

    fn put(&self, object: ServiceCIDR) -> ObjectChange {
        let (key, expect) = (
            self.stored.key.as_str().to_owned(),
            WritePrecondition::Revision(self.stored.revision),
        );
        ObjectChange::Put { key, expect, object: Box::new(object) }
    }
}
