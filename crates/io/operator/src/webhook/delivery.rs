//! One notice on its way: the request to the receiver, and the word in the ledger that it was
//! taken.

use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request, Uri, header};
use http_body_util::Full;
use hyper_rustls::HttpsConnector;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use kube::api::{Api, Patch, PatchParams};
use kube::client::ConfigExt;
use kube::{Client, Config};
use rekindle_reconcile::{
    DeliveryResult, DeliveryStep, ExhaustionNotice, LedgerRef, NoticeDelivery,
};
use rekindle_types::causes;
use rekindle_types::v1alpha1::RestartLedger;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use serde_json::json;

/// From the first byte to the head of the answer; the rest of the answer is not read.
const ANSWER_WITHIN: Duration = Duration::from_secs(10);
/// Bytes of a URL.
const URL_BYTES_MAX: usize = 2048;
/// Who asks.
const USER_AGENT: &str = concat!("rekindle/", env!("CARGO_PKG_VERSION"));

/// Why a URL is no webhook.
#[derive(Debug, thiserror::Error)]
pub enum WebhookError {
    /// It is no URL.
    #[error("the webhook is no URL such as https://hooks.example/T1")]
    NotAUrl(#[source] http::uri::InvalidUri),
    /// It is one of another protocol, or without a host.
    #[error("the webhook's URL must begin with http:// or https:// and name a host")]
    NotHttp,
    /// It holds a user's name or password, which are not sent.
    #[error("the webhook's URL may hold no user and password: put a token into its path")]
    Credentials,
    /// It is too long.
    #[error("the webhook's URL may not be more than {URL_BYTES_MAX} bytes")]
    TooLong,
    /// Certificates of an authority are given for a URL that has no TLS.
    #[error(
        "the webhook's URL begins with http://: the certificates of an authority have no use there"
    )]
    AuthorityWithoutTls,
    /// The file of the authority holds no certificate, or one that cannot be read.
    #[error("the file of the webhook's authority holds no certificates in PEM form")]
    NoAuthority(#[source] Option<rustls::pki_types::pem::Error>),
    /// TLS cannot be prepared.
    #[error("prepare TLS for the webhook")]
    Tls(#[source] Box<kube::Error>),
}

/// Why a notice was not taken.
#[derive(Debug, thiserror::Error)]
enum DeliveryError {
    #[error("{0}")]
    Unreachable(String),
    #[error("no answer within {}s", ANSWER_WITHIN.as_secs())]
    Slow,
    #[error("it answered {0}{hint}", hint = redirect_hint(*.0))]
    Answer(http::StatusCode),
}

const fn redirect_hint(status: http::StatusCode) -> &'static str {
    match status.as_u16() {
        300..400 => ": redirects are not followed",
        _ => "",
    }
}

/// Who is told.
#[derive(Debug)]
pub struct Webhook {
    url: Uri,
    http: hyper_util::client::legacy::Client<HttpsConnector<HttpConnector>, Full<Bytes>>,
}

impl Webhook {
    /// The receiver at this URL, whose certificate is one of these authorities' (certificates in
    /// PEM form), or else of one that the system trusts. Connects to nobody yet.
    ///
    /// # Errors
    /// When it is no URL of http or https, or holds credentials; or the authorities cannot be read.
    pub fn new(url: &str, authorities: Option<&[u8]>) -> Result<Self, WebhookError> {
        let url = read(url)?;
        let mut config = Config::new(url.clone());
        if let Some(pem) = authorities {
            if url.scheme() != Some(&http::uri::Scheme::HTTPS) {
                return Err(WebhookError::AuthorityWithoutTls);
            }
            config.root_cert = Some(certificates(pem)?);
        }
        let connector = config.rustls_https_connector();
        let connector = connector.map_err(|error| WebhookError::Tls(Box::new(error)))?;
        let http = hyper_util::client::legacy::Client::builder(TokioExecutor::new())
            .pool_max_idle_per_host(0)
            .build(connector);
        Ok(Self { url, http })
    }

    /// Does what is left to do of a delivery.
    pub(super) async fn carry_out(
        &self,
        client: &Client,
        delivery: &NoticeDelivery,
    ) -> DeliveryResult {
        match delivery.step {
            DeliveryStep::Post => {
                if let Err(error) = self.post(&delivery.notice).await {
                    // a token may stand in the path
                    let host = self.url.host().unwrap_or_default();
                    let pod = format!("{}/{}", delivery.notice.namespace, delivery.notice.pod);
                    tracing::warn!(host, pod, %error, "failed to deliver the notice of an exhausted ladder; trying again later");
                    return DeliveryResult::Again(DeliveryStep::Post);
                }
            }
            DeliveryStep::Note => {}
        }
        note(client, &delivery.ledger, &delivery.notice).await
    }

    async fn post(&self, notice: &ExhaustionNotice) -> Result<(), DeliveryError> {
        let body = serde_json::to_vec(notice).expect("a notice has text keys only");
        let request = Request::builder()
            .method(Method::POST)
            .uri(self.url.clone())
            .header(header::CONTENT_TYPE, "application/json")
            .header(header::USER_AGENT, USER_AGENT)
            .body(Full::new(Bytes::from(body)))
            .expect("the parts of the request are constants and a URL that was read");
        match tokio::time::timeout(ANSWER_WITHIN, self.http.request(request)).await {
            Err(_elapsed) => Err(DeliveryError::Slow),
            Ok(Err(error)) => Err(DeliveryError::Unreachable(causes(&error))),
            Ok(Ok(answer)) if answer.status().is_success() => Ok(()),
            Ok(Ok(answer)) => Err(DeliveryError::Answer(answer.status())),
        }
    }
}

/// The certificates of a PEM file, at least one.
fn certificates(pem: &[u8]) -> Result<Vec<Vec<u8>>, WebhookError> {
    let read: Result<Vec<Vec<u8>>, _> = CertificateDer::pem_slice_iter(pem)
        .map(|certificate| certificate.map(|certificate| certificate.as_ref().to_vec()))
        .collect();
    match read {
        Ok(certificates) if certificates.is_empty() => Err(WebhookError::NoAuthority(None)),
        Ok(certificates) => Ok(certificates),
        Err(error) => Err(WebhookError::NoAuthority(Some(error))),
    }
}

fn read(url: &str) -> Result<Uri, WebhookError> {
    if url.len() > URL_BYTES_MAX {
        return Err(WebhookError::TooLong);
    }
    let url: Uri = url.parse().map_err(WebhookError::NotAUrl)?;
    let is_http = matches!(url.scheme_str(), Some("http" | "https"));
    if !is_http || url.host().is_none_or(str::is_empty) {
        return Err(WebhookError::NotHttp);
    }
    if url.authority().is_some_and(|authority| authority.as_str().contains('@')) {
        return Err(WebhookError::Credentials);
    }
    Ok(url)
}

/// Writes into the ledger that its exhaustion was told.
async fn note(client: &Client, ledger: &LedgerRef, notice: &ExhaustionNotice) -> DeliveryResult {
    let patch = json!({
        "metadata": {"uid": ledger.uid},
        "status": {"exhaustionToldAt": notice.at},
    });
    let ledgers: Api<RestartLedger> = Api::namespaced(client.clone(), &ledger.namespace);
    match ledgers.patch_status(&ledger.name, &PatchParams::default(), &Patch::Merge(patch)).await {
        Ok(_) => DeliveryResult::Done,
        // it is gone, or another one of its name: nobody will be told of it again
        Err(kube::Error::Api(answer)) if matches!(answer.code, 404 | 409 | 422) => {
            DeliveryResult::Done
        }
        Err(error) => {
            tracing::warn!(ledger = ledger.name, %error, "failed to record that a notice was delivered");
            DeliveryResult::Again(DeliveryStep::Note)
        }
    }
}

#[cfg(test)]
mod tests;
