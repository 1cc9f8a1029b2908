//! The audit log of the API.

use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use rekindle_api_server::{AuditMode, AuditSink, RotationLimits};

/// Settings of the audit log, under the names of kube-apiserver's flags.
#[derive(Args, Clone, Debug)]
pub struct AuditArgs {
    /// The Policy (audit.k8s.io/v1) of the audit log: which requests are recorded, and how much of
    /// them; see docs/how-to/keep-an-audit-log.md
    #[arg(
        long,
        value_name = "FILE",
        env = "REKINDLE_AUDIT_POLICY_FILE",
        requires = "audit_log_path"
    )]
    pub audit_policy_file: Option<PathBuf>,
    /// The file of the audit log, or - for standard output
    #[arg(
        long,
        value_name = "FILE",
        env = "REKINDLE_AUDIT_LOG_PATH",
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
    pub mode: AuditMode,
    pub sink: AuditSink,
}

impl AuditArgs {
    /// The log that is wanted, if any.
    pub fn wanted(&self) -> Option<WantedAuditLog<'_>> {
        let (policy_file, path) =
            (self.audit_policy_file.as_deref()?, self.audit_log_path.as_ref()?);
        let mode = match self.audit_log_mode {
            AuditModeArg::Batch => AuditMode::Batch,
            AuditModeArg::Blocking => AuditMode::Blocking,
        };
        let sink = if path == Path::new("-") {
            AuditSink::StandardOutput
        } else {
            AuditSink::File { path: path.clone(), limits: self.rotation() }
        };
        Some(WantedAuditLog { policy_file, mode, sink })
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
