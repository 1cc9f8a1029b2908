//! `rekindle agent`: PodRestarts in place on one node of a cluster, beside its kubelet.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, ensure};
use kube::Client;
use rekindle_agent::cri::CriClient;
use rekindle_agent::{ClusterAgent, PodCalls};

use crate::args::AgentArgs;
use crate::background::{event_loop, init_log};
use crate::engine::EndSignals;
use crate::{client, output};

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
        let agent = ClusterAgent {
            client,
            node: args.node_name.clone(),
            own_namespace: client::own_namespace(),
            calls,
            restarts_max: usize::from(args.max_restarts),
        };
        let stop = async move {
            signals.next().await;
        };
        agent.run(stop).await;
        Ok(ExitCode::SUCCESS)
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
