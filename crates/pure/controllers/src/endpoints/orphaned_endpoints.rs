//! Endpoints that have lost their Service, whoever wrote them: they go, as upstream's controller
//! deletes what has the name of a deleted Service.
//!
//! Endpoints that a user writes before their Service have lost none, and stay. Objects alone do not
//! tell one from the other, so this is remembered. Endpoints from before the controllers began
//! count as orphaned: the Service may have gone in between (upstream's `checkLeftoverEndpoints`).
//! Locks of leader election never had a Service, and stay.

use std::collections::BTreeSet;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use rekindle_types::Tick;

use super::is_leader_lock;
use crate::{NamespacedName, ResourceKind, ViewObject};

/// The names of Endpoints that have lost their Service.
#[derive(Clone, Debug, Default)]
pub(crate) struct OrphanedEndpoints {
    /// When the first object was seen.
    begun: Option<Tick>,
    names: BTreeSet<NamespacedName>,
}

impl OrphanedEndpoints {
    /// An object came, changed or went. `has` answers whether an object of this kind and name is
    /// known.
    pub(crate) fn follow(
        &mut self,
        (before, after): (Option<&ViewObject>, Option<&ViewObject>),
        has: impl Fn(ResourceKind, &NamespacedName) -> bool,
        now: Tick,
    ) {
        let begun = *self.begun.get_or_insert(now);
        match (before, after) {
            (Some(ViewObject::Service(gone)), None) => {
                let name = NamespacedName::from_meta(&gone.metadata);
                if has(ResourceKind::Endpoints, &name) {
                    self.names.insert(name);
                }
            }
            (_, Some(ViewObject::Service(service))) => {
                self.names.remove(&NamespacedName::from_meta(&service.metadata));
            }
            (Some(ViewObject::Endpoints(gone)), None) => {
                self.names.remove(&NamespacedName::from_meta(&gone.metadata));
            }
            (before, Some(ViewObject::Endpoints(endpoints))) => {
                let meta = &endpoints.metadata;
                if before.is_some_and(|before| before.meta().uid == meta.uid) {
                    return;
                }
                let name = NamespacedName::from_meta(meta);
                let has_lost = is_from_before(meta, begun)
                    && !is_leader_lock(meta)
                    && !has(ResourceKind::Service, &name);
                match has_lost {
                    true => self.names.insert(name),
                    false => self.names.remove(&name),
                };
            }
            _ => {}
        }
    }

    /// Whether the Service of these Endpoints has gone, as far as is known.
    pub(super) fn contains(&self, name: &NamespacedName) -> bool {
        self.names.contains(name)
    }
}

/// Creation times are whole seconds.
fn is_from_before(meta: &ObjectMeta, begun: Tick) -> bool {
    let created = meta.creation_timestamp.as_ref().map(Tick::from);
    created.is_some_and(|created| created < begun.whole_second())
}
