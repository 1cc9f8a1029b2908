//! The Kubernetes-compatible API: a synchronous core that turns a request and the store's state
//! into an answer. `rekindle-api-server` puts HTTP in front of it.
//!
//! The core is pure: time, entropy and the key that signs tokens come in as arguments, nothing is
//! read from the machine, and a write's durability is a value ([`rekindle_store::PendingWrite`])
//! that the caller waits for.
//!
//! ```text
//!  bytes ──> server ──> Request ──> Api::handle ──> Outcome ──> server ──> bytes
//!                                     │   │            ├ Answer   at once
//!                      rekindle-kinds ┘   └ store      ├ Write    when durable
//!                     decode, patch, verbs             ├ Watch    events as they come
//!                     admission, represent             ├ Log, Stream, Node …: the node answers
//!                                                      ├ Webhooks to be asked; then again
//!                                                      ├ Metrics  the server's own figures
//!                                                      └ Backup   all that is stored
//! ```
#![forbid(unsafe_code)]

mod admission;
pub mod admission_session;
pub mod aggregated_request;
mod api;
pub mod api_services;
mod audit_notes;
pub mod auth;
mod authority;
mod background_work;
mod call;
pub mod certificates;
mod custom;
pub mod decode;
mod decoded;
mod discovery;
mod due_times;
pub mod entropy;
mod event_stream;
mod expiry;
mod flow_control;
mod impersonation;
pub mod keys;
mod made_of;
mod managed_fields;
pub mod node_query;
mod node_rights;
mod object_meta;
pub mod outcome;
pub mod patch;
mod protobuf;
pub mod proxy_request;
mod removal;
pub mod represent;
pub mod request;
pub mod resource_metrics;
mod resource_quotas;
mod reviews;
mod revision;
pub mod selectors;
mod service_addresses;
mod service_endpoints;
mod shared;
pub mod status;
pub mod storage_migration;
mod stored;
mod stored_check;
mod subresources;
mod terms;
pub mod token_secrets;
mod tokens;
mod verbs;
mod watch_conversion;
mod webhook_location;
mod weight;
mod yaml;

pub use admission::extension_authentication::FRONT_PROXY_CLIENT;
pub use admission::pod_security::{PodSecurityConfiguration, PodSecurityConfigurationError};
pub use api::Api;
pub use audit_notes::AuditNotes;
pub use custom::ResumedDefinitions;
pub use entropy::Entropy;
pub use event_stream::EventStream;
pub use flow_control::{ClassifiedRequest, FlowControlFeed};
pub use impersonation::Impersonation;
pub use outcome::{ApiAnswer, RequestOutcome, WatchAnswer, WriteInFlight};
pub use request::ApiRequest;
pub use shared::ApiParts;
