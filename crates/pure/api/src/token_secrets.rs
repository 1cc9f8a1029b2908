//! Secrets of type `kubernetes.io/service-account-token`: each holds a token of its account that is
//! good as long as both are there. A user makes the Secret, and the server fills it in.
//!
//! Source of behaviour: upstream's `pkg/controller/serviceaccount/tokens_controller.go`.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;

use futures_core::Stream;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use rekindle_kinds::registry::KindEntry;
use rekindle_kinds::secret::{ACCOUNT_NAME, TOKEN, TOKEN_TYPE};
use rekindle_kinds::validation::text;
use rekindle_store::{RangeQuery, StoreError, StoreEvent, StoreWatch, StoredObject};

use crate::auth::token::SecretTokenClaims;
use crate::keys;
use crate::selectors::names_of_key;
use crate::shared::ApiShared;
use crate::status::ApiError;

/// The annotation with the UID of the account.
const ACCOUNT_UID: &str = "kubernetes.io/service-account.uid";
/// The keys of its data beside the token.
const CA: &str = "ca.crt";
const NAMESPACE: &str = "namespace";

/// What is to be done with a Secret for a token.
#[derive(Debug, PartialEq)]
pub enum TokenSecretDecision {
    /// It is as it should be, or cannot be changed.
    Leave,
    /// It is to become this.
    Fill(Box<Secret>),
    /// Its account is not there, or is another one.
    Remove,
}

/// The account that a Secret is for, if it is one for a token.
fn account_of(secret: &Secret) -> Option<&str> {
    let annotations = secret.metadata.annotations.as_ref();
    let name = annotations.and_then(|all| all.get(ACCOUNT_NAME)).map(String::as_str);
    name.filter(|name| text(secret.type_.as_ref()) == TOKEN_TYPE && !name.is_empty())
}

/// What is to be done with a Secret.
///
/// # Errors
/// When the token cannot be signed.
pub(crate) fn decide(api: &ApiShared, secret: &Secret) -> Result<TokenSecretDecision, ApiError> {
    let Some(account) = account_of(secret) else { return Ok(TokenSecretDecision::Leave) };
    let meta = &secret.metadata;
    if meta.deletion_timestamp.is_some() {
        return Ok(TokenSecretDecision::Leave);
    }
    let namespace = text(meta.namespace.as_ref());
    let uid = api.state().meta_of("serviceaccounts", namespace, account).and_then(|meta| meta.uid);
    let Some(uid) = uid else { return Ok(TokenSecretDecision::Remove) };
    let known = meta.annotations.as_ref().and_then(|all| all.get(ACCOUNT_UID));
    if known.is_some_and(|known| !known.is_empty() && *known != uid) {
        return Ok(TokenSecretDecision::Remove);
    }
    let mut filled = secret.clone();
    let annotations = filled.metadata.annotations.get_or_insert_default();
    annotations.insert(ACCOUNT_UID.to_owned(), uid.clone());
    let data = filled.data.get_or_insert_default();
    data.insert(CA.to_owned(), ByteString(api.ca_bundle.clone().into_bytes()));
    let is_empty = |value: &ByteString| value.0.is_empty();
    if data.get(NAMESPACE).is_none_or(is_empty) {
        data.insert(NAMESPACE.to_owned(), ByteString(namespace.as_bytes().to_vec()));
    }
    if data.get(TOKEN).is_none_or(is_empty) {
        let secret = text(meta.name.as_ref());
        let claims = SecretTokenClaims::new(namespace, secret, account, &uid);
        let token = api.tokens.issue_for_secret(&claims)?;
        data.insert(TOKEN.to_owned(), ByteString(token.into_bytes()));
    }
    // what is immutable stays without
    let is_settled = filled == *secret || secret.immutable == Some(true);
    Ok(if is_settled {
        TokenSecretDecision::Leave
    } else {
        TokenSecretDecision::Fill(filled.into())
    })
}

/// Whether a stored Secret may be one for a token: cheap, as all Secrets are asked.
fn may_hold_token(stored: &StoredObject) -> bool {
    std::str::from_utf8(&stored.value).is_ok_and(|text| text.contains(TOKEN_TYPE))
}

/// The Secrets for tokens that are stored, then those that may have to be filled in or removed.
pub struct FollowedTokenSecrets {
    api: Arc<ApiShared>,
    secrets: Arc<KindEntry>,
    accounts: Arc<KindEntry>,
    due: VecDeque<Arc<StoredObject>>,
    secret_changes: StoreWatch,
    account_changes: StoreWatch,
}

/// What comes next.
pub enum FollowedTokenSecret {
    /// One to look at.
    Look(Arc<Secret>),
    /// One that cannot be read. The others follow.
    Unreadable(ApiError),
    /// The watch fell behind the store's history: begin again.
    Behind(StoreError),
}

impl FollowedTokenSecrets {
    /// Begins now; none when one of the kinds is not served.
    pub(crate) fn begin(api: &Arc<ApiShared>) -> Result<Option<Self>, ApiError> {
        let find = |plural| api.registry.find("", "v1", plural).cloned();
        let (Some(secrets), Some(accounts)) = (find("secrets"), find("serviceaccounts")) else {
            return Ok(None);
        };
        let revision = api.store.revision();
        let watch = |entry: &KindEntry| api.store.watch(&keys::collection(entry, ""), revision);
        let (secret_changes, account_changes) = (watch(&secrets)?, watch(&accounts)?);
        let (api, due) = (Arc::clone(api), VecDeque::new());
        let mut followed = Self { api, secrets, accounts, due, secret_changes, account_changes };
        followed.look_at_all("")?;
        Ok(Some(followed))
    }

    /// Those of a namespace, or all.
    fn look_at_all(&mut self, namespace: &str) -> Result<(), StoreError> {
        let prefix = keys::collection(&self.secrets, namespace);
        let stored = self.api.store.range(&RangeQuery { prefix, ..RangeQuery::default() })?.objects;
        self.due.extend(stored.into_iter().filter(|stored| may_hold_token(stored)));
        Ok(())
    }

    /// What comes next; none when the store ends. May be dropped at any time without losing a
    /// change.
    pub async fn next(&mut self) -> Option<FollowedTokenSecret> {
        loop {
            if let Some(stored) = self.due.pop_front() {
                return match self.api.read_as::<Secret>(&self.secrets, &stored) {
                    Ok(Some(secret)) => Some(FollowedTokenSecret::Look(secret)),
                    Ok(None) => continue,
                    Err(error) => Some(FollowedTokenSecret::Unreadable(error)),
                };
            }
            let changed = match self.change().await? {
                Ok(change) => self.note(change),
                Err(error) => Err(error),
            };
            if let Err(error) = changed {
                return Some(FollowedTokenSecret::Behind(error));
            }
        }
    }

    async fn change(&mut self) -> Option<Result<StoreEvent, StoreError>> {
        poll_fn(|context| match Pin::new(&mut self.secret_changes).poll_next(context) {
            Poll::Ready(change) => Poll::Ready(change),
            Poll::Pending => Pin::new(&mut self.account_changes).poll_next(context),
        })
        .await
    }

    /// A Secret is looked at itself; an account that is new or gone, its namespace's Secrets.
    fn note(&mut self, change: StoreEvent) -> Result<(), StoreError> {
        let (object, is_gone) = match &change {
            StoreEvent::Put { object, .. } => (object, false),
            StoreEvent::Delete { previous, .. } => (previous, true),
        };
        let accounts = keys::collection(&self.accounts, "");
        if !object.key.as_str().starts_with(&accounts) {
            if !is_gone && may_hold_token(object) {
                self.due.push_back(Arc::clone(object));
            }
            return Ok(());
        }
        let (namespace, _) = names_of_key(&self.accounts, object.key.as_str());
        let namespace = namespace.to_owned();
        self.look_at_all(&namespace)
    }
}
