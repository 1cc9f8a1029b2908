//! The FlowSchemas and levels that are stored, and whether they have changed.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::Poll;

use futures_core::Stream;
use k8s_openapi::api::flowcontrol::v1::{FlowSchema, PriorityLevelConfiguration};
use rekindle_flow_control::FlowConfiguration;
use rekindle_kinds::flow_control::{LEVELS, SCHEMAS};
use rekindle_store::{StoreError, StoreWatch};

use super::{entry, stored};
use crate::keys;
use crate::shared::ApiShared;
use crate::status::ApiError;

/// The changes of both kinds since the feed began.
pub struct FlowControlFeed {
    watches: Vec<StoreWatch>,
}

/// Begins now.
pub(crate) fn follow(api: &ApiShared) -> Result<FlowControlFeed, StoreError> {
    let revision = api.store.revision();
    let kinds = [SCHEMAS, LEVELS].into_iter().filter_map(|plural| entry(api, plural));
    let watches = kinds.map(|entry| api.store.watch(&keys::collection(entry, ""), revision));
    Ok(FlowControlFeed { watches: watches.collect::<Result<_, _>>()? })
}

/// What the stored objects say.
pub(crate) fn configuration(api: &ApiShared) -> Result<FlowConfiguration, ApiError> {
    let (mut schemas, mut levels) = (Vec::new(), Vec::new());
    if let Some(entry) = entry(api, SCHEMAS) {
        let found = stored::<FlowSchema>(api, entry)?;
        schemas.extend(found.into_iter().map(|read| FlowSchema::clone(&read.object)));
    }
    if let Some(entry) = entry(api, LEVELS) {
        let found = stored::<PriorityLevelConfiguration>(api, entry)?;
        levels
            .extend(found.into_iter().map(|read| PriorityLevelConfiguration::clone(&read.object)));
    }
    Ok(FlowConfiguration::new(&schemas, &levels))
}

impl FlowControlFeed {
    /// Whether something has changed since the last look.
    ///
    /// # Errors
    /// When it fell behind the store's history: begin another feed.
    pub fn has_changed(&mut self) -> Result<bool, StoreError> {
        let mut has_changed = false;
        for watch in &mut self.watches {
            while let Some(event) = watch.try_next() {
                event?;
                has_changed = true;
            }
        }
        Ok(has_changed)
    }

    /// Resolves when something has changed; with false when the store has ended.
    ///
    /// # Errors
    /// When it fell behind the store's history: begin another feed.
    pub async fn changed(&mut self) -> Result<bool, StoreError> {
        let first = poll_fn(|context| {
            for watch in &mut self.watches {
                if let Poll::Ready(event) = Pin::new(watch).poll_next(context) {
                    return Poll::Ready(event);
                }
            }
            Poll::Pending
        });
        match first.await {
            Some(event) => {
                event?;
                self.has_changed().map(|_| true)
            }
            None => Ok(false),
        }
    }
}
