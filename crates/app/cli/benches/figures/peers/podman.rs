//! podman: its restart policy brings a container back, through conmon and a cleanup process.

use std::path::PathBuf;
use std::process::Command;

use super::Peer;
use super::launch::{command_of_crun, quiet};

/// podman with storage of its own.
pub struct Podman {
    rootfs: PathBuf,
    dir: tempfile::TempDir,
}

impl Podman {
    pub fn prepare(rootfs: PathBuf) -> anyhow::Result<Self> {
        let dir = tempfile::Builder::new().prefix("rekindle-peer-").tempdir()?;
        Ok(Self { rootfs, dir })
    }

    fn command(&self) -> Command {
        let mut command = command_of_crun("podman");
        command.arg("--root").arg(self.dir.path().join("root"));
        command.arg("--runroot").arg(self.dir.path().join("run"));
        command
    }
}

impl Peer for Podman {
    fn create(&self, name: &str, seconds: &str) -> anyhow::Result<()> {
        quiet(
            self.command()
                .args(["run", "--detach", "--name", name, "--restart", "always"])
                .args(["--network", "none", "--cgroups", "disabled"])
                // lower than any machine's: raising them needs rights that may be missing
                .args(["--ulimit", "nofile=1024:1024", "--ulimit", "nproc=1000:1000"])
                .arg("--rootfs")
                .arg(&self.rootfs)
                .args(["/bin/sleep", seconds]),
        )
    }

    fn bring_back(&self, _name: &str, _seconds: &str) -> anyhow::Result<()> {
        Ok(())
    }

    fn remove(&self, name: &str) {
        let removed =
            quiet(self.command().args(["rm", "--force", "--ignore", "--time", "0", name]));
        if let Err(error) = removed {
            eprintln!("{error:#}");
        }
    }
}
