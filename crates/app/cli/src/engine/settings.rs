//! What an engine was started with and `down` needs to know when the engine itself was killed: kept
//! in the data directory from before anything is made until everything is taken away again.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use anyhow::Context;
use rekindle_api_server::pki::write_private;
use rekindle_types::TickDuration;
use serde::{Deserialize, Serialize};

use super::data_dir::DataDir;
use super::ipv6_range::Ipv6Range;
use super::service_range;
use crate::args::Up;

/// The file in the data directory.
const FILE: &str = "engine.json";

/// The choices that make this engine's node and network what they are.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EngineSettings {
    /// The Node object's name.
    pub node_name: String,
    /// The bridge that pods are connected to.
    pub bridge: String,
    /// The pods' subnet; none: the one used before, or a free one.
    pub pod_cidr: Option<String>,
    /// Whether pods have addresses of IPv6, too.
    #[serde(default)]
    pub dual_stack: bool,
    /// The longest wait between restarts of a crashing container, in seconds.
    pub max_container_restart_period_seconds: u64,
    /// The folder of static pods' manifests; none: the data directory's own.
    #[serde(default)]
    pub static_pod_path: Option<PathBuf>,
    /// The most processes and threads of a pod. Absent in what an earlier version kept.
    #[serde(default)]
    pub pod_pids_limit: Option<u64>,
    /// Where the keys are that the store is encrypted with.
    #[serde(default)]
    pub encryption_provider_config: Option<PathBuf>,
}

impl EngineSettings {
    /// What the arguments say, with the defaults of this machine and data directory.
    pub fn new(args: &Up, data_dir: &DataDir) -> Self {
        let host_name = || rustix::system::uname().nodename().to_string_lossy().to_lowercase();
        let bridge = || format!("rk-{}", &data_dir.engine_id()[..6]);
        Self {
            node_name: args.node_name.clone().unwrap_or_else(host_name),
            bridge: args.bridge.clone().unwrap_or_else(bridge),
            pod_cidr: args.pod_cidr.clone(),
            dual_stack: args.dual_stack,
            max_container_restart_period_seconds: args.max_container_restart_period.as_secs(),
            static_pod_path: args.static_pod_path.clone(),
            pod_pids_limit: (args.pod_pids_limit > 0).then_some(args.pod_pids_limit),
            // `down` may be called in another folder
            encryption_provider_config: args
                .store
                .encryption
                .encryption_provider_config
                .as_ref()
                .map(|file| std::path::absolute(file).unwrap_or_else(|_| file.clone())),
        }
    }

    /// Where pods and Services have their second addresses; none: they have none.
    pub fn ipv6_range(&self, data_dir: &DataDir) -> anyhow::Result<Option<Ipv6Range>> {
        let range = || Ipv6Range::of_engine(data_dir.engine_id());
        self.dual_stack.then(range).transpose()
    }

    /// The folder of static pods' manifests, which exists when it is the data directory's own.
    pub fn static_pods(&self, data_dir: &DataDir) -> anyhow::Result<PathBuf> {
        match &self.static_pod_path {
            Some(folder) => Ok(folder.clone()),
            None => data_dir.static_pods(),
        }
    }

    /// The same as a span.
    pub fn max_container_restart_period(&self) -> TickDuration {
        TickDuration::from_secs(self.max_container_restart_period_seconds)
    }

    /// Keeps them in the data directory, before anything is made by them. What is kept already is
    /// not written again: a full disk is no obstacle to an engine that only goes on.
    pub fn keep(&self, data_dir: &DataDir) -> anyhow::Result<()> {
        if Self::kept(data_dir.path())?.as_ref() == Some(self) {
            return Ok(());
        }
        let path = data_dir.join(FILE);
        let text = serde_json::to_string_pretty(self).context("write the engine's settings")?;
        write_private(&path, text.as_bytes()).with_context(|| format!("write {}", path.display()))
    }

    /// Everything that was made by them is gone.
    pub fn forget(data_dir: &DataDir) -> anyhow::Result<()> {
        service_range::withdraw(data_dir);
        let path = data_dir.join(FILE);
        std::fs::remove_file(&path).with_context(|| format!("remove {}", path.display()))
    }

    /// Those of the engine that runs on this data directory, or left something; `None` when nothing
    /// is left.
    pub fn kept(data_dir: &Path) -> anyhow::Result<Option<Self>> {
        let path = data_dir.join(FILE);
        match std::fs::read(&path) {
            Ok(text) => serde_json::from_slice(&text)
                .with_context(|| format!("read {}: it is damaged", path.display()))
                .map(Some),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error).with_context(|| format!("read {}", path.display())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_is_read_again() {
        let dir = tempfile::tempdir().unwrap();
        let data_dir = DataDir::hold(dir.path()).unwrap();
        assert_eq!(EngineSettings::kept(dir.path()).unwrap(), None);
        let settings = EngineSettings {
            node_name: "node-1".to_owned(),
            bridge: "rk0".to_owned(),
            pod_cidr: Some("10.9.0.0/24".to_owned()),
            dual_stack: true,
            max_container_restart_period_seconds: 20,
            static_pod_path: Some("/etc/pods".into()),
            pod_pids_limit: Some(1000),
            encryption_provider_config: Some("/etc/keys.yaml".into()),
        };
        settings.keep(&data_dir).unwrap();
        assert_eq!(EngineSettings::kept(dir.path()).unwrap(), Some(settings));
        EngineSettings::forget(&data_dir).unwrap();
        assert_eq!(EngineSettings::kept(dir.path()).unwrap(), None);
    }
}
