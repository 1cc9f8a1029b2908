//! Encryption at rest.

use std::path::PathBuf;

use clap::Args;

/// How values lie in the store and in backups, under the name of kube-apiserver's flag.
#[derive(Args, Clone, Debug, Default)]
pub struct EncryptionArgs {
    /// The EncryptionConfiguration (apiserver.config.k8s.io/v1) of what is encrypted in the data
    /// directory; see docs/how-to/encrypt-secrets-at-rest.md
    #[arg(long, value_name = "FILE", env = "REKINDLE_ENCRYPTION_PROVIDER_CONFIG")]
    pub encryption_provider_config: Option<PathBuf>,
}
