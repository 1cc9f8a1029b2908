//! A pod whose containers are checked, with what each of them refers to found once for all of them.

use k8s_openapi::api::core::v1::{PodSpec, Volume};

use super::SpecHolder;
use crate::validation::{ListKeys, items};

/// The pod.
pub(super) struct CheckedPod<'a> {
    /// All of its spec.
    pub(super) spec: &'a PodSpec,
    /// What holds the spec.
    pub(super) holder: SpecHolder,
    /// The names of its resource claims; none is empty.
    pub(super) claims: ListKeys<&'a str>,
    volumes: ListKeys<&'a str>,
}

impl<'a> CheckedPod<'a> {
    /// The pod with this spec, and with these volumes that can be mounted.
    pub(super) fn new(spec: &'a PodSpec, volumes: ListKeys<&'a str>, holder: SpecHolder) -> Self {
        let claims = items(spec.resource_claims.as_ref()).iter().map(|claim| claim.name.as_str());
        Self { spec, holder, claims: claims.filter(|name| !name.is_empty()).collect(), volumes }
    }

    /// The volume of this name.
    pub(super) fn volume(&self, name: &str) -> Option<&'a Volume> {
        let place = self.volumes.place(name)?;
        items(self.spec.volumes.as_ref()).get(place)
    }
}
