//! What the API core answers to requests of every kind, and what it takes from whom.
#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "tests, one of which reads the sources"
)]

mod api_services;
mod backups;
mod ca_bundles;
mod conversations;
mod conversions;
mod definitions;
mod deletes;
mod dual_stack;
mod engine_objects_in_quotas;
mod eviction;
mod eviction_at_once;
mod flow_control;
mod further_ranges;
mod harness;
mod hostile;
mod ladders;
mod list_searches;
mod lists;
mod node_rights;
mod older_objects;
mod patches;
mod pod_security;
mod policies;
mod priorities;
mod protobuf_answers;
mod pull_secrets;
mod rbac;
mod request_bodies;
mod resource_quotas;
mod runtime_classes;
mod services;
mod signing_requests;
mod storage_classes;
mod storage_migrations;
mod terms;
mod tokens;
mod trust_bundles;
mod watches;
mod webhooks;
mod writes;
