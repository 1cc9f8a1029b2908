//! Whether a container was killed for lack of memory, and what its cgroup says of it: read once,
//! when it has died, from files whose names the agent gave.

use serde::{Deserialize, Serialize};

/// Exit code of a shell whose child died of SIGKILL, which may have been for lack of memory. A
/// first process whose builder died ends with it for the same reason.
pub(crate) const SHELL_KILLED: i32 = 128 + libc::SIGKILL;
/// Bytes that are read of a file of a cgroup.
const FILE_BYTES_MAX: u64 = 4096;
/// Version 1 has no word for "no limit": it is a number past all memory, the largest multiple of a
/// page.
const NO_LIMIT_FROM: u64 = 1 << 62;

/// The files of a memory cgroup that tell of an OOM kill.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemoryFiles {
    /// The one with the line `oom_kill N`: `memory.oom_control` (version 1) or `memory.events`
    /// (version 2).
    pub oom_counter: String,
    /// The limit in bytes, or a word or a number past all memory where there is none.
    pub limit: String,
    /// The most bytes ever used at once.
    pub peak: String,
}

/// The cgroup of a container that was killed for lack of memory, as it was when the container died.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OomRecord {
    /// The container's processes that were killed for that.
    pub kills: u64,
    /// Its memory limit in bytes; none when it has none of its own.
    pub limit_bytes: Option<u64>,
    /// The most bytes that it used at once; none where the kernel does not count that.
    pub peak_bytes: Option<u64>,
}

impl MemoryFiles {
    /// What they say; none when nothing was killed, or nobody can tell. The cgroup is new for each
    /// attempt, so what it counts is this attempt's. `read` gives so many bytes of a file of the
    /// host.
    pub(crate) fn read(&self, read: impl Fn(&str, u64) -> Option<String>) -> Option<OomRecord> {
        let text = |path: &str| read(path, FILE_BYTES_MAX);
        let kills = kills(&text(&self.oom_counter)?).filter(|kills| *kills > 0)?;
        let limit_bytes =
            text(&self.limit).and_then(|text| number(&text)).filter(|bytes| *bytes < NO_LIMIT_FROM);
        let peak_bytes = text(&self.peak).and_then(|text| number(&text));
        Some(OomRecord { kills, limit_bytes, peak_bytes })
    }
}

/// The number in the line `oom_kill N`.
fn kills(text: &str) -> Option<u64> {
    text.lines().find_map(|line| number(line.strip_prefix("oom_kill ")?))
}

fn number(text: &str) -> Option<u64> {
    text.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn oom_kills_are_read_from_both_versions() {
        assert_eq!(kills("oom_kill_disable 0\nunder_oom 0\noom_kill 3\n"), Some(3));
        assert_eq!(kills("low 0\nhigh 0\nmax 12\noom 1\noom_kill 1\noom_group_kill 0\n"), Some(1));
        assert_eq!(kills(""), None);
    }

    #[test]
    fn a_limit_is_a_number_and_no_limit_is_none() {
        assert_eq!(number("67108864\n"), Some(67_108_864));
        assert_eq!(number("max\n"), None);
        assert!(number("9223372036854771712\n").is_some_and(|bytes| bytes >= NO_LIMIT_FROM));
    }
}
