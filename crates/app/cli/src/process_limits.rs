//! What the kernel grants an engine or a node agent, as far as it grants it.

use std::fs;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::thread::{
    CapabilitySet, CapabilitySets, clear_ambient_capability_set, set_capabilities, set_no_new_privs,
};

/// The kubelet's own score (`--oom-score-adj`): when memory is short, pods end before what looks
/// after them. Shims have one more, and containers what their QoS class says (`shim::set_up`,
/// `container_spec::oom`).
const OOM_SCORE_ADJ: &str = "-999";

/// Open files, where the machine allows it: two listeners, each with its connections, and those of
/// pods' ports.
const OPEN_FILES_MAX: u64 = 65_536;

/// Takes them, before the first thread starts. Without the right to, the process goes on as it is.
pub fn take() {
    if let Err(error) = fs::write("/proc/self/oom_score_adj", OOM_SCORE_ADJ) {
        tracing::info!(%error, "failed to lower oom_score_adj: it takes CAP_SYS_RESOURCE");
    }
    raise_open_files();
}

/// Drops all capabilities, for good. Call it from the only thread of the process. The process can
/// still open the files that root owns.
pub fn drop_capabilities() -> rustix::io::Result<()> {
    set_no_new_privs(true)?;
    clear_ambient_capability_set()?;
    let none = CapabilitySet::empty();
    let sets = CapabilitySets { effective: none, permitted: none, inheritable: none };
    set_capabilities(None, sets)
}

fn raise_open_files() {
    let now = getrlimit(Resource::Nofile);
    let possible = now.maximum.unwrap_or(OPEN_FILES_MAX).min(OPEN_FILES_MAX);
    if now.current.is_some_and(|current| current < possible)
        && let Err(error) = setrlimit(Resource::Nofile, Rlimit { current: Some(possible), ..now })
    {
        tracing::info!(%error, files = possible, "failed to raise the limit of open files");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn open_files_are_as_many_as_the_machine_allows() {
        let usual = getrlimit(Resource::Nofile);
        let possible = usual.maximum.unwrap_or(OPEN_FILES_MAX).min(OPEN_FILES_MAX);
        let fewer = Rlimit { current: Some(possible - 1), ..usual };
        setrlimit(Resource::Nofile, fewer).expect("a process may lower its own limit");
        raise_open_files();
        assert_eq!(getrlimit(Resource::Nofile).current, Some(possible));
    }
}
