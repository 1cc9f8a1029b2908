//! A root file system for the peers: the machine's own, with whatever they write kept in memory.

use std::path::PathBuf;

use anyhow::Context;
use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};

/// Mounted; dropping it unmounts it.
pub struct RootFs {
    dir: tempfile::TempDir,
}

impl RootFs {
    pub fn mount() -> anyhow::Result<Self> {
        let rootfs = Self { dir: tempfile::Builder::new().prefix("rekindle-peers-").tempdir()? };
        let memory = rootfs.memory();
        std::fs::create_dir(&memory)?;
        mount("none", &memory, "tmpfs", MountFlags::empty(), c"size=256m")
            .context("mount a tmpfs for the peers")?;
        for name in ["upper", "work"] {
            std::fs::create_dir(memory.join(name))?;
        }
        std::fs::create_dir(rootfs.path())?;
        let options = format!(
            "lowerdir=/,upperdir={},workdir={}",
            memory.join("upper").display(),
            memory.join("work").display()
        );
        let options = std::ffi::CString::new(options)?;
        mount("overlay", rootfs.path(), "overlay", MountFlags::empty(), options.as_c_str())
            .context("mount the machine's root for the peers")?;
        Ok(rootfs)
    }

    /// Where it is.
    pub fn path(&self) -> PathBuf {
        self.dir.path().join("rootfs")
    }

    fn memory(&self) -> PathBuf {
        self.dir.path().join("memory")
    }
}

impl Drop for RootFs {
    fn drop(&mut self) {
        for path in [self.path(), self.memory()] {
            if let Err(error) = unmount(&path, UnmountFlags::DETACH) {
                eprintln!("unmount {}: {error}", path.display());
            }
        }
    }
}
