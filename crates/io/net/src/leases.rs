//! The lease file: which sandbox holds which address, across restarts of the agent.
//!
//! Written whole beside the old one and renamed over it, so a kill at any moment leaves one or the
//! other. It is not flushed to the disk: after a power loss no sandbox is left, and leases of an
//! earlier boot are void.

use std::fs;
use std::path::{Path, PathBuf};

use ipnet::Ipv4Net;
use serde::{Deserialize, Serialize};

use crate::error::NetError;
use crate::pool::AddressPool;

const FILE: &str = "network.json";
const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";

/// What the file holds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct StoredLeases {
    boot_id: String,
    pub(crate) pool: AddressPool,
}

/// What was found at the start.
#[derive(Debug)]
pub(crate) enum LeaseFileContent {
    /// No file.
    Nothing,
    /// A file of this boot: its leases hold.
    Current(StoredLeases),
    /// A file of an earlier boot: only the choice of subnet still means something.
    EarlierBoot(Ipv4Net),
    /// A file that cannot be read.
    Damaged(String),
}

/// The file's place, and the boot that we are in.
#[derive(Clone, Debug)]
pub(crate) struct LeaseFile {
    path: PathBuf,
    boot_id: String,
}

impl LeaseFile {
    pub(crate) fn new(dir: &Path) -> Result<Self, NetError> {
        fs::create_dir_all(dir).map_err(|source| NetError::Io {
            operation: "create folder",
            path: dir.to_owned(),
            source,
        })?;
        let boot_id = fs::read_to_string(BOOT_ID).map_err(|source| NetError::Io {
            operation: "read",
            path: PathBuf::from(BOOT_ID),
            source,
        })?;
        Ok(Self { path: dir.join(FILE), boot_id: boot_id.trim().to_owned() })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn read(&self) -> Result<LeaseFileContent, NetError> {
        let bytes = match fs::read(&self.path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                return Ok(LeaseFileContent::Nothing);
            }
            Err(source) => return Err(self.failed("read", source)),
        };
        let stored: StoredLeases = match serde_json::from_slice(&bytes) {
            Ok(stored) => stored,
            Err(error) => return Ok(LeaseFileContent::Damaged(error.to_string())),
        };
        if let Some(defect) = stored.pool.defect() {
            return Ok(LeaseFileContent::Damaged(defect));
        }
        if stored.boot_id != self.boot_id {
            return Ok(LeaseFileContent::EarlierBoot(stored.pool.subnet()));
        }
        Ok(LeaseFileContent::Current(stored))
    }

    /// What stands there already is not written again, so that an agent can take its network up on
    /// a full disk.
    pub(crate) fn write(&self, pool: &AddressPool) -> Result<(), NetError> {
        let stored = StoredLeases { boot_id: self.boot_id.clone(), pool: pool.clone() };
        let bytes = serde_json::to_vec(&stored).expect("a pool has only strings for keys");
        if fs::read(&self.path).is_ok_and(|standing| standing == bytes) {
            return Ok(());
        }
        let beside = self.path.with_extension("json.new");
        fs::write(&beside, bytes)
            .and_then(|()| fs::rename(&beside, &self.path))
            .map_err(|source| self.failed("write", source))
    }

    pub(crate) fn remove(&self) -> Result<(), NetError> {
        match fs::remove_file(&self.path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                Err(self.failed("remove", error))
            }
            Ok(()) | Err(_) => Ok(()),
        }
    }

    fn failed(&self, operation: &'static str, source: std::io::Error) -> NetError {
        NetError::Io { operation, path: self.path.clone(), source }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(dir: &tempfile::TempDir) -> LeaseFile {
        LeaseFile::new(dir.path()).unwrap()
    }

    fn pool() -> AddressPool {
        let mut pool = AddressPool::new("10.7.0.0/24".parse().unwrap()).unwrap();
        pool.allocate("a").unwrap();
        pool
    }

    #[test]
    fn leases_survive_a_restart_of_the_agent() {
        let dir = tempfile::tempdir().unwrap();
        assert!(matches!(file(&dir).read().unwrap(), LeaseFileContent::Nothing));
        file(&dir).write(&pool()).unwrap();
        match file(&dir).read().unwrap() {
            LeaseFileContent::Current(stored) => assert_eq!(stored.pool, pool()),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn leases_of_an_earlier_boot_are_void_but_its_subnet_is_kept() {
        let dir = tempfile::tempdir().unwrap();
        let mut earlier = file(&dir);
        earlier.boot_id = "another boot".to_owned();
        earlier.write(&pool()).unwrap();
        match file(&dir).read().unwrap() {
            LeaseFileContent::EarlierBoot(subnet) => assert_eq!(subnet, pool().subnet()),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_damaged_file_is_told_from_an_absent_one() {
        let dir = tempfile::tempdir().unwrap();
        for text in ["", "{", "{\"pool\":{}}", "null"] {
            fs::write(file(&dir).path(), text).unwrap();
            assert!(matches!(file(&dir).read().unwrap(), LeaseFileContent::Damaged(_)), "{text:?}");
        }
    }
}
