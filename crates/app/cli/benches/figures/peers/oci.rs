//! runc and crun: no daemon, so bringing a container back is what a supervisor would have them do:
//! delete it and run it again.

use std::path::PathBuf;
use std::process::Command;

use super::Peer;
use super::launch::{command_of_crun, quiet};

/// An OCI runtime with a state folder of its own.
pub struct Oci {
    program: &'static str,
    rootfs: PathBuf,
    dir: tempfile::TempDir,
}

impl Oci {
    pub fn prepare(program: &'static str, rootfs: PathBuf) -> anyhow::Result<Self> {
        let dir = tempfile::Builder::new().prefix("rekindle-peer-").tempdir()?;
        quiet(Command::new(program).arg("spec").current_dir(dir.path()))?;
        Ok(Self { program, rootfs, dir })
    }

    fn command(&self) -> Command {
        let mut command = match self.program {
            "crun" => command_of_crun(self.program),
            program => Command::new(program),
        };
        command.arg("--root").arg(self.dir.path().join("state"));
        command
    }

    /// The runtime's own default, less what needs rights that a development machine may lack:
    /// higher limits, a mount of the cgroup file system, a cgroup namespace.
    fn write_bundle(&self, seconds: &str) -> anyhow::Result<()> {
        let config = self.dir.path().join("config.json");
        let mut spec: serde_json::Value = serde_json::from_slice(&std::fs::read(&config)?)?;
        spec["root"] = serde_json::json!({"path": self.rootfs, "readonly": true});
        spec["process"]["args"] = serde_json::json!(["/bin/sleep", seconds]);
        spec["process"]["terminal"] = false.into();
        if let Some(process) = spec["process"].as_object_mut() {
            process.remove("rlimits");
        }
        if let Some(mounts) = spec["mounts"].as_array_mut() {
            mounts.retain(|mount| mount["type"] != "cgroup");
        }
        if let Some(namespaces) = spec["linux"]["namespaces"].as_array_mut() {
            namespaces.retain(|namespace| namespace["type"] != "cgroup");
        }
        Ok(std::fs::write(&config, spec.to_string())?)
    }

    fn run(&self, name: &str) -> anyhow::Result<()> {
        quiet(
            self.command()
                .args(["run", "--detach", "--no-new-keyring", "--bundle"])
                .arg(self.dir.path())
                .arg(name),
        )
    }

    fn delete(&self, name: &str) -> anyhow::Result<()> {
        quiet(self.command().args(["delete", "--force", name]))
    }
}

impl Peer for Oci {
    fn create(&self, name: &str, seconds: &str) -> anyhow::Result<()> {
        self.write_bundle(seconds)?;
        self.run(name)
    }

    fn bring_back(&self, name: &str, _seconds: &str) -> anyhow::Result<()> {
        self.delete(name)?;
        self.run(name)
    }

    fn remove(&self, name: &str) {
        if let Err(error) = self.delete(name) {
            eprintln!("{error:#}");
        }
    }
}
