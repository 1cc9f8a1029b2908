//! What all requests share.

use std::sync::{Mutex, PoisonError};

use rekindle_store::Store;

use crate::auth::Authorizer;
use crate::entropy::{self, Entropy};
use crate::event_stream::EncodedEvents;
use crate::expiry::EventExpiry;
use crate::registry::Registry;

/// What an [`crate::Api`] is made of.
pub struct ApiParts {
    /// The kinds it serves.
    pub registry: Registry,
    /// Where objects live.
    pub store: Store,
    /// For UIDs and generated names.
    pub entropy: Box<dyn Entropy>,
    /// Who may do what.
    pub authorizer: Authorizer,
    /// The CA certificate (PEM) that clients inside pods should trust: the content of each namespace's
    /// `kube-root-ca.crt`.
    pub ca_bundle: String,
}

/// What all requests share.
pub(crate) struct Shared {
    pub(crate) registry: Registry,
    pub(crate) store: Store,
    pub(crate) authorizer: Authorizer,
    pub(crate) ca_bundle: String,
    pub(crate) encoded_events: EncodedEvents,
    pub(crate) expiry: Mutex<EventExpiry>,
    entropy: Mutex<Box<dyn Entropy>>,
}

impl Shared {
    pub(crate) fn new(parts: ApiParts) -> Self {
        let expiry = EventExpiry::of(&parts.registry, &parts.store);
        Self {
            registry: parts.registry,
            store: parts.store,
            authorizer: parts.authorizer,
            ca_bundle: parts.ca_bundle,
            encoded_events: EncodedEvents::default(),
            expiry: Mutex::new(expiry),
            entropy: Mutex::new(parts.entropy),
        }
    }

    pub(crate) fn new_uid(&self) -> String {
        let mut entropy = self.entropy.lock().unwrap_or_else(PoisonError::into_inner);
        entropy::uid(entropy.as_mut())
    }

    pub(crate) fn generated_name(&self, prefix: &str) -> String {
        let mut entropy = self.entropy.lock().unwrap_or_else(PoisonError::into_inner);
        entropy::generated_name(prefix, entropy.as_mut())
    }
}
