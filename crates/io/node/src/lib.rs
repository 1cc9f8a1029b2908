//! The node agent: takes the pods that the API gives to this node, keeps one pure `PodCore` for
//! each, and carries out what it asks for on the container runtime, the network and the file
//! system.
//!
//! ```text
//! API ──watch──► pods::manager ──► pods::worker (PodCore) ──► actions ──► Runtime, PodNetwork, volumes
//!     ◄─status─┘ ◄─Events─┘ ◄─PodRestart status─┘
//!     ◄─Node, Lease── register
//! who asks ──► node_api ──► usage ──► Runtime, file systems, /proc
//! ```
//! Everything that must survive kill -9 of the agent is on disk before the action that depends on
//! it is begun (see `layout`), and containers do not depend on the agent to live. Nothing polls:
//! the only timers of an idle node are the heartbeat's and that of the look at what is left, and
//! while somebody else has a port of its pods that of the next attempt.
#![forbid(unsafe_code)]
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "the node agent is a driver: it does the IO and reads the clock for the pure pod core"
)]

pub mod agent;
pub mod clock;
mod cluster_dns;
mod commands;
mod config;
mod container_spec;
mod context;
mod counters;
mod durable;
mod env;
pub mod eviction;
mod folder_watch;
mod hooks;
mod host_ports;
mod images;
mod kernel_rules;
mod layout;
mod local_path;
pub mod logs;
pub mod network;
pub mod network_policies;
pub mod node_api;
mod object_watch;
mod objects;
mod pods;
mod probes;
mod register;
mod service_links;
pub mod service_ranges;
mod service_rules;
mod settings;
pub mod shutdown;
mod spares;
mod static_pods;
pub mod streams;
mod sysctls;
#[cfg(test)]
mod testing;
mod tokens;
pub mod usage;
mod users;
mod volumes;

pub use agent::{AgentLauncher, AgentStopMode, NodeError, NodeHandle};
pub use clock::Clock;
pub use cluster_dns::{ServiceNames, dns_settings, publish_names};
pub use config::{AgentDuty, ApiAddresses, NodeConfig, RESOLV_CONF};
pub use eviction::EvictionPolicy;
pub use folder_watch::FolderWatch;
pub use hooks::run_http_hook;
pub use images::ImageGcPolicy;
pub use network::{NetworkError, PodNetwork};
pub use network_policies::{PolicyGate, PolicyRules};
pub use probes::connect_tls;
pub use service_ranges::ServiceRanges;
pub use service_rules::{
    AddressesInUse, AgentLine, PodPorts, PodRoutes, PortDemand, PortOutcome, RouteRequest,
    SandboxAddresses, ServiceRules, follow_requests, serve_routes, warn_of_unrouted_services,
};
pub use settings::{NodeSettings, SettingsError};
pub use shutdown::{ShutdownGroup, ShutdownPolicy};
pub use sysctls::{AllowedSysctls, SysctlsError};
pub use users::{UserIdRanges, UserIdsError};
pub use volumes::empty_folder;
