//! Signs approved CertificateSigningRequests with the CA of the engine, and removes those that are
//! done. The core decides; this follows the store's watch and acts through the API.

mod signatures;
#[cfg(test)]
mod tests;

use std::future::Future;
use std::sync::Arc;

use http::Method;
use k8s_openapi::api::certificates::v1::CertificateSigningRequest;
use rekindle_api::certificates::{
    CertificateOrder, FollowedRequest, FollowedRequests, SigningAgenda, SigningDecision,
    WrittenStatus, decide,
};
use rekindle_types::{ObjectJson, Tick, path_segment};

use super::front::Front;
use super::own_requests::{self, OwnRequestError, deletion_as_seen};
use super::pki::{CertificateAuthority, PkiError};
use super::store_feed::{self, FeedEnd};

pub use signatures::RingSignatures;

/// Who signs.
const SIGNER: &str = "system:rekindle-signer";
const COLLECTION: &str = "/apis/certificates.k8s.io/v1/certificatesigningrequests";

/// Why nothing became of a decision.
#[derive(Debug, thiserror::Error)]
enum SigningError {
    #[error(transparent)]
    Issue(#[from] PkiError),
    #[error(transparent)]
    Request(#[from] OwnRequestError),
}

/// Runs until `stop` resolves, or the store ends.
pub async fn sign_certificates(
    front: Front,
    authority: Arc<CertificateAuthority>,
    stop: impl Future<Output = ()>,
) {
    let signer = CertificateSigner { front, authority };
    let begin = || signer.front.api().follow_signing_requests();
    let run = |feed| signer.run(feed);
    store_feed::follow(stop, "signing requests", begin, run).await;
}

struct CertificateSigner {
    front: Front,
    authority: Arc<CertificateAuthority>,
}

impl CertificateSigner {
    async fn run(&self, mut requests: FollowedRequests) -> FeedEnd {
        let mut agenda = SigningAgenda::default();
        loop {
            let request = tokio::select! {
                change = requests.next() => match change {
                    Some(FollowedRequest::Changed(request)) => request,
                    Some(FollowedRequest::Gone(name)) => {
                        agenda.forget(&name);
                        continue;
                    }
                    Some(FollowedRequest::Unreadable(error)) => {
                        tracing::warn!(%error, "failed to read signing request");
                        continue;
                    }
                    Some(FollowedRequest::Behind(_)) => return FeedEnd::Behind,
                    None => return FeedEnd::StoreClosed,
                },
                () = self.until(agenda.next()) => {
                    let Some(name) = agenda.take_due(self.front.now()) else { continue };
                    match self.front.api().signing_request(&name) {
                        Ok(Some(request)) => request,
                        // it is gone
                        Ok(None) => continue,
                        Err(error) => {
                            tracing::warn!(%error, name = &*name, "failed to read signing request");
                            continue;
                        }
                    }
                }
            };
            self.look_at(&request, &mut agenda).await;
        }
    }

    async fn until(&self, due: Option<Tick>) {
        match due {
            Some(due) => tokio::time::sleep(due.since(self.front.now()).to_std()).await,
            None => std::future::pending().await,
        }
    }

    async fn look_at(&self, request: &CertificateSigningRequest, agenda: &mut SigningAgenda) {
        let now = self.front.now();
        let done = match decide(request, now) {
            SigningDecision::Leave => Ok(()),
            SigningDecision::Issue(order) => self.issue(request, &order, now).await,
            SigningDecision::Fail(why) => {
                self.write(request, WrittenStatus::Failure(why), now).await
            }
            SigningDecision::Remove => self.remove(request).await,
        };
        match done {
            Ok(()) => agenda.note(request, now),
            Err(error) => {
                let name = request.metadata.name.as_deref().unwrap_or_default();
                let error: &dyn std::error::Error = &error;
                tracing::warn!(error, name, "failed to handle signing request");
                agenda.note_failure(request, now);
            }
        }
    }

    async fn issue(
        &self,
        request: &CertificateSigningRequest,
        order: &CertificateOrder,
        now: Tick,
    ) -> Result<(), SigningError> {
        let certificate = self.authority.sign_order(order, now)?;
        self.write(request, WrittenStatus::Certificate(certificate), now).await
    }

    async fn write(
        &self,
        request: &CertificateSigningRequest,
        status: WrittenStatus,
        now: Tick,
    ) -> Result<(), SigningError> {
        let path = format!("{}/status", path_of(request));
        let body = status.written_into(request, now).to_json();
        self.send(Method::PUT, path, body).await
    }

    async fn remove(&self, request: &CertificateSigningRequest) -> Result<(), SigningError> {
        let meta = &request.metadata;
        let seen = deletion_as_seen(meta.uid.as_deref(), meta.resource_version.as_deref());
        self.send(Method::DELETE, path_of(request), seen).await
    }

    /// One that has changed is tried again, unless its change comes here before: a webhook may
    /// refuse with any code.
    async fn send(&self, method: Method, path: String, body: Vec<u8>) -> Result<(), SigningError> {
        Ok(own_requests::send(&self.front, SIGNER, method, path, body).await?)
    }
}

fn path_of(request: &CertificateSigningRequest) -> String {
    let name = request.metadata.name.as_deref().unwrap_or_default();
    format!("{COLLECTION}/{}", path_segment::escape(name))
}
