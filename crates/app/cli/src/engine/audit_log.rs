//! The audit log that the arguments ask for.

use std::sync::Arc;

use anyhow::Context;
use rekindle_api_server::{AuditCarriers, AuditLog, AuditTargets, Clock, EventReceiver, Front};
use rekindle_audit::AuditPolicy;
use serde_json::Value;

use super::audit_webhook::EventWebhook;
use crate::args::{AuditArgs, WantedAuditLog};
use crate::manifests;

/// An audit log that is not started yet.
pub struct PreparedAuditLog {
    policy: AuditPolicy,
    targets: AuditTargets,
}

impl PreparedAuditLog {
    /// The log that is wanted, if any.
    ///
    /// # Errors
    /// When the policy cannot be read, or when anything in it is not known or not allowed; or when
    /// the kubeconfig of the webhook cannot be used.
    pub async fn read(args: &AuditArgs) -> anyhow::Result<Option<Self>> {
        let Some(WantedAuditLog { policy_file, log, webhook }) = args.wanted() else {
            return Ok(None);
        };
        let context = || format!("read the audit policy {}", policy_file.display());
        let document = manifests::read_document(policy_file).with_context(context)?;
        let document = Value::Object(document.unwrap_or_default());
        let policy = AuditPolicy::from_value(document).with_context(context)?;
        let webhook = match webhook {
            Some((path, limits)) => {
                let receiver: Arc<dyn EventReceiver> = Arc::new(EventWebhook::read(path).await?);
                Some((receiver, limits))
            }
            None => None,
        };
        Ok(Some(Self { policy, targets: AuditTargets { log, webhook } }))
    }

    /// The same front with this log. What is returned beside it carries the events.
    ///
    /// # Errors
    /// When the log's file cannot be opened.
    pub fn start(self, front: Front, clock: Clock) -> anyhow::Result<(Front, AuditCarriers)> {
        let Self { policy, targets } = self;
        let (log, carriers) =
            AuditLog::start(policy, targets, clock).context("open the audit log")?;
        Ok((front.with_audit_log(log), carriers))
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;
    use futures::FutureExt as _;
    use rekindle_api_server::{AuditMode, AuditSink, BatchLimits};

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
        let read = PreparedAuditLog::read(&up.audit).now_or_never();
        let read = read.expect("nothing is waited for without a webhook");
        Ok(read.map_err(|error| format!("{error:#}"))?.expect("a log is wanted"))
    }

    #[test]
    fn the_defaults_are_upstreams() {
        let log = read("{apiVersion: audit.k8s.io/v1, kind: Policy, rules: [{level: Metadata}]}");
        let log = log.unwrap();
        assert!(log.targets.webhook.is_none());
        let Some((AuditSink::File { path, limits }, mode)) = log.targets.log else {
            panic!("a file is wanted")
        };
        assert_eq!(mode, AuditMode::Blocking);
        assert_eq!(path, std::path::Path::new("/log/a.log"));
        let found = (limits.file_bytes_max, limits.files_max, limits.days_max);
        assert_eq!(found, (100 << 20, None, None));
    }

    #[test]
    fn the_policy_in_the_book_is_one() {
        let page = include_str!("../../../../../docs/how-to/keep-an-audit-log.md");
        let (_, policy) = page.split_once("<<EOF\n").expect("an example");
        let (policy, _) = policy.split_once("EOF\n").expect("its end");
        let log = read(policy).unwrap().targets.log;
        assert!(log.is_some_and(|(_, mode)| mode == AuditMode::Blocking));
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
    fn a_webhook_needs_no_log_and_has_upstreams_limits() {
        let arguments =
            ["rekindle", "up", "--audit-policy-file", "p", "--audit-webhook-config-file", "w"];
        let Command::Up(up) = Cli::parse_from(arguments).command else { panic!("it is up") };
        let wanted = up.audit.wanted().unwrap();
        assert!(wanted.log.is_none());
        let (file, limits) = wanted.webhook.unwrap();
        assert_eq!((file, limits), (std::path::Path::new("w"), BatchLimits::default()));
    }

    #[test]
    fn events_go_to_a_file_and_a_webhook_at_once() {
        let given =
            ["--audit-policy-file=p", "--audit-log-path=l", "--audit-webhook-config-file=w"];
        let all = ["rekindle", "up"].into_iter().chain(given);
        let Command::Up(up) = Cli::parse_from(all).command else { panic!("it is up") };
        let wanted = up.audit.wanted().unwrap();
        assert!(wanted.log.is_some() && wanted.webhook.is_some());
    }

    #[test]
    fn policy_and_log_need_each_other_and_one_mode_is_refused() {
        for (arguments, expected) in [
            (vec!["--audit-log-path", "-"], "--audit-policy-file <FILE>"),
            (vec!["--audit-policy-file", "x"], "--audit-log-path <FILE>"),
            (vec!["--audit-webhook-config-file", "x"], "--audit-policy-file <FILE>"),
            (vec!["--audit-webhook-batch-max-size", "0"], "0 is not in 1..=100000"),
            (vec!["--audit-webhook-initial-backoff", "25h"], "it is longer than 24h"),
            (vec!["--audit-webhook-batch-max-wait", "soon"], "expected number"),
            (vec!["--audit-log-mode", "blocking-strict"], "possible values: batch, blocking"),
        ] {
            let all = ["rekindle", "up"].into_iter().chain(arguments);
            let error = Cli::try_parse_from(all).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
    }
}
