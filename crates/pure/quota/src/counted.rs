//! What is counted: a resource, and an object of it as far as a quota looks into it.

use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Service};

/// A resource, as a quota names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct CountedResource<'a> {
    /// The API group; empty for the core group.
    pub group: &'a str,
    /// `pods`.
    pub plural: &'a str,
}

impl<'a> CountedResource<'a> {
    /// Pods.
    pub const PODS: CountedResource<'static> = CountedResource::of_core("pods");
    /// Services.
    pub const SERVICES: CountedResource<'static> = CountedResource::of_core("services");
    /// PersistentVolumeClaims.
    pub const CLAIMS: CountedResource<'static> = CountedResource::of_core("persistentvolumeclaims");

    /// A resource of the core group.
    pub const fn of_core(plural: &'a str) -> Self {
        Self { group: "", plural }
    }

    /// Whether no quota counts it: upstream ignores Events.
    pub fn is_ignored(self) -> bool {
        self.plural == "events" && matches!(self.group, "" | "events.k8s.io")
    }

    /// Whether a quota looks into its objects. All others are counted by their number alone.
    pub fn is_looked_into(self) -> bool {
        [Self::PODS, Self::SERVICES, Self::CLAIMS].contains(&self)
    }
}

/// An object, as far as a quota looks into it. `P` is a pod, however it is held.
#[derive(Debug)]
pub enum CountedObject<'a, P> {
    /// A pod.
    Pod(&'a P),
    /// A Service.
    Service(&'a Service),
    /// A claim.
    Claim(&'a PersistentVolumeClaim),
    /// An object of any other kind.
    Other,
}

// not derived: whether a pod can be copied does not matter
impl<P> Copy for CountedObject<'_, P> {}

impl<P> Clone for CountedObject<'_, P> {
    fn clone(&self) -> Self {
        *self
    }
}
