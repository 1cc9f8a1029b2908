//! `rekindle node`: the further nodes of an engine.

mod list;
mod remove;

use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, bail};
use rekindle_api_server::SystemClock;
use rekindle_api_server::pki::CertificateAuthority;
use rekindle_types::Tick;
use rustix::process::Signal;

use crate::args::{DataDirArg, NodeAdd, NodeCommand, NodeName};
use crate::client;
use crate::engine::data_dir::PKI;
use crate::engine::images::{EngineDir, runtime_dir};
use crate::holder::DataDirHolder;
use crate::nodes::{self, CommonNodeSettings, FurtherNode, NodesFolder};
use crate::output;

/// How long a node may take to be Ready in the API.
const READY_WITHIN: Duration = Duration::from_secs(30);

/// Carries the command out.
pub fn run(command: &NodeCommand) -> anyhow::Result<ExitCode> {
    match command {
        NodeCommand::List(args) => list::run(args),
        NodeCommand::Add(args) => add(args),
        NodeCommand::Start(args) => start(args),
        NodeCommand::Stop(args) => stop(args),
        NodeCommand::Kill(args) => kill(args),
        NodeCommand::Remove(args) => remove::run(args),
    }
}

/// The engine that runs on a data directory, as commands about its nodes see it.
struct EngineHandle {
    dir: EngineDir,
    folder: NodesFolder,
    common: CommonNodeSettings,
}

impl EngineHandle {
    /// Fails when none runs.
    fn find(args: &DataDirArg) -> anyhow::Result<Self> {
        let path = args.data_dir.canonicalize();
        let path = path.with_context(|| format!("find {}", args.data_dir.display()))?;
        if DataDirHolder::find(&path)?.is_none() {
            bail!("no engine runs on {}: start one with `rekindle up`", path.display());
        }
        let dir = EngineDir::new(&path);
        let folder = NodesFolder::from_engine(&dir);
        let common = CommonNodeSettings::kept(folder.path())?
            .context("the engine has not said yet what its nodes are to be like: try again")?;
        Ok(Self { dir, folder, common })
    }

    fn path(&self) -> &Path {
        self.dir.path()
    }

    fn node(&self, name: &str) -> anyhow::Result<FurtherNode> {
        if name == self.common.first_node {
            bail!("{name} is the engine's own node: `rekindle down` ends it, and `up` starts it");
        }
        let found = self.folder.find(name)?;
        found.with_context(|| format!("there is no node {name:?} on this machine"))
    }

    /// Starts the agent; false when it runs already.
    fn launch(&self, node: FurtherNode) -> anyhow::Result<bool> {
        let now = now();
        let pki = CertificateAuthority::open(&self.path().join(PKI), now)
            .context("open the engine's keys")?;
        match nodes::begin(node, &self.common, &pki, now)? {
            // it runs on without us
            Some(starting) => starting.wait().map(|_agent| true),
            None => Ok(false),
        }
    }

    /// Waits until the API says so.
    fn wait_ready(&self, name: &str) -> anyhow::Result<()> {
        client::block_on(async {
            let client = client::connect_with(&self.path().join("kubeconfig")).await?;
            nodes::wait_ready(client, name, READY_WITHIN).await
        })
    }
}

fn now() -> Tick {
    SystemClock::start().now()
}

fn add(args: &NodeAdd) -> anyhow::Result<ExitCode> {
    let engine = EngineHandle::find(&args.data_dir)?;
    let node = engine.folder.add(args.name.as_deref(), &engine.common, now())?;
    let name = node.file.name.clone();
    if let Err(error) = engine.launch(node.clone()) {
        // told, and no more: the answer is why the node did not start
        if let Err(left) = nodes::take_back(&node) {
            output::note(format!("take away node {name}, which did not start: {left:#}"));
        }
        return Err(error.context(format!("start node {name}")));
    }
    engine.wait_ready(&name).with_context(|| {
        format!("node {name} was started; `rekindle node remove {name}` takes it away")
    })?;
    output::tell(format!("node {name} added"));
    Ok(ExitCode::SUCCESS)
}

fn start(args: &NodeName) -> anyhow::Result<ExitCode> {
    let engine = EngineHandle::find(&args.data_dir)?;
    let node = engine.node(&args.name)?;
    if engine.launch(node).with_context(|| format!("start node {}", args.name))? {
        engine.wait_ready(&args.name)?;
        output::tell(format!("node {} started", args.name));
    } else {
        output::tell(format!("node {} runs already", args.name));
    }
    Ok(ExitCode::SUCCESS)
}

fn stop(args: &NodeName) -> anyhow::Result<ExitCode> {
    let engine = EngineHandle::find(&args.data_dir)?;
    let node = engine.node(&args.name)?;
    end(&engine, &node)?;
    output::tell(format!("node {} stopped", args.name));
    Ok(ExitCode::SUCCESS)
}

/// Ends the node's pods and its agent.
fn end(engine: &EngineHandle, node: &FurtherNode) -> anyhow::Result<()> {
    let Some(agent) = woken_agent(engine, node)? else { return Ok(()) };
    agent.signal(Signal::TERM)?;
    agent.wait()
}

/// An agent that can end the node's pods: what one that died had left is ended by the next one.
/// None where none ever ran.
fn woken_agent(engine: &EngineHandle, node: &FurtherNode) -> anyhow::Result<Option<DataDirHolder>> {
    if node.agent()?.is_none() && runtime_dir(&node.path).exists() {
        engine.launch(node.clone()).with_context(|| format!("start node {}", node.file.name))?;
    }
    let agent = node.agent()?;
    if let Some(agent) = &agent {
        agent.signal(Signal::CONT)?; // one that somebody has stopped could not hear
    }
    Ok(agent)
}

fn kill(args: &NodeName) -> anyhow::Result<ExitCode> {
    let engine = EngineHandle::find(&args.data_dir)?;
    let node = engine.node(&args.name)?;
    let Some(agent) = node.agent()? else {
        output::tell(format!("node {} does not run", args.name));
        return Ok(ExitCode::SUCCESS);
    };
    agent.signal(Signal::KILL)?;
    agent.wait()?;
    output::tell(format!(
        "node {} killed; its pods run on. It comes back with `rekindle node start`",
        args.name
    ));
    Ok(ExitCode::SUCCESS)
}
