//! The API as clients meet it: kubectl, helm, identities, our kinds, cluster DNS.
#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    unreachable_pub,
    reason = "a black-box test drives processes and files"
)]

mod admission_policies;
mod admission_webhooks;
mod aggregated_server;
mod api_services;
mod audit_log;
mod audit_webhook;
mod chart;
mod client_certificates;
mod cluster_dns;
mod conversion_webhooks;
mod custom_kinds;
mod flow_control;
mod helm;
mod identity;
mod kubectl;
mod metric_adapters;
mod own_kinds;
mod pod_security;
mod proxy;
mod public_charts;
mod server_side_apply;
mod signing_requests;
mod storage_migrations;
mod tls_server;
mod webhook_server;
