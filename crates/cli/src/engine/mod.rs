//! The engine: store, API, controllers, ladder and node in one process, wired together.
//!
//! ```text
//!   store (committer thread) ── Api ── Front ──┬── Server: TLS on --listen
//!                                              ├── Server: TLS on the bridge, for pods
//!                                              └── in process: node, operator, the table of `up`
//! ```
//!
//! It starts from the bottom up and stops from the top down, so that nothing ever talks to a part that is not there.

pub mod data_dir;
mod ending;
mod logs;
mod network;
mod node_config;
mod nodes;
mod pod_api;
pub mod preflight;
pub mod remains;
pub mod settings;
mod streams;

use std::path::Path;
use std::sync::Arc;

use anyhow::Context;
use kube::Client;
use rekindle_api::auth::{Authorizer, Kubeconfig, Pki, TokenKey, UserInfo};
use rekindle_api::http::{
    Clock, Front, FrontParts, OsEntropy, Server, ServerLimits, SystemClock, Tls,
    keep_roles_aggregated,
};
use rekindle_api::{Api, ApiParts, kinds};
use rekindle_net::Network;
use rekindle_node::{ApiAddresses, Duty, Node, NodeSettings, StopMode};
use rekindle_operator::{LadderFigures, Webhook};
use rekindle_runtime::embedded::{self, EmbeddedRuntime};
use rekindle_runtime::image::registry::RegistrySettings;
use rekindle_runtime::image::{Builtins, ImageStore};
use rekindle_store::redb_disk::RedbDisk;
use rekindle_store::{Limits, Store};
use rekindle_types::Tick;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::args::{Registries, Up};
use data_dir::DataDir;
pub use ending::{EndSignals, Ending};
use logs::LogSource;
use nodes::NodeSource;
use pod_api::PodApi;
use settings::Settings;
use streams::StreamSource;

/// Bytes that a container of `localhost/host` may write at most.
const HOST_IMAGE_WRITES_MAX_BYTES: u64 = 256 * 1024 * 1024;
/// How often the API is asked whether Events have expired while none is due.
const EXPIRY_LOOK: std::time::Duration = std::time::Duration::from_secs(600);

/// Who runs the controllers and the ladder.
const OPERATOR: &str = "system:serviceaccount:kube-system:rekindle-operator";
/// The folder for keys in the data directory.
const PKI: &str = "pki";

/// A running engine.
pub struct Engine {
    client: Client,
    clock: Clock,
    api_url: String,
    kubeconfig: std::path::PathBuf,
    node: rekindle_node::Handle,
    network: Arc<Network>,
    runtime: Arc<EmbeddedRuntime>,
    operator: JoinHandle<()>,
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
    /// Starts everything; returns when the API listens. The node becomes Ready a moment later.
    pub async fn start(args: &Up, data_dir: DataDir) -> anyhow::Result<Self> {
        let node_settings = node_config::read(&args.node)?;
        let ladder_limits = args.ladder.limits()?;
        let webhook = args.exhausted_webhook.as_deref().map(Webhook::new).transpose()?;
        let listener = listen(args).await?;
        let clock = SystemClock::start();
        let pki =
            Pki::open(&data_dir.join(PKI), clock.now()).context("prepare the certificates")?;
        let (store, committer) = open_store(&data_dir)?;
        let logs = LogSource::default();
        let streams = StreamSource::default();
        let nodes = NodeSource::default();
        let front = open_api(&store, &data_dir, &pki, clock, logs.clone())?;
        let front = front.with_streams(Arc::new(streams.clone()));
        let front = front.with_nodes(Arc::new(nodes.clone()));
        let ladder_figures = Arc::new(LadderFigures::default());
        let front = front.with_figures(ladder_figures.clone());
        let (stop, stopping) = watch::channel(Phase::Running);

        let tls = Tls::new(&pki, &[listener.local_addr()?.ip()]).context("prepare TLS")?;
        let main_address = listener.local_addr()?;
        let api_url = format!("https://{}", listener.local_addr()?);
        let kubeconfig = write_kubeconfig(&data_dir, &pki, &api_url)?;
        let server = tokio::spawn(
            Server::new(front.clone(), tls, ServerLimits::default())
                .serve(listener, stopped(stopping.clone())),
        );
        tokio::spawn(prune_events(front.clone(), stopping.clone()));
        tokio::spawn(keep_roles_aggregated(front.clone(), stopped(stopping.clone())));

        let settings = Settings::of(args, &data_dir);
        settings.keep(&data_dir)?;
        let network = Arc::new(network::open(&settings, &data_dir).await?);
        let pod_api = PodApi::open(&network, &settings.bridge, &pki, main_address)?;
        let api_addresses = pod_api.addresses;
        let pod_server = tokio::spawn(pod_api.serve(front.clone(), stopped(stopping.clone())));
        let runtime = Arc::new(
            open_runtime(&data_dir, clock.shared(), registry_settings(&args.registries)).await?,
        );
        let start = NodeStart {
            settings: &settings,
            errand: Errand::Serve { node: node_settings, api: api_addresses },
            data_dir: &data_dir,
            front: &front,
            clock,
        };
        let node = start_node(start, Arc::clone(&runtime), Arc::clone(&network)).await?;
        logs.set(node.logs());
        streams.set(node.streams());
        nodes.set(node.name(), node.node_api());
        let ladders = (ladder_limits, ladder_figures);
        let operator = start_operator(&front, clock, ladders, stopped(stopping.clone()));
        if let Some(webhook) = webhook {
            let client = internal_client(&front, OPERATOR);
            let stop = stopped(stopping);
            tokio::spawn(rekindle_operator::notify(client, clock.shared(), webhook, stop));
        }
        let client = internal_client(&front, "system:rekindle-up");
        Ok(Self {
            client,
            clock: clock.shared(),
            api_url,
            kubeconfig,
            node,
            network,
            runtime,
            operator,
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
        Arc::clone(&self.clock)
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

    async fn stop_parts(self, ending: Ending) {
        // The controllers first: what the node ends now must not be made again.
        self.operator.abort();
        let mode = match ending {
            Ending::EndPods => StopMode::EndPods,
            Ending::LeavePods => StopMode::LeavePods,
        };
        self.node.stop(mode).await;
        if ending == Ending::EndPods {
            take_network_away(self.network).await;
            if let Err(error) = self.runtime.leave().await {
                tracing::warn!(error = error.chain(), "clear away what the pods left");
            }
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

/// The node has ended, and with it the other owner of the network.
async fn take_network_away(network: Arc<Network>) {
    network.settle().await;
    match Arc::into_inner(network) {
        Some(network) => {
            if let Err(error) = network.close().await {
                tracing::warn!(%error, "take the bridge away");
            }
        }
        None => tracing::warn!("the bridge stays: something still uses the network"),
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
    logs: LogSource,
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
    Ok(Front::new(FrontParts { api, clock: clock.shared(), logs: Arc::new(logs) }))
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

/// Controllers and ladders, with the limits and the figures of these.
fn start_operator(
    front: &Front,
    clock: SystemClock,
    (limits, figures): (rekindle_operator::Limits, Arc<LadderFigures>),
    stop: impl Future<Output = ()> + Send + 'static,
) -> JoinHandle<()> {
    let user = "system:serviceaccount:kube-system:rekindle-operator";
    let client = internal_client(front, user);
    tokio::spawn(rekindle_operator::run(client, clock.shared(), limits, figures, stop))
}

fn internal_client(front: &Front, user: &str) -> Client {
    Client::new(front.in_process_service(UserInfo::internal(user)), "default")
}

/// What a node is started for.
enum Errand {
    /// To run pods.
    Serve {
        /// With these settings.
        node: NodeSettings,
        /// Where containers reach the API.
        api: ApiAddresses,
    },
    /// To end what a killed engine left.
    EndPods,
}

/// What a node agent is started with, beside the runtime and the network.
struct NodeStart<'a> {
    settings: &'a Settings,
    errand: Errand,
    data_dir: &'a DataDir,
    front: &'a Front,
    clock: SystemClock,
}

async fn start_node(
    start: NodeStart<'_>,
    runtime: Arc<EmbeddedRuntime>,
    network: Arc<Network>,
) -> anyhow::Result<rekindle_node::Handle> {
    let NodeStart { settings, errand, data_dir, front, clock } = start;
    let name = &settings.node_name;
    let mut config = rekindle_node::Config::new(name, data_dir.path(), &data_dir.join("logs"));
    config.addresses = vec![network.gateway().into()];
    config.pod_cidr = Some(network.subnet().to_string());
    config.max_container_restart_period = settings.max_container_restart_period();
    config.pod_pids_limit = settings.pod_pids_limit;
    config.clock = rekindle_node::Clock::starting_at(clock.now());
    match errand {
        Errand::Serve { node, api } => {
            config.duty = Duty::Serve;
            config.eviction = node.eviction;
            config.shutdown = node.shutdown;
            config.image_gc = node.image_gc;
            if let Some(max_pods) = node.max_pods {
                config.max_pods = max_pods;
            }
            config.api = Some(api);
            config.static_pods = Some(match &settings.static_pod_path {
                Some(folder) => folder.clone(),
                None => data_dir.static_pods()?,
            });
        }
        Errand::EndPods => config.duty = Duty::EndPods,
    }
    let client = internal_client(front, &format!("system:node:{name}"));
    Node::start(config, client, runtime, network).await.context("start the node")
}

/// The container runtime of a data directory.
async fn open_runtime(
    data_dir: &DataDir,
    clock: Clock,
    registries: RegistrySettings,
) -> anyhow::Result<EmbeddedRuntime> {
    EmbeddedRuntime::open(embedded::Config {
        data_dir: runtime_dir(data_dir.path()),
        run_dir: data_dir.run_dir()?,
        engine_id: data_dir.engine_id().to_owned(),
        images: Arc::new(open_images(data_dir)?),
        registries,
        clock,
    })
    .await
    .context("start the container runtime")
}

/// The container runtime's folder in a data directory.
pub fn runtime_dir(data_dir: &Path) -> std::path::PathBuf {
    data_dir.join("runtime")
}

/// How registries are asked.
pub fn registry_settings(args: &Registries) -> RegistrySettings {
    let plain_http = args.plain_http.iter().cloned().collect();
    RegistrySettings { plain_http, ..RegistrySettings::default() }
}

/// The image store of a data directory; a client command may open it beside a running engine.
fn open_images(data_dir: &DataDir) -> anyhow::Result<ImageStore> {
    images_in(data_dir.path(), vec![data_dir.path().to_owned(), data_dir.run_dir()?])
}

/// The image store beneath `path`, which hides `engine_dirs` in `localhost/host`.
pub fn images_in(path: &Path, engine_dirs: Vec<std::path::PathBuf>) -> anyhow::Result<ImageStore> {
    let builtins = Builtins { engine_dirs, host_write_limit_bytes: HOST_IMAGE_WRITES_MAX_BYTES };
    ImageStore::open(&path.join("images"), builtins).context("open the image store")
}

/// Resolves when the engine stops, also when it is dropped.
async fn stopped(mut phase: watch::Receiver<Phase>) {
    let _ = phase.wait_for(|phase| *phase == Phase::Stopping).await;
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
