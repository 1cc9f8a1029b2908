//! What the agent of a further node is started with, in files: an agent is started by the engine or
//! by a command, and says the same whoever starts it.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};

use anyhow::Context;
use rekindle_api_server::pki::{CERTIFICATE_RENEWED_AFTER, RevokedCertificates, write_private};
use rekindle_kinds::identity::{NODES, UserInfo};
use rekindle_net::{EmbeddingPrefix, Ipv4Net};
use rekindle_types::{Tick, TickDuration};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::args::{NodeArgs, Registries};

/// What all further nodes of an engine have in common, as the engine that runs says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CommonNodeSettings {
    /// The program that wrote it: another one, or a newer, takes the nodes over from it.
    pub program: String,
    /// The engine's data directory.
    pub engine_dir: PathBuf,
    /// The engine's own node.
    pub first_node: String,
    /// Where the API is for agents, and for containers on the node's network.
    pub api_of_the_node: SocketAddr,
    /// Where it is for containers with a network of their own.
    pub api_of_pods: SocketAddr,
    /// Where containers reach cluster DNS, if there is any.
    #[serde(default)]
    pub cluster_dns: Option<Ipv4Addr>,
    /// The pods' bridge.
    pub bridge: String,
    /// The subnet on it.
    pub subnet: Ipv4Net,
    /// Where the pods' second addresses come from; none: they have none.
    #[serde(default)]
    pub ipv6_pods: Option<EmbeddingPrefix>,
    /// The longest wait between restarts of a crashing container, in seconds.
    pub max_container_restart_period_seconds: u64,
    /// The most processes and threads of a pod.
    pub pod_pids_limit: Option<u64>,
    /// Between two signs of life.
    pub heartbeat_period: TickDuration,
    /// How nodes behave when they run out of something, and when they are shut down.
    pub node: NodeArgs,
    /// Registries that are reached in another way than usual.
    pub registries: Registries,
}

/// What one agent is started with.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeFile {
    /// The Node object's name.
    pub name: String,
    /// 2 or more; the engine's own node is the first. No two nodes of an engine have the same.
    pub number: u8,
    /// When its certificate was issued.
    pub certified_at: Tick,
    /// As the engine says.
    pub common: CommonNodeSettings,
}

impl CommonNodeSettings {
    const FILE: &str = "common.json";

    /// Keeps it for commands that start nodes. `nodes` is the engine's folder of further nodes.
    pub fn keep(&self, nodes: &Path) -> anyhow::Result<()> {
        keep(&nodes.join(Self::FILE), self)
    }

    /// As the engine that was started last has written it.
    pub fn kept(nodes: &Path) -> anyhow::Result<Option<Self>> {
        kept(&nodes.join(Self::FILE))
    }
}

impl NodeFile {
    const FILE: &str = "node.json";

    /// Writes it into the node's folder.
    pub fn keep(&self, folder: &Path) -> anyhow::Result<()> {
        keep(&folder.join(Self::FILE), self)
    }

    /// The one in this folder.
    pub fn kept(folder: &Path) -> anyhow::Result<Option<Self>> {
        kept(&folder.join(Self::FILE))
    }

    /// Its number among those who share the bridge with the engine's own node.
    pub fn guest(&self) -> u8 {
        self.number - 1
    }

    /// The user that its agent is.
    pub fn user(&self) -> UserInfo {
        UserInfo::new(format!("system:node:{}", self.name), [NODES.to_owned()])
    }

    /// True when an agent that was started with this does as it should under `common`, with a
    /// certificate that is good for long still.
    pub fn serves(
        &self,
        common: &CommonNodeSettings,
        revoked: &RevokedCertificates,
        now: Tick,
    ) -> bool {
        self.common == *common
            && now.since(self.certified_at) < CERTIFICATE_RENEWED_AFTER
            && !revoked.has(&self.user().name, self.certified_at)
    }
}

fn keep(path: &Path, value: &impl Serialize) -> anyhow::Result<()> {
    let text =
        serde_json::to_string_pretty(value).with_context(|| format!("write {}", path.display()))?;
    // a full disk is no obstacle to what only goes on
    if std::fs::read_to_string(path).is_ok_and(|standing| standing == text) {
        return Ok(());
    }
    write_private(path, text.as_bytes()).with_context(|| format!("write {}", path.display()))
}

fn kept<T: DeserializeOwned>(path: &Path) -> anyhow::Result<Option<T>> {
    match std::fs::read(path) {
        Ok(text) => serde_json::from_slice(&text)
            .with_context(|| format!("read {}: it is damaged", path.display()))
            .map(Some),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error).with_context(|| format!("read {}", path.display())),
    }
}
