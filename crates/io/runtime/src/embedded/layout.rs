//! Names and places: what a sandbox and a container are called, and where their files are.
//!
//! ```text
//! <data>/sandboxes/<sandbox id>/records             whose it is, and who its containers are
//!                               shim.notes          what the shim had to say
//!                               mnt/                mount point, empty
//!                               <slot>.state        what became of a container (the shim's)
//!                               roots/<number>/     upper, work
//! <data>/places/<which>/                            mount points, a layer beneath images
//! <data>/trash/                                     on its way out
//! <run>/<sandbox id>                                the shim's socket
//! ```

use std::fs;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use rekindle_types::Tick;
use sha2::{Digest, Sha256};

use crate::spec::{ContainerKey, SandboxKey};

/// Hex digits of a sandbox id: short, because a socket's path has at most 107 bytes.
pub(crate) const SANDBOX_ID_DIGITS: usize = 24;

/// An empty folder in a sandbox's. Shim and containers mount on it, each in its own mount
/// namespace, where the others do not see it.
pub(crate) const MOUNT_POINT: &str = "mnt";
/// The folder of writable layers in a sandbox's.
pub(crate) const ROOTS: &str = "roots";

/// Where everything is.
#[derive(Clone, Debug)]
pub(crate) struct Layout {
    engine_id: String,
    data: PathBuf,
    run: PathBuf,
}

impl Layout {
    /// Makes the folders, for root's eyes only. Links in the paths are resolved now: a shim looks
    /// at them from elsewhere.
    pub(crate) fn open(engine_id: &str, data: &Path, run: &Path) -> io::Result<Self> {
        for dir in [data, run] {
            make_private_dir(dir)?;
        }
        let (data, run) = (data.canonicalize()?, run.canonicalize()?);
        for dir in ["sandboxes", "trash"] {
            make_private_dir(&data.join(dir))?;
        }
        Ok(Self { engine_id: engine_id.to_owned(), data, run })
    }

    fn hash(&self, key: &SandboxKey, parts: &[&str]) -> String {
        let mut hash = Sha256::new();
        let attempt = key.attempt.to_string();
        for part in [&self.engine_id, &key.pod.uid.0, &attempt].into_iter().map(String::as_str) {
            hash.update(part);
            hash.update([0]);
        }
        for part in parts {
            hash.update(part);
            hash.update([0]);
        }
        hex(hash)
    }

    /// The sandbox's own name on disk.
    pub(crate) fn sandbox_id(&self, key: &SandboxKey) -> String {
        let mut id = self.hash(key, &[]);
        id.truncate(SANDBOX_ID_DIGITS);
        id
    }

    /// The name of a sandbox made ahead of need, which is not a pod's yet.
    pub(crate) fn spare_id(&self, now: Tick, number: u64) -> String {
        let mut hash = Sha256::new();
        for part in [now.as_micros(), number, std::process::id().into()] {
            hash.update(part.to_le_bytes());
        }
        hash.update(&self.engine_id);
        let mut id = hex(hash);
        id.truncate(SANDBOX_ID_DIGITS);
        id
    }

    /// The engine whose folders these are.
    pub(crate) fn engine_id(&self) -> &str {
        &self.engine_id
    }

    /// 64 hex digits, the same for the same key.
    pub(crate) fn container_id(&self, key: &ContainerKey) -> String {
        self.hash(&key.sandbox, &[&key.name.0, &key.attempt.to_string()])
    }

    pub(crate) fn sandboxes(&self) -> PathBuf {
        self.data.join("sandboxes")
    }

    pub(crate) fn sandbox_dir(&self, id: &str) -> PathBuf {
        self.sandboxes().join(id)
    }

    pub(crate) fn trash(&self) -> PathBuf {
        self.data.join("trash")
    }

    pub(crate) fn places(&self) -> PathBuf {
        self.data.join("places")
    }

    pub(crate) fn run(&self) -> &Path {
        &self.run
    }
}

fn hex(hash: Sha256) -> String {
    hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A container's name within its sandbox.
pub(crate) fn slot(key: &ContainerKey) -> String {
    format!("{}-{}", key.name, key.attempt)
}

/// A folder that only its owner may look into; one that stands is taken as it is, but closed to
/// others.
pub(crate) fn make_private_dir(dir: &Path) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    fs::DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
    fs::set_permissions(dir, fs::Permissions::from_mode(0o700))
}
