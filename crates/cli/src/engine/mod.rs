//! The engine: store, API, controllers, ladder and node in one process, wired together.
//!
//! ```text
//!   store (committer thread) ── Api ── Front ──┬── Server: TLS on --listen
//!                                              ├── Server: TLS on the bridge, for pods
//!                                              └── in process: its own node, operator, cluster DNS, the table of `up`
//!   Routes: what a node is asked ── its own node, or the agent of a further one
//! ```
//!
//! It starts from the bottom up and stops from the top down, so that nothing ever talks to a part that is not there.

mod auto_nodes;
mod cluster_dns;
pub mod data_dir;
mod ending;
mod failing_nodes;
pub mod images;
pub mod logs;
pub mod network;
pub mod node;
pub mod node_config;
pub mod nodes;
mod pod_api;
pub mod preflight;
pub mod remains;
mod routes;
pub mod settings;
pub mod streams;
mod webhook;

use std::net::Ipv4Addr;
use std::sync::Arc;

use anyhow::Context;
use kube::Client;
use rekindle_api::auth::{Authorizer, Kubeconfig, Pki, TokenKey, UserInfo};
use rekindle_api::http::{
    Clock, Front, FrontParts, NodeLogs, OsEntropy, Server, ServerLimits, SystemClock, Tls,
    keep_roles_aggregated,
};
use rekindle_api::{Api, ApiParts, kinds};
use rekindle_net::Network;
use rekindle_node::{ApiAddresses, StopMode};
use rekindle_operator::{Candidacy, LadderFigures, Parts, Scaler, ScalingSettings};
use rekindle_runtime::embedded::EmbeddedRuntime;
use rekindle_store::redb_disk::RedbDisk;
use rekindle_store::{Limits, Store};
use rekindle_types::{Tick, TickDuration};
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};

use crate::args::{NodesWanted, Up};
use crate::background;
use crate::nodes::{self as further, Common, Folder};
use auto_nodes::AutoNodes;
use data_dir::DataDir;
pub use ending::{EndSignals, Ending};
use images::EngineDir;
use node::{Errand, NodeStart, Service};
use pod_api::PodApi;
use routes::Routes;
use settings::Settings;
use webhook::webhook;

/// How often the API is asked whether Events have expired while none is due.
const EXPIRY_LOOK: std::time::Duration = std::time::Duration::from_secs(600);

/// Whom cluster DNS asks as.
const CLUSTER_DNS: &str = "system:serviceaccount:kube-system:cluster-dns";

/// Whom controllers and ladder act as.
const OPERATOR: &str = "system:serviceaccount:kube-system:rekindle-operator";

/// Whom the scaling of nodes acts as.
const SCALER: &str = "system:rekindle-node-scaling";

/// Between two signs of life of a node whose engine does not say anything about it.
pub const HEARTBEAT_PERIOD: TickDuration = TickDuration::from_secs(10);

/// The folder for keys in the data directory.
pub const PKI: &str = "pki";

/// A running engine.
pub struct Engine {
    client: Client,
    clock: SystemClock,
    api_url: String,
    kubeconfig: std::path::PathBuf,
    node: rekindle_node::Handle,
    further: Folder,
    network: Arc<Network>,
    runtime: Arc<EmbeddedRuntime>,
    /// None when others run controllers and ladders.
    operator: Option<JoinHandle<()>>,
    /// Empty when the number of nodes is the user's.
    scaler: JoinSet<()>,
    front: Front,
    server: JoinHandle<std::io::Result<()>>,
    pod_server: JoinHandle<std::io::Result<()>>,
    store: Store,
    committer: std::thread::JoinHandle<()>,
    stop: watch::Sender<Phase>,
    data_dir: DataDir,
}

/// Told to the parts that run beside the engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Running,
    Stopping,
}

impl Engine {
    /// Starts everything; returns when the API listens and every further node's agent runs. The nodes become Ready a moment
    /// later.
    pub async fn start(args: &Up, data_dir: DataDir) -> anyhow::Result<Self> {
        let node_settings = node_config::read(&args.node)?;
        let ladder_limits = args.ladder.limits()?;
        let settings = Settings::of(args, &data_dir);
        // Its data directory is this engine's alone: what an earlier one with this name held is nobody's any more.
        let candidacy = args.election.candidacy(format!("{}_engine", settings.node_name))?;
        let webhook = webhook(args)?;
        let listener = listen(args).await?;
        let clock = SystemClock::start();
        let pki =
            Pki::open(&data_dir.join(PKI), clock.now()).context("prepare the certificates")?;
        let (store, committer) = open_store(&data_dir)?;
        let engine_dir = EngineDir::new(data_dir.path());
        let routes = Routes::new(&settings.node_name, Folder::of(&engine_dir));
        let ladder_figures = Arc::new(LadderFigures::default());
        let front = open_api(&store, &data_dir, &pki, clock, Arc::new(routes.clone()))?
            .with_streams(Arc::new(routes.clone()))
            .with_nodes(Arc::new(routes.clone()))
            .with_figures(ladder_figures.clone());
        front.api().set_default_toleration_seconds(args.default_toleration_seconds);
        let (stop, stopping) = watch::channel(Phase::Running);
        let main_address = listener.local_addr()?;
        let tls = Tls::new(&pki, &[main_address.ip()]).context("prepare TLS")?;
        let api_url = format!("https://{main_address}");
        let kubeconfig = write_kubeconfig(&data_dir, &pki, &api_url)?;
        let server = Server::new(front.clone(), tls, ServerLimits::default());
        let server = tokio::spawn(server.serve(listener, stopped(stopping.clone())));
        keep_in_order(&front, &stopping);
        settings.keep(&data_dir)?;
        let network = Arc::new(network::open(&settings, &data_dir).await?);
        let (dns_client, stop_dns) =
            (internal_client(&front, CLUSTER_DNS), stopped(stopping.clone()));
        let dns = cluster_dns::start(&network, &node_settings, dns_client, stop_dns).await;
        let pod_api = PodApi::open(&network, &settings.bridge, &pki, main_address)?;
        let api_addresses = pod_api.addresses;
        let pod_server = tokio::spawn(pod_api.serve(front.clone(), stopped(stopping.clone())));
        let registries = node::registry_settings(&args.registries);
        let runtime = node::open_runtime(&data_dir, &engine_dir, clock.shared(), registries).await;
        let runtime = Arc::new(runtime?);
        let static_pods = settings.static_pods(&data_dir)?;
        let service =
            Service { settings: node_settings, api: api_addresses, cluster_dns: dns, static_pods };
        let errand = Errand::Serve(Box::new(service));
        let mut start = own_node(&settings, &data_dir, &front, clock, errand);
        start.heartbeat_period = args.failing.heartbeat_period();
        let node = node::start(start, Arc::clone(&runtime), Arc::clone(&network)).await?;
        routes.started(&node);
        let addresses = (api_addresses, dns);
        let common = common_of(args, &settings, &engine_dir, &network, addresses)?;
        let pki = Arc::new(pki);
        launch_further_nodes(&routes.further, &common, args, &pki, clock).await?;
        let auto_nodes = AutoNodes {
            client: internal_client(&front, SCALER),
            clock,
            folder: routes.further.clone(),
            common,
            pki,
        };
        let scaler = start_scaler(args, auto_nodes);
        let parts = Parts {
            client: internal_client(&front, OPERATOR),
            clock: clock.shared(),
            limits: ladder_limits,
            nodes: args.failing.settings(),
            figures: ladder_figures,
        };
        let operator = match args.no_controllers {
            true => None,
            false => Some(start_operator(parts, candidacy, stopped(stopping.clone()))),
        };
        if let Some(webhook) = webhook {
            let client = internal_client(&front, OPERATOR);
            let stop = stopped(stopping);
            tokio::spawn(rekindle_operator::notify(client, clock.shared(), webhook, stop));
        }
        let client = internal_client(&front, "system:rekindle-up");
        Ok(Self {
            client,
            clock,
            api_url,
            kubeconfig,
            node,
            further: routes.further,
            network,
            runtime,
            operator,
            scaler,
            front,
            server,
            pod_server,
            store,
            committer,
            stop,
            data_dir,
        })
    }

    /// A client inside the process.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// The engine's clock.
    pub fn clock(&self) -> Clock {
        self.clock.shared()
    }

    /// Says where the API is.
    pub fn announce(&self) {
        println!("API        {}", self.api_url);
        println!("kubeconfig export KUBECONFIG={}", self.kubeconfig.display());
        if let Some(links) = crate::plugin::hint() {
            println!("plugins    {links}");
        }
    }

    /// Waits until somebody asks the engine to end. A part that fails for good ends the engine too, with its pods left alone.
    pub async fn end_signal(&mut self, signals: &mut EndSignals) -> anyhow::Result<Ending> {
        tokio::select! {
            ending = signals.next() => Ok(ending),
            ended = &mut self.server => {
                ended.context("the API server failed inside")?.context("the API server cannot go on")?;
                anyhow::bail!("the API server ended unasked; the pods go on: start the engine again")
            }
            ended = &mut self.pod_server => {
                ended.context("the API server for pods failed inside")?.context("the API server for pods cannot go on")?;
                anyhow::bail!("the API server for pods ended unasked; the pods go on: start the engine again")
            }
        }
    }

    /// Stops from the top down. A second Ctrl-C meanwhile ends the process at once and leaves the pods.
    pub async fn stop(self, ending: Ending) -> anyhow::Result<()> {
        if ending == Ending::EndPods {
            eprintln!("ending the pods; press Ctrl-C again to leave them running");
        }
        let mut again = signal(SignalKind::interrupt()).context("listen for signals")?;
        tokio::select! {
            () = self.stop_parts(ending) => Ok(()),
            _ = again.recv() => anyhow::bail!("ended at once: pods may still run, the next `rekindle up` finds them"),
        }
    }

    async fn stop_parts(mut self, ending: Ending) {
        // The controllers first, wherever they run: what the node ends now must not be made again. The lease is kept: the next
        // engine has the same name and need not wait.
        self.front.api().close_to_leaders();
        if let Some(operator) = &self.operator {
            operator.abort();
        }
        self.scaler.abort_all();
        let mode = match ending {
            Ending::EndPods => StopMode::EndPods,
            Ending::LeavePods => StopMode::LeavePods,
        };
        let further = further::end_all(&self.further, ending, &self.client, self.clock);
        tokio::join!(self.node.stop(mode), further);
        if ending == Ending::EndPods {
            node::take_away(self.network, &self.runtime).await;
            if let Err(error) = Settings::forget(&self.data_dir) {
                tracing::warn!("{error:#}");
            }
        }
        self.stop.send_replace(Phase::Stopping);
        for server in [self.server, self.pod_server] {
            if !server.is_finished() && server.await.is_err() {
                tracing::warn!("the API server failed inside while it stopped");
            }
        }
        close_store(&self.store, self.committer);
    }
}

fn close_store(store: &Store, committer: std::thread::JoinHandle<()>) {
    store.close();
    if committer.join().is_err() {
        tracing::error!("the store's writer failed inside");
    }
}

async fn listen(args: &Up) -> anyhow::Result<TcpListener> {
    TcpListener::bind(args.listen).await.with_context(|| {
        format!(
            "listen on {}: give another address with --listen (port 0 takes a free one)",
            args.listen
        )
    })
}

fn open_store(data_dir: &DataDir) -> anyhow::Result<(Store, std::thread::JoinHandle<()>)> {
    let (store, committer) =
        Store::open(RedbDisk::new(data_dir.join("store.redb")), Limits::default())
            .context("open the store")?;
    let thread = std::thread::Builder::new()
        .name("store-committer".to_owned())
        .spawn(move || committer.run())
        .context("start the store's writer")?;
    Ok((store, thread))
}

/// The API with what must be there before anybody asks: the system's namespaces.
fn open_api(
    store: &Store,
    data_dir: &DataDir,
    pki: &Pki,
    clock: SystemClock,
    logs: Arc<dyn NodeLogs>,
) -> anyhow::Result<Front> {
    let key = TokenKey::open(&data_dir.join(PKI)).context("prepare the key for tokens")?;
    let parts = ApiParts {
        registry: kinds::all(),
        store: store.clone(),
        entropy: Box::new(OsEntropy::default()),
        authorizer: Authorizer::Rbac,
        ca_bundle: pki.ca_pem().to_owned(),
    };
    let api = Api::with_tokens(parts, key);
    for pending in api.bootstrap(clock.now()).context("prepare the API")? {
        pending.wait().context("prepare the API")?;
    }
    Ok(Front::new(FrontParts { api, clock: clock.shared(), logs }))
}

fn write_kubeconfig(
    data_dir: &DataDir,
    pki: &Pki,
    api_url: &str,
) -> anyhow::Result<std::path::PathBuf> {
    let admin = pki.admin().context("issue the admin's certificate")?;
    let path = data_dir.join("kubeconfig");
    Kubeconfig {
        server: api_url,
        ca_pem: pki.ca_pem(),
        certificate_pem: &admin.certificate_pem,
        key_pem: &admin.key_pem,
    }
    .write(&path)
    .with_context(|| format!("write {}", path.display()))?;
    Ok(path)
}

/// Controllers and ladders, as soon as nobody else runs them.
fn start_operator(
    parts: Parts,
    candidacy: Candidacy,
    stop: impl Future<Output = ()> + Send + 'static,
) -> JoinHandle<()> {
    tokio::spawn(rekindle_operator::run_elected(parts, candidacy, stop))
}

fn internal_client(front: &Front, user: &str) -> Client {
    Client::new(front.in_process_service(UserInfo::internal(user)), "default")
}

/// What the engine's own node is started with.
fn own_node<'a>(
    settings: &'a Settings,
    data_dir: &'a DataDir,
    front: &Front,
    clock: SystemClock,
    errand: Errand,
) -> NodeStart<'a> {
    let name = &settings.node_name;
    NodeStart {
        name,
        data_dir,
        client: internal_client(front, &format!("system:node:{name}")),
        clock,
        errand,
        max_container_restart_period: settings.max_container_restart_period(),
        pod_pids_limit: settings.pod_pids_limit,
        heartbeat_period: HEARTBEAT_PERIOD,
    }
}

/// What further nodes are told.
fn common_of(
    args: &Up,
    settings: &Settings,
    engine_dir: &EngineDir,
    network: &Network,
    (api, cluster_dns): (ApiAddresses, Option<Ipv4Addr>),
) -> anyhow::Result<Common> {
    let mut node = args.node.clone();
    if let Some(file) = &mut node.node_config {
        // an agent is started somewhere else
        *file = std::path::absolute(&file)
            .with_context(|| format!("find the node's settings {}", file.display()))?;
    }
    Ok(Common {
        program: background::fingerprint()?,
        engine_dir: engine_dir.path().to_owned(),
        first_node: settings.node_name.clone(),
        api_of_the_node: api.of_the_node,
        api_of_pods: api.of_pods,
        cluster_dns,
        bridge: settings.bridge.clone(),
        subnet: network.subnet(),
        max_container_restart_period_seconds: settings.max_container_restart_period_seconds,
        pod_pids_limit: settings.pod_pids_limit,
        heartbeat_period: args.failing.heartbeat_period(),
        node,
        registries: args.registries.clone(),
    })
}

/// Starts the agents of all further nodes, and of as many new ones as were asked for.
async fn launch_further_nodes(
    folder: &Folder,
    common: &Common,
    args: &Up,
    pki: &Arc<Pki>,
    clock: SystemClock,
) -> anyhow::Result<()> {
    let at_least = usize::from(args.nodes.map_or(1, NodesWanted::at_least)) - 1;
    let (folder, common, pki) = (folder.clone(), common.clone(), Arc::clone(pki));
    let launch = move || {
        folder.create()?;
        if let Err(error) = common.keep(folder.path()) {
            // on a full disk: the nodes of before go on, and none can be added
            tracing::warn!("{error:#}");
        }
        further::launch_all(&folder, &common, at_least, &pki, clock.now())
    };
    tokio::task::spawn_blocking(launch).await.context("start further nodes")?
}

/// Adds and removes nodes from now on, if that is wanted. It ends when the answer is dropped.
fn start_scaler(args: &Up, nodes: AutoNodes) -> JoinSet<()> {
    let mut scaler = JoinSet::new();
    match args.nodes {
        Some(NodesWanted::Auto { min, max }) => {
            let unneeded = args.scale_down_unneeded_time.as_micros();
            let settings = ScalingSettings {
                unneeded_time: TickDuration::from_micros(unneeded.try_into().unwrap_or(u64::MAX)),
                ..ScalingSettings::between(min.into(), max.into())
            };
            let (client, clock) = (nodes.client.clone(), nodes.clock.shared());
            scaler.spawn(Scaler::new(client, clock, nodes, settings).run());
        }
        Some(NodesWanted::AtLeast(_)) | None => {}
    }
    scaler
}

/// Resolves when the engine stops, also when it is dropped.
async fn stopped(mut phase: watch::Receiver<Phase>) {
    let _ = phase.wait_for(|phase| *phase == Phase::Stopping).await;
}

/// Starts what the API needs done beside requests.
fn keep_in_order(front: &Front, phase: &watch::Receiver<Phase>) {
    tokio::spawn(prune_events(front.clone(), phase.clone()));
    tokio::spawn(keep_roles_aggregated(front.clone(), stopped(phase.clone())));
}

/// Takes Events away when their hour is over.
async fn prune_events(front: Front, phase: watch::Receiver<Phase>) {
    let mut stopped = std::pin::pin!(stopped(phase));
    loop {
        let wait = front
            .api()
            .next_expiry()
            .map_or(EXPIRY_LOOK, |due: Tick| due.since(front.now()).to_std());
        tokio::select! {
            () = &mut stopped => return,
            () = tokio::time::sleep(wait) => {}
        }
        if let Err(error) = front.api().prune(front.now()) {
            tracing::warn!(%error, "take expired events away");
        }
    }
}
