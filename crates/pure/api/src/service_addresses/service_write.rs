//! One write of a Service: its addresses are chosen, and queued with it.

use std::net::IpAddr;
use std::sync::{Arc, MutexGuard};

use k8s_openapi::api::core::v1::Service;
use rekindle_kinds::registry::{AnyObject, KindEntry};
use rekindle_store::{PendingWrite, StoreError, StoredObject, WriteEpoch, WritePrecondition};
use rekindle_types::Tick;

use super::choice::{AddressChoice, ChoiceError};
use super::holders::ServiceHoldings;
use super::{BookOfEpoch, api_service, further_ranges, records, services};
use crate::call::{ApiCall, ObjectChange, ObjectPart, put_together};
use crate::object_meta;
use crate::resource_quotas::QuotaWrite;
use crate::shared::ApiShared;
use crate::status::ApiError;

/// A write of a Service that is on its way to the store's queue. It holds the book: others wait.
/// Dropped before it is queued, it changes nothing.
pub(crate) struct ServiceWrite<'a> {
    api: &'a ApiShared,
    entry: &'a KindEntry,
    held: MutexGuard<'a, BookOfEpoch>,
    epoch: WriteEpoch,
    before: ServiceHoldings,
    after: ServiceHoldings,
}

impl<'a> ServiceWrite<'a> {
    /// Begins a write; none when it is of another kind, or changes no address.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub(crate) fn begin(call: &ApiCall<'a>, part: ObjectPart) -> Result<Option<Self>, ApiError> {
        match part {
            ObjectPart::Main if is_service(call.entry) => {
                Self::of_api(call.api, call.entry).map(Some)
            }
            ObjectPart::Main
            | ObjectPart::Status
            | ObjectPart::Finalize
            | ObjectPart::Resize
            | ObjectPart::EphemeralContainers
            | ObjectPart::Approval => Ok(None),
        }
    }

    /// Begins a write of the API's own.
    pub(super) fn of_api(api: &'a ApiShared, entry: &'a KindEntry) -> Result<Self, ApiError> {
        let (held, epoch) = api.service_addresses.current(api)?;
        let (before, after) = Default::default();
        Ok(Self { api, entry, held, epoch, before, after })
    }

    /// Gives a Service the addresses that it lacks. `old` is what an update changes.
    ///
    /// # Errors
    /// 422 when an address that the user wants cannot be had, 500 when the range is full.
    pub(crate) fn complete(
        &mut self,
        seed: &dyn Fn() -> u128,
        object: &mut dyn AnyObject,
        old: Option<&dyn AnyObject>,
    ) -> Result<(), ApiError> {
        let name = object_meta::name(object).to_owned();
        let Some(service) = object.as_any_mut().downcast_mut::<Service>() else { return Ok(()) };
        let old = old.and_then(|old| old.as_any().downcast_ref::<Service>());
        self.before = old.map(ServiceHoldings::of_service).unwrap_or_default();
        let completed = self.choose(service, old, seed);
        completed.map_err(|error| match error {
            ChoiceError::Fields(errors) => ApiError::invalid(self.entry, &name, &errors),
            ChoiceError::Internal(why) => ApiError::internal(why),
        })?;
        self.after = ServiceHoldings::of_service(service);
        Ok(())
    }

    /// Gives a stored Service what it lacks, of what a new one gets.
    pub(super) fn complete_stored(&mut self, service: &mut Service) -> Result<(), ChoiceError> {
        self.before = ServiceHoldings::of_service(service);
        let api = self.api;
        self.choose(service, None, &|| api.random_number())?;
        self.after = ServiceHoldings::of_service(service);
        Ok(())
    }

    fn choose(
        &self,
        service: &mut Service,
        old: Option<&Service>,
        seed: &dyn Fn() -> u128,
    ) -> Result<(), ChoiceError> {
        let (api, book) = (self.api, &self.held.book);
        let is_foreign = |address: IpAddr| !book.is_held(address) && records::has(api, address);
        let mut choice = AddressChoice {
            book,
            further: &further_ranges::usable(api),
            held: self.before.clone(),
            may_have_reserved: api_service::is_api_service(&service.metadata),
            is_foreign: &is_foreign,
            seed,
        };
        let spec = service.spec.get_or_insert_default();
        match old.and_then(|old| old.spec.as_ref()) {
            Some(old) => choice.complete_change(spec, old),
            None => choice.complete_new(spec),
        }
    }

    /// Queues the Service, with the records of its addresses as they change and with what it
    /// changes of quotas. From then on the addresses count.
    ///
    /// # Errors
    /// Those of the store: nothing is written then, and nothing is held.
    pub(crate) fn queue(
        mut self,
        key: &str,
        expect: WritePrecondition,
        object: Box<dyn AnyObject>,
        (now, mut quotas): (Tick, Option<QuotaWrite<'_>>),
    ) -> Result<Vec<PendingWrite>, StoreError> {
        let meta = object.meta().clone();
        let mut changes = vec![ObjectChange::Put { key: key.to_owned(), expect, object }];
        for address in self.after.addresses.difference(&self.before.addresses) {
            changes.extend(records::to_make(self.api, &meta, *address, now));
        }
        changes.extend(quotas.as_mut().map(QuotaWrite::take_changes).unwrap_or_default());
        self.queue_with(changes, now)
    }

    /// Queues these changes, with the removal of records of addresses that are given up.
    fn queue_with(
        &mut self,
        mut changes: Vec<ObjectChange>,
        now: Tick,
    ) -> Result<Vec<PendingWrite>, StoreError> {
        let Self { api, held, before, after, epoch, .. } = self;
        held.book.release(before);
        let free = before.addresses.difference(&after.addresses).copied();
        let free: Vec<IpAddr> = free.filter(|address| !held.book.is_held(*address)).collect();
        changes.extend(free.iter().filter_map(|address| records::to_remove(api, *address)));
        let mut queued = put_together(api, changes, *epoch);
        held.book.hold(if queued.is_ok() { after } else { before });
        if let Ok(pending) = &mut queued
            && !free.is_empty()
        {
            // a store that takes no write now has them looked at again by its next start
            pending
                .extend(further_ranges::settle(api, (&held.book, *epoch), now).unwrap_or_default());
        }
        queued
    }
}

/// Queues the removal of a stored Service, with that of the records of its addresses, which are
/// free from then on, and with what `quotas` says of its quotas. These are locked after the book,
/// as in every write of a Service.
pub(crate) fn remove<'q>(
    api: &ApiShared,
    object: &Arc<StoredObject>,
    (now, quotas): (Tick, impl FnOnce() -> Option<QuotaWrite<'q>>),
) -> Result<Vec<PendingWrite>, StoreError> {
    let mut changes = vec![ObjectChange::Remove(Arc::clone(object))];
    let Some(entry) = services(api) else {
        return put_together(api, changes, api.store.epoch());
    };
    let (held, epoch) = api.service_addresses.current(api)?;
    let mut quotas = quotas();
    changes.extend(quotas.as_mut().map(QuotaWrite::take_changes).unwrap_or_default());
    let service = api.read_as::<Service>(entry, object).ok().flatten();
    let before = service.as_deref().map(ServiceHoldings::of_service).unwrap_or_default();
    let after = ServiceHoldings::default();
    ServiceWrite { api, entry, held, epoch, before, after }.queue_with(changes, now)
}

/// Whether this is the kind.
pub(crate) fn is_service(entry: &KindEntry) -> bool {
    entry.group.is_empty() && entry.kind == "Service"
}
