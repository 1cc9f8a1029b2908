//! The server that gets the events of the audit log, as a kubeconfig describes it.

use std::path::Path;

use anyhow::Context;
use bytes::Bytes;
use futures::future::BoxFuture;
use http::{Method, Request, Uri, header};
use kube::Client;
use kube::client::Body;
use kube::config::KubeConfigOptions;
use rekindle_api_server::EventReceiver;
use rekindle_types::causes;

use crate::{client, kubeconfig};

/// A server that takes events by POST.
pub struct EventWebhook {
    client: Client,
    /// What is asked there.
    path: String,
}

impl EventWebhook {
    /// From the current context of this kubeconfig. To be called inside a runtime.
    ///
    /// # Errors
    /// When it cannot be read, or names no server.
    pub async fn read(path: &Path) -> anyhow::Result<Self> {
        let context = || format!("read the audit webhook's kubeconfig {}", path.display());
        let kubeconfig = kubeconfig::read_named(path).with_context(context)?;
        let options = KubeConfigOptions::default();
        let mut config = client::config_of(kubeconfig, &options).await.with_context(context)?;
        // the client adds a slash to the path of a server, and this one is asked as it is named
        let server = std::mem::take(&mut config.cluster_url);
        let asked = format!("{}?timeout=30s", server.path());
        let mut parts = server.into_parts();
        parts.path_and_query = Some("/".parse().expect("a slash is a path"));
        config.cluster_url = Uri::from_parts(parts).with_context(context)?;
        Ok(Self { client: Client::try_from(config).with_context(context)?, path: asked })
    }
}

impl EventReceiver for EventWebhook {
    fn post(&self, list: Bytes) -> BoxFuture<'static, Result<(), String>> {
        let request = Request::builder()
            .method(Method::POST)
            .uri(&self.path)
            .header(header::CONTENT_TYPE, "application/json")
            .header(header::ACCEPT, "application/json")
            .body(Body::from(list));
        let client = self.client.clone();
        Box::pin(async move {
            let request = request.map_err(|error| causes(&error))?;
            let answer = client.send(request).await.map_err(|error| causes(&error))?;
            // its body says nothing more
            match answer.status() {
                status if status.is_success() => Ok(()),
                status => Err(format!("the server answered {status}")),
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Where events go by this kubeconfig, or the error.
    async fn read(kubeconfig: &str) -> Result<String, String> {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("webhook.yaml");
        std::fs::write(&file, kubeconfig).unwrap();
        let read = EventWebhook::read(&file).await;
        read.map(|webhook| webhook.path).map_err(|error| format!("{error:#}"))
    }

    #[tokio::test]
    async fn the_path_of_the_server_is_asked_as_it_is_named() {
        for (server, path) in [
            ("https://audit.example.org/events", "/events?timeout=30s"),
            ("https://audit.example.org", "/?timeout=30s"),
            ("https://audit.example.org:1/a/b/", "/a/b/?timeout=30s"),
        ] {
            let kubeconfig = format!(
                "{{apiVersion: v1, kind: Config, current-context: a, \
                 contexts: [{{name: a, context: {{cluster: a, user: a}}}}], \
                 users: [{{name: a, user: {{token: t}}}}], \
                 clusters: [{{name: a, cluster: {{server: {server:?}}}}}]}}"
            );
            assert_eq!(read(&kubeconfig).await.as_deref(), Ok(path), "{server}");
        }
    }

    #[tokio::test]
    async fn a_bad_kubeconfig_is_told_with_its_file() {
        for bad in ["", "{apiVersion: v1, kind: Config}", "{clusters: 1}", "text"] {
            let error = read(bad).await.unwrap_err();
            let prefix = "read the audit webhook's kubeconfig";
            assert!(error.starts_with(prefix) && error.contains("webhook.yaml"), "{error}");
        }
        let missing = EventWebhook::read(Path::new("/none/x")).await.err().unwrap();
        assert!(format!("{missing:#}").ends_with("/none/x: there is no such file"), "{missing:#}");
    }
}
