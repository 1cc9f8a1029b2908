//! Whether shims answer. One that has died closes its socket, which is heard at once. One that is
//! stopped (SIGSTOP, a debugger) or stuck only stays silent, and with it every exec, probe and exit
//! of its pod: nobody would notice, if it were not asked now and then.
//!
//! ```text
//!  every 10 s: a call that changes nothing -- answered -> fine
//!                 | silent for 5 s, and it is stopped, or for 30 s, and it waits
//!                 +-> dialled anew -- silent for 5 s, too -> its sandbox is taken for dead
//! ```
//! One that runs, or waits for a disk, is slow and not stuck: the machine is at fault, and to kill
//! its pod would not help.

use std::sync::{Arc, Weak};
use std::time::Duration;

use futures::StreamExt;
use futures::stream;
use rekindle_shim::protocol::ShimRequest;

use super::link::ShimLink;
use super::sandbox::EmbeddedSandbox;
use super::{SharedRuntime, contact};

/// Between the end of one look and the next.
const INTERVAL: Duration = Duration::from_secs(10);
/// How long an answer is awaited before it is looked at what the shim does; and so again.
const STEP: Duration = Duration::from_secs(5);
/// After so many of these steps one that waits for nothing in particular is stuck.
const STEPS_MAX: u32 = 6;
/// Shims that are asked at a time.
const ASKED_AT_A_TIME: usize = 16;
/// No command has this number: they are counted from 0. A call of its own would make shims of
/// earlier versions close their sockets.
const NO_COMMAND: u64 = u64::MAX;

/// Asks from now on, until the runtime is dropped.
pub(crate) fn start(shared: &Arc<SharedRuntime>) {
    let shared = Arc::downgrade(shared);
    tokio::spawn(async move {
        loop {
            tokio::time::sleep(INTERVAL).await;
            let Some(asked) = shared.upgrade().map(|shared| links(&shared)) else { return };
            let looks = asked.into_iter().map(|(sandbox, link)| look(&shared, sandbox, link));
            stream::iter(looks).buffer_unordered(ASKED_AT_A_TIME).collect::<()>().await;
        }
    });
}

fn links(shared: &SharedRuntime) -> Vec<(Weak<EmbeddedSandbox>, ShimLink)> {
    let all = shared.all().into_iter();
    all.filter_map(|sandbox| Some((Arc::downgrade(&sandbox), sandbox.link()?))).collect()
}

/// Asks one shim. Holds neither runtime nor sandbox while it waits.
async fn look(shared: &Weak<SharedRuntime>, sandbox: Weak<EmbeddedSandbox>, link: ShimLink) {
    // one that is closed is heard of elsewhere
    let Ok(mut answer) = link.ask(ShimRequest::KillExec { id: NO_COMMAND }) else { return };
    for step in 1..=STEPS_MAX {
        if answer.is_given_within(STEP).await {
            return;
        }
        let (Some(shared), Some(sandbox)) = (shared.upgrade(), sandbox.upgrade()) else { return };
        let Some(pid) = sandbox.info().map(|info| info.pid) else { return };
        match ProcessActivity::read(pid) {
            ProcessActivity::Stopped => {}
            ProcessActivity::Waiting if step == STEPS_MAX => {}
            ProcessActivity::Waiting | ProcessActivity::Busy => continue,
        }
        return contact::give_up_silent(&shared, &sandbox, &link).await;
    }
}

/// What a shim's process does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ProcessActivity {
    /// It runs or wants to, or waits for a disk. Also one that cannot be seen.
    Busy,
    /// It waits for something to happen.
    Waiting,
    /// It goes on when somebody lets it.
    Stopped,
}

impl ProcessActivity {
    fn read(pid: u32) -> Self {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"));
        stat.map_or(Self::Busy, |stat| Self::parse(&stat))
    }

    /// Of the text of /proc/<pid>/stat: `pid (name) state …`; the name may hold anything. Source:
    /// proc_pid_stat(5).
    fn parse(stat: &str) -> Self {
        let state = stat.rsplit_once(')').and_then(|(_, rest)| rest.trim_start().chars().next());
        match state {
            Some('T' | 't') => Self::Stopped,
            Some('S' | 'I') => Self::Waiting,
            Some(_) | None => Self::Busy,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_process_does_is_read_behind_its_name() {
        for (stat, expected) in [
            ("17 (rekindle-shim) S 1 17", ProcessActivity::Waiting),
            ("17 (rekindle-shim) T 1 17", ProcessActivity::Stopped),
            ("17 (rekindle-shim) t 1 17", ProcessActivity::Stopped),
            ("17 (rekindle-shim) D 1 17", ProcessActivity::Busy),
            ("17 (rekindle-shim) R 1 17", ProcessActivity::Busy),
            ("17 (a) T (b) S 1 17", ProcessActivity::Waiting),
            ("", ProcessActivity::Busy),
        ] {
            assert_eq!(ProcessActivity::parse(stat), expected, "{stat}");
        }
    }
}
