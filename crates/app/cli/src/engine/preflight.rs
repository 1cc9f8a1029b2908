//! What this machine must have, checked before anything is made: one clear message instead of a
//! half-started engine.

use std::path::Path;

use anyhow::bail;

/// Fails with what is missing and what to do about it.
pub fn check() -> anyhow::Result<()> {
    if !rustix::process::geteuid().is_root() {
        bail!(
            "must be run as root, because it makes namespaces, mounts and cgroups: try `sudo rekindle up`"
        );
    }
    let file_systems = std::fs::read_to_string("/proc/filesystems").unwrap_or_default();
    if !file_systems.split_whitespace().any(|name| name == "overlay") {
        bail!(
            "the kernel knows no overlayfs, which container roots are made of: load it with `modprobe overlay`"
        );
    }
    for (namespace, option) in
        [("net", "NET_NS"), ("ipc", "IPC_NS"), ("uts", "UTS_NS"), ("pid", "PID_NS")]
    {
        if !Path::new("/proc/self/ns").join(namespace).exists() {
            bail!("the kernel has no {namespace} namespaces: it needs CONFIG_{option}");
        }
    }
    let v2 = Path::new("/sys/fs/cgroup/cgroup.controllers").exists();
    let v1 = Path::new("/sys/fs/cgroup/memory/memory.limit_in_bytes").exists();
    if !v1 && !v2 {
        bail!(
            "no cgroup memory controller under /sys/fs/cgroup: mount cgroup2 there, or boot with cgroup_enable=memory"
        );
    }
    Ok(())
}
