//! The audit log of the API.

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{ArgGroup, Args, ValueEnum};
use rekindle_api_server::{AuditMode, AuditSink, BatchLimits, RotationLimits};

/// Settings of the audit log, under the names of kube-apiserver's flags.
#[derive(Args, Clone, Debug)]
#[command(group = ArgGroup::new("audit_backend").multiple(true))]
pub struct AuditArgs {
    /// The Policy (audit.k8s.io/v1) of the audit log: which requests are recorded, and how much of
    /// them; see docs/how-to/keep-an-audit-log.md
    #[arg(
        long,
        value_name = "FILE",
        env = "REKINDLE_AUDIT_POLICY_FILE",
        requires = "audit_backend"
    )]
    pub audit_policy_file: Option<PathBuf>,
    /// The file of the audit log, or - for standard output
    #[arg(
        long,
        value_name = "FILE",
        env = "REKINDLE_AUDIT_LOG_PATH",
        group = "audit_backend",
        requires = "audit_policy_file"
    )]
    pub audit_log_path: Option<PathBuf>,
    /// How many days earlier files of the audit log are kept; 0: for ever
    #[arg(long, value_name = "DAYS", default_value_t = 0)]
    pub audit_log_maxage: u32,
    /// How many earlier files of the audit log are kept; 0: all of them
    #[arg(long, value_name = "NUMBER", default_value_t = 0)]
    pub audit_log_maxbackup: usize,
    /// The size of the audit log's file at which a new one begins, in MiB; 0 means 100
    #[arg(long, value_name = "MIB", default_value_t = LOG_MEBIBYTES)]
    pub audit_log_maxsize: u32,
    /// Whether clients wait until their requests are in the audit log; blocking-strict is not
    /// supported
    #[arg(long, value_enum, value_name = "MODE", default_value_t = AuditModeArg::Blocking)]
    pub audit_log_mode: AuditModeArg,
    /// A kubeconfig whose current context names a server: events are posted to it in batches
    #[arg(
        long,
        value_name = "FILE",
        env = "REKINDLE_AUDIT_WEBHOOK_CONFIG_FILE",
        group = "audit_backend",
        requires = "audit_policy_file"
    )]
    pub audit_webhook_config_file: Option<PathBuf>,
    /// How many events wait for the webhook at most; further ones are lost
    #[arg(long, value_name = "NUMBER", default_value_t = 10_000, value_parser = number_max(1_000_000))]
    pub audit_webhook_batch_buffer_size: u32,
    /// How many events the webhook gets together at most
    #[arg(long, value_name = "NUMBER", default_value_t = 400, value_parser = number_max(100_000))]
    pub audit_webhook_batch_max_size: u32,
    /// How long an event waits for others before the webhook gets it
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = pause)]
    pub audit_webhook_batch_max_wait: Duration,
    /// The pause after the first attempt that the webhook does not take; each further one is longer
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = pause)]
    pub audit_webhook_initial_backoff: Duration,
}

/// The longest pause: an event that waits for longer is of no use.
const PAUSE_MAX: Duration = Duration::from_secs(24 * 60 * 60);

fn pause(text: &str) -> Result<Duration, String> {
    let pause = humantime::parse_duration(text).map_err(|error| error.to_string())?;
    if pause > PAUSE_MAX { Err("it is longer than 24h".to_owned()) } else { Ok(pause) }
}

fn number_max(max: i64) -> clap::builder::RangedI64ValueParser<u32> {
    clap::value_parser!(u32).range(1..=max)
}

/// The size of a file, as upstream.
const LOG_MEBIBYTES: u32 = 100;

/// Whether clients wait for the audit log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum AuditModeArg {
    /// They do not. Events are lost when too many wait to be written
    Batch,
    /// They do. An event that cannot be written fails no request
    Blocking,
}

/// An audit log that is wanted.
pub struct WantedAuditLog<'a> {
    pub policy_file: &'a Path,
    /// Where it is written, and whether clients wait for that.
    pub log: Option<(AuditSink, AuditMode)>,
    /// The kubeconfig of the server that gets it.
    pub webhook: Option<(&'a Path, BatchLimits)>,
}

impl AuditArgs {
    /// The log that is wanted, if any.
    pub fn wanted(&self) -> Option<WantedAuditLog<'_>> {
        let policy_file = self.audit_policy_file.as_deref()?;
        let log = self.audit_log_path.as_ref().map(|path| self.log(path));
        let webhook = self.audit_webhook_config_file.as_deref();
        let webhook = webhook.map(|path| (path, self.batches()));
        Some(WantedAuditLog { policy_file, log, webhook })
    }

    fn log(&self, path: &Path) -> (AuditSink, AuditMode) {
        let mode = match self.audit_log_mode {
            AuditModeArg::Batch => AuditMode::Batch,
            AuditModeArg::Blocking => AuditMode::Blocking,
        };
        let sink = if path == Path::new("-") {
            AuditSink::StandardOutput
        } else {
            AuditSink::File { path: path.to_owned(), limits: self.rotation() }
        };
        (sink, mode)
    }

    fn batches(&self) -> BatchLimits {
        BatchLimits {
            buffered_max: self.audit_webhook_batch_buffer_size as usize,
            batch_max: self.audit_webhook_batch_max_size as usize,
            wait_max: self.audit_webhook_batch_max_wait,
            initial_backoff: self.audit_webhook_initial_backoff,
        }
    }

    fn rotation(&self) -> RotationLimits {
        let mebibytes =
            if self.audit_log_maxsize == 0 { LOG_MEBIBYTES } else { self.audit_log_maxsize };
        RotationLimits {
            file_bytes_max: u64::from(mebibytes) << 20,
            files_max: Some(self.audit_log_maxbackup).filter(|files| *files > 0),
            days_max: Some(self.audit_log_maxage).filter(|days| *days > 0),
        }
    }
}
