//! Where a webhook is: at a URL, or behind a Service.

use std::net::SocketAddr;

use k8s_openapi::api::admissionregistration::v1::ServiceReference;
use k8s_openapi::api::core::v1::Service;

use super::configurations::{StoredWebhook, WebhookLocation};
use super::review::WebhookReview;
use crate::admission_session::{WebhookQuestion, WebhookTarget};
use crate::call::ApiCall;
use crate::keys;
use crate::service_endpoints;
use crate::validation::text;

/// The port of a Service when its reference names none.
const HTTPS_PORT: i32 = 443;

/// What the front sends to the webhook.
pub(super) fn question(
    call: &ApiCall<'_>,
    webhook: &StoredWebhook,
    review: &WebhookReview,
    content: &[u8],
) -> WebhookQuestion {
    WebhookQuestion {
        webhook: webhook.name.clone(),
        target: target(call, webhook),
        ca_bundle: webhook.ca_bundle.clone(),
        timeout_seconds: webhook.timeout_seconds,
        body: review.body(content),
    }
}

fn target(call: &ApiCall<'_>, webhook: &StoredWebhook) -> WebhookTarget {
    let timeout = webhook.timeout_seconds;
    match &webhook.client {
        WebhookLocation::Url(url) => {
            // a host alone has the path of its root
            let has_path = url.split_once("://").is_some_and(|(_, rest)| rest.contains('/'));
            let root = if has_path { "" } else { "/" };
            WebhookTarget { url: format!("{url}{root}?timeout={timeout}s"), endpoint: None }
        }
        WebhookLocation::Service(service) => {
            let ServiceReference { name, namespace, .. } = service;
            let port = service.port.unwrap_or(HTTPS_PORT);
            let path = text(service.path.as_ref());
            let path = path.strip_prefix('/').unwrap_or(path);
            WebhookTarget {
                url: format!("https://{name}.{namespace}.svc:{port}/{path}?timeout={timeout}s"),
                endpoint: Some(endpoint(call, service, port)),
            }
        }
    }
}

/// A ready endpoint of the Service, or why there is none.
fn endpoint(
    call: &ApiCall<'_>,
    reference: &ServiceReference,
    port: i32,
) -> Result<SocketAddr, String> {
    let (api, name) = (call.api, &reference.name);
    let missing = || format!("service {name:?} not found");
    let entry = api.registry.find("", "v1", "services").ok_or_else(missing)?;
    let stored = api.store.get(&keys::object(entry, &reference.namespace, name));
    let stored = stored.ok_or_else(missing)?;
    let service = api.read_as::<Service>(entry, &stored).map_err(|error| error.to_string())?;
    let service = service.ok_or_else(missing)?;
    let asked = (reference.namespace.as_str(), name.as_str(), &*port.to_string());
    service_endpoints::any_ready(api, &service, asked, call.request.now)
        .map_err(|error| error.to_string())
}
