//! The ConfigMaps, Secrets and ClusterTrustBundles that pods refer to: which ones, and their
//! contents, watched only while a pod needs them.

mod cache;
mod references;
#[cfg(test)]
mod tests;

pub(crate) use cache::{ObjectCache, ObjectUnavailable, PodObjects};
#[cfg(test)]
pub(crate) use references::ReferencedObject;
pub(crate) use references::{
    FetchedObjects, ObjectRef, container_references, pod_references, pull_secret_references,
};
