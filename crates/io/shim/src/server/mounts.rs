//! Mount namespaces of containers, held open until a moment after their end.
//!
//! With its last process a mount namespace goes, and that process waits for every processor of the
//! machine (RCU, twice or more) before its parent is told that it has ended. Somebody who crashed
//! is started again sooner when that is done afterwards, at leisure.

use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::fs::{Mode, OFlags};
use rustix::time::Timespec;

use crate::sandbox::ShimSandbox;

/// How long those of a container that has ended are kept: longer than a restart takes.
const KEPT: Duration = Duration::from_millis(500);

/// Opens the mount namespace of a child that was not reaped; `None` when it has ended.
pub(super) fn open(sandbox: &ShimSandbox, pid: u32) -> Option<OwnedFd> {
    let path = format!("proc/{pid}/ns/mnt");
    let flags = OFlags::RDONLY | OFlags::CLOEXEC;
    rustix::fs::openat(&sandbox.host_root, path, flags, Mode::empty()).ok()
}

/// Those of containers that have ended, in the order of their ends.
#[derive(Debug, Default)]
pub(super) struct RetainedMounts {
    queue: VecDeque<(Instant, OwnedFd)>,
}

impl RetainedMounts {
    /// Keeps one for a while.
    pub(super) fn keep(&mut self, now: Instant, namespace: OwnedFd) {
        self.queue.push_back((now + KEPT, namespace));
    }

    /// How long until the first is let go of; `None` when there is none.
    pub(super) fn timeout(&self, now: Instant) -> Option<Timespec> {
        let (until, _) = self.queue.front()?;
        let left = until.saturating_duration_since(now);
        Some(Timespec { tv_sec: 0, tv_nsec: i64::from(left.subsec_nanos()) })
    }

    /// Lets go of those whose time is over.
    pub(super) fn let_go(&mut self, now: Instant) {
        while self.queue.front().is_some_and(|(until, _)| *until <= now) {
            self.queue.pop_front();
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]
mod tests {
    use super::*;
    use crate::pipes::{pipe, set_nonblocking};

    /// Something to keep, and what tells whether it still is.
    fn kept_and_seen() -> (OwnedFd, impl Fn() -> bool) {
        let (seen, kept) = pipe().unwrap();
        set_nonblocking(&seen).unwrap();
        (kept, move || rustix::io::read(&seen, &mut [0u8; 1]) == Err(rustix::io::Errno::AGAIN))
    }

    #[test]
    fn each_is_let_go_of_in_its_own_time_and_nobody_wakes_up_for_none() {
        let begun = Instant::now();
        let later = begun + KEPT / 2;
        let mut kept = RetainedMounts::default();
        assert!(kept.timeout(begun).is_none());
        let (first, is_first_kept) = kept_and_seen();
        let (second, is_second_kept) = kept_and_seen();
        kept.keep(begun, first);
        kept.keep(later, second);

        kept.let_go(later);
        assert!(is_first_kept() && is_second_kept());
        let left = kept.timeout(later).unwrap();
        assert_eq!((left.tv_sec, left.tv_nsec), (0, i64::from((KEPT / 2).subsec_nanos())));

        kept.let_go(begun + KEPT);
        assert!(!is_first_kept() && is_second_kept());
        kept.let_go(later + KEPT);
        assert!(!is_second_kept());
        assert!(kept.timeout(later + KEPT).is_none());
    }
}
