//! What can be typed after `rekindle`.

mod admission;
mod agent;
mod audit;
mod backup;
mod controllers_role;
mod encryption;
mod exhausted_webhook;
mod keys;
mod ladder;
mod leader_election;
mod nodes;
mod operator;
mod store;
#[cfg(test)]
mod tests;

use std::net::SocketAddr;
use std::path::PathBuf;

pub use admission::AdmissionArgs;
pub use agent::AgentArgs;
pub use audit::{AuditArgs, WantedAuditLog};
pub use backup::{BackupArgs, RestoreArgs, StoreCheck, StoreCommand};
use clap::builder::ArgPredicate;
use clap::{Args, Parser, Subcommand, ValueEnum};
use controllers_role::ControllersRole;
pub use encryption::EncryptionArgs;
pub use exhausted_webhook::{EXHAUSTED_WEBHOOK, ExhaustedWebhook};
pub use keys::{
    KubeconfigCommand, KubeconfigCreate, KubeconfigRevoke, TokenKeyCommand, TokenKeyRetire,
    TokenKeyRotate,
};
pub use ladder::LadderArgs;
pub use leader_election::LeaderElection;
pub use nodes::NodesWanted;
pub use operator::{MetricsAddress, ModeArg, OperatorArgs, ReportArgs, ReportOutput};
use rekindle_kinds::service_range::{ServiceRange, ServiceRangeError};
use rekindle_runtime::image::HostImage;
use serde::{Deserialize, Serialize};
pub use store::StoreArgs;

/// Rekindle runs Kubernetes manifests as real containers on this machine, and makes pods fully
/// restartable.
///
/// When restarting a container does not help, a RestartLadder restarts the whole pod in place: with
/// a new network, new namespaces, a new cgroup and empty emptyDir volumes, under the same name and
/// UID.
///
/// Start with:  rekindle up -f examples/poisoned.yaml
/// Then, in another terminal:  export KUBECONFIG=/var/lib/rekindle/kubeconfig; kubectl get pods -w
#[derive(Debug, Parser)]
#[command(name = "rekindle", version, propagate_version = true, verbatim_doc_comment)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// The subcommands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Start engine and node, apply manifests, and show what happens
    Up(Box<Up>),
    /// End the pods gracefully and stop the engine
    Down(Down),
    /// Show whether the engine runs, its node, and every pod with its place on the ladder
    Status(StatusArgs),
    /// Restart a pod, or one level of it, in place
    Restart(Restart),
    /// Tell why a pod, a workload or a node is as it is, and what would help
    Why(Why),
    /// Play a scenario in virtual time: what happens to these manifests when this goes wrong;
    /// docs/sim.md
    Sim(Sim),
    /// Print the CustomResourceDefinitions of Rekindle's kinds, for a cluster: rekindle crds |
    /// kubectl apply -f -
    Crds,
    /// Manage the images on this machine
    #[command(subcommand)]
    Image(ImageCommand),
    /// Manage the further nodes of an engine: node failure to try at home
    #[command(subcommand)]
    Node(NodeCommand),
    /// Write all objects of one moment, and the engine's keys, to a file, while the engine runs or
    /// not
    Backup(BackupArgs),
    /// Make the store of a data directory from a backup; its engine must not run
    Restore(RestoreArgs),
    /// Give users certificates of an engine, and take them back
    #[command(subcommand)]
    Kubeconfig(KubeconfigCommand),
    /// Change the key that signs the tokens of service accounts
    #[command(subcommand)]
    TokenKey(TokenKeyCommand),
    /// Look after the store of an engine
    #[command(subcommand)]
    Store(StoreCommand),
    /// Run controllers, scheduler and ladders in this process: a standby that acts when those of
    /// the engine do not
    Controllers(Controllers),
    /// Run the ladders of a Kubernetes cluster that is not Rekindle's; without --mode act they are
    /// only observed
    Operator(OperatorArgs),
    /// Restart pods of one node of such a cluster in place, beside its kubelet
    Agent(AgentArgs),
    /// Show what ladders did on a cluster, what they would have done, and ladders to begin with
    Report(ReportArgs),
    /// The process of a further node's agent
    #[command(hide = true)]
    NodeAgent(NodeAgent),
    /// The process that answers cluster DNS
    #[command(hide = true)]
    ClusterDns(ClusterDnsProcess),
    /// The built-in demo app: it serves, waits, or misbehaves on demand
    #[command(subcommand)]
    Demo(rekindle_demo::Demo),
}

/// Where the engine keeps its state.
#[derive(Args, Clone, Debug)]
pub struct DataDirArg {
    /// The folder of the engine's state; its kubeconfig is written there
    #[arg(
        long,
        value_name = "DIR",
        default_value = "/var/lib/rekindle",
        env = "REKINDLE_DATA_DIR"
    )]
    pub data_dir: PathBuf,
}

/// `rekindle up`.
#[derive(Args, Clone, Debug)]
pub struct Up {
    /// A manifest to apply, a folder of them, or - for standard input; may be repeated
    #[arg(short, long = "filename", value_name = "FILE")]
    pub filename: Vec<PathBuf>,
    #[command(flatten)]
    pub data_dir: DataDirArg,
    /// The address of the API; port 0 takes a free one. Other than loopback means: reachable from
    /// outside
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:6443")]
    pub listen: SocketAddr,
    /// Return when everything is ready, and leave the engine running in the background
    #[arg(long)]
    pub detach: bool,
    /// The bridge that pods are connected to [default: rk- and six digits made from the data
    /// directory]
    #[arg(long, value_name = "NAME")]
    pub bridge: Option<String>,
    /// The pods' addresses in CIDR notation [default: a free /16 within 10.0.0.0/8]
    #[arg(long, value_name = "CIDR")]
    pub pod_cidr: Option<String>,
    /// The addresses of Services in CIDR notation; it cannot change while Services exist [default:
    /// the one used before, or a free /16 from 10.96.0.0/16 on]
    #[arg(long, value_name = "CIDR", value_parser = service_range)]
    pub service_cidr: Option<ServiceRange>,
    /// Give pods IPv6 addresses beside those of IPv4, and Services that ask for them; the range is
    /// the engine's own, in fd52::/16
    #[arg(long)]
    pub dual_stack: bool,
    /// The node's name [default: the host's name]
    #[arg(long, value_name = "NAME")]
    pub node_name: Option<String>,
    /// How many nodes there are at least, each but the first with an agent in a process of its own,
    /// which `down` ends; those added earlier come back by themselves. With auto or auto=MIN..MAX,
    /// a node is added when pods find no room, and removed when it is not needed [default: 1]
    #[arg(long, value_name = "NUMBER|auto[=MIN..MAX]")]
    pub nodes: Option<NodesWanted>,
    /// With --nodes auto: how long a node has to be unneeded before it is removed
    #[arg(long, value_name = "DURATION", default_value = "10m", value_parser = humantime::parse_duration)]
    pub scale_down_unneeded_time: std::time::Duration,
    /// The longest wait between restarts of a crashing container, 1s to 300s
    #[arg(long, value_name = "DURATION", default_value = "300s", value_parser = restart_period)]
    pub max_container_restart_period: std::time::Duration,
    /// The folder of static pods' manifests [default: static-pods in the data directory]
    #[arg(long, value_name = "DIR")]
    pub static_pod_path: Option<PathBuf>,
    /// The most processes and threads that a pod may have; 0: as many as the machine lets it
    #[arg(long, value_name = "NUMBER", default_value_t = 4096)]
    pub pod_pids_limit: u64,
    #[command(flatten)]
    pub exhausted: ExhaustedWebhook,
    #[command(flatten)]
    pub ladder: LadderArgs,
    #[command(flatten)]
    pub node: NodeArgs,
    #[command(flatten)]
    pub failing: FailingNodes,
    /// How long pods that do not say so themselves stay on a node that is not ready or not heard
    /// of, in seconds
    #[arg(long, value_name = "NUMBER", default_value_t = 300)]
    pub default_toleration_seconds: u32,
    #[command(flatten)]
    pub admission: AdmissionArgs,
    #[command(flatten)]
    pub audit: AuditArgs,
    #[command(flatten)]
    pub store: StoreArgs,
    /// API and nodes only: controllers, scheduler and ladders run in processes of their own, which
    /// `rekindle controllers` starts
    #[arg(long)]
    pub no_controllers: bool,
    #[command(flatten)]
    pub role: ControllersRole,
    #[command(flatten)]
    pub election: LeaderElection,
    #[command(flatten)]
    pub registries: Registries,
}

/// `rekindle controllers`.
#[derive(Args, Clone, Debug)]
pub struct Controllers {
    /// The kubeconfig [default: KUBECONFIG, or that of the data directory]
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
    /// The context of the kubeconfig [default: its current one]
    #[arg(long, value_name = "NAME")]
    pub context: Option<String>,
    #[command(flatten)]
    pub data_dir: DataDirArg,
    #[command(flatten)]
    pub role: ControllersRole,
    #[command(flatten)]
    pub ladder: LadderArgs,
    #[command(flatten)]
    pub failing: FailingNodes,
    #[command(flatten)]
    pub election: LeaderElection,
}

/// When a node counts as failed, and what becomes of its pods.
#[derive(Args, Clone, Debug)]
pub struct FailingNodes {
    /// How long a node may be silent; nodes are heard of five times in this time, and every 10 s at
    /// least
    #[arg(long, value_name = "DURATION", default_value = "50s", value_parser = grace_period)]
    pub node_monitor_grace_period: std::time::Duration,
    /// How many failed nodes a second lose their pods
    #[arg(long, value_name = "NUMBER", default_value_t = 0.1, value_parser = rate)]
    pub node_eviction_rate: f64,
    /// The same in a large zone of which too many nodes have failed; in a smaller one none does
    #[arg(long, value_name = "NUMBER", default_value_t = 0.01, value_parser = rate)]
    pub secondary_node_eviction_rate: f64,
    /// The part of a zone's nodes, 0 to 1, from which on too many have failed; three at least
    #[arg(long, value_name = "NUMBER", default_value_t = 0.55, value_parser = part)]
    pub unhealthy_zone_threshold: f64,
    /// A zone with more nodes than this is large
    #[arg(long, value_name = "NUMBER", default_value_t = 50)]
    pub large_cluster_size_threshold: u32,
    /// How long a node has to be missing, without a Node in the API, until its pods are deleted
    #[arg(long, value_name = "DURATION", default_value = "40s", value_parser = grace_period)]
    pub missing_node_grace_period: std::time::Duration,
}

/// How the node behaves when it runs out of something, and when it is shut down.
#[derive(Args, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeArgs {
    /// A KubeletConfiguration with evictionHard, evictionSoft, shutdownGracePeriod and the like;
    /// see docs/node-pressure.md
    #[arg(long, value_name = "FILE", env = "REKINDLE_NODE_CONFIG")]
    pub node_config: Option<PathBuf>,
    /// Ctrl-C, SIGTERM and `down` are a node shutdown: pods fail in the order of their priorities,
    /// within this time
    #[arg(long, value_name = "DURATION")]
    pub shutdown_grace_period: Option<String>,
    /// The last part of it, for critical pods
    #[arg(long, value_name = "DURATION")]
    pub shutdown_grace_period_critical_pods: Option<String>,
    /// Kernel settings that pods may have beside the safe ones, such as net.core.somaxconn or
    /// kernel.msg*
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    #[serde(default)]
    pub allowed_unsafe_sysctls: Vec<String>,
    /// How long the end of a container waits for the rules that lead new connections to its pod,
    /// 100ms to 30s [default: 1s]
    #[arg(long, value_name = "DURATION")]
    #[serde(default)]
    pub endpoint_withdrawal_timeout: Option<String>,
    /// Whether pods may use the image localhost/host, which shows what any user may read of this
    /// machine's files: on or off
    #[arg(long, value_name = "on|off", default_value = "on")]
    #[serde(default)]
    pub host_image: HostImage,
}

/// `rekindle down`.
#[derive(Args, Clone, Debug)]
pub struct Down {
    #[command(flatten)]
    pub data_dir: DataDirArg,
    /// Stop the engine only; the containers go on, and the next `up` finds them
    #[arg(long)]
    pub leave_pods: bool,
}

/// `rekindle status`.
#[derive(Args, Clone, Debug)]
pub struct StatusArgs {
    #[command(flatten)]
    pub data_dir: DataDirArg,
}

/// Which API a command speaks to, in kubectl's own words.
#[derive(Args, Clone, Debug)]
pub struct ApiAccess {
    /// The namespace [default: that of the kubeconfig's context, or default]
    #[arg(short, long)]
    pub namespace: Option<String>,
    /// The kubeconfig [default: KUBECONFIG; as a plugin of kubectl then ~/.kube/config; or that of
    /// the data directory]
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
    /// The context of the kubeconfig [default: its current one]
    #[arg(long, value_name = "NAME")]
    pub context: Option<String>,
    #[command(flatten)]
    pub data_dir: DataDirArg,
}

/// `rekindle why`.
#[derive(Args, Clone, Debug)]
pub struct Why {
    /// What to tell about: a pod, also one that is gone; a cronjob, daemonset, deployment, job,
    /// replicaset, replicationcontroller or statefulset with its pods; or a node
    #[arg(value_name = "KIND/NAME", num_args = 1..=2, required = true)]
    pub target: Vec<String>,
    /// Text for people, or JSON (its shape: docs/why.md)
    #[arg(short, long, value_enum, default_value_t = OutputArg::Text)]
    pub output: OutputArg,
    #[command(flatten)]
    pub access: ApiAccess,
}

/// How an account is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum OutputArg {
    /// For people.
    Text,
    /// For programs.
    Json,
}

/// `rekindle sim`.
#[derive(Args, Clone, Debug)]
pub struct Sim {
    /// The scenario, a document of kind Scenario, and the manifests it is played with; - is
    /// standard input
    #[arg(value_name = "FILE")]
    pub scenario: PathBuf,
    /// All that is random in a run follows from it
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    pub seed: u64,
    /// How much virtual time goes by, such as 1h or 20d [default: what the scenario says]
    #[arg(long = "for", value_name = "DURATION", value_parser = humantime::parse_duration)]
    pub duration: Option<std::time::Duration>,
    /// On how many nodes it is played, 1 to 1000 [default: what the scenario says]
    #[arg(long, value_name = "NUMBER")]
    pub nodes: Option<usize>,
    /// Play it without any ladder and again with the ladders of this file, side by side; may be
    /// repeated
    #[arg(long, value_name = "FILE")]
    pub ladder: Vec<PathBuf>,
    /// A table for people, JSON (its shape: docs/sim.md), or a page with plots for a browser
    #[arg(short, long, value_enum, default_value_t = SimOutput::Table)]
    pub output: SimOutput,
}

/// How the report of a simulation is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum SimOutput {
    /// For people.
    Table,
    /// For programs.
    Json,
    /// For a browser.
    Html,
}

/// `rekindle restart`.
#[derive(Args, Clone, Debug)]
pub struct Restart {
    /// What to restart: pods (pod/NAME), the pods of a daemonset, deployment, job, replicaset,
    /// replicationcontroller or statefulset, or those on a node (node/NAME). Also KIND NAME…, or a
    /// kind of workload alone for all of that kind in the namespace. Several pods are restarted one
    /// by one: the next when the one before is Ready
    #[arg(value_name = "KIND/NAME", required_unless_present_any = ["selector", "all_namespaces"])]
    pub targets: Vec<String>,
    /// Only what has these labels: pods, or objects of the kind that is named
    #[arg(short = 'l', long, value_name = "LABELS")]
    pub selector: Option<String>,
    /// Restart the pods of -l as one: on the rungs pod and containers all of them stop before any
    /// starts again, on recreate and reschedule all are evicted together. One request says what
    /// became of each. Without it they are restarted one by one
    #[arg(long, requires = "selector", conflicts_with_all = ["targets", "container"])]
    pub together: bool,
    /// Refused, with the reason
    #[arg(short = 'A', long, hide = true)]
    pub all_namespaces: bool,
    /// How much of a pod: its containers, the whole pod in place with a fresh network, cgroup and
    /// emptyDir, or a new pod
    #[arg(long, value_enum, ignore_case = true, default_value_t = RungArg::Pod,
        default_value_ifs([("container", ArgPredicate::IsPresent, Some("container")),
            ("fast", ArgPredicate::IsPresent, Some("containers"))]))]
    pub rung: RungArg,
    /// Only this container, or sidecar, of each pod; the others run on. It means --rung container.
    /// Pods without it are passed over
    #[arg(short = 'c', long, value_name = "CONTAINER")]
    pub container: Option<String>,
    /// Seconds the containers get to end; -1 is the pod's own, as without it
    #[arg(long, value_name = "SECONDS", allow_negative_numbers = true,
        value_parser = clap::value_parser!(i64).range(-1..=i64::from(u32::MAX)))]
    pub grace_period: Option<i64>,
    /// Kill the containers at once, without preStop hooks and grace period. It means --rung
    /// containers
    #[arg(long, conflicts_with_all = ["grace_period", "container"])]
    pub fast: bool,
    /// Why; shown in the pod's events
    #[arg(long, value_name = "TEXT")]
    pub reason: Option<String>,
    /// The request's name: asked for again under the same name, the restart of the same pod is not
    /// done twice while the request is kept (--ttl). Of several pods, each request gets the pod's
    /// name added
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,
    /// How long the request is kept when it is over, such as 1h [default: 10m]
    #[arg(long, value_name = "DURATION", value_parser = humantime::parse_duration)]
    pub ttl: Option<std::time::Duration>,
    /// Return when it is done, with exit code 1 when it could not be; several pods are always
    /// waited for
    #[arg(long)]
    pub wait: bool,
    /// With --wait: how long to wait for all of it, such as 90s or 10m; exit code 124 when it took
    /// longer
    #[arg(long, value_name = "DURATION", value_parser = humantime::parse_duration)]
    pub timeout: Option<std::time::Duration>,
    /// Ask for nothing. server, also without a value: tells what would be carried out, what would
    /// wait and for what, and what would be refused and why, and exits with 1 when anything would
    /// be; client: only shows what would be asked for
    #[arg(long, value_enum, default_value_t = DryRunArg::None, default_missing_value = "server", num_args = 0..=1, require_equals = true)]
    pub dry_run: DryRunArg,
    /// Print the requests and nothing else, as they are in the end with --wait, and as they would
    /// be with --dry-run: their names, or the object, or a List when they are several. All else
    /// that is told goes to standard error
    #[arg(short, long, value_enum, default_value_t = RestartOutput::Text, hide_default_value = true)]
    pub output: RestartOutput,
    #[command(flatten)]
    pub access: ApiAccess,
}

/// How what was asked for is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum RestartOutput {
    /// A line of what was done, and of each step that is waited for.
    #[value(hide = true)]
    Text,
    /// The names of the requests.
    Name,
    /// The requests.
    Json,
    /// The same.
    Yaml,
}

/// Whether anything is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum DryRunArg {
    /// It is done.
    None,
    /// It is shown.
    Client,
    /// It is sent to the API, which checks it and stores nothing, and what would become of it is
    /// looked ahead for.
    Server,
}

/// The rungs that can be asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum RungArg {
    /// The containers' processes and writable layers.
    Container,
    /// All containers, init containers again; sandbox and volumes stay.
    Containers,
    /// Also the sandbox and the contents of emptyDir volumes.
    Pod,
    /// The pod is evicted, as disruption budgets allow, and a new one takes its place.
    Recreate,
    /// The same, on another node.
    Reschedule,
    /// The pod's Deployment goes back to the revision before, when that was healthy.
    Rollback,
}

/// `rekindle image`.
#[derive(Debug, Subcommand)]
pub enum ImageCommand {
    /// Load images from an OCI archive, an OCI layout folder or a `docker save` archive
    Load(ImageLoad),
    /// Fetch an image from its registry
    Pull(ImagePullArgs),
    /// List the images on this machine
    List(ImageList),
    /// Remove an image, or one of its names
    Rm(ImageRm),
}

/// Registries that are reached in another way than usual.
#[derive(Args, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Registries {
    /// Speak to this registry without TLS, as to those on loopback; may be repeated
    #[arg(long, value_name = "HOST[:PORT]")]
    pub plain_http: Vec<String>,
}

/// `rekindle image pull`.
#[derive(Args, Clone, Debug)]
pub struct ImagePullArgs {
    /// The image: busybox, registry.example/team/app:v1, registry.example/app@sha256:...
    #[arg(value_name = "IMAGE")]
    pub image: String,
    /// Logins in the form of docker's config.json
    #[arg(long, value_name = "FILE")]
    pub auth_file: Option<PathBuf>,
    #[command(flatten)]
    pub registries: Registries,
    #[command(flatten)]
    pub data_dir: DataDirArg,
}

/// `rekindle image rm`.
#[derive(Args, Clone, Debug)]
pub struct ImageRm {
    /// The image by name or id; by id it goes with all its names
    #[arg(value_name = "IMAGE", required = true)]
    pub images: Vec<String>,
    /// Also of an image that containers use: its names go now, its files when nothing uses them
    #[arg(long)]
    pub force: bool,
    #[command(flatten)]
    pub data_dir: DataDirArg,
}

/// `rekindle image load`.
#[derive(Args, Clone, Debug)]
pub struct ImageLoad {
    /// The archive or the layout folder
    pub file: PathBuf,
    /// Let the image go like a pulled one when the disk fills; otherwise it stays, as no registry
    /// may have it
    #[arg(long)]
    pub evictable: bool,
    #[command(flatten)]
    pub data_dir: DataDirArg,
}

/// `rekindle image list`.
#[derive(Args, Clone, Debug)]
pub struct ImageList {
    #[command(flatten)]
    pub data_dir: DataDirArg,
}

/// `rekindle node`.
#[derive(Debug, Subcommand)]
pub enum NodeCommand {
    /// List the nodes with their agents
    List(NodeList),
    /// Add a node and start its agent
    Add(NodeAdd),
    /// Start the agent of a node that does not run; it takes up the pods that run still
    Start(NodeName),
    /// End a node's pods gracefully, and its agent; it comes back with `node start` or the next
    /// `up`
    Stop(NodeName),
    /// Kill a node's agent with SIGKILL: to see what becomes of the pods of a dead node
    Kill(NodeName),
    /// Move a node's pods elsewhere as disruption budgets allow, stop it, and delete it
    Remove(NodeRemove),
}

/// `rekindle node list`.
#[derive(Args, Clone, Debug)]
pub struct NodeList {
    #[command(flatten)]
    pub data_dir: DataDirArg,
}

/// `rekindle node add`.
#[derive(Args, Clone, Debug)]
pub struct NodeAdd {
    /// The node's name [default: that of the first node with a number]
    pub name: Option<String>,
    #[command(flatten)]
    pub data_dir: DataDirArg,
}

/// A node by its name.
#[derive(Args, Clone, Debug)]
pub struct NodeName {
    /// The node's name
    pub name: String,
    #[command(flatten)]
    pub data_dir: DataDirArg,
}

/// `rekindle node remove`.
#[derive(Args, Clone, Debug)]
pub struct NodeRemove {
    #[command(flatten)]
    pub node: NodeName,
    /// Also when pods that nobody makes again, or volumes of class local-path, are lost with it
    #[arg(long)]
    pub force: bool,
}

/// The hidden command that an agent's process is started with.
#[derive(Args, Clone, Debug)]
pub struct NodeAgent {
    /// The node's folder
    pub folder: PathBuf,
}

/// The hidden command that the process of cluster DNS is started with.
#[derive(Args, Clone, Debug)]
pub struct ClusterDnsProcess {
    /// Where the engine reaches it
    pub socket: PathBuf,
    /// What it serves, as JSON
    pub settings: String,
}

/// Shorter than this a busy machine would be taken for a dead one.
fn grace_period(text: &str) -> Result<std::time::Duration, String> {
    let period = humantime::parse_duration(text).map_err(|error| error.to_string())?;
    if (1..=3600).contains(&period.as_secs()) {
        Ok(period)
    } else {
        Err("give 1s to 1h".to_owned())
    }
}

fn rate(text: &str) -> Result<f64, String> {
    let rate: f64 = text.parse().map_err(|error| format!("{error}"))?;
    if (0.0001..=1000.0).contains(&rate) { Ok(rate) } else { Err("give 0.0001 to 1000".to_owned()) }
}

fn part(text: &str) -> Result<f64, String> {
    let part: f64 = text.parse().map_err(|error| format!("{error}"))?;
    if (0.0..=1.0).contains(&part) { Ok(part) } else { Err("give 0 to 1".to_owned()) }
}

/// Services have IPv4 addresses.
fn service_range(text: &str) -> Result<ServiceRange, String> {
    let range: ServiceRange = text.parse().map_err(|error: ServiceRangeError| error.to_string())?;
    let is_ipv4 = range.network().is_ipv4();
    is_ipv4.then_some(range).ok_or_else(|| "give an IPv4 range such as 10.96.0.0/16".to_owned())
}

/// KEP-5593: `crashLoopBackOff.maxContainerRestartPeriod` is between one second and five minutes.
fn restart_period(text: &str) -> Result<std::time::Duration, String> {
    let period = humantime::parse_duration(text).map_err(|error| error.to_string())?;
    if (1..=300).contains(&period.as_secs()) && period.subsec_nanos() == 0 {
        Ok(period)
    } else {
        Err("give whole seconds from 1s to 300s".to_owned())
    }
}
