//! The node's settings: a file with a kubelet's names, and the flags that go before it.

use anyhow::Context;
use rekindle_node::NodeSettings;
use serde_json::{Map, Value, json};

use crate::args::NodeArgs;
use crate::manifests;

/// Reads them. They are not kept: an engine that is started again has those of its own command
/// line.
pub fn read(args: &NodeArgs) -> anyhow::Result<NodeSettings> {
    let (mut settings, source) = match &args.node_config {
        None => (Map::new(), "the command line".to_owned()),
        Some(file) => {
            let source = file.display().to_string();
            (manifests::read_document(file)?.unwrap_or_default(), source)
        }
    };
    for (name, given) in [
        ("shutdownGracePeriod", &args.shutdown_grace_period),
        ("shutdownGracePeriodCriticalPods", &args.shutdown_grace_period_critical_pods),
        ("endpointWithdrawalTimeout", &args.endpoint_withdrawal_timeout),
    ] {
        if let Some(given) = given {
            settings.insert(name.to_owned(), Value::String(given.clone()));
        }
    }
    if !args.allowed_unsafe_sysctls.is_empty() {
        settings.insert("allowedUnsafeSysctls".to_owned(), json!(args.allowed_unsafe_sysctls));
    }
    NodeSettings::read(&Value::Object(settings))
        .with_context(|| format!("read the node's settings from {source}"))
}

#[cfg(test)]
mod tests {
    use rekindle_node::{AllowedSysctls, ShutdownPolicy};

    use super::*;

    fn args(file: Option<&std::path::Path>, period: Option<&str>) -> NodeArgs {
        NodeArgs {
            node_config: file.map(Into::into),
            shutdown_grace_period: period.map(Into::into),
            ..NodeArgs::default()
        }
    }

    #[test]
    fn flags_go_before_the_file_and_without_both_the_defaults_hold() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("node.yaml");
        std::fs::write(&file, "shutdownGracePeriod: 30s\nshutdownGracePeriodCriticalPods: 10s\n")
            .unwrap();
        assert_eq!(read(&args(None, None)).unwrap(), NodeSettings::default());
        let shutdown = |args: &NodeArgs| read(args).unwrap().shutdown;
        assert_eq!(shutdown(&args(Some(&file), None)), ShutdownPolicy::of_periods(30, 10));
        assert_eq!(shutdown(&args(Some(&file), Some("60s"))), ShutdownPolicy::of_periods(60, 10));
        assert_eq!(shutdown(&args(None, Some("5s"))), ShutdownPolicy::of_periods(5, 0));
        let error = format!("{:#}", read(&args(Some(&file), Some("5s"))).unwrap_err());
        assert!(error.contains("node.yaml: shutdownGracePeriod 5s must be >="), "{error}");
    }

    #[test]
    fn kernel_settings_are_allowed_by_the_flag_or_else_by_the_file() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("node.yaml");
        std::fs::write(&file, "allowedUnsafeSysctls: [kernel.sem]\n").unwrap();
        let allowed = |names: &[&str]| {
            let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
            AllowedSysctls::new(&names).unwrap()
        };
        let with_file = args(Some(&file), None);
        assert_eq!(read(&with_file).unwrap().sysctls, allowed(&["kernel.sem"]));
        let flag = vec!["net.core.somaxconn".to_owned()];
        let with_both = NodeArgs { allowed_unsafe_sysctls: flag, ..with_file };
        assert_eq!(read(&with_both).unwrap().sysctls, allowed(&["net.core.somaxconn"]));
        let flag = vec!["vm.max_map_count".to_owned()];
        let wrong = NodeArgs { allowed_unsafe_sysctls: flag, ..NodeArgs::default() };
        let error = format!("{:#}", read(&wrong).unwrap_err());
        assert!(error.contains("\"vm.max_map_count\" is not known to be namespaced"), "{error}");
    }

    #[test]
    fn the_timeout_of_withdrawals_is_that_of_the_flag_or_else_of_the_file() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("node.yaml");
        std::fs::write(&file, "endpointWithdrawalTimeout: 3s\n").unwrap();
        let seconds = |args: &NodeArgs| {
            let timeout = read(args).unwrap().endpoint_withdrawal_timeout;
            timeout.map(rekindle_types::TickDuration::as_secs)
        };
        assert_eq!(seconds(&NodeArgs::default()), None);
        let with_file = args(Some(&file), None);
        assert_eq!(seconds(&with_file), Some(3));
        let flag = |text: &str| NodeArgs {
            endpoint_withdrawal_timeout: Some(text.to_owned()),
            ..with_file.clone()
        };
        assert_eq!(seconds(&flag("5s")), Some(5));
        let error = format!("{:#}", read(&flag("1m")).unwrap_err());
        assert!(error.contains("endpointWithdrawalTimeout: must be from 100ms to 30s"), "{error}");
    }

    #[test]
    fn a_file_that_is_none_is_refused_by_name() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("node.yaml");
        for (text, error) in [
            ("[]", "a document is not an object"),
            ("podsPerCore: 3", "unknown field `podsPerCore`"),
            ("a: 1\n---\nb: 2\n", "more than one document"),
        ] {
            std::fs::write(&file, text).unwrap();
            let found = format!("{:#}", read(&args(Some(&file), None)).unwrap_err());
            assert!(found.contains(error) && found.contains("node.yaml"), "{found}");
        }
        let missing = format!("{:#}", read(&args(Some(&dir.path().join("x")), None)).unwrap_err());
        assert!(missing.contains("open manifest"), "{missing}");
    }
}
