//! What users get from an engine's keys, and how keys are changed.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};

use super::DataDirArg;

/// `rekindle kubeconfig`.
#[derive(Debug, Subcommand)]
pub enum KubeconfigCommand {
    /// Print a kubeconfig for a user, with a new certificate; the user has the rights that roles
    /// and bindings give
    Create(KubeconfigCreate),
    /// Make all certificates of a user void that were issued until now, and end their connections
    Revoke(KubeconfigRevoke),
}

/// `rekindle kubeconfig create`.
#[derive(Args, Clone, Debug)]
pub struct KubeconfigCreate {
    /// The user's name
    #[arg(long, value_name = "NAME")]
    pub user: String,
    /// A group of the user; may be repeated
    #[arg(long = "group", value_name = "NAME")]
    pub groups: Vec<String>,
    /// How long the certificate is good
    #[arg(long, value_name = "DURATION", default_value = "24h", value_parser = humantime::parse_duration)]
    pub ttl: Duration,
    /// The namespace of the context [default: default]
    #[arg(short, long, value_name = "NAMESPACE")]
    pub namespace: Option<String>,
    /// The API's address for the user, such as https://10.0.0.5:6443 [default: that of the engine's
    /// own kubeconfig]
    #[arg(long, value_name = "URL")]
    pub server: Option<String>,
    /// Write it to this file, which only its owner can read [default: standard output]
    #[arg(long, value_name = "FILE")]
    pub file: Option<PathBuf>,
    #[command(flatten)]
    pub data_dir: DataDirArg,
}

/// `rekindle kubeconfig revoke`.
#[derive(Args, Clone, Debug)]
pub struct KubeconfigRevoke {
    /// The user's name
    #[arg(long, value_name = "NAME")]
    pub user: String,
    #[command(flatten)]
    pub data_dir: DataDirArg,
}

/// `rekindle token-key`.
#[derive(Debug, Subcommand)]
pub enum TokenKeyCommand {
    /// Sign tokens with a new key; those of the key before stay good until it is retired
    Rotate(TokenKeyRotate),
    /// Make all tokens of the key before void
    Retire(TokenKeyRetire),
}

/// `rekindle token-key rotate`.
#[derive(Args, Clone, Debug)]
pub struct TokenKeyRotate {
    #[command(flatten)]
    pub data_dir: DataDirArg,
}

/// `rekindle token-key retire`.
#[derive(Args, Clone, Debug)]
pub struct TokenKeyRetire {
    /// Also while pods may have tokens of that key: they are refused until they get new ones
    #[arg(long)]
    pub force: bool,
    #[command(flatten)]
    pub data_dir: DataDirArg,
}
