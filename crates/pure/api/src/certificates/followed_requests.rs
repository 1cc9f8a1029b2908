//! The CertificateSigningRequests of the store, one after the other as they change.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;

use futures_core::Stream;
use k8s_openapi::api::certificates::v1::CertificateSigningRequest;
use rekindle_kinds::certificate_signing_request::{GROUP, PLURAL};
use rekindle_kinds::registry::{AnyObject, KindEntry};
use rekindle_store::{RangeQuery, StoreError, StoreEvent, StoreWatch, StoredObject};

use crate::keys;
use crate::selectors::names_of_key;
use crate::shared::ApiShared;
use crate::status::ApiError;
use crate::stored::decode_stored;

/// The requests that are stored, then their changes.
pub struct FollowedRequests {
    entry: Arc<KindEntry>,
    stored: VecDeque<Arc<StoredObject>>,
    watch: StoreWatch,
}

fn entry(api: &ApiShared) -> Option<&Arc<KindEntry>> {
    api.registry.find(GROUP, "v1", PLURAL)
}

/// What comes next.
pub enum FollowedRequest {
    /// A request that is there, or has changed.
    Changed(Arc<CertificateSigningRequest>),
    /// The request of this name has gone.
    Gone(String),
    /// One that cannot be read. The others follow.
    Unreadable(ApiError),
    /// The watch fell behind the store's history: begin again.
    Behind(StoreError),
}

impl FollowedRequests {
    /// Begins now; none when the kind is not served.
    pub(crate) fn begin(api: &ApiShared) -> Result<Option<Self>, ApiError> {
        let Some(entry) = entry(api) else { return Ok(None) };
        let revision = api.store.revision();
        let prefix = keys::collection(entry, "");
        let watch = api.store.watch(&prefix, revision)?;
        let query = RangeQuery { prefix, at: Some(revision), ..RangeQuery::default() };
        let stored = api.store.range(&query)?.objects.into();
        Ok(Some(Self { entry: entry.clone(), stored, watch }))
    }

    /// What comes next; none when the store ends. May be dropped at any time without losing a
    /// change.
    pub async fn next(&mut self) -> Option<FollowedRequest> {
        if let Some(stored) = self.stored.pop_front() {
            return Some(self.read(&stored));
        }
        match poll_fn(|context| Pin::new(&mut self.watch).poll_next(context)).await? {
            Ok(StoreEvent::Put { object, .. }) => Some(self.read(&object)),
            Ok(StoreEvent::Delete { previous, .. }) => {
                let (_, name) = names_of_key(&self.entry, previous.key.as_str());
                Some(FollowedRequest::Gone(name.to_owned()))
            }
            Err(error) => Some(FollowedRequest::Behind(error)),
        }
    }

    fn read(&self, stored: &StoredObject) -> FollowedRequest {
        let decoded: Arc<dyn AnyObject> = match decode_stored(&self.entry, stored) {
            Ok(decoded) => decoded.into(),
            Err(error) => return FollowedRequest::Unreadable(error),
        };
        match decoded.into_any().downcast() {
            Ok(request) => FollowedRequest::Changed(request),
            Err(_) => {
                let why = format!("{} is no signing request", stored.key);
                FollowedRequest::Unreadable(ApiError::internal(why))
            }
        }
    }
}

/// The request of this name.
pub(crate) fn signing_request(
    api: &ApiShared,
    name: &str,
) -> Result<Option<Arc<CertificateSigningRequest>>, ApiError> {
    let stored =
        entry(api).and_then(|entry| Some((entry, api.store.get(&keys::object(entry, "", name))?)));
    let Some((entry, stored)) = stored else { return Ok(None) };
    api.read_as(entry, &stored)
}
