//! Who may do what, by the roles and bindings that are stored.
//!
//! The index of them follows the store's own watches: it takes what has changed when somebody is
//! decided about whom it concerns. So a write costs nothing more, a decision reads no list, and
//! members of `system:masters`, which all parts of the engine are, are decided about without a look
//! at it. What the role of node agents gives is narrowed to their own (`node_rights`). What a
//! client was told is durable is seen by its next request.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use k8s_openapi::api::rbac::v1::PolicyRule;
use rekindle_kinds::identity::MASTERS;
use rekindle_kinds::identity::{ClientIdentity, UserInfo};
use rekindle_kinds::rbac::GROUP;
use rekindle_kinds::registry::KindEntry;
use rekindle_store::{
    RangeQuery, Revision, Store, StoreError, StoreEvent, StoreWatch, StoredObject,
};

use crate::auth::authorizer::is_public;
use crate::auth::rbac::RbacPolicies;
use crate::auth::rbac::policies::{DeletedPolicy, PolicyChange};
use crate::auth::{AccessAttributes, AuthorizationMode};
use crate::discovery;
use crate::keys;
use crate::node_rights;
use crate::selectors::names_of_key;
use crate::status::ApiError;
use crate::stored::{StoredState, decode_stored};

/// The kinds that decisions are made from.
const KINDS: [&str; 4] = ["clusterroles", "clusterrolebindings", "roles", "rolebindings"];

/// Decides.
pub(crate) struct Authority {
    mode: AuthorizationMode,
    index: Mutex<AuthorityIndex>,
}

/// The roles and bindings as far as the index has come.
#[derive(Default)]
struct AuthorityIndex {
    policies: RbacPolicies,
    /// Empty until the first decision, and after an index that fell behind the store's history.
    feeds: Vec<(Arc<KindEntry>, StoreWatch)>,
}

/// What a backup shows. A role for paths such as `*` must not give it to who may not read it.
const EVERY_OBJECT: AccessAttributes<'static> = AccessAttributes::Resource {
    verb: "get",
    group: "*",
    resource: "*",
    subresource: "",
    namespace: "",
    name: "",
};

/// The answer, with the reason that a review shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum AccessDecision {
    /// It may be done. The reason may be empty.
    Allow(String),
    /// Nothing allows it.
    Deny,
}

fn shows_every_object(what: &AccessAttributes<'_>) -> bool {
    matches!(what, AccessAttributes::Path { path, .. } if discovery::is_backup(path))
}

impl Authority {
    pub(crate) fn new(mode: AuthorizationMode) -> Self {
        Self { mode, index: Mutex::default() }
    }

    /// Refuses what `who` may not do. Gives the reason why they may, which may be empty.
    pub(crate) fn check(
        &self,
        state: StoredState<'_>,
        who: &ClientIdentity,
        what: &AccessAttributes<'_>,
    ) -> Result<String, ApiError> {
        let decision = match who {
            _ if self.mode == AuthorizationMode::AlwaysAllow => {
                AccessDecision::Allow(String::new())
            }
            ClientIdentity::Anonymous if is_public(what) => AccessDecision::Allow(String::new()),
            ClientIdentity::Anonymous => AccessDecision::Deny,
            ClientIdentity::User(user) => self.decide(state, user, what)?,
        };
        match decision {
            AccessDecision::Allow(reason) => Ok(reason),
            AccessDecision::Deny => Err(what.refusal(who)),
        }
    }

    /// Whether the user may do it, and why.
    pub(crate) fn decide(
        &self,
        state: StoredState<'_>,
        user: &UserInfo,
        what: &AccessAttributes<'_>,
    ) -> Result<AccessDecision, ApiError> {
        if self.mode == AuthorizationMode::AlwaysAllow || user.is_in(MASTERS) {
            return Ok(AccessDecision::Allow(String::new()));
        }
        if shows_every_object(what)
            && self.decide(state, user, &EVERY_OBJECT)? == AccessDecision::Deny
        {
            return Ok(AccessDecision::Deny);
        }
        let node = node_rights::node_of(user);
        let (granted, is_named) = {
            let index = self.newest(state)?;
            let grant = index.policies.allows(user, what);
            let granted = grant
                .map_or(AccessDecision::Deny, |grant| AccessDecision::Allow(grant.to_string()));
            (granted, node.is_some() && index.policies.allows_by_name(user, what))
        };
        // the rights of all nodes end at what the node needs; a binding of the one node does not
        Ok(match node {
            Some(node)
                if granted != AccessDecision::Deny
                    && !is_named
                    && !node_rights::allow(state, node, what) =>
            {
                AccessDecision::Deny
            }
            Some(_) | None => granted,
        })
    }

    /// Every rule that the user was given, for the cluster and in a namespace.
    pub(crate) fn rules_for(
        &self,
        state: StoredState<'_>,
        user: &UserInfo,
        namespace: &str,
    ) -> Result<Vec<PolicyRule>, ApiError> {
        let index = self.newest(state)?;
        let grants = index.policies.grants(user, namespace);
        Ok(grants.flat_map(|grant| grant.rules().to_vec()).collect())
    }

    /// Looks at all roles and bindings as they are.
    pub(crate) fn with_policies<T>(
        &self,
        state: StoredState<'_>,
        look: impl FnOnce(&RbacPolicies) -> T,
    ) -> Result<T, ApiError> {
        Ok(look(&self.newest(state)?.policies))
    }

    fn newest(&self, state: StoredState<'_>) -> Result<MutexGuard<'_, AuthorityIndex>, ApiError> {
        // A panic between two changes leaves an index without feeds, which is made anew.
        let mut index = self.index.lock().unwrap_or_else(PoisonError::into_inner);
        if index.feeds.is_empty() || index.take_changes().is_err() {
            index.load(state)?;
        }
        Ok(index)
    }
}

impl AuthorityIndex {
    fn load(&mut self, state: StoredState<'_>) -> Result<(), ApiError> {
        *self = Self::default();
        let revision = state.store.revision();
        let mut feeds = Vec::new();
        let mut policies = RbacPolicies::default();
        for plural in KINDS {
            let Some(entry) = state.registry.find(GROUP, "v1", plural) else { continue };
            for object in objects(state.store, entry, revision)? {
                policies.apply(change(entry, &object)?);
            }
            let watch = state.store.watch(&keys::collection(entry, ""), revision)?;
            feeds.push((entry.clone(), watch));
        }
        *self = Self { policies, feeds };
        Ok(())
    }

    /// Takes what has changed since the last look.
    fn take_changes(&mut self) -> Result<(), ApiError> {
        // Out of its place meanwhile: should anything fail, the next look begins anew.
        let mut feeds = std::mem::take(&mut self.feeds);
        for (entry, watch) in &mut feeds {
            while let Some(event) = watch.try_next() {
                match event? {
                    StoreEvent::Put { object, .. } => {
                        self.policies.apply(change(entry, &object)?);
                    }
                    StoreEvent::Delete { previous, .. } => {
                        let (namespace, name) = names_of_key(entry, previous.key.as_str());
                        self.policies.remove(DeletedPolicy {
                            plural: &entry.plural,
                            namespace,
                            name,
                        });
                    }
                }
            }
        }
        self.feeds = feeds;
        Ok(())
    }
}

fn objects(
    store: &Store,
    entry: &KindEntry,
    at: Revision,
) -> Result<Vec<std::sync::Arc<StoredObject>>, StoreError> {
    let prefix = keys::collection(entry, "");
    let query = RangeQuery { prefix, at: Some(at), ..RangeQuery::default() };
    store.range(&query).map(|range| range.objects)
}

fn change(entry: &KindEntry, object: &StoredObject) -> Result<PolicyChange, ApiError> {
    let decoded = decode_stored(entry, object)?;
    let any = decoded.as_any();
    let change = any
        .downcast_ref()
        .cloned()
        .map(PolicyChange::Role)
        .or_else(|| any.downcast_ref().cloned().map(PolicyChange::RoleBinding))
        .or_else(|| any.downcast_ref().cloned().map(PolicyChange::ClusterRole))
        .or_else(|| any.downcast_ref().cloned().map(PolicyChange::ClusterRoleBinding));
    change.ok_or_else(|| ApiError::internal(format!("{} is no role", object.key)))
}
