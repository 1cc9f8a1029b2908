//! The ladder on a cluster: the operator and its report.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use rekindle_operator::LadderMode;

use super::{ApiAccess, ExhaustedWebhook, LadderArgs, LeaderElection};

/// `rekindle operator`.
#[derive(Args, Clone, Debug)]
pub struct OperatorArgs {
    /// Whether ladders are carried out, or only decided and noted in RestartLedgers
    #[arg(long, value_enum, default_value_t = ModeArg::Observe, env = "REKINDLE_MODE")]
    pub mode: ModeArg,
    /// The kubeconfig [default: KUBECONFIG, or the account of the pod that this runs in]
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
    /// The context of the kubeconfig [default: its current one]; the account of a pod has none
    #[arg(long, value_name = "NAME")]
    pub context: Option<String>,
    /// The namespace of the operator and its lease; no ladder acts in it [default: that of the pod
    /// that this runs in, or rekindle-system]
    #[arg(long, value_name = "NAME")]
    pub namespace: Option<String>,
    /// In mode act, give a node that a pod is moved away from the taint rekindle.dev/avoid of
    /// effect PreferNoSchedule for as long; it needs the right to patch nodes
    #[arg(long)]
    pub taint_avoided_nodes: bool,
    #[command(flatten)]
    pub ladder: LadderArgs,
    #[command(flatten)]
    pub election: LeaderElection,
    /// Serve /metrics, /healthz and /readyz by HTTP at this address; :8080 is that port of every
    /// address, 0 is none
    #[arg(long, value_name = "ADDRESS", default_value = "0", value_parser = MetricsAddress::parse)]
    pub metrics_bind_address: MetricsAddress,
    #[command(flatten)]
    pub exhausted: ExhaustedWebhook,
    /// Run the ladders of an engine that was started with --no-ladders or --no-controllers
    #[arg(long, hide = true)]
    pub on_engine: bool,
}

/// Where monitoring is served, as controller-runtime's programs have it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MetricsAddress {
    /// Nowhere.
    Nowhere,
    /// At the first of these that the machine has.
    At(Vec<SocketAddr>),
}

impl MetricsAddress {
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        if text == "0" {
            return Ok(Self::Nowhere);
        }
        let port = text.strip_prefix(':').map(str::parse::<u16>);
        match (port, text.parse()) {
            (Some(Ok(port)), _) => Ok(Self::At(vec![
                (Ipv6Addr::UNSPECIFIED, port).into(),
                (Ipv4Addr::UNSPECIFIED, port).into(),
            ])),
            (None, Ok(address)) => Ok(Self::At(vec![address])),
            (Some(Err(_)), _) | (None, Err(_)) => {
                Err("give ADDRESS:PORT, :PORT, or 0 for none".to_owned())
            }
        }
    }
}

/// Whether ladders are carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ModeArg {
    /// Decide, note it in RestartLedgers, and refuse PodRestarts; begin nothing.
    Observe,
    /// Evict pods and roll Deployments back as the ladders say.
    Act,
}

impl ModeArg {
    /// As the ladder has it.
    pub fn mode(self) -> LadderMode {
        match self {
            ModeArg::Observe => LadderMode::Observe,
            ModeArg::Act => LadderMode::Act,
        }
    }

    /// As it is typed.
    pub fn name(self) -> &'static str {
        match self {
            ModeArg::Observe => "observe",
            ModeArg::Act => "act",
        }
    }
}

/// `rekindle report`.
#[derive(Args, Clone, Debug)]
#[command(mut_arg("namespace", |arg| arg.help("Report on this namespace alone [default: all that are enabled]")))]
pub struct ReportArgs {
    /// A table for people, JSON (its shape: docs/how-to/try-the-ladder-on-your-cluster.md), or the
    /// ladders that are proposed, to be applied: rekindle report -o yaml | kubectl apply -f -.
    /// Their names are those of no ladder that is there
    #[arg(short, long, value_enum, default_value_t = ReportOutput::Table)]
    pub output: ReportOutput,
    #[command(flatten)]
    pub access: ApiAccess,
}

/// How a report is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ReportOutput {
    /// For people.
    Table,
    /// For programs.
    Json,
    /// The proposed ladders as manifests.
    Yaml,
}
