//! A running engine of the benchmark's own, and a client for it.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context;
use kube::Client;
use kube::client::ConfigExt;
use kube::config::{KubeConfigOptions, Kubeconfig};

use crate::api::connection::Server;

/// An engine on a temporary data directory; dropping it ends it with its pods.
pub struct Engine {
    child: Child,
    dir: tempfile::TempDir,
    /// A client over TLS, as a user has.
    pub client: Client,
    /// From the start of the process until it said that its API listens.
    pub api_after: Duration,
    /// When the process was started.
    pub started: Instant,
}

impl Engine {
    /// Starts it and waits until the API listens.
    pub async fn start() -> anyhow::Result<Self> {
        Self::start_with(&[]).await
    }

    /// The same, with further arguments.
    pub async fn start_with(more: &[&str]) -> anyhow::Result<Self> {
        let dir = tempfile::Builder::new().prefix("rekindle-bench-").tempdir()?;
        Self::start_in(dir, more).await
    }

    /// `kill -9`, and another engine on what it left.
    pub async fn kill_and_start(&mut self) -> anyhow::Result<()> {
        self.child.kill()?;
        self.child.wait()?;
        let dir = std::mem::replace(&mut self.dir, tempfile::tempdir()?);
        *self = Self::start_in(dir, &[]).await?;
        Ok(())
    }

    async fn start_in(dir: tempfile::TempDir, more: &[&str]) -> anyhow::Result<Self> {
        let started = Instant::now();
        let mut child = Command::new(env!("CARGO_BIN_EXE_rekindle"))
            .args(["up", "--listen", "127.0.0.1:0", "--node-name", "node-1"])
            .env(
                "REKINDLE_NODE_CONFIG",
                concat!(env!("CARGO_MANIFEST_DIR"), "/benches/figures/node.yaml"),
            )
            .args(["--bridge", "rkbench", "--pod-cidr", "10.251.0.0/20", "--data-dir"])
            .arg(dir.path())
            .args(more)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .context("start the engine")?;
        let mut lines = BufReader::new(child.stdout.take().context("its output")?).lines();
        loop {
            let line = lines.next().context("the engine ended before it was ready")??;
            if line.starts_with("API") {
                break;
            }
        }
        let api_after = started.elapsed();
        std::thread::spawn(move || lines.for_each(drop));
        let client = Client::try_from(client_config(dir.path()).await?)?;
        Ok(Self { child, dir, client, api_after, started })
    }

    /// The engine's process.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Waits until it has nothing to do: until its CPU time stands still for so long.
    pub async fn quiet(&self, span: Duration) -> anyhow::Result<()> {
        let mut before = cpu_time(self.pid())?;
        loop {
            tokio::time::sleep(span).await;
            let after = cpu_time(self.pid())?;
            if after == before {
                return Ok(());
            }
            before = after;
        }
    }

    /// Its API, for clients that cost little.
    pub async fn server(&self) -> anyhow::Result<Server> {
        let config = client_config(self.dir.path()).await?;
        let authority = config.cluster_url.authority().context("its address")?;
        Ok(Server {
            address: authority.as_str().parse()?,
            tls: Arc::new(config.rustls_client_config()?),
            authorization: None,
            processes: vec![self.pid()],
        })
    }

    /// What clients need to reach it.
    pub fn kubeconfig(&self) -> PathBuf {
        kubeconfig_in(self.dir.path())
    }

    /// The app of its demo image, which it has made when a container has run.
    pub fn demo_app(&self) -> anyhow::Result<PathBuf> {
        let mut made = std::fs::read_dir(self.dir.path().join("images/demo"))?;
        let image = made.next().context("the demo image is not there yet")??;
        Ok(image.path().join("fs/demo"))
    }

    /// Names its processes and cgroups.
    pub fn id(&self) -> anyhow::Result<String> {
        Ok(std::fs::read_to_string(self.dir.path().join("engine-id"))?.trim().to_owned())
    }
}

async fn client_config(dir: &Path) -> anyhow::Result<kube::Config> {
    let kubeconfig = Kubeconfig::read_from(kubeconfig_in(dir))?;
    let options = KubeConfigOptions::default();
    Ok(kube::Config::from_custom_kubeconfig(kubeconfig, &options).await?)
}

fn kubeconfig_in(dir: &Path) -> PathBuf {
    dir.join("kubeconfig")
}

impl Drop for Engine {
    fn drop(&mut self) {
        let down = Command::new(env!("CARGO_BIN_EXE_rekindle"))
            .args(["down", "--data-dir"])
            .arg(self.dir.path())
            .stdout(Stdio::null())
            .status();
        if !down.is_ok_and(|status| status.success()) {
            let _ = self.child.kill();
        }
        let _ = self.child.wait();
    }
}

/// User and system time of a process so far, in the kernel's ticks of 10 ms.
fn cpu_time(pid: u32) -> anyhow::Result<Duration> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"))?;
    // the name in brackets may hold spaces: count from behind it
    let (_, fields) = stat.rsplit_once(')').context("a process name in brackets")?;
    let ticks = fields
        .split_whitespace()
        .skip(11)
        .take(2)
        .map(str::parse::<u64>)
        .sum::<Result<u64, _>>()?;
    Ok(Duration::from_millis(ticks * 10))
}

/// What each of these processes uses of a core, in percent, over this time.
pub async fn cpu_percent(processes: &[u32], observed: Duration) -> anyhow::Result<Vec<f64>> {
    let used = || processes.iter().map(|pid| cpu_time(*pid)).collect::<anyhow::Result<Vec<_>>>();
    let (before, start) = (used()?, Instant::now());
    tokio::time::sleep(observed).await;
    let percent = |(after, before): (Duration, &Duration)| {
        after.saturating_sub(*before).as_secs_f64() / start.elapsed().as_secs_f64() * 100.0
    };
    Ok(used()?.into_iter().zip(&before).map(percent).collect())
}
