//! The folder of an engine's further nodes: which there are, what they are called, and where their
//! agents listen.

use std::fs::File;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use rekindle_api_server::node_link::FarNode;
use rekindle_net::share;
use rekindle_types::Tick;
use rekindle_types::validation::names;

use super::file::{CommonNodeSettings, NodeFile};
use crate::engine::data_dir::{DataDir, create_own};
use crate::engine::images::EngineDir;
use crate::holder::DataDirHolder;

/// The socket in an agent's run folder.
const SOCKET: &str = "agent.sock";
/// Characters of a new node's name at most: it is the value of the label `kubernetes.io/hostname`.
const NAME_MAX: usize = 63;

/// The folder. Cheap to clone; what is in it is looked at when it is asked for.
#[derive(Clone, Debug)]
pub struct NodesFolder {
    path: PathBuf,
}

/// A further node by its folder.
#[derive(Clone, Debug)]
pub struct FurtherNode {
    /// Its data directory.
    pub path: PathBuf,
    /// What it is started with.
    pub file: NodeFile,
}

impl NodesFolder {
    /// The folder of this engine.
    pub fn from_engine(engine: &EngineDir) -> Self {
        Self { path: engine.nodes() }
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Makes it.
    pub fn create(&self) -> anyhow::Result<()> {
        create_own(&self.path)
    }

    /// All of them, in the order of their numbers.
    pub fn list(&self) -> anyhow::Result<Vec<FurtherNode>> {
        let entries = match std::fs::read_dir(&self.path) {
            Ok(entries) => entries,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => {
                return Err(error).with_context(|| format!("list {}", self.path.display()));
            }
        };
        let mut nodes = Vec::new();
        for entry in entries {
            let path = entry.with_context(|| format!("list {}", self.path.display()))?.path();
            // one without a file was being made, or taken away
            if path.is_dir()
                && let Some(file) = NodeFile::kept(&path)?
            {
                nodes.push(FurtherNode { path, file });
            }
        }
        nodes.sort_by_key(|node| node.file.number);
        Ok(nodes)
    }

    /// The one of this name.
    pub fn find(&self, name: &str) -> anyhow::Result<Option<FurtherNode>> {
        check_name(name)?;
        let path = self.path.join(name);
        Ok(NodeFile::kept(&path)?.map(|file| FurtherNode { path, file }))
    }

    /// A new one with the lowest number that is free; without a name it is called after the first
    /// node. The folder is made, and nothing else yet.
    pub fn add(
        &self,
        name: Option<&str>,
        common: &CommonNodeSettings,
        now: Tick,
    ) -> anyhow::Result<FurtherNode> {
        let _one_at_a_time = self.lock()?;
        let nodes = self.list()?;
        let number = (2..=u8::MAX)
            .find(|number| nodes.iter().all(|node| node.file.number != *number))
            .context("there are too many nodes")?;
        if number - 1 > share::guests_max(common.subnet) {
            bail!(
                "the pods' subnet {} has room for {} nodes: give a larger one with --pod-cidr",
                common.subnet,
                u16::from(share::guests_max(common.subnet)) + 1
            );
        }
        let name = match name {
            Some(name) => name.to_owned(),
            None => format!("{}-{number}", common.first_node),
        };
        check_new_name(&name)?;
        if name == common.first_node || nodes.iter().any(|node| node.file.name == name) {
            bail!("there is a node {name:?} already");
        }
        let path = self.path.join(&name);
        create_own(&path)?;
        let file = NodeFile { name, number, certified_at: now, common: common.clone() };
        file.keep(&path)?;
        Ok(FurtherNode { path, file })
    }

    /// Whoever adds a node holds it: a number is given once.
    fn lock(&self) -> anyhow::Result<File> {
        self.create()?;
        let path = self.path.join("lock");
        let opened = File::options().create(true).truncate(false).write(true).open(&path);
        let file = opened.with_context(|| format!("open {}", path.display()))?;
        file.lock().with_context(|| format!("lock {}", path.display()))?;
        Ok(file)
    }

    /// The line to the agent of this node; `None` when there is no such node. No lock is taken and
    /// no file is parsed: it is asked for with every log.
    pub fn far(&self, name: &str) -> Option<FarNode> {
        check_name(name).ok()?;
        Some(FarNode::new(name, &socket(&self.path.join(name))?))
    }

    /// The lines to all of them.
    pub fn all(&self) -> Vec<FarNode> {
        let Ok(entries) = std::fs::read_dir(&self.path) else { return Vec::new() };
        let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
        names.filter_map(|name| self.far(&name)).collect()
    }
}

impl FurtherNode {
    /// The process of its agent, when it runs.
    pub fn agent(&self) -> anyhow::Result<Option<DataDirHolder>> {
        DataDirHolder::find(&self.path)
    }
}

/// Where the agent with this folder listens; `None` when none was ever started.
pub(super) fn socket(folder: &Path) -> Option<PathBuf> {
    DataDir::run_dir_of(folder).map(|run_dir| run_dir.join(SOCKET))
}

/// A name becomes a folder's: it is no path.
fn check_name(name: &str) -> anyhow::Result<()> {
    match names::dns_subdomain(name).first() {
        None => Ok(()),
        Some(why) => bail!("{name:?} is no name for a node: {why}"),
    }
}

/// The API takes a Node of this name, and of its labels.
fn check_new_name(name: &str) -> anyhow::Result<()> {
    check_name(name)?;
    if name.len() > NAME_MAX {
        bail!("{name:?} is no name for a node: must be no more than {NAME_MAX} characters");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use rekindle_api_server::pki::RevokedCertificates;

    use super::*;
    use crate::args::{NodeArgs, Registries};

    fn common(subnet: &str) -> CommonNodeSettings {
        CommonNodeSettings {
            program: "p".to_owned(),
            engine_dir: "/e".into(),
            first_node: "a".to_owned(),
            api_of_the_node: "127.0.0.1:1".parse().unwrap(),
            api_of_pods: "127.0.0.1:2".parse().unwrap(),
            cluster_dns: None,
            bridge: "rk0".to_owned(),
            subnet: subnet.parse().unwrap(),
            ipv6_pods: None,
            max_container_restart_period_seconds: 300,
            pod_pids_limit: None,
            heartbeat_period: rekindle_types::TickDuration::from_secs(10),
            node: NodeArgs::default(),
            registries: Registries::default(),
        }
    }

    #[test]
    fn nodes_are_numbered_from_two_and_a_number_that_is_free_is_given_again() {
        let dir = tempfile::tempdir().unwrap();
        let folder = NodesFolder::from_engine(&EngineDir::new(dir.path()));
        assert!(folder.list().unwrap().is_empty());
        let common = common("10.1.0.0/16");
        let add = |name| folder.add(name, &common, Tick::ZERO);
        for (name, expected) in [(None, "a-2"), (Some("b"), "b"), (None, "a-4")] {
            assert_eq!(add(name).unwrap().file.name, expected);
        }
        std::fs::remove_dir_all(folder.find("b").unwrap().unwrap().path).unwrap();
        let again = add(None).unwrap().file;
        assert_eq!((again.name.as_str(), again.number, again.guest()), ("a-3", 3, 2));
        let names: Vec<String> =
            folder.list().unwrap().into_iter().map(|node| node.file.name).collect();
        assert_eq!(names, ["a-2", "a-3", "a-4"]);
        for taken in ["a", "a-2"] {
            assert!(add(Some(taken)).unwrap_err().to_string().contains("already"), "{taken}");
        }
    }

    #[test]
    fn a_name_that_would_be_a_path_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let folder = NodesFolder::from_engine(&EngineDir::new(dir.path()));
        for name in ["", "..", ".", "a/b", "A", "-a", "a-", "a..b", "a.-b"] {
            assert!(folder.find(name).is_err(), "{name:?}");
            assert!(folder.far(name).is_none(), "{name:?}");
        }
        // such as an earlier version took, so that it can be removed
        assert!(folder.find(&"a".repeat(253)).is_ok());
    }

    #[test]
    fn a_name_that_the_api_would_not_take_is_refused_and_nothing_is_left_of_it() {
        let dir = tempfile::tempdir().unwrap();
        let folder = NodesFolder::from_engine(&EngineDir::new(dir.path()));
        let common = common("10.1.0.0/16");
        for name in ["a".repeat(64), "a.-b".to_owned(), "a-.b".to_owned(), "A".to_owned()] {
            let error = folder.add(Some(&name), &common, Tick::ZERO).unwrap_err().to_string();
            assert!(error.contains("is no name for a node"), "{error}");
            assert!(!folder.path().join(&name).exists(), "{name}");
        }
        assert!(folder.add(Some(&"a".repeat(63)), &common, Tick::ZERO).is_ok());
    }

    #[test]
    fn a_subnet_without_room_says_how_many_nodes_it_has_room_for() {
        let dir = tempfile::tempdir().unwrap();
        let folder = NodesFolder::from_engine(&EngineDir::new(dir.path()));
        let error = folder.add(None, &common("10.1.2.0/25"), Tick::ZERO).unwrap_err().to_string();
        assert!(error.contains("10.1.2.0/25 has room for 1 nodes"), "{error}");
    }

    #[test]
    fn an_agent_serves_as_long_as_nothing_it_was_started_with_has_changed() {
        let common = common("10.1.0.0/16");
        let started = Tick::from_secs(1000);
        let file = NodeFile {
            name: "a-2".to_owned(),
            number: 2,
            certified_at: started,
            common: common.clone(),
        };
        let mut revoked = RevokedCertificates::default();
        assert!(file.serves(&common, &revoked, started));
        let other =
            CommonNodeSettings { api_of_pods: "127.0.0.1:3".parse().unwrap(), ..common.clone() };
        assert!(!file.serves(&other, &revoked, started));
        let much_later = started + rekindle_types::TickDuration::from_secs(200 * 24 * 3600);
        assert!(!file.serves(&common, &revoked, much_later), "its certificate is old");
        revoked.revoke("system:node:a-2", started);
        assert!(!file.serves(&common, &revoked, started), "its certificate is void");
    }
}
