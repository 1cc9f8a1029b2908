//! The controllers in a small world: an API server that is a map, a kubelet that is a function, and
//! watches that may lag, repeat themselves or break. Everything is driven by the test; there is no
//! clock and no thread.
#![allow(clippy::unwrap_used, reason = "tests")]

mod api;
mod avoided_nodes;
mod build;
mod chance;
mod creation_brake;
mod cron_job;
mod daemon_set;
mod deployment;
mod disruption;
mod endpoints;
mod garbage;
mod horizontal_autoscaler;
mod job;
mod job_crashes;
mod job_policies;
mod load_balancers;
mod machine_ports;
mod mirrored_slices;
mod naked_pods;
mod namespace;
mod node_failure;
mod node_news;
mod node_silence;
mod overlap;
mod owner_graphs;
mod pod_restart;
mod preemption;
mod random;
mod replacement;
mod replica_set;
mod replication_controller;
mod resource_quota;
mod restart_groups;
mod rollout_limits;
mod scheduler;
mod scheduler_filters;
mod scheduler_pods;
mod scheduler_queue;
mod scheduler_quiet;
mod scheduler_scores;
mod stateful_set;
mod taint_eviction;
mod vacancies;
mod volume_places;
mod volumes;
mod world;
