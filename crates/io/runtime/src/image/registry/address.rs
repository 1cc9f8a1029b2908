//! Where a registry is reached: the host behind a reference's first part, and whether plain HTTP
//! may be spoken to it.

use std::collections::BTreeSet;
use std::net::IpAddr;

use crate::image::ImageReference;

/// What references call Docker Hub.
const DOCKER_HUB: &str = "docker.io";
/// Where Docker Hub serves its registry.
const DOCKER_HUB_HOST: &str = "registry-1.docker.io";
/// The port on which even a loopback registry speaks TLS.
const HTTPS_PORT: &str = "443";

/// How requests reach a registry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RegistryScheme {
    /// With TLS.
    Https,
    /// Without: loopback, or what the operator named.
    Http,
}

impl RegistryScheme {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Https => "https",
            Self::Http => "http",
        }
    }
}

/// A registry as requests address it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RegistryAddress {
    pub(super) scheme: RegistryScheme,
    /// `host` or `host:port`.
    pub(super) authority: String,
}

impl RegistryAddress {
    /// The registry of `reference`. `plain_http` holds registries (`host` or `host:port`) that may
    /// be reached without TLS beside those on loopback, which no other machine can listen in on (as
    /// Docker does for 127.0.0.0/8).
    pub(super) fn new(reference: &ImageReference, plain_http: &BTreeSet<String>) -> Self {
        let registry = reference.registry();
        if registry == DOCKER_HUB {
            return Self { scheme: RegistryScheme::Https, authority: DOCKER_HUB_HOST.to_owned() };
        }
        let (host, port) = match registry.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (registry, None),
        };
        let named = plain_http.contains(registry) || plain_http.contains(host);
        let scheme = match named || (is_loopback(host) && port != Some(HTTPS_PORT)) {
            true => RegistryScheme::Http,
            false => RegistryScheme::Https,
        };
        Self { scheme, authority: registry.to_owned() }
    }

    /// The URL of `path`, which begins with a slash.
    pub(super) fn url(&self, path: &str) -> String {
        format!("{}://{}{path}", self.scheme.name(), self.authority)
    }
}

fn is_loopback(host: &str) -> bool {
    host.eq_ignore_ascii_case("localhost")
        || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_loopback_and_named_registries_are_spoken_to_without_tls() {
        let named = BTreeSet::from(["plain.test".to_owned(), "other.test:5000".to_owned()]);
        let cases = [
            ("busybox", "https://registry-1.docker.io/v2/"),
            ("registry.k8s.io/pause:3", "https://registry.k8s.io/v2/"),
            ("127.0.0.1:5000/x", "http://127.0.0.1:5000/v2/"),
            ("127.3.2.1:5000/x", "http://127.3.2.1:5000/v2/"),
            ("localhost:5000/x", "http://localhost:5000/v2/"),
            ("localhost:443/x", "https://localhost:443/v2/"),
            ("127.evil.test:5000/x", "https://127.evil.test:5000/v2/"),
            ("localhost.evil.test:5000/x", "https://localhost.evil.test:5000/v2/"),
            ("192.168.1.1:5000/x", "https://192.168.1.1:5000/v2/"),
            ("plain.test/x", "http://plain.test/v2/"),
            ("plain.test:8080/x", "http://plain.test:8080/v2/"),
            ("other.test:5000/x", "http://other.test:5000/v2/"),
            ("other.test/x", "https://other.test/v2/"),
        ];
        for (image, url) in cases {
            let reference = ImageReference::parse(image).unwrap();
            assert_eq!(RegistryAddress::new(&reference, &named).url("/v2/"), url, "{image}");
        }
    }
}
