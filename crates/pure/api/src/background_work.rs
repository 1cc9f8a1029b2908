//! What the server's own parts do beside requests: each follows what is stored, and acts when that
//! changes or time has passed.

use std::sync::{Arc, MutexGuard, PoisonError};

use k8s_openapi::api::certificates::v1::CertificateSigningRequest;
use k8s_openapi::api::core::v1::Secret;
use rekindle_flow_control::FlowConfiguration;
use rekindle_kinds::api_service::ServerAvailability;
use rekindle_store::{PendingWrite, StoreError, StoreWatch};
use rekindle_types::Tick;

use crate::admission;
use crate::api::Api;
use crate::api_services::followed_servers::{self, FollowedServer};
use crate::api_services::server_discovery::ServerDiscovery;
use crate::certificates::{self, FollowedRequests};
use crate::expiry::EventExpiry;
use crate::flow_control::{self, FlowControlFeed};
use crate::status::ApiError;
use crate::storage_migration::{self, NextMigration};
use crate::token_secrets::{self, FollowedTokenSecrets, TokenSecretDecision};

impl Api {
    /// Brings the rules of aggregated cluster roles to what the roles that they are made of say
    /// now. Called whenever a cluster role has changed; what it writes is such a change, too.
    ///
    /// # Errors
    /// When the store refuses; the next change of a cluster role is another chance.
    pub fn aggregate_roles(&self, now: Tick) -> Result<(), ApiError> {
        admission::aggregation::aggregate(&self.shared, now)
    }

    /// The changes of cluster roles from now on: after each, [`Api::aggregate_roles`] is due. None
    /// when cluster roles are not served.
    ///
    /// # Errors
    /// When the store refuses.
    pub fn watch_cluster_roles(&self) -> Result<Option<StoreWatch>, StoreError> {
        admission::aggregation::watch(&self.shared)
    }

    /// What the stored FlowSchemas and priority levels say, as they are durable.
    ///
    /// # Errors
    /// When one cannot be read.
    pub fn flow_configuration(&self) -> Result<FlowConfiguration, ApiError> {
        flow_control::configuration(&self.shared)
    }

    /// The changes of FlowSchemas and priority levels from now on.
    ///
    /// # Errors
    /// When the store refuses.
    pub fn follow_flow_control(&self) -> Result<FlowControlFeed, StoreError> {
        flow_control::follow(&self.shared)
    }

    /// Makes and restores the FlowSchemas and priority levels that every server has, and says of
    /// each schema whether its level is there. Called when one has changed, and again when what is
    /// returned is durable, until nothing is.
    ///
    /// # Errors
    /// When the store refuses; the next change is another chance.
    pub fn maintain_flow_control(&self, now: Tick) -> Result<Vec<PendingWrite>, ApiError> {
        flow_control::maintain(&self.shared, now)
    }

    /// Removes some of the Events whose hour is over. Call it at [`Api::next_expiry`], again when
    /// what it returned is durable; when that fails, [`Api::reread_expiry`].
    ///
    /// # Errors
    /// When the store refuses; what is left is due at once.
    pub fn prune(&self, now: Tick) -> Result<Option<PendingWrite>, StoreError> {
        self.expiry().prune(&self.shared.store, now)
    }

    /// Events whose removal did not become durable are due again.
    pub fn reread_expiry(&self) {
        let mut expiry = self.expiry();
        *expiry = EventExpiry::new(&self.shared.registry, &self.shared.store);
    }

    fn expiry(&self) -> MutexGuard<'_, EventExpiry> {
        self.shared.expiry.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// When [`Api::prune`] has something to do; none when there is no Event. A new Event never
    /// lives shorter than those before it, so a new one is no news here.
    pub fn next_expiry(&self) -> Option<Tick> {
        self.expiry().next()
    }

    /// The CertificateSigningRequests, and their changes from then on. None when the kind is not
    /// served.
    ///
    /// # Errors
    /// When the store refuses.
    pub fn follow_signing_requests(&self) -> Result<Option<FollowedRequests>, ApiError> {
        FollowedRequests::begin(&self.shared)
    }

    /// The Secrets for tokens, and what may have to be done with them from then on. None when the
    /// kind is not served.
    ///
    /// # Errors
    /// When the store refuses.
    pub fn follow_token_secrets(&self) -> Result<Option<FollowedTokenSecrets>, ApiError> {
        FollowedTokenSecrets::begin(&self.shared)
    }

    /// What is to be done with a Secret that may be one for a token.
    ///
    /// # Errors
    /// When the token cannot be signed.
    pub fn decide_token_secret(&self, secret: &Secret) -> Result<TokenSecretDecision, ApiError> {
        token_secrets::decide(&self.shared, secret)
    }

    /// The CertificateSigningRequest of this name, as it is durable.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn signing_request(
        &self,
        name: &str,
    ) -> Result<Option<Arc<CertificateSigningRequest>>, ApiError> {
        certificates::signing_request(&self.shared, name)
    }

    /// The changes of StorageVersionMigrations from now on: after each, [`Api::next_migration`] may
    /// be another one. None when the kind is not served.
    ///
    /// # Errors
    /// When the store refuses.
    pub fn watch_migrations(&self) -> Result<Option<StoreWatch>, StoreError> {
        storage_migration::watch(&self.shared)
    }

    /// The StorageVersionMigration that is the next to be worked on, as all is durable, and what is
    /// to be done. None when all are over.
    ///
    /// # Errors
    /// When one cannot be read.
    pub fn next_migration(&self) -> Result<Option<NextMigration>, ApiError> {
        storage_migration::next(&self.shared)
    }

    /// The changes from now on after which [`Api::followed_servers`] may be others.
    ///
    /// # Errors
    /// When the store refuses.
    pub fn watch_followed_servers(&self) -> Result<Vec<StoreWatch>, StoreError> {
        followed_servers::watch(&self.shared)
    }

    /// The servers of APIServices, as they are durable. They are asked whether they answer, and
    /// what they said is given to [`Api::record_server`].
    ///
    /// # Errors
    /// When the store refuses.
    pub fn followed_servers(&self) -> Result<Vec<FollowedServer>, ApiError> {
        followed_servers::followed(&self.shared)
    }

    /// Notes what the server of an APIService said, or why it could not be asked. Gives the write
    /// of the status, if that changes.
    ///
    /// # Errors
    /// When the store refuses.
    pub fn record_server(
        &self,
        server: &FollowedServer,
        said: Result<ServerDiscovery, ServerAvailability>,
        now: Tick,
    ) -> Result<Option<PendingWrite>, ApiError> {
        followed_servers::record(&self.shared, server, said, now)
    }
}
