//! The environment of a container: what the pod's spec says, resolved to plain names and values, as
//! the kubelet does it.

mod build;
mod env_file;
mod expansion;
mod field_ref;
mod files;
mod resource_ref;
mod service_variables;
#[cfg(test)]
mod tests;

pub(crate) use build::{EnvInputs, build_environment};
pub(crate) use expansion::{expand, expand_command};
pub(crate) use field_ref::{FieldRefError, PodFacts, downward_field};
pub(crate) use files::EnvFiles;
pub(crate) use resource_ref::{Allocatable, ResourceError, resource_value};
pub(crate) use service_variables::{Variables, service_variables};
