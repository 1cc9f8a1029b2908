//! Where exhausted ladders are reported to.

use std::path::PathBuf;

use clap::Args;

/// The variable with the URL of the webhook for exhausted ladders, which may hold a secret.
pub const EXHAUSTED_WEBHOOK: &str = "REKINDLE_EXHAUSTED_WEBHOOK";

/// The webhook for exhausted ladders; none when neither a URL nor a file is given.
#[derive(Args, Clone, Debug)]
pub struct ExhaustedWebhook {
    /// Post each ladder that is exhausted to this URL as JSON, until it is taken;
    /// docs/how-to/report-an-exhausted-ladder.md
    #[arg(
        long,
        value_name = "URL",
        env = EXHAUSTED_WEBHOOK,
        hide_env_values = true,
        group = "webhook"
    )]
    pub exhausted_webhook: Option<String>,
    /// Read this URL from a file: every user of the machine can read a command line
    #[arg(long, value_name = "FILE", env = "REKINDLE_EXHAUSTED_WEBHOOK_FILE", group = "webhook")]
    pub exhausted_webhook_file: Option<PathBuf>,
    /// The certificates, in PEM form, of the authority that the webhook's own is of [default: those
    /// that the system trusts]
    #[arg(long, value_name = "FILE", env = "REKINDLE_EXHAUSTED_WEBHOOK_CA", requires = "webhook")]
    pub exhausted_webhook_ca: Option<PathBuf>,
}
