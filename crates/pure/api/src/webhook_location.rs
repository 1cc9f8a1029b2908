//! Where a webhook is: at a URL, or behind a Service.

use std::net::SocketAddr;

use rekindle_kinds::validation::webhook_client::WebhookClient;
use rekindle_types::Tick;

use crate::admission_session::WebhookTarget;
use crate::service_endpoints;
use crate::shared::ApiShared;

/// The port of a Service when its reference names none.
const HTTPS_PORT: i32 = 443;

/// Where a webhook is.
#[derive(Clone, Debug)]
pub(crate) enum WebhookLocation {
    /// At this URL.
    Url(String),
    /// Behind this Service.
    Service(WebhookServiceName),
}

/// The Service of a webhook, and what is asked there.
#[derive(Clone, Debug)]
pub(crate) struct WebhookServiceName {
    namespace: String,
    name: String,
    /// Without the slash that it begins with.
    path: String,
    port: i32,
}

impl WebhookLocation {
    /// None when the configuration says nothing.
    pub(crate) fn new(client: WebhookClient<'_>) -> Option<Self> {
        if let Some(url) = client.url {
            return Some(Self::Url(url.to_owned()));
        }
        let service = client.service?;
        let path = service.path.unwrap_or_default();
        Some(Self::Service(WebhookServiceName {
            namespace: service.namespace.to_owned(),
            name: service.name.to_owned(),
            path: path.strip_prefix('/').unwrap_or(path).to_owned(),
            port: service.port.unwrap_or(HTTPS_PORT),
        }))
    }

    /// What the front asks, within this time.
    pub(crate) fn target(&self, api: &ApiShared, timeout_seconds: u32, now: Tick) -> WebhookTarget {
        match self {
            Self::Url(url) => {
                // a host alone has the path of its root
                let has_path = url.split_once("://").is_some_and(|(_, rest)| rest.contains('/'));
                let root = if has_path { "" } else { "/" };
                let url = format!("{url}{root}?timeout={timeout_seconds}s");
                WebhookTarget { url, endpoint: None }
            }
            Self::Service(service) => {
                let WebhookServiceName { namespace, name, path, port } = service;
                let url = format!(
                    "https://{name}.{namespace}.svc:{port}/{path}?timeout={timeout_seconds}s"
                );
                WebhookTarget { url, endpoint: Some(service.endpoint(api, now)) }
            }
        }
    }
}

impl WebhookServiceName {
    /// A ready endpoint of the Service, or why there is none.
    fn endpoint(&self, api: &ApiShared, now: Tick) -> Result<SocketAddr, String> {
        let service = service_endpoints::stored_service(api, &self.namespace, &self.name)
            .map_err(|error| error.to_string())?;
        let service = service.ok_or_else(|| format!("service {:?} not found", self.name))?;
        let asked = (self.namespace.as_str(), self.name.as_str(), &*self.port.to_string());
        service_endpoints::any_ready(api, &service, asked, now).map_err(|error| error.to_string())
    }
}
