//! How registries are dealt with, and how much of them is taken.

use std::collections::BTreeSet;
use std::time::Duration;

use rustls::pki_types::CertificateDer;

/// What a [`Puller`](super::Puller) goes by.
#[derive(Clone, Debug)]
pub struct RegistrySettings {
    /// Registries (`host` or `host:port`) that are spoken to without TLS, beside those on loopback.
    pub plain_http: BTreeSet<String>,
    /// Certificates that are trusted beside the system's.
    pub extra_roots: Vec<CertificateDer<'static>>,
    /// To connect, TLS included, and to begin an answer.
    pub answer_timeout: Duration,
    /// Between two pieces of an answer.
    pub stall_timeout: Duration,
    /// Tries of one request that fails for a reason that may pass: broken connections, 429, 5xx.
    pub attempts_max: u32,
    /// Before the second try; doubled each time.
    pub first_pause: Duration,
    /// Layers of one image that come at the same time (containerd has 3, too).
    pub layers_at_once: usize,
    /// Bytes of a manifest or an index at most (the distribution specification asks for 4 MiB at
    /// least).
    pub manifest_max_bytes: u64,
    /// Bytes of a config at most.
    pub config_max_bytes: u64,
    /// Bytes of a packed layer at most.
    pub layer_max_bytes: u64,
}

impl Default for RegistrySettings {
    fn default() -> Self {
        Self {
            plain_http: BTreeSet::new(),
            extra_roots: Vec::new(),
            answer_timeout: Duration::from_secs(30),
            stall_timeout: Duration::from_secs(60),
            attempts_max: 4,
            first_pause: Duration::from_millis(250),
            layers_at_once: 3,
            manifest_max_bytes: 4 << 20,
            config_max_bytes: 8 << 20,
            layer_max_bytes: 32 << 30,
        }
    }
}
