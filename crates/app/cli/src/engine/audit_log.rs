//! The audit log that the arguments ask for.

use anyhow::Context;
use rekindle_api_server::{AuditLog, AuditMode, AuditSink, AuditWriter, Clock, Front};
use rekindle_audit::AuditPolicy;
use serde_json::Value;

use crate::args::{AuditArgs, WantedAuditLog};
use crate::manifests;

/// An audit log that is not started yet.
pub struct PreparedAuditLog {
    policy: AuditPolicy,
    mode: AuditMode,
    sink: AuditSink,
}

impl PreparedAuditLog {
    /// The log that is wanted, if any.
    ///
    /// # Errors
    /// When the policy cannot be read, or when anything in it is not known or not allowed.
    pub fn read(args: &AuditArgs) -> anyhow::Result<Option<Self>> {
        let Some(WantedAuditLog { policy_file, mode, sink }) = args.wanted() else {
            return Ok(None);
        };
        let context = || format!("read the audit policy {}", policy_file.display());
        let document = manifests::read_document(policy_file).with_context(context)?;
        let document = Value::Object(document.unwrap_or_default());
        let policy = AuditPolicy::from_value(document).with_context(context)?;
        Ok(Some(Self { policy, mode, sink }))
    }

    /// The same front with this log. What is returned beside it writes the log.
    ///
    /// # Errors
    /// When the log's file cannot be opened.
    pub fn start(self, front: Front, clock: Clock) -> anyhow::Result<(Front, AuditWriter)> {
        let Self { policy, mode, sink } = self;
        let (log, writer) =
            AuditLog::start(policy, mode, sink, clock).context("open the audit log")?;
        Ok((front.with_audit_log(log), writer))
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::args::{Cli, Command};

    /// What is read from this policy, or the error.
    fn read(policy: &str) -> Result<PreparedAuditLog, String> {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("policy.yaml");
        std::fs::write(&file, policy).unwrap();
        let file = file.to_str().unwrap();
        let arguments =
            ["rekindle", "up", "--audit-policy-file", file, "--audit-log-path", "/log/a.log"];
        let Command::Up(up) = Cli::parse_from(arguments).command else { panic!("it is up") };
        let read = PreparedAuditLog::read(&up.audit).map_err(|error| format!("{error:#}"))?;
        Ok(read.expect("a log is wanted"))
    }

    #[test]
    fn the_defaults_are_upstreams() {
        let log = read("{apiVersion: audit.k8s.io/v1, kind: Policy, rules: [{level: Metadata}]}");
        let log = log.unwrap();
        assert_eq!(log.mode, AuditMode::Blocking);
        let AuditSink::File { path, limits } = log.sink else { panic!("a file is wanted") };
        assert_eq!(path, std::path::Path::new("/log/a.log"));
        let found = (limits.file_bytes_max, limits.files_max, limits.days_max);
        assert_eq!(found, (100 << 20, None, None));
    }

    #[test]
    fn the_policy_in_the_book_is_one() {
        let page = include_str!("../../../../../docs/how-to/keep-an-audit-log.md");
        let (_, policy) = page.split_once("<<EOF\n").expect("an example");
        let (policy, _) = policy.split_once("EOF\n").expect("its end");
        assert!(read(policy).is_ok_and(|log| log.mode == AuditMode::Blocking));
    }

    #[test]
    fn a_bad_policy_is_told_with_its_file_and_field() {
        let error =
            read("{apiVersion: audit.k8s.io/v1, kind: Policy, rules: [{level: All}]}").err();
        let error = error.expect("it is refused");
        assert!(
            error.contains("policy.yaml: rules[0].level: Unsupported value: \"All\""),
            "{error}"
        );
    }

    #[test]
    fn policy_and_log_need_each_other_and_one_mode_is_refused() {
        for (arguments, expected) in [
            (vec!["--audit-log-path", "-"], "--audit-policy-file <FILE>"),
            (vec!["--audit-policy-file", "x"], "--audit-log-path <FILE>"),
            (vec!["--audit-log-mode", "blocking-strict"], "possible values: batch, blocking"),
        ] {
            let all = ["rekindle", "up"].into_iter().chain(arguments);
            let error = Cli::try_parse_from(all).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
    }
}
