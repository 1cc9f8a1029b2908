//! Shims that a test has left, and processes of cluster DNS: found by the files of its folder that
//! they hold, and ended by their pids.

use std::fs;
use std::path::Path;

use rustix::process::{Pid, PidfdFlags, Signal};

/// Ends the shims of containerd that were started for this socket.
pub(crate) fn end_of_containerd(socket: &Path) {
    let socket = socket.display().to_string();
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids =
        processes.filter_map(|entry| Pid::from_raw(entry.file_name().to_str()?.parse().ok()?));
    for pid in pids {
        // First, so that a number that another process has by now is not killed.
        let Ok(process) = rustix::process::pidfd_open(pid, PidfdFlags::empty()) else { continue };
        let command = fs::read_to_string(format!("/proc/{}/cmdline", pid.as_raw_nonzero()));
        let is_its = |arguments: &String| {
            let mut arguments = arguments.split('\0');
            arguments.next().is_some_and(|program| program.contains("/containerd-shim"))
                && arguments.any(|argument| argument == socket)
        };
        if command.as_ref().is_ok_and(is_its) {
            let _has_ended = rustix::process::pidfd_send_signal(process, Signal::KILL);
        }
    }
}

/// Ends those that hold a file beneath this folder, and answers how many there were. To be called
/// before the folder goes: a shim without its folder belongs to no engine, and stays.
pub fn end(folder: &Path) -> usize {
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids =
        processes.filter_map(|entry| Pid::from_raw(entry.file_name().to_str()?.parse().ok()?));
    pids.filter(|pid| is_ended(*pid, folder)).count()
}

fn is_ended(pid: Pid, folder: &Path) -> bool {
    // First, so that a number that another process has by now is not killed.
    let Ok(process) = rustix::process::pidfd_open(pid, PidfdFlags::empty()) else { return false };
    holds_a_file(pid, folder) && rustix::process::pidfd_send_signal(process, Signal::KILL).is_ok()
}

fn holds_a_file(pid: Pid, folder: &Path) -> bool {
    let process = format!("/proc/{}", pid.as_raw_nonzero());
    let outlives_engines = fs::read_to_string(format!("{process}/cmdline")).is_ok_and(|command| {
        command.starts_with("rekindle-shim") || command.split('\0').nth(1) == Some("cluster-dns")
    });
    let files = fs::read_dir(format!("{process}/fd")).into_iter().flatten().flatten();
    outlives_engines && { files }
        .any(|file| fs::read_link(file.path()).is_ok_and(|to| to.starts_with(folder)))
}
