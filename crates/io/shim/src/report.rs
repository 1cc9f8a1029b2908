//! What a process that the shim has forked tells it through a pipe or a socket, in one atomic
//! write: that it is ready, or why it gave up.

use serde::{Deserialize, Serialize};

use crate::protocol::{FailureKind, ShimFailure};

/// Bytes of a problem that fit into one atomic write to a pipe.
const PROBLEM_BYTES_MAX: usize = 2048;

/// Bytes of a whole report: it is one atomic write.
pub(crate) const REPORT_BYTES_MAX: usize = 4096;

/// Who the process is: numbers for setresuid and setgroups, and what HOME becomes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ProcessIdentity {
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    pub(crate) groups: Vec<u32>,
    pub(crate) home: String,
}

/// What the first process of a container tells.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum LaunchReport {
    /// It waits for the word. Who it is, unless that is too long for a report.
    Ready(Option<ProcessIdentity>),
    /// It gave up.
    Failed(ShimFailure),
}

impl LaunchReport {
    pub(crate) fn encode(&self) -> Vec<u8> {
        match self {
            LaunchReport::Ready(identity) => {
                let mut bytes = vec![b'R'];
                let text = serde_json::to_vec(identity).unwrap_or_default();
                if text.len() < REPORT_BYTES_MAX {
                    bytes.extend(text);
                }
                bytes
            }
            LaunchReport::Failed(failure) => {
                let kind = match failure.kind {
                    FailureKind::Config => b'C',
                    FailureKind::Setup => b'S',
                    FailureKind::Start => b'X',
                    FailureKind::State => b'N',
                };
                let mut bytes = vec![kind];
                bytes.extend(failure.problem.bytes().take(PROBLEM_BYTES_MAX));
                bytes
            }
        }
    }

    /// Reads one write of the child; `None` at the end of the file.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let (tag, text) = bytes.split_first()?;
        let kind = match tag {
            b'R' => return Some(LaunchReport::Ready(serde_json::from_slice(text).ok().flatten())),
            b'C' => FailureKind::Config,
            b'X' => FailureKind::Start,
            b'N' => FailureKind::State,
            _ => FailureKind::Setup,
        };
        Some(LaunchReport::Failed(ShimFailure::new(kind, String::from_utf8_lossy(text))))
    }
}

/// What a helper tells that forks the process that it is about, and that process itself: one
/// message each.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum JoinReport {
    /// The process was forked: its number, in the shim's.
    Forked(u32),
    /// The kernel had no memory for the fork, or says so: of a PID namespace whose first process
    /// ends it says the same.
    NoMemory,
    /// One of them gave up.
    Failed(ShimFailure),
}

impl JoinReport {
    pub(crate) fn encode(self) -> Vec<u8> {
        match self {
            JoinReport::Forked(pid) => [&b"F"[..], &pid.to_le_bytes()].concat(),
            JoinReport::NoMemory => b"M".to_vec(),
            JoinReport::Failed(failure) => LaunchReport::Failed(failure).encode(),
        }
    }

    /// Reads one message; `None` at the end.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        if let [b'F', pid @ ..] = bytes {
            let pid = pid.first_chunk::<4>().map_or(0, |pid| u32::from_le_bytes(*pid));
            return Some(JoinReport::Forked(pid));
        }
        if bytes == b"M" {
            return Some(JoinReport::NoMemory);
        }
        match LaunchReport::decode(bytes)? {
            LaunchReport::Failed(failure) => Some(JoinReport::Failed(failure)),
            LaunchReport::Ready(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_survive_the_pipe() {
        for kind in [FailureKind::Config, FailureKind::Setup, FailureKind::Start] {
            let report = LaunchReport::Failed(ShimFailure::new(kind, "mount /proc: no"));
            assert_eq!(LaunchReport::decode(&report.encode()), Some(report));
        }
        assert_eq!(LaunchReport::decode(b""), None);
    }

    #[test]
    fn an_identity_that_is_too_long_is_left_out_and_never_cut() {
        let identity = |groups| ProcessIdentity {
            uid: 7,
            gid: 8,
            groups: (0..groups).collect(),
            home: "/h".into(),
        };
        let ready =
            |groups| LaunchReport::decode(&LaunchReport::Ready(Some(identity(groups))).encode());
        assert_eq!(ready(200), Some(LaunchReport::Ready(Some(identity(200)))));
        assert_eq!(ready(5000), Some(LaunchReport::Ready(None)));
    }

    #[test]
    fn reports_survive_the_socket() {
        let failed = || JoinReport::Failed(ShimFailure::new(FailureKind::Start, "exec \"x\": no"));
        assert_eq!(JoinReport::decode(&failed().encode()), Some(failed()));
        let forked = || JoinReport::Forked(4_711_000);
        assert_eq!(JoinReport::decode(&forked().encode()), Some(forked()));
        let no_memory = JoinReport::NoMemory.encode();
        assert_eq!(JoinReport::decode(&no_memory), Some(JoinReport::NoMemory));
        assert_eq!(JoinReport::decode(b""), None);
    }
}
