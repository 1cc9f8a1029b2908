//! The contents of objects that a pod refers to; which those are says `rekindle_types::references`.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::certificates::v1::ClusterTrustBundle;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
pub(crate) use rekindle_types::references::{
    ObjectKind, ObjectRef, container_references, pod_references, pull_secret_references,
};

use crate::tokens::{NoToken, TokenWish, Tokens};

/// One object's content, shared.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum ReferencedObject {
    /// A ConfigMap.
    ConfigMap(Arc<ConfigMap>),
    /// A Secret.
    Secret(Arc<Secret>),
    /// ClusterTrustBundles: that of a name, or a signer's.
    TrustBundles(Arc<[Arc<ClusterTrustBundle>]>),
}

/// Objects at one moment. What is not in here does not exist.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct FetchedObjects {
    objects: BTreeMap<ObjectRef, ReferencedObject>,
    tokens: Tokens,
}

impl FetchedObjects {
    /// Adds what was found.
    pub(crate) fn insert(&mut self, reference: ObjectRef, object: ReferencedObject) {
        self.objects.insert(reference, object);
    }

    /// Adds the pod's tokens.
    pub(crate) fn set_tokens(&mut self, tokens: Tokens) {
        self.tokens = tokens;
    }

    /// The token of that kind, or why there is none.
    pub(crate) fn token(&self, wish: &TokenWish) -> Result<&str, NoToken> {
        match self.tokens.get(wish) {
            Some(Ok(token)) => Ok(token),
            Some(Err(error)) => Err(error.clone()),
            None => Err(NoToken::none_given()),
        }
    }

    /// The ConfigMap, if it exists.
    pub(crate) fn config_map(&self, reference: &ObjectRef) -> Option<&ConfigMap> {
        match self.objects.get(reference)? {
            ReferencedObject::ConfigMap(map) => Some(map),
            ReferencedObject::Secret(_) | ReferencedObject::TrustBundles(_) => None,
        }
    }

    /// The Secret, if it exists.
    pub(crate) fn secret(&self, reference: &ObjectRef) -> Option<&Secret> {
        match self.objects.get(reference)? {
            ReferencedObject::Secret(secret) => Some(secret),
            ReferencedObject::ConfigMap(_) | ReferencedObject::TrustBundles(_) => None,
        }
    }

    /// The ClusterTrustBundles of that name or signer.
    pub(crate) fn trust_bundles(&self, reference: &ObjectRef) -> &[Arc<ClusterTrustBundle>] {
        match self.objects.get(reference) {
            Some(ReferencedObject::TrustBundles(bundles)) => bundles,
            Some(ReferencedObject::ConfigMap(_) | ReferencedObject::Secret(_)) | None => &[],
        }
    }
}
