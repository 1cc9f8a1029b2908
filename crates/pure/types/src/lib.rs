//! The words every other crate speaks: time as a number, identities, how a process ended,
//! quantities, the reasons Kubernetes users know, and the objects of the `rekindle.dev/v1alpha1`
//! API. No IO, no clock, no randomness.
#![forbid(unsafe_code)]

mod amounts;
pub mod avoided_nodes;
pub mod backoff;
mod causes;
pub mod connection_hold;
pub mod digest;
pub mod disruption;
mod ended_by_node;
pub mod ephemeral;
pub mod event_bucket;
mod event_severity;
pub mod exit;
pub mod held;
pub mod host_image;
pub mod ids;
pub mod int_or_percent;
pub mod labels;
pub mod load_balancer;
pub mod local_path;
pub mod log_options;
pub mod name_stem;
mod namespaced_name;
pub mod node_affinity;
pub mod node_ports;
pub mod nodes;
pub mod notice;
mod object_json;
pub mod oom;
pub mod owners;
pub mod pod_annotations;
pub mod pods;
pub mod quantity;
pub mod reasons;
pub mod references;
mod resource_scope;
pub mod resources;
pub mod restart_rules;
pub mod revisions;
pub mod service_account;
pub mod signals;
pub mod span;
pub mod sysctls;
pub mod taints;
pub mod term;
pub mod tick;
pub mod user;
pub mod v1alpha1;
pub mod validation;
pub mod yes_or_no;

pub use causes::causes;
pub use ended_by_node::{EndedByNode, NodeStopEnd};
pub use event_severity::EventSeverity;
pub use exit::{Exit, ExitStatus};
pub use ids::{ContainerAttempt, ContainerName, PodRef, PodUid, SandboxAttempt};
pub use namespaced_name::NamespacedName;
pub use notice::StopNotice;
pub use object_json::ObjectJson;
pub use oom::OomKill;
pub use quantity::{Quantity, QuantityError};
pub use resource_scope::ResourceScope;
pub use term::Term;
pub use tick::{Tick, TickDuration};
pub use user::ContainerUser;
