//! `rekindle backup`, `rekindle restore` and `rekindle store`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::{DataDirArg, EncryptionArgs, OutputArg};

/// `rekindle backup`.
#[derive(Args, Clone, Debug)]
pub struct BackupArgs {
    /// The file to write, which only its owner can read: it holds Secrets and keys. - is standard
    /// output
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Replace the file if it is there
    #[arg(long)]
    pub force: bool,
    /// Leave out the engine's CA and the key that signs tokens. A restored engine makes new ones:
    /// kubeconfigs and tokens of the old one are void
    #[arg(long)]
    pub without_keys: bool,
    /// Take the objects through the API of this kubeconfig, such as that of another machine;
    /// without keys, which no API gives away
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
    /// The context of the kubeconfig [default: its current one]
    #[arg(long, value_name = "NAME", requires = "kubeconfig")]
    pub context: Option<String>,
    /// A line for people, or JSON (its shape: docs/how-to/back-up-and-restore.md)
    #[arg(short, long, value_enum, default_value_t = OutputArg::Text)]
    pub output: OutputArg,
    #[command(flatten)]
    pub data_dir: DataDirArg,
}

/// `rekindle restore`.
#[derive(Args, Clone, Debug)]
pub struct RestoreArgs {
    /// The backup; - is standard input
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Replace the store and the keys of the data directory; they are kept beside the new ones
    #[arg(long)]
    pub force: bool,
    /// Lines for people, or JSON (its shape: docs/how-to/back-up-and-restore.md)
    #[arg(short, long, value_enum, default_value_t = OutputArg::Text)]
    pub output: OutputArg,
    #[command(flatten)]
    pub encryption: EncryptionArgs,
    #[command(flatten)]
    pub data_dir: DataDirArg,
}

/// `rekindle store`.
#[derive(Debug, Subcommand)]
pub enum StoreCommand {
    /// Look for damage in the store of an engine that does not run, or in a backup; exit code 1
    /// when there is any
    Check(StoreCheck),
}

/// `rekindle store check`.
#[derive(Args, Clone, Debug)]
pub struct StoreCheck {
    /// Check this backup and not a data directory; - is standard input
    #[arg(long, value_name = "FILE")]
    pub backup: Option<PathBuf>,
    /// A line for each problem and a summary, or JSON (its shape:
    /// docs/how-to/back-up-and-restore.md)
    #[arg(short, long, value_enum, default_value_t = OutputArg::Text)]
    pub output: OutputArg,
    #[command(flatten)]
    pub encryption: EncryptionArgs,
    #[command(flatten)]
    pub data_dir: DataDirArg,
}
