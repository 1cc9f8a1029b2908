//! The same things done by the peers that are installed, in the same run. A peer that is absent, or
//! does not work on this machine, is said to be, with its own words; the benchmark goes on.
//!
//! Each is given what it needs to work on machines where some things are missing (see [`launch`]),
//! and a root file system of the machine's own files, as `localhost/host` has.

mod containerd;
mod launch;
mod oci;
mod podman;
mod podman_network;
mod rootfs;

use std::time::{Duration, Instant};

use anyhow::bail;
use rustix::process::{Pid, Signal, kill_process};

use crate::sample::{CREATE, KILL, Report};
use rootfs::RootFs;

pub use launch::installed;
pub use podman_network::PublishedPort;

const SAMPLES: usize = 10;
/// A peer that takes longer is stuck.
const DEADLINE: Duration = Duration::from_secs(20);

/// One peer, made ready; dropping it takes everything away.
trait Peer {
    /// Creates and starts a container whose process is `/bin/sleep <seconds>`; returns when the
    /// peer says that it runs.
    fn create(&self, name: &str, seconds: &str) -> anyhow::Result<()>;

    /// Brings a container whose process was just killed back; a peer that does so by itself has
    /// nothing to do.
    fn bring_back(&self, name: &str, seconds: &str) -> anyhow::Result<()>;

    /// Takes a container away, in whatever state it is.
    fn remove(&self, name: &str);
}

/// Measures every peer.
pub fn measure(report: &mut Report) {
    let rootfs = match RootFs::mount() {
        Ok(rootfs) => rootfs,
        Err(error) => {
            report.peer("peers", format!("not measured: {error:#}"));
            return;
        }
    };
    measure_one(report, "runc", || oci::Oci::prepare("runc", rootfs.path()));
    measure_one(report, "crun", || oci::Oci::prepare("crun", rootfs.path()));
    measure_one(report, "podman", || podman::Podman::prepare(rootfs.path()));
    measure_one(report, "containerd", || containerd::Containerd::start(rootfs.path()));
}

fn measure_one<P: Peer>(
    report: &mut Report,
    name: &str,
    prepare: impl FnOnce() -> anyhow::Result<P>,
) {
    let create = format!("{name}: create + start → running");
    let kill = format!("{name}: container killed → new process runs");
    if !installed(name) {
        report.peer(&create, "not installed".to_owned());
        return;
    }
    let samples = prepare().and_then(|peer| {
        // the first one warms its caches, as the first pod does ours
        sample(&peer, 0)?;
        (1..=SAMPLES).map(|number| sample(&peer, number)).collect::<Result<Vec<_>, _>>()
    });
    match samples {
        Ok(samples) => {
            let (created, killed) = samples.into_iter().unzip();
            report.compared(&create, CREATE, created);
            report.compared(&kill, KILL, killed);
        }
        Err(error) => report.peer(&create, format!("does not work here: {error:#}")),
    }
}

/// Creates a container, kills its process with -9, and waits for the next one.
fn sample(peer: &impl Peer, number: usize) -> anyhow::Result<(Duration, Duration)> {
    let name = format!("rekindle-bench-{}-{number}", std::process::id());
    // tells its process from all others on the machine
    let seconds = format!("{}{number:02}", 100_000 + std::process::id());
    let measured = create_and_kill(peer, &name, &seconds);
    peer.remove(&name);
    measured
}

fn create_and_kill(
    peer: &impl Peer,
    name: &str,
    seconds: &str,
) -> anyhow::Result<(Duration, Duration)> {
    let start = Instant::now();
    peer.create(name, seconds)?;
    let created = start.elapsed();
    let process = wait_for_process(seconds, None)?;
    let start = Instant::now();
    kill_process(process, Signal::KILL)?;
    peer.bring_back(name, seconds)?;
    wait_for_process(seconds, Some(process))?;
    Ok((created, start.elapsed()))
}

/// A busy look at the processes: the observer, unlike an engine, may poll.
fn wait_for_process(seconds: &str, other_than: Option<Pid>) -> anyhow::Result<Pid> {
    let wanted = format!("/bin/sleep\0{seconds}\0");
    let start = Instant::now();
    while start.elapsed() < DEADLINE {
        for entry in std::fs::read_dir("/proc")? {
            let Ok(pid) = entry?.file_name().to_string_lossy().parse::<i32>() else { continue };
            let Some(pid) = Pid::from_raw(pid).filter(|pid| Some(*pid) != other_than) else {
                continue;
            };
            let cmdline = std::fs::read(format!("/proc/{}/cmdline", pid.as_raw_nonzero()));
            if cmdline.is_ok_and(|cmdline| cmdline == wanted.as_bytes()) {
                return Ok(pid);
            }
        }
    }
    bail!("no process in {} s", DEADLINE.as_secs())
}
