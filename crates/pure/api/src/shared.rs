//! What all requests share.

use std::any::Any;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use k8s_openapi::api::rbac::v1::PolicyRule;
use rekindle_kinds::certificate_signing_request::SignatureVerifier;
use rekindle_kinds::identity::{ClientIdentity, UserInfo};
use rekindle_kinds::pod::defaults::TOLERATION_SECONDS;
use rekindle_kinds::registry::{AnyObject, KindEntry, Registry};
use rekindle_store::{Store, StoredObject};

use crate::admission::pod_security::PodSecurity;
use crate::admission::policies::PolicyMemory;
use crate::admission::webhooks::WebhookMemory;
use crate::api_services::ApiServices;
use crate::audit_notes::AuditNotes;
use crate::auth::rbac::RbacPolicies;
use crate::auth::{AccessAttributes, AuthorizationMode};
use crate::authority::{AccessDecision, Authority};
use crate::custom::CustomKinds;
use crate::decoded::DecodeCache;
use crate::entropy::{self, Entropy};
use crate::event_stream::EncodedEvents;
use crate::expiry::EventExpiry;
use crate::request::ResourcePath;
use crate::resource_quotas::NamespaceLocks;
use crate::service_addresses::ServiceAddresses;
use crate::status::ApiError;
use crate::stored::{StoredState, decode_stored};
use crate::terms::TermGuard;
use crate::tokens::TokenIssuer;

/// A year: what upstream extends tokens of pods to, and the longest that any of its own tokens is
/// good by default.
const TOKEN_SECONDS_MAX: i64 = 365 * 24 * 60 * 60;

/// What an [`crate::Api`] is made of.
pub struct ApiParts {
    /// The kinds it serves.
    pub registry: Registry,
    /// Where objects live.
    pub store: Store,
    /// For UIDs and generated names.
    pub entropy: Box<dyn Entropy>,
    /// Who may do what.
    pub authorizer: AuthorizationMode,
    /// The CA certificate (PEM) that clients inside pods should trust: the content of each
    /// namespace's `kube-root-ca.crt`.
    pub ca_bundle: String,
}

/// What all requests share.
pub(crate) struct ApiShared {
    /// The built-in kinds.
    pub(crate) registry: Registry,
    pub(crate) custom: CustomKinds,
    pub(crate) api_services: ApiServices,
    pub(crate) store: Store,
    pub(crate) tokens: TokenIssuer,
    authority: Authority,
    pub(crate) ca_bundle: String,
    pub(crate) encoded_events: EncodedEvents,
    pub(crate) decoded: DecodeCache,
    pub(crate) expiry: Mutex<EventExpiry>,
    pub(crate) terms: TermGuard,
    pub(crate) pod_security: PodSecurity,
    pub(crate) policies: PolicyMemory,
    pub(crate) webhooks: WebhookMemory,
    pub(crate) service_addresses: ServiceAddresses,
    pub(crate) namespace_locks: NamespaceLocks,
    front_proxy_ca: OnceLock<String>,
    signature_verifier: OnceLock<Box<dyn SignatureVerifier>>,
    entropy: Mutex<Box<dyn Entropy>>,
    toleration_seconds: AtomicI64,
    token_seconds_max: AtomicI64,
}

impl ApiShared {
    pub(crate) fn new(parts: ApiParts) -> Self {
        let expiry = EventExpiry::new(&parts.registry, &parts.store);
        Self {
            registry: parts.registry,
            custom: CustomKinds::default(),
            api_services: ApiServices::default(),
            store: parts.store,
            authority: Authority::new(parts.authorizer),
            tokens: TokenIssuer::default(),
            ca_bundle: parts.ca_bundle,
            encoded_events: EncodedEvents::default(),
            decoded: DecodeCache::default(),
            expiry: Mutex::new(expiry),
            terms: TermGuard::default(),
            pod_security: PodSecurity::default(),
            policies: PolicyMemory::default(),
            webhooks: WebhookMemory::default(),
            service_addresses: ServiceAddresses::default(),
            namespace_locks: NamespaceLocks::default(),
            front_proxy_ca: OnceLock::new(),
            signature_verifier: OnceLock::new(),
            entropy: Mutex::new(parts.entropy),
            toleration_seconds: AtomicI64::new(TOLERATION_SECONDS),
            token_seconds_max: AtomicI64::new(TOKEN_SECONDS_MAX),
        }
    }

    /// The kind that a path names.
    pub(crate) fn kind(&self, path: &ResourcePath) -> Option<Arc<KindEntry>> {
        let built_in = self.registry.find(&path.group, &path.version, &path.resource);
        built_in.cloned().or_else(|| self.custom.find(self, path))
    }

    /// What is behind a stored text.
    pub(crate) fn read(
        &self,
        entry: &KindEntry,
        stored: &StoredObject,
    ) -> Result<Arc<dyn AnyObject>, ApiError> {
        // what a text of a custom kind is depends on the version that reads it
        if !entry.shows_stored_text() {
            return Ok(decode_stored(entry, stored)?.into());
        }
        if let Some(known) = self.decoded.get(stored) {
            return Ok(known);
        }
        let read: Arc<dyn AnyObject> = decode_stored(entry, stored)?.into();
        self.decoded.put(stored, read.clone());
        Ok(read)
    }

    /// The same as the type that it is of; none when it is of another one.
    pub(crate) fn read_as<T: Any + Send + Sync>(
        &self,
        entry: &KindEntry,
        stored: &StoredObject,
    ) -> Result<Option<Arc<T>>, ApiError> {
        Ok(self.read(entry, stored)?.into_any().downcast().ok())
    }

    /// What is stored, as the parts of the API that know no requests see it.
    pub(crate) fn state(&self) -> StoredState<'_> {
        StoredState { registry: &self.registry, store: &self.store }
    }

    /// Refuses what `who` may not do: 401 without an identity, else 403.
    pub(crate) fn authorize(
        &self,
        who: &ClientIdentity,
        what: &AccessAttributes<'_>,
    ) -> Result<(), ApiError> {
        self.authorize_request(who, what, None)
    }

    /// The same for the request itself, which the audit log hears of.
    pub(crate) fn authorize_request(
        &self,
        who: &ClientIdentity,
        what: &AccessAttributes<'_>,
        notes: Option<&AuditNotes>,
    ) -> Result<(), ApiError> {
        let decided = self.authority.check(self.state(), who, what);
        if let Some(notes) = notes {
            notes.authorized(&decided);
        }
        decided.map(drop)
    }

    /// Whether a user may do something, with the reason.
    pub(crate) fn decide(
        &self,
        user: &UserInfo,
        what: &AccessAttributes<'_>,
    ) -> Result<AccessDecision, ApiError> {
        self.authority.decide(self.state(), user, what)
    }

    /// Every rule that a user was given, for the cluster and in a namespace.
    pub(crate) fn rules_for(
        &self,
        user: &UserInfo,
        namespace: &str,
    ) -> Result<Vec<PolicyRule>, ApiError> {
        self.authority.rules_for(self.state(), user, namespace)
    }

    /// Looks at all roles and bindings as they are.
    pub(crate) fn with_policies<T>(
        &self,
        look: impl FnOnce(&RbacPolicies) -> T,
    ) -> Result<T, ApiError> {
        self.authority.with_policies(self.state(), look)
    }

    /// The CA (PEM) of the proxy to other API servers; none before it is given.
    pub(crate) fn front_proxy_ca(&self) -> Option<&str> {
        self.front_proxy_ca.get().map(String::as_str)
    }

    pub(crate) fn set_front_proxy_ca(&self, ca_pem: String) {
        // the first one counts
        let _ = self.front_proxy_ca.set(ca_pem);
    }

    /// What verifies signatures of certificate requests; none before it is given.
    pub(crate) fn signature_verifier(&self) -> Option<&dyn SignatureVerifier> {
        self.signature_verifier.get().map(AsRef::as_ref)
    }

    pub(crate) fn set_signature_verifier(&self, verifier: Box<dyn SignatureVerifier>) {
        // the first one counts
        let _ = self.signature_verifier.set(verifier);
    }

    /// How long new pods tolerate a node that is not ready, where they do not say so themselves.
    pub(crate) fn toleration_seconds(&self) -> i64 {
        self.toleration_seconds.load(Ordering::Relaxed)
    }

    pub(crate) fn set_toleration_seconds(&self, seconds: i64) {
        self.toleration_seconds.store(seconds, Ordering::Relaxed);
    }

    /// How long a token of a service account is good at most.
    pub(crate) fn token_seconds_max(&self) -> i64 {
        self.token_seconds_max.load(Ordering::Relaxed)
    }

    pub(crate) fn set_token_seconds_max(&self, seconds: i64) {
        self.token_seconds_max.store(seconds, Ordering::Relaxed);
    }

    /// A random number.
    pub(crate) fn random_number(&self) -> u128 {
        let mut bytes = [0; 16];
        self.entropy.lock().unwrap_or_else(PoisonError::into_inner).fill(&mut bytes);
        u128::from_le_bytes(bytes)
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

#[cfg(test)]
pub(crate) mod testing {
    use rekindle_store::memory::MemoryDisk;
    use rekindle_store::{Committer, Store, StoreLimits};

    use super::*;
    use crate::auth::AuthorizationMode;

    struct NoEntropy;

    impl Entropy for NoEntropy {
        fn fill(&mut self, bytes: &mut [u8]) {
            bytes.fill(0);
        }
    }

    /// With what would commit: the store takes writes as long as that is there.
    pub(crate) fn api() -> (ApiShared, Committer<MemoryDisk>) {
        let (store, committer) = Store::open(MemoryDisk::new(), StoreLimits::default()).unwrap();
        let parts = ApiParts {
            registry: rekindle_kinds::all(),
            store,
            entropy: Box::new(NoEntropy),
            authorizer: AuthorizationMode::AlwaysAllow,
            ca_bundle: String::new(),
        };
        (ApiShared::new(parts), committer)
    }
}
