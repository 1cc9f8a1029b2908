//! The addresses of Services: cluster IPs and ports of the nodes, chosen in the write that asks for
//! them and free again with the write that gives them up.
//!
//! ```text
//!  create, update ── ServiceWrite::begin ── complete ── (validation) ── queue ──┐
//!  delete ───────────────────────────────── remove ─────────────────────────────┤
//!                                                                               v
//!        AddressBook: what is held          Service and its IPAddresses, in one step
//! ```
//!
//! Invariants. One write of a Service at a time holds the book, from its choice until it is queued.
//! The book is built from the stored Services before the first write, and again after each commit
//! that failed. The store refuses a write that was decided before such a commit. So no two Services
//! get the same address, and a write that fails gives back what it took (docs/adr/0056).

mod api_service;
mod book;
mod bootstrap;
mod choice;
mod families;
mod further_ranges;
mod holders;
mod records;
mod service_write;

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use k8s_openapi::api::core::v1::Service;
use rekindle_kinds::service_range::ServiceRanges;
use rekindle_store::{StoreError, WriteEpoch};

use crate::keys;
use crate::shared::ApiShared;
use crate::stored::decode_stored;
pub(crate) use api_service::{publish, restore};
use book::AddressBook;
pub(crate) use bootstrap::bootstrap;
pub(crate) use further_ranges::settle_written;
use holders::ServiceHoldings;
pub(crate) use records::{check_removal, restore_record};
use rekindle_kinds::registry::KindEntry;
pub(crate) use service_write::{ServiceWrite, is_service, remove};

/// The addresses of the Services of one API.
#[derive(Default)]
pub(crate) struct ServiceAddresses {
    book: Mutex<BookOfEpoch>,
    /// Where pods reach this API.
    endpoint: OnceLock<SocketAddr>,
}

/// A book, and how long it holds.
#[derive(Default)]
struct BookOfEpoch {
    book: AddressBook,
    /// None before it was built.
    epoch: Option<WriteEpoch>,
}

impl ServiceAddresses {
    /// From now on addresses are of these ranges.
    pub(crate) fn configure(&self, ranges: ServiceRanges) {
        let mut book = self.lock();
        *book = BookOfEpoch { book: AddressBook::new(ranges), epoch: None };
    }

    fn ranges(&self) -> ServiceRanges {
        self.lock().book.ranges
    }

    fn lock(&self) -> MutexGuard<'_, BookOfEpoch> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The book as the newest state of the store has it, and the epoch in which that holds.
    fn current(
        &self,
        api: &ApiShared,
    ) -> Result<(MutexGuard<'_, BookOfEpoch>, WriteEpoch), StoreError> {
        let mut held = self.lock();
        let epoch = api.store.epoch();
        if held.epoch == Some(epoch) {
            return Ok((held, epoch));
        }
        let (book, epoch) = rebuilt(api, held.book.ranges);
        *held = BookOfEpoch { book, epoch: Some(epoch) };
        Ok((held, epoch))
    }
}

/// A book of what the stored Services hold.
fn rebuilt(api: &ApiShared, ranges: ServiceRanges) -> (AddressBook, WriteEpoch) {
    let mut book = AddressBook::new(ranges);
    let Some(entry) = services(api) else { return (book, api.store.epoch()) };
    let (stored, epoch) = api.store.newest_below(&keys::collection(entry, ""));
    for stored in stored {
        // one that cannot be read is not served, and holds nothing
        let Ok(service) = decode_stored(entry, &stored) else { continue };
        if let Some(service) = service.as_any().downcast_ref::<Service>() {
            book.hold(&ServiceHoldings::of_service(service));
        }
    }
    (book, epoch)
}

fn services(api: &ApiShared) -> Option<&Arc<KindEntry>> {
    api.registry.find("", "v1", "services")
}
