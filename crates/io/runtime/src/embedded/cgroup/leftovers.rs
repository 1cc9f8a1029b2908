//! What the memory controller still counts for a group whose processes have ended: pages of files
//! and folders that they made or were the first to read.
//!
//! Each such page keeps the group alive in the kernel after its folder is gone, for as long as
//! memory is plenty. A container that crashes for weeks leaves thousands of groups behind, and
//! everything that walks through them gets slow (docs/adr/0034).

use std::fs;
use std::path::Path;

use super::read_number;

/// More than this is cache that is worth more than the group that it keeps: the next container
/// reads the same files. So much of it at a time cannot be kept often without memory getting short,
/// and then the kernel forgets it by itself.
const WORTH_KEEPING_BYTES: u64 = 4 << 20;

/// The controller's files of one version.
pub(super) struct ControllerFiles {
    /// How much is counted.
    pub usage: &'static str,
    /// Has it forgotten.
    pub forget: &'static str,
}

/// Has the kernel forget what little a group without processes holds. That it cannot is no error:
/// the group goes all the same.
pub(super) fn forget(folder: &Path, files: &ControllerFiles) {
    let has_processes = fs::read_to_string(folder.join("cgroup.procs"));
    if has_processes.is_ok_and(|pids| !pids.is_empty()) {
        return;
    }
    let Ok(held) = read_number(folder, files.usage) else { return };
    if (1..=WORTH_KEEPING_BYTES).contains(&held)
        && let Err(error) = fs::write(folder.join(files.forget), held.to_string())
    {
        tracing::debug!(%error, folder = %folder.display(), held, "memory of ended processes stays");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILES: ControllerFiles = ControllerFiles { usage: "usage", forget: "forget" };

    #[test]
    fn only_a_little_is_forgotten_and_only_when_nobody_is_there() {
        for (procs, held, asked) in [
            ("", "8192", Some("8192")),
            ("", "0", None),
            ("", "4194304", Some("4194304")),
            ("", "4194305", None),
            ("17\n", "8192", None),
        ] {
            let folder = tempfile::tempdir().unwrap();
            fs::write(folder.path().join("cgroup.procs"), procs).unwrap();
            fs::write(folder.path().join("usage"), held).unwrap();
            forget(folder.path(), &FILES);
            let written = fs::read_to_string(folder.path().join("forget")).ok();
            assert_eq!(written.as_deref(), asked, "{procs:?} {held}");
        }
    }
}
