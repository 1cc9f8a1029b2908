//! What all objects of a namespace use of what a quota bounds.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod, Service};
use rekindle_kinds::registry::{AnyObject, KindEntry, ResourceScope};
use rekindle_quota::{
    CountedObject, CountedResource, QuotaAmount, QuotaTerms, QuotaUsage, counts_until,
};
use rekindle_store::{ObjectKey, StoredObject};
use rekindle_types::{Quantity, Tick};

use crate::keys;
use crate::shared::ApiShared;
use crate::status::ApiError;
use crate::stored::decode_stored;

/// A kind, as a quota names it.
pub(super) fn resource_of(entry: &KindEntry) -> CountedResource<'_> {
    let home = entry.home();
    CountedResource { group: &home.group, plural: &home.plural }
}

/// An object, as far as a quota looks into it.
pub(super) fn counted(object: &dyn AnyObject) -> CountedObject<'_, Pod> {
    let object = object.as_any();
    if let Some(pod) = object.downcast_ref::<Pod>() {
        CountedObject::Pod(pod)
    } else if let Some(service) = object.downcast_ref::<Service>() {
        CountedObject::Service(service)
    } else if let Some(claim) = object.downcast_ref::<PersistentVolumeClaim>() {
        CountedObject::Claim(claim)
    } else {
        CountedObject::Other
    }
}

/// The names of a quota that are counted: those of kinds that are served.
pub(super) fn counted_names<'t>(
    api: &'t ApiShared,
    terms: &'t QuotaTerms,
) -> impl Iterator<Item = (&'t str, QuotaAmount<'t>)> {
    terms.amounts().filter(|(_, amount)| entry_of(api, amount.resource()).is_some())
}

/// The kind of a resource that lives in namespaces, built in or described by a definition.
fn entry_of(api: &ApiShared, resource: CountedResource<'_>) -> Option<Arc<KindEntry>> {
    let CountedResource { group, plural } = resource;
    let built_in = api.registry.find_resource(group, plural).cloned();
    let entry = built_in.or_else(|| api.custom.served_as(api, group, plural));
    entry.filter(|entry| entry.scope == ResourceScope::Namespaced)
}

/// Nothing used of each amount that is counted.
pub(super) fn nothing_used(api: &ApiShared, terms: &QuotaTerms) -> QuotaUsage {
    let mut used = QuotaUsage::default();
    for (name, _) in counted_names(api, terms) {
        used.set(name, Quantity::default());
    }
    used
}

/// What objects use, as it was found. The objects of a large namespace are read before its lock is
/// taken. Under the lock, only those are read that have changed since.
#[derive(Default)]
pub(super) struct ReadUsage(BTreeMap<ObjectKey, ReadObject>);

/// What one object uses.
struct ReadObject {
    stored: Arc<StoredObject>,
    usage: QuotaUsage,
    /// After this time it uses something else, without a write.
    until: Option<Tick>,
}

impl ReadObject {
    /// Whether it uses the same now.
    fn holds(&self, stored: &Arc<StoredObject>, now: Tick) -> bool {
        Arc::ptr_eq(&self.stored, stored) && self.until.is_none_or(|until| now <= until)
    }
}

impl ReadUsage {
    /// Of the objects of a namespace as they are now.
    ///
    /// # Errors
    /// When an object cannot be read.
    pub(super) fn read(
        api: &ApiShared,
        namespace: &str,
        terms: &QuotaTerms,
        now: Tick,
    ) -> Result<Self, ApiError> {
        let mut read = Self::default();
        read.recount(api, namespace, terms, now)?;
        Ok(read)
    }

    /// What the newest objects of a namespace use. Objects are read that a quota looks into; of
    /// others their number is enough. `terms` are the same each time, and `now` is never earlier.
    ///
    /// # Errors
    /// When an object cannot be read.
    pub(super) fn recount(
        &mut self,
        api: &ApiShared,
        namespace: &str,
        terms: &QuotaTerms,
        now: Tick,
    ) -> Result<QuotaUsage, ApiError> {
        let mut used = nothing_used(api, terms);
        let resources: BTreeSet<CountedResource<'_>> =
            counted_names(api, terms).map(|(_, amount)| amount.resource()).collect();
        for resource in resources {
            let Some(entry) = entry_of(api, resource) else { continue };
            let (stored, _) = api.store.newest_below(&keys::collection(&entry, namespace));
            if !resource.is_looked_into() {
                let one = terms.usage_of::<Pod>(resource, CountedObject::Other, now);
                stored.iter().for_each(|_| used.add(&one));
                continue;
            }
            for stored in stored {
                let known = self.0.get(&stored.key);
                if let Some(known) = known.filter(|known| known.holds(&stored, now)) {
                    used.add(&known.usage);
                    continue;
                }
                let object = read_once(api, &entry, &stored)?;
                let object = counted(object.as_ref());
                let usage = terms.usage_of(resource, object, now);
                used.add(&usage);
                let until = match object {
                    CountedObject::Pod(pod) => counts_until(pod).filter(|until| now <= *until),
                    CountedObject::Service(_) | CountedObject::Claim(_) | CountedObject::Other => {
                        None
                    }
                };
                self.0.insert(stored.key.clone(), ReadObject { stored, usage, until });
            }
        }
        Ok(used)
    }
}

/// An object that is read once. It is not remembered at the cost of what is in use.
fn read_once(
    api: &ApiShared,
    entry: &KindEntry,
    stored: &StoredObject,
) -> Result<Arc<dyn AnyObject>, ApiError> {
    match api.decoded.get(stored) {
        Some(known) => Ok(known),
        None => Ok(decode_stored(entry, stored)?.into()),
    }
}
