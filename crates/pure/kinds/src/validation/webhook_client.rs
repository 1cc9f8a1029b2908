//! How a webhook is reached (`clientConfig`): by a URL, or by a Service.
//!
//! Wording and order of mistakes follow upstream's `apiserver/pkg/util/webhook`.

use k8s_openapi::api::admissionregistration;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions;
use rekindle_types::validation::field_error::FieldError;

use super::{Path, names};

const URL_FORM: &str = "; desired format: https://host[/path]";

/// What says how a webhook is reached.
#[derive(Clone, Copy)]
pub struct WebhookClient<'c> {
    /// Where it is, when it is no Service.
    pub url: Option<&'c str>,
    /// The Service that it is behind.
    pub service: Option<WebhookService<'c>>,
}

/// The Service of a webhook.
#[derive(Clone, Copy)]
pub struct WebhookService<'c> {
    /// Its name.
    pub name: &'c str,
    /// Its namespace.
    pub namespace: &'c str,
    /// The path of the URL.
    pub path: Option<&'c str>,
    /// The port of the Service; 443 without one.
    pub port: Option<i32>,
}

/// Both groups of the API have a type of their own with the same fields.
macro_rules! from_config {
    ($config:ty) => {
        impl<'c> From<&'c $config> for WebhookClient<'c> {
            fn from(config: &'c $config) -> Self {
                let service = config.service.as_ref().map(|service| WebhookService {
                    name: &service.name,
                    namespace: &service.namespace,
                    path: service.path.as_deref(),
                    port: service.port,
                });
                Self { url: config.url.as_deref(), service }
            }
        }
    };
}
from_config!(admissionregistration::v1::WebhookClientConfig);
from_config!(apiextensions::v1::WebhookClientConfig);

/// What is wrong with it.
pub(crate) fn errors(client: WebhookClient<'_>, field: &Path) -> Vec<FieldError> {
    match (client.url, client.service) {
        (Some(_), Some(_)) | (None, None) => {
            vec![FieldError::required(field, "exactly one of url or service is required")]
        }
        (Some(url), None) => url_errors(url, &field.child("url")),
        (None, Some(service)) => service_errors(service, &field.child("service")),
    }
}

fn url_errors(url: &str, field: &Path) -> Vec<FieldError> {
    let (before, fragment) = url.split_once('#').unwrap_or((url, ""));
    let uri = match before.parse::<http::Uri>() {
        Ok(uri) => uri,
        Err(why) => {
            let why = format!("url must be a valid URL: {why}{URL_FORM}");
            return vec![FieldError::required(field, why)];
        }
    };
    let mut errors = Vec::new();
    let scheme = uri.scheme_str().unwrap_or_default();
    if scheme != "https" {
        let why = format!("'https' is the only allowed URL scheme{URL_FORM}");
        errors.push(FieldError::invalid(field, scheme, why));
    }
    let host = uri.host().unwrap_or_default();
    // a path alone is read as a host by this parser, and has no scheme
    if host.is_empty() || scheme.is_empty() {
        errors.push(FieldError::invalid(field, "", format!("host must be specified{URL_FORM}")));
    }
    let authority = uri.authority().map(http::uri::Authority::as_str).unwrap_or_default();
    if let Some((user, _)) = authority.rsplit_once('@') {
        let why = "user information is not permitted in the URL";
        errors.push(FieldError::invalid(field, user, why));
    }
    if !fragment.is_empty() {
        let why = "fragments are not permitted in the URL";
        errors.push(FieldError::invalid(field, fragment, why));
    }
    let query = uri.query().unwrap_or_default();
    if !query.is_empty() {
        let why = "query parameters are not permitted in the URL";
        errors.push(FieldError::invalid(field, query, why));
    }
    errors
}

fn service_errors(service: WebhookService<'_>, field: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    // upstream hands the two over in the wrong order, so each error names the other field
    for (name, given) in [("name", service.namespace), ("namespace", service.name)] {
        if given.is_empty() {
            let why = format!("service {name} is required");
            errors.push(FieldError::required(field.child(name), why));
        }
    }
    if let Some(port) = service.port.filter(|port| !(1..=65535).contains(port)) {
        let why = "port is not valid: must be between 1 and 65535, inclusive";
        errors.push(FieldError::invalid(field.child("port"), port, why));
    }
    errors
        .extend(service.path.into_iter().flat_map(|path| path_errors(path, &field.child("path"))));
    errors
}

fn path_errors(path: &str, field: &Path) -> Vec<FieldError> {
    let invalid = |why: String| FieldError::invalid(field, path, why);
    match path {
        "" | "/" => return Vec::new(),
        "//" => return vec![invalid("segment[0] may not be empty".to_owned())],
        _ => {}
    }
    let mut errors = Vec::new();
    if !path.starts_with('/') {
        errors.push(invalid("must start with a '/'".to_owned()));
    }
    // the first byte may begin a longer character
    let mut rest = path.chars();
    rest.next();
    let rest = rest.as_str();
    let rest = rest.strip_suffix('/').unwrap_or(rest);
    for (index, segment) in rest.split('/').enumerate() {
        if segment.is_empty() {
            errors.push(invalid(format!("segment[{index}] may not be empty")));
            continue;
        }
        for why in names::dns_subdomain(segment) {
            errors.push(invalid(format!("segment[{index}]: {why}")));
        }
    }
    errors
}

#[cfg(test)]
mod tests {
    use super::*;

    fn messages(client: WebhookClient<'_>) -> Vec<String> {
        errors(client, &Path::new("c")).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_url_has_https_a_host_and_a_path_alone() {
        for (url, wanted) in [
            ("https://a.example.org/x", ""),
            ("https://127.0.0.1:8443", ""),
            ("https://[::1]:8443/a/b", ""),
            ("http://a.example.org", "Invalid value: \"http\": 'https' is the only"),
            ("https://me@a.example.org", "Invalid value: \"me\": user information"),
            ("https://a.example.org/x#y", "Invalid value: \"y\": fragments"),
            ("https://a.example.org/x?y=1", "Invalid value: \"y=1\": query parameters"),
            ("/x", "Invalid value: \"\": 'https' is the only"),
            ("https://a b", "Required value: url must be a valid URL"),
        ] {
            let found = messages(WebhookClient { url: Some(url), service: None });
            match wanted {
                "" => assert_eq!(found, Vec::<String>::new(), "{url}"),
                wanted => assert!(found[0].contains(wanted), "{url}: {found:?}"),
            }
        }
    }

    #[test]
    fn a_service_has_a_name_a_namespace_a_port_and_a_path_of_names() {
        let whole =
            WebhookService { name: "a", namespace: "b", path: Some("/x/y/"), port: Some(1) };
        let of = |service| messages(WebhookClient { url: None, service: Some(service) });
        assert_eq!(of(whole), Vec::<String>::new());
        assert_eq!(
            of(WebhookService { name: "", namespace: "", port: Some(0), ..whole }),
            [
                "c.service.name: Required value: service name is required",
                "c.service.namespace: Required value: service namespace is required",
                "c.service.port: Invalid value: 0: port is not valid: must be between 1 and 65535, inclusive",
            ]
        );
        for (path, wanted) in [
            ("//", "segment[0] may not be empty"),
            ("/a//b", "segment[1] may not be empty"),
            ("a/b", "must start with a '/'"),
            ("/A", "segment[0]: a lowercase RFC 1123 subdomain"),
        ] {
            let found = of(WebhookService { path: Some(path), ..whole });
            assert!(found[0].contains(wanted), "{path}: {found:?}");
        }
    }
}
