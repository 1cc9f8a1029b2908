//! Cluster DNS at the bridge's address, for the pods of all nodes. It is a process of its own and
//! goes on while no engine runs. The engine starts it, publishes names to it, and restarts it.

use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, bail};
use kube::Client;
use rekindle_net::BridgeNetwork;
use rekindle_net::dns::{self, DnsProcessClient, DnsProcessIdentity, DnsServer, DnsSettings};
use rekindle_node::{NodeSettings, RESOLV_CONF, ServiceNames, dns_settings, publish_names};
use rekindle_types::causes;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep_until};

use super::data_dir::DataDir;
use crate::args::ClusterDnsProcess;
use crate::background::{self, ParentReport};
use crate::footprint;
use crate::process_limits;
use crate::unix_socket;

/// In the folder for sockets.
const SOCKET: &str = "cluster-dns.sock";
/// In the data directory.
const LOG: &str = "cluster-dns.log";
const PROCESS: &str = "process of cluster DNS";
/// The minimum time between two starts of the process.
const RESTART_INTERVAL: Duration = Duration::from_secs(1);

/// How to reach the process, and how to start it.
struct DnsLaunch {
    socket: PathBuf,
    log: PathBuf,
    identity: DnsProcessIdentity,
}

/// The process, and the task that publishes names to it.
pub struct ClusterDns {
    /// The address of the server; `None` if it could not start.
    pub address: Option<Ipv4Addr>,
    keeper: Option<(oneshot::Sender<()>, JoinHandle<()>)>,
}

impl ClusterDns {
    /// Starts the process in the background, or connects to a running one. If another program has
    /// the port, there is no cluster DNS: pods use the node's resolvers and get an event.
    pub fn start(
        network: &BridgeNetwork,
        (settings, data_dir): (&NodeSettings, &DataDir),
        client: Client,
        names: ServiceNames,
    ) -> JoinHandle<Self> {
        let launch = DnsLaunch::of(network, settings, data_dir);
        let connected = async {
            let launch = launch?;
            let line = launch.connect().await?;
            anyhow::Ok((launch, line))
        };
        tokio::spawn(async move { Self::publishing(connected.await, client, names) })
    }

    fn publishing(
        connected: anyhow::Result<(DnsLaunch, DnsProcessClient)>,
        client: Client,
        names: ServiceNames,
    ) -> Self {
        match connected {
            Ok((launch, line)) => {
                let address = Some(launch.identity.settings.zone.server);
                let (stop, stopped) = oneshot::channel();
                let keep = async move { launch.keep(line, client, names, stopped).await };
                Self { address, keeper: Some((stop, tokio::spawn(keep))) }
            }
            Err(error) => {
                tracing::warn!(
                    error = causes(&*error),
                    "failed to start cluster DNS: new pods use the node's resolvers and cannot resolve Services"
                );
                Self { address: None, keeper: None }
            }
        }
    }

    /// Stops publishing. The process goes on, for the pods that do.
    pub async fn stop(&mut self) {
        if let Some((stop, keeper)) = self.keeper.take() {
            // An abort could lose a process that is starting.
            drop(stop);
            // The panic hook logs a panic.
            drop(keeper.await);
        }
    }

    /// Stops publishing and kills the process: the pods have ended.
    pub async fn remove(mut self, data_dir: &DataDir) {
        self.stop().await;
        if let Err(error) = end(data_dir).await {
            tracing::warn!("failed to kill the process of cluster DNS: {error:#}");
        }
    }
}

/// Kills the process if an engine has left one.
///
/// # Errors
/// When it cannot be killed, or its socket cannot be removed.
pub async fn end(data_dir: &DataDir) -> anyhow::Result<()> {
    let socket = data_dir.run_dir()?.join(SOCKET);
    let process =
        DnsProcessClient::connect(&socket).await.context("find the process of cluster DNS")?;
    if let Some(line) = process {
        line.end_process().await.context("kill the process of cluster DNS")?;
    }
    unix_socket::remove(&socket)
}

impl DnsLaunch {
    fn of(
        network: &BridgeNetwork,
        settings: &NodeSettings,
        data_dir: &DataDir,
    ) -> anyhow::Result<Self> {
        let resolv_conf = settings.resolv_conf.clone().unwrap_or_else(|| RESOLV_CONF.into());
        let subnets = (network.subnet(), network.ipv6_subnet());
        let settings = dns_settings(network.gateway(), subnets, resolv_conf);
        Ok(Self {
            socket: data_dir.run_dir()?.join(SOCKET),
            log: data_dir.join(LOG),
            identity: DnsProcessIdentity { program: background::fingerprint()?, settings },
        })
    }

    /// Connects to the process. Starts one first unless a process with this identity runs.
    async fn connect(&self) -> anyhow::Result<DnsProcessClient> {
        match DnsProcessClient::connect(&self.socket).await {
            Ok(Some(line)) if *line.identity() == self.identity => return Ok(line),
            Ok(_) => {}
            Err(error) => {
                tracing::warn!(%error, "failed to connect to the process of cluster DNS: replacing it");
            }
        }
        let mut command = background::this_program()?;
        let settings = serde_json::to_string(&self.identity.settings)?;
        command.arg("cluster-dns").arg(&self.socket).arg(settings);
        let started = background::start(PROCESS, command, &self.log)?;
        let child = tokio::task::spawn_blocking(move || started.wait()).await?;
        let started = child.and_then(|child| background::reap(PROCESS.to_owned(), child));
        let line =
            DnsProcessClient::connect(&self.socket).await.context("connect to cluster DNS")?;
        match (started, line) {
            (Ok(()), Some(line)) => Ok(line),
            (Ok(()), None) => bail!("the process of cluster DNS exited at once"),
            // An engine that was killed had just started this one.
            (Err(_), Some(line)) if *line.identity() == self.identity => Ok(line),
            (Err(error), _) => Err(error),
        }
    }

    /// Publishes names to the process and restarts it when it exits, until `stopped` resolves.
    async fn keep(
        &self,
        mut line: DnsProcessClient,
        client: Client,
        names: ServiceNames,
        mut stopped: oneshot::Receiver<()>,
    ) {
        loop {
            let mut next_start = Instant::now() + RESTART_INTERVAL;
            let ended = tokio::select! {
                _ = &mut stopped => return,
                ended = publish_names(&mut line, client.clone(), names) => ended,
            };
            tracing::warn!(
                error = ended.err().map(tracing::field::display),
                "failed to keep cluster DNS running: restarting its process"
            );
            line = loop {
                tokio::select! {
                    _ = &mut stopped => return,
                    () = sleep_until(next_start) => {}
                }
                match self.connect().await {
                    Ok(line) => break line,
                    Err(error) => tracing::warn!(
                        error = causes(&*error),
                        "failed to restart cluster DNS: names do not resolve"
                    ),
                }
                next_start = Instant::now() + RESTART_INTERVAL;
            };
        }
    }
}

/// The process itself: serves names until another process takes over.
pub fn run(args: &ClusterDnsProcess) -> anyhow::Result<ExitCode> {
    background::init_log("info");
    let report = ParentReport::take()?;
    process_limits::take();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("start the event loop")?;
    runtime.block_on(async {
        let opened = async {
            let server = open(&args.socket, serde_json::from_str(&args.settings)?).await?;
            let listener = unix_socket::listen(&args.socket)?;
            // From here on it parses messages from pods.
            process_limits::drop_capabilities().context("drop capabilities")?;
            Ok((server, listener, background::fingerprint()?))
        };
        let (server, listener, program) = report.send(opened.await)?;
        footprint::shrink_after_start();
        dns::serve_process(server, program, listener).await.context("serve cluster DNS")?;
        Ok(ExitCode::SUCCESS)
    })
}

/// Binds the sockets, or takes them over from a running process.
async fn open(socket: &Path, settings: DnsSettings) -> anyhow::Result<DnsServer> {
    Ok(match DnsProcessClient::connect(socket).await? {
        Some(before) => before.take_over(settings).await?,
        None => DnsServer::open(settings).await?,
    })
}
