//! Which objects a pod refers to.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{ConfigMap, Container, Pod, Secret, Volume};

use crate::tokens::{TokenWish, Tokens};

/// The kinds of object that a pod's environment and volumes may refer to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum ObjectKind {
    /// A ConfigMap.
    ConfigMap,
    /// A Secret.
    Secret,
}

/// Names one object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct ObjectRef {
    /// Its kind.
    pub kind: ObjectKind,
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

impl ObjectRef {
    /// A ConfigMap.
    pub(crate) fn config_map(namespace: &str, name: &str) -> Self {
        Self { kind: ObjectKind::ConfigMap, namespace: namespace.to_owned(), name: name.to_owned() }
    }

    /// A Secret.
    pub(crate) fn secret(namespace: &str, name: &str) -> Self {
        Self { kind: ObjectKind::Secret, namespace: namespace.to_owned(), name: name.to_owned() }
    }
}

impl fmt::Display for ObjectRef {
    /// `configmap "x"`, as the kubelet's messages name it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.kind {
            ObjectKind::ConfigMap => "configmap",
            ObjectKind::Secret => "secret",
        };
        write!(f, "{kind} {:?}", self.name)
    }
}

/// One object's content, shared.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Object {
    /// A ConfigMap.
    ConfigMap(Arc<ConfigMap>),
    /// A Secret.
    Secret(Arc<Secret>),
}

/// Objects at one moment. What is not in here does not exist.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct FetchedObjects {
    objects: BTreeMap<ObjectRef, Object>,
    tokens: Tokens,
}

impl FetchedObjects {
    /// Adds what was found.
    pub(crate) fn insert(&mut self, reference: ObjectRef, object: Object) {
        self.objects.insert(reference, object);
    }

    /// Adds the pod's tokens.
    pub(crate) fn set_tokens(&mut self, tokens: Tokens) {
        self.tokens = tokens;
    }

    /// The token of that kind, if there is one.
    pub(crate) fn token(&self, wish: &TokenWish) -> Option<&str> {
        self.tokens.get(wish).map(String::as_str)
    }

    /// The ConfigMap, if it exists.
    pub(crate) fn config_map(&self, reference: &ObjectRef) -> Option<&ConfigMap> {
        match self.objects.get(reference)? {
            Object::ConfigMap(map) => Some(map),
            Object::Secret(_) => None,
        }
    }

    /// The Secret, if it exists.
    pub(crate) fn secret(&self, reference: &ObjectRef) -> Option<&Secret> {
        match self.objects.get(reference)? {
            Object::Secret(secret) => Some(secret),
            Object::ConfigMap(_) => None,
        }
    }
}

/// Everything that the pod's volumes, containers and pulls refer to.
pub(crate) fn pod_references(pod: &Pod) -> BTreeSet<ObjectRef> {
    let mut found = BTreeSet::new();
    let Some(spec) = &pod.spec else { return found };
    let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
    for container in spec.containers.iter().chain(spec.init_containers.iter().flatten()) {
        found.extend(container_references(namespace, container));
    }
    for volume in spec.volumes.iter().flatten() {
        add_volume(namespace, volume, &mut found);
    }
    found.extend(pull_secret_references(pod));
    found
}

/// The secrets with logins for registries; a reference without a name means none.
pub(crate) fn pull_secret_references(pod: &Pod) -> BTreeSet<ObjectRef> {
    let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
    let secrets = pod.spec.as_ref().and_then(|spec| spec.image_pull_secrets.as_ref());
    let named = secrets.into_iter().flatten().filter(|secret| !secret.name.is_empty());
    named.map(|secret| ObjectRef::secret(namespace, &secret.name)).collect()
}

/// What one container's environment refers to.
pub(crate) fn container_references(namespace: &str, container: &Container) -> BTreeSet<ObjectRef> {
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
    }
}
