//! Which ConfigMaps, Secrets and ClusterTrustBundles a pod refers to: what its node reads for it,
//! and what that node may read.

use std::collections::BTreeSet;
use std::fmt;

use k8s_openapi::api::core::v1::{ClusterTrustBundleProjection, Container, Pod, Volume};

use crate::ephemeral;

/// The kinds of object that a pod's environment and volumes may refer to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ObjectKind {
    /// A ConfigMap.
    ConfigMap,
    /// A Secret.
    Secret,
    /// A ClusterTrustBundle.
    TrustBundle,
    /// All ClusterTrustBundles of a signer.
    TrustBundlesOfSigner,
}

/// Names one object, or the objects of a signer.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectRef {
    /// Its kind.
    pub kind: ObjectKind,
    /// Its namespace; empty for ClusterTrustBundles.
    pub namespace: String,
    /// Its name, or that of the signer.
    pub name: String,
}

impl ObjectRef {
    /// A ConfigMap.
    pub fn config_map(namespace: &str, name: &str) -> Self {
        Self { kind: ObjectKind::ConfigMap, namespace: namespace.to_owned(), name: name.to_owned() }
    }

    /// A Secret.
    pub fn secret(namespace: &str, name: &str) -> Self {
        Self { kind: ObjectKind::Secret, namespace: namespace.to_owned(), name: name.to_owned() }
    }

    /// The ClusterTrustBundles that a projected source may get: that of a name, or a signer's.
    pub fn trust_bundles(source: &ClusterTrustBundleProjection) -> Self {
        let (kind, name) = match (&source.name, &source.signer_name) {
            (Some(name), _) => (ObjectKind::TrustBundle, name.clone()),
            (None, signer) => {
                (ObjectKind::TrustBundlesOfSigner, signer.clone().unwrap_or_default())
            }
        };
        Self { kind, namespace: String::new(), name }
    }
}

impl fmt::Display for ObjectRef {
    /// `configmap "x"`, as the kubelet's messages name it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.kind {
            ObjectKind::ConfigMap => "configmap",
            ObjectKind::Secret => "secret",
            ObjectKind::TrustBundle => "clustertrustbundle",
            ObjectKind::TrustBundlesOfSigner => "clustertrustbundles of signer",
        };
        write!(f, "{kind} {:?}", self.name)
    }
}

/// Everything that the pod's volumes, containers and pulls refer to.
pub fn pod_references(pod: &Pod) -> BTreeSet<ObjectRef> {
    let mut found = BTreeSet::new();
    let Some(spec) = &pod.spec else { return found };
    let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
    for container in spec.containers.iter().chain(spec.init_containers.iter().flatten()) {
        found.extend(container_references(namespace, container));
    }
    for container in spec.ephemeral_containers.iter().flatten() {
        found.extend(container_references(namespace, &ephemeral::as_container(container)));
    }
    for volume in spec.volumes.iter().flatten() {
        add_volume(namespace, volume, &mut found);
    }
    found.extend(pull_secret_references(pod));
    found
}

/// The secrets with logins for registries; a reference without a name means none.
pub fn pull_secret_references(pod: &Pod) -> BTreeSet<ObjectRef> {
    let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
    let secrets = pod.spec.as_ref().and_then(|spec| spec.image_pull_secrets.as_ref());
    let named = secrets.into_iter().flatten().filter(|secret| !secret.name.is_empty());
    named.map(|secret| ObjectRef::secret(namespace, &secret.name)).collect()
}

/// What one container's environment refers to.
pub fn container_references(namespace: &str, container: &Container) -> BTreeSet<ObjectRef> {
    let mut found = BTreeSet::new();
    for source in container.env_from.iter().flatten() {
        if let Some(map) = &source.config_map_ref {
            found.insert(ObjectRef::config_map(namespace, &map.name));
        }
        if let Some(secret) = &source.secret_ref {
            found.insert(ObjectRef::secret(namespace, &secret.name));
        }
    }
    for source in container.env.iter().flatten().filter_map(|env| env.value_from.as_ref()) {
        if let Some(selector) = &source.config_map_key_ref {
            found.insert(ObjectRef::config_map(namespace, &selector.name));
        }
        if let Some(selector) = &source.secret_key_ref {
            found.insert(ObjectRef::secret(namespace, &selector.name));
        }
    }
    found
}

fn add_volume(namespace: &str, volume: &Volume, found: &mut BTreeSet<ObjectRef>) {
    if let Some(source) = &volume.config_map {
        found.insert(ObjectRef::config_map(namespace, &source.name));
    }
    if let Some(name) = volume.secret.as_ref().and_then(|secret| secret.secret_name.as_ref()) {
        found.insert(ObjectRef::secret(namespace, name));
    }
    let projected = volume.projected.as_ref().and_then(|volume| volume.sources.as_ref());
    for source in projected.into_iter().flatten() {
        if let Some(map) = &source.config_map {
            found.insert(ObjectRef::config_map(namespace, &map.name));
        }
        if let Some(secret) = &source.secret {
            found.insert(ObjectRef::secret(namespace, &secret.name));
        }
        found.extend(source.cluster_trust_bundle.as_ref().map(ObjectRef::trust_bundles));
    }
}
