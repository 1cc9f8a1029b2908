//! Fills in the Secrets for tokens of service accounts, and removes those that have lost
//! their account. The core decides; this follows the store and acts through the API.

use std::future::Future;

use http::Method;
use k8s_openapi::api::core::v1::Secret;
use rekindle_api::status::ApiError;
use rekindle_api::token_secrets::{FollowedTokenSecret, FollowedTokenSecrets, TokenSecretDecision};
use rekindle_types::{ObjectJson, path_segment};

use super::front::Front;
use super::own_requests::{self, OwnRequestError, deletion_as_seen};
use super::store_feed::{self, FeedEnd};

/// Who fills in.
const USER: &str = "system:rekindle-token-secrets";

/// Why a Secret is not as it should be.
#[derive(Debug, thiserror::Error)]
enum TokenSecretError {
    #[error(transparent)]
    Api(#[from] ApiError),
    #[error(transparent)]
    Request(#[from] OwnRequestError),
}

/// Runs until `stop` resolves, or the store ends.
pub async fn keep_token_secrets(front: Front, stop: impl Future<Output = ()>) {
    let begin = || front.api().follow_token_secrets();
    let run = |feed| keep(&front, feed);
    store_feed::follow(stop, "Secrets for tokens", begin, run).await;
}

async fn keep(front: &Front, mut followed: FollowedTokenSecrets) -> FeedEnd {
    loop {
        let secret = match followed.next().await {
            Some(FollowedTokenSecret::Look(secret)) => secret,
            Some(FollowedTokenSecret::Unreadable(error)) => {
                tracing::warn!(%error, "failed to read a Secret for a token");
                continue;
            }
            Some(FollowedTokenSecret::Behind(_)) => return FeedEnd::Behind,
            None => return FeedEnd::StoreClosed,
        };
        if let Err(error) = look_at(front, &secret).await {
            let name = secret.metadata.name.as_deref().unwrap_or_default();
            let namespace = secret.metadata.namespace.as_deref().unwrap_or_default();
            let error: &dyn std::error::Error = &error;
            tracing::warn!(error, namespace, name, "failed to fill in a Secret for a token");
            return FeedEnd::Failed;
        }
    }
}

async fn look_at(front: &Front, secret: &Secret) -> Result<(), TokenSecretError> {
    let meta = &secret.metadata;
    let [namespace, name] = [&meta.namespace, &meta.name]
        .map(|part| path_segment::escape(part.as_deref().unwrap_or_default()));
    let path = format!("/api/v1/namespaces/{namespace}/secrets/{name}");
    let (method, body) = match front.api().decide_token_secret(secret)? {
        TokenSecretDecision::Leave => return Ok(()),
        TokenSecretDecision::Fill(filled) => (Method::PUT, filled.to_json()),
        TokenSecretDecision::Remove => {
            let seen = deletion_as_seen(meta.uid.as_deref(), meta.resource_version.as_deref());
            (Method::DELETE, seen)
        }
    };
    match own_requests::send(front, USER, method, path, body).await {
        // its change comes here
        Err(OwnRequestError::Refused { status: http::StatusCode::CONFLICT, .. }) => Ok(()),
        sent => Ok(sent?),
    }
}

#[cfg(test)]
mod tests;
