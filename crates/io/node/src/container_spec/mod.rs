//! From a pod's spec to what the runtime carries out: sandboxes, containers, their limits, rights
//! and mounts.

mod build;
mod error;
mod hostname;
mod mounts;
mod namespaces;
mod oom;
pub(crate) mod resources;
mod security;
#[cfg(test)]
mod tests;

pub(crate) use build::{ContainerInputs, container_spec, find_container, sandbox_spec};
pub(crate) use error::SpecError;
pub(crate) use hostname::{Hostname, pod_hostname, uts_hostname};
pub(crate) use mounts::{MountPaths, VolumePath};
pub(crate) use namespaces::pod_namespaces;
pub(crate) use security::{common_user, fs_group};
