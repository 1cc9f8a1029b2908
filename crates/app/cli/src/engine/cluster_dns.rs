//! Cluster DNS at the bridge's address, for the pods of all nodes: a process of its own. The engine
//! starts it, tells it what there is, and starts it again if it ends. It goes on while no engine
//! runs.

use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, bail};
use kube::Client;
use rekindle_net::BridgeNetwork;
use rekindle_net::dns::{self, DnsLine, DnsProcessIdentity, DnsServer, DnsSettings};
use rekindle_node::{NodeSettings, RESOLV_CONF, ServiceNames, dns_settings, feed_names};
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
/// From one start of the process to the next, at least.
const START_AGAIN_AFTER: Duration = Duration::from_secs(1);

/// How the process is reached and started.
struct Launch {
    socket: PathBuf,
    log: PathBuf,
    identity: DnsProcessIdentity,
}

/// The process that answers, and who tells it what there is.
pub struct ClusterDns {
    /// Where it answers, if it does.
    pub address: Option<Ipv4Addr>,
    keeper: Option<(oneshot::Sender<()>, JoinHandle<()>)>,
}

impl ClusterDns {
    /// Starts the process beside what the engine starts meanwhile. A machine on which something
    /// else has the port does without: pods use the node's resolvers, and are told.
    pub fn start(
        network: &BridgeNetwork,
        (settings, data_dir): (&NodeSettings, &DataDir),
        client: Client,
        names: ServiceNames,
    ) -> JoinHandle<Self> {
        let launch = Launch::of(network, settings, data_dir);
        let connected = async {
            let launch = launch?;
            let line = launch.connect().await?;
            anyhow::Ok((launch, line))
        };
        tokio::spawn(async move { Self::kept(connected.await, client, names) })
    }

    fn kept(
        connected: anyhow::Result<(Launch, DnsLine)>,
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

    /// Tells the process nothing more. It goes on, for pods that run on.
    pub async fn stop(&mut self) {
        if let Some((stop, keeper)) = self.keeper.take() {
            // Not aborted: a process that is being started is not to be forgotten.
            drop(stop);
            // The panic hook tells of a failure.
            drop(keeper.await);
        }
    }

    /// Ends the process, with the last pods.
    pub async fn remove(mut self, data_dir: &DataDir) {
        self.stop().await;
        if let Err(error) = end(data_dir).await {
            tracing::warn!("failed to end cluster DNS: {error:#}");
        }
    }
}

/// Ends the process that an engine left. None is success.
///
/// # Errors
/// When it cannot be ended, or its socket cannot be removed.
pub async fn end(data_dir: &DataDir) -> anyhow::Result<()> {
    let socket = data_dir.run_dir()?.join(SOCKET);
    let process = DnsLine::connect(&socket).await.context("find the process of cluster DNS")?;
    if let Some(line) = process {
        line.end_process().await.context("end the process of cluster DNS")?;
    }
    unix_socket::remove(&socket)
}

impl Launch {
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

    /// To the process that is there, or to one that takes its place.
    async fn connect(&self) -> anyhow::Result<DnsLine> {
        match DnsLine::connect(&self.socket).await {
            Ok(Some(line)) if *line.identity() == self.identity => return Ok(line),
            Ok(_) => {}
            Err(error) => {
                tracing::warn!(%error, "failed to talk to the process of cluster DNS: another takes its place");
            }
        }
        let mut command = background::this_program()?;
        let settings = serde_json::to_string(&self.identity.settings)?;
        command.arg("cluster-dns").arg(&self.socket).arg(settings);
        let started = background::start(PROCESS, command, &self.log)?;
        let child = tokio::task::spawn_blocking(move || started.wait()).await?;
        let started = child.and_then(|child| background::reap(PROCESS.to_owned(), child));
        let line = DnsLine::connect(&self.socket).await.context("connect to cluster DNS")?;
        match (started, line) {
            (Ok(()), Some(line)) => Ok(line),
            (Ok(()), None) => bail!("the process of cluster DNS ended at once"),
            // one that an engine was about to start when it was killed was faster
            (Err(_), Some(line)) if *line.identity() == self.identity => Ok(line),
            (Err(error), _) => Err(error),
        }
    }

    /// Says to the process what there is, and starts it again whenever it ends, until `stopped`
    /// resolves.
    async fn keep(
        &self,
        mut line: DnsLine,
        client: Client,
        names: ServiceNames,
        mut stopped: oneshot::Receiver<()>,
    ) {
        loop {
            let mut next_start = Instant::now() + START_AGAIN_AFTER;
            let ended = tokio::select! {
                _ = &mut stopped => return,
                ended = feed_names(&mut line, client.clone(), names) => ended,
            };
            tracing::warn!(
                error = ended.err().map(tracing::field::display),
                "failed to keep the process of cluster DNS: it ended, and is started again"
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
                        "failed to start cluster DNS again: names do not resolve until it starts"
                    ),
                }
                next_start = Instant::now() + START_AGAIN_AFTER;
            };
        }
    }
}

/// The process: serves names until it is ended, or another takes its place.
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
            // What comes next are messages from pods.
            process_limits::drop_capabilities().context("give up the rights of root")?;
            Ok((server, listener, background::fingerprint()?))
        };
        let (server, listener, program) = report.tell(opened.await)?;
        footprint::shrink_after_start();
        dns::serve_process(server, program, listener).await.context("serve cluster DNS")?;
        Ok(ExitCode::SUCCESS)
    })
}

/// Begins to listen, in the place of the process that may be there.
async fn open(socket: &Path, settings: DnsSettings) -> anyhow::Result<DnsServer> {
    Ok(match DnsLine::connect(socket).await? {
        Some(before) => before.take_over(settings).await?,
        None => DnsServer::open(settings).await?,
    })
}
