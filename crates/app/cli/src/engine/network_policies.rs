//! The rules that enforce NetworkPolicies: a table of the engine, for the pods of all nodes.

use kube::Client;
use rekindle_net::EmbeddingPrefix;
use rekindle_net::rules::TableOwnership;
use rekindle_node::{PolicyGate, PolicyRules};
use rekindle_types::causes;

use super::writer_task::WriterTask;

/// The user that the writer is to the API.
pub const USER: &str = "system:network-policies";

/// The writer of the rules, if the kernel can have any.
pub struct PolicyWriter {
    /// How the node's pods wait for their rules.
    pub gate: PolicyGate,
    task: WriterTask,
    bridge: String,
}

impl PolicyWriter {
    /// Begins to write. A machine without nftables does without: pods stay open to all others, and
    /// the log says so.
    pub fn start(bridge: &str, second: Option<EmbeddingPrefix>, client: Client) -> Self {
        let mut writer = Self::idle(bridge);
        match PolicyRules::open(bridge, second, TableOwnership::Exclusive) {
            Ok(rules) => {
                let (gate, requests) = PolicyGate::new();
                writer.gate = gate;
                writer.task = WriterTask::start(rules.serve(client, requests));
            }
            Err(error) => {
                tracing::warn!(
                    error = causes(&error),
                    "failed to prepare rules for NetworkPolicies: none is enforced"
                );
            }
        }
        writer
    }

    /// One that writes nothing, for an engine that takes away what is left.
    pub fn idle(bridge: &str) -> Self {
        Self { gate: PolicyGate::default(), task: WriterTask::default(), bridge: bridge.to_owned() }
    }

    /// Writes no more. The rules stay, for pods that run on.
    pub async fn stop(&mut self) {
        self.task.stop().await;
    }

    /// Takes the rules away.
    pub async fn remove(mut self) {
        self.stop().await;
        if let Err(error) = PolicyRules::remove(&self.bridge, TableOwnership::Exclusive).await {
            tracing::warn!(error = causes(&error), "failed to remove the rules of NetworkPolicies");
        }
    }
}
