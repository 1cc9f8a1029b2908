//! Limits of local storage, which nobody enforces but eviction: emptyDir's `sizeLimit`, and
//! `ephemeral-storage` of containers and of their pod. Source: Kubernetes documentation, "Local
//! ephemeral storage"; kubelet `localStorageEviction`.

use k8s_openapi::api::core::v1::{Container, Pod, PodSpec};
use rekindle_types::Quantity;
use rekindle_types::pods::AnyContainer;

use super::figures::EvictionFigures;
use super::messages;
use super::ranking::amount;
use super::signal::StarvedResource;

/// Whether anything of the pod is limited, so that what it has written must be looked at.
pub(crate) fn is_limited(pod: &Pod) -> bool {
    let Some(spec) = &pod.spec else { return false };
    let mut containers = spec.init_containers.iter().flatten().chain(&spec.containers);
    containers.any(|container| limit(container).is_some())
        || spec.resources.as_ref().is_some_and(|all| {
            amount(all.limits.as_ref(), StarvedResource::EphemeralStorage).is_some()
        })
        || empty_dirs(spec).next().is_some()
}

/// A limit of local storage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StorageLimitScope {
    EmptyDir,
    Pod,
    Container,
}

impl StorageLimitScope {
    /// As an eviction for it is counted (`signalEmptyDirFsLimit` and its like in
    /// `pkg/kubelet/eviction/eviction_manager.go`).
    pub(crate) const fn signal(self) -> &'static str {
        match self {
            StorageLimitScope::EmptyDir => "emptydirfs.limit",
            StorageLimitScope::Pod => "ephemeralpodfs.limit",
            StorageLimitScope::Container => "ephemeralcontainerfs.limit",
        }
    }
}

/// What the pod uses too much of, and that in words.
pub(crate) fn over_limit(pod: &EvictionFigures) -> Option<(StorageLimitScope, String)> {
    let spec = pod.pod.spec.as_ref()?;
    let of_volumes = || {
        let over = |(name, limit, text): &(&str, u64, &str)| {
            let used = pod.volumes.get(*name).copied().unwrap_or(0);
            (used > *limit)
                .then(|| (StorageLimitScope::EmptyDir, messages::empty_dir_over_limit(name, text)))
        };
        empty_dirs(spec).find_map(|dir| over(&dir))
    };
    let of_pod = || {
        let limit = pod_limit(spec)?;
        let used = pod.disk?.bytes;
        (used > limit).then(|| (StorageLimitScope::Pod, messages::pod_over_limit(limit)))
    };
    let of_container = || Some((StorageLimitScope::Container, container_over_limit(pod, spec)?));
    of_volumes().or_else(of_pod).or_else(of_container)
}

fn container_over_limit(pod: &EvictionFigures, spec: &PodSpec) -> Option<String> {
    pod.containers.iter().find_map(|found| {
        let mut containers = spec.init_containers.iter().flatten().chain(&spec.containers);
        let container = containers.find(|container| container.name == found.name)?;
        let limit = limit(container)?;
        let text = || {
            let limits = container.resources.as_ref().and_then(|all| all.limits.as_ref());
            let text =
                limits.and_then(|limits| limits.get(StarvedResource::EphemeralStorage.name()));
            text.map(|text| text.0.clone()).unwrap_or_default()
        };
        (found.disk? > limit).then(|| messages::container_over_limit(&found.name, &text()))
    })
}

/// Volumes on disk with a size limit: name, bytes, and the limit as it was written.
fn empty_dirs(spec: &PodSpec) -> impl Iterator<Item = (&str, u64, &str)> {
    spec.volumes.iter().flatten().filter_map(|volume| {
        let dir = volume.empty_dir.as_ref()?;
        let on_disk = dir.medium.as_deref().unwrap_or_default().is_empty();
        let text = dir.size_limit.as_ref().filter(|_| on_disk)?.0.as_str();
        let limit: Quantity = text.parse().ok()?;
        let limit = u64::try_from(limit.units()).ok().filter(|limit| *limit > 0)?;
        Some((volume.name.as_str(), limit, text))
    })
}

fn limit(container: &Container) -> Option<u64> {
    let limits = container.resources.as_ref().and_then(|all| all.limits.as_ref());
    amount(limits, StarvedResource::EphemeralStorage)
}

/// The limits of a pod's containers together; one without a limit adds nothing. `None` when none
/// has one.
fn pod_limit(spec: &PodSpec) -> Option<u64> {
    let of_pod = spec.resources.as_ref().map(|all| all.limits.as_ref());
    if let Some(limit) = of_pod.and_then(|limits| amount(limits, StarvedResource::EphemeralStorage))
    {
        return Some(limit);
    }
    let mut sidecars: Option<u64> = None;
    let mut peak: Option<u64> = None;
    let add = |sum: Option<u64>, own: Option<u64>| match (sum, own) {
        (None, None) => None,
        (sum, own) => Some(sum.unwrap_or(0).saturating_add(own.unwrap_or(0))),
    };
    for container in spec.init_containers.iter().flatten() {
        let with_sidecars = add(sidecars, limit(container));
        if container.is_sidecar() {
            sidecars = with_sidecars;
        }
        peak = peak.max(with_sidecars);
    }
    let running = spec.containers.iter().map(limit).fold(sidecars, add);
    running.max(peak)
}
