//! containerd with runc, through ctr: a daemon of the benchmark's own.

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use anyhow::{Context, bail};

use super::launch::quiet;
use super::{DEADLINE, Peer};

/// A running containerd; dropping it ends it.
pub struct Containerd {
    daemon: Child,
    rootfs: PathBuf,
    dir: tempfile::TempDir,
}

impl Containerd {
    pub fn start(rootfs: PathBuf) -> anyhow::Result<Self> {
        let dir = tempfile::Builder::new().prefix("rekindle-peer-").tempdir()?;
        let daemon = Command::new("containerd")
            .arg("--root")
            .arg(dir.path().join("root"))
            .arg("--state")
            .arg(dir.path().join("state"))
            .arg("--address")
            .arg(dir.path().join("socket"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .context("start containerd")?;
        let containerd = Self { daemon, rootfs, dir };
        let start = Instant::now();
        while quiet(containerd.ctr().arg("version")).is_err() {
            if start.elapsed() > DEADLINE {
                bail!("containerd does not answer");
            }
            std::thread::sleep(std::time::Duration::from_millis(50));
        }
        Ok(containerd)
    }

    fn ctr(&self) -> Command {
        let mut command = Command::new("ctr");
        command.arg("--address").arg(self.dir.path().join("socket"));
        command
    }
}

impl Peer for Containerd {
    fn create(&self, name: &str, seconds: &str) -> anyhow::Result<()> {
        quiet(self.ctr().args(["run", "--detach", "--rootfs"]).arg(&self.rootfs).args([
            name,
            "/bin/sleep",
            seconds,
        ]))
    }

    fn bring_back(&self, name: &str, _seconds: &str) -> anyhow::Result<()> {
        // with the exit of a task that was killed, which is not news
        let _ = quiet(self.ctr().args(["task", "rm", "--force", name]));
        quiet(self.ctr().args(["task", "start", "--detach", name]))
    }

    fn remove(&self, name: &str) {
        // the same
        let _ = quiet(self.ctr().args(["task", "rm", "--force", name]));
        if let Err(error) = quiet(self.ctr().args(["container", "rm", name])) {
            eprintln!("{error:#}");
        }
    }
}

impl Drop for Containerd {
    fn drop(&mut self) {
        let pid = rustix::process::Pid::from_child(&self.daemon);
        if let Err(error) = rustix::process::kill_process(pid, rustix::process::Signal::TERM) {
            eprintln!("end containerd: {error}");
        }
        let _ = self.daemon.wait();
    }
}
