//! `rekindle agent`: PodRestarts in place on one node of a cluster, beside its kubelet.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, ensure};
use kube::Client;
use rekindle_agent::cri::CriClient;
use rekindle_agent::{
    AgentFigures, ClusterAgent, KubeletFolders, NodeAccess, PodCalls, PodCgroups,
};
use rekindle_metrics::{MetricsSource, Text};

use crate::args::{AgentArgs, MetricsAddress};
use crate::background::{event_loop, init_log};
use crate::engine::EndSignals;
use crate::monitoring::{self, Monitored};
use crate::{client, footprint, output};

/// Carries the command out: until a signal ends it. The next agent goes on with what was begun.
pub fn run(args: &AgentArgs) -> anyhow::Result<ExitCode> {
    init_log("info");
    let socket = socket_path(&args.cri_socket)?;
    event_loop()?.block_on(async {
        let calls = PodCalls::new(CriClient::new(socket));
        let runtime = calls
            .version()
            .await
            .with_context(|| format!("reach the runtime at --cri-socket {}", args.cri_socket))?;
        if args.check {
            output::tell(format!("the runtime answers: {runtime}"));
            return Ok(ExitCode::SUCCESS);
        }
        let mut signals = EndSignals::listen()?;
        let config =
            client::operator_config(args.kubeconfig.as_deref(), args.context.clone()).await?;
        let client = Client::try_from(config).context("connect to the API")?;
        let version = client.apiserver_version().await.context("reach the API")?.git_version;
        output::tell(format!(
            "restarts pods of node {} in place, {} at once ({runtime}, API {version})",
            args.node_name, args.max_restarts
        ));
        let figures = Arc::<AgentFigures>::default();
        if let MetricsAddress::At(addresses) = &args.metrics_bind_address {
            let monitored = MonitoredAgent { figures: Arc::clone(&figures), calls: calls.clone() };
            tokio::spawn(monitoring::listen(addresses, Arc::new(monitored)).await?);
        }
        let agent = ClusterAgent {
            client,
            node: args.node_name.clone(),
            own_namespace: client::own_namespace(),
            calls,
            access: access(args)?,
            restarts_max: usize::from(args.max_restarts),
            figures,
        };
        footprint::shrink_after_start();
        let stop = async move {
            signals.next().await;
        };
        agent.run(stop).await;
        Ok(ExitCode::SUCCESS)
    })
}

/// What monitoring sees of an agent.
struct MonitoredAgent {
    figures: Arc<AgentFigures>,
    calls: PodCalls,
}

impl Monitored for MonitoredAgent {
    fn write_metrics(&self, text: &mut Text) {
        self.figures.write(text);
    }

    async fn not_ready(&self) -> Option<String> {
        if !self.figures.is_informed() {
            return Some("pods and PodRestarts have not been listed yet".to_owned());
        }
        self.calls.version().await.err().map(|error| format!("the runtime: {error}"))
    }
}

/// What the agent sees of the node beside the runtime.
fn access(args: &AgentArgs) -> anyhow::Result<NodeAccess> {
    let cgroups = args.cgroup_root.as_deref().map(PodCgroups::new).transpose();
    let cgroups = cgroups.context("use --cgroup-root")?;
    for (flag, folder) in [("kubelet-pods", &args.kubelet_pods), ("pod-logs", &args.pod_logs)] {
        if let Some(folder) = folder {
            let is_folder = folder.is_absolute() && folder.is_dir();
            ensure!(is_folder, "--{flag} {}: give the path of a folder", folder.display());
        }
    }
    Ok(NodeAccess {
        cgroups,
        kubelet: args.kubelet_pods.clone().map(KubeletFolders::new),
        pod_logs: args.pod_logs.clone(),
    })
}

/// The path of a socket, which may be written as a URL.
fn socket_path(socket: &str) -> anyhow::Result<PathBuf> {
    let path = socket.strip_prefix("unix://").unwrap_or(socket);
    ensure!(
        path.starts_with('/'),
        "--cri-socket {socket}: give the path of a unix socket, such as unix:///run/containerd/containerd.sock"
    );
    Ok(PathBuf::from(path))
}
