//! Where and when the figures were measured: without it they say nothing.

use std::time::SystemTime;

/// One line: date, kernel, processor, memory, load; and how many memory cgroups the kernel holds,
/// those of containers that have ended among them: what walks through them all gets slow
/// (docs/adr/0034).
pub fn describe() -> String {
    let host = rustix::system::uname();
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let field = |path: &str, name: &str| {
        let text = read(path);
        let value = text.lines().find_map(|line| line.strip_prefix(name)?.split_once(':'));
        value.map_or_else(|| "unknown".to_owned(), |(_, value)| value.trim().to_owned())
    };
    let memory_cgroups = read("/proc/cgroups");
    let memory_cgroups = memory_cgroups.lines().find_map(|line| line.strip_prefix("memory\t"));
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    format!(
        "{}, {} {} {}, {cores} × {}, {} of memory, load {}, {} memory cgroups",
        humantime::format_rfc3339_seconds(SystemTime::now()),
        host.sysname().to_string_lossy(),
        host.release().to_string_lossy(),
        host.machine().to_string_lossy(),
        field("/proc/cpuinfo", "model name"),
        field("/proc/meminfo", "MemTotal"),
        read("/proc/loadavg").split(' ').next().unwrap_or_default(),
        memory_cgroups.and_then(|line| line.split('\t').nth(1)).unwrap_or("unknown"),
    )
}
