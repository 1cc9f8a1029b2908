//! The machine's own figures, from /proc.

use std::fs;

use rekindle_types::Tick;

use super::snapshot::ProcessUsage;

/// Processes and threads, as the kubelet counts them: those of /proc/loadavg against the lower of
/// two limits.
pub(super) fn processes() -> ProcessUsage {
    let read = |name: &str| fs::read_to_string(format!("/proc/{name}")).unwrap_or_default();
    parse_processes(&read("loadavg"), &read("sys/kernel/pid_max"), &read("sys/kernel/threads-max"))
}

/// `0.20 0.18 0.12 1/80 11206`: the fourth field is running/all. A limit that cannot be read is
/// none.
fn parse_processes(loadavg: &str, pid_max: &str, threads_max: &str) -> ProcessUsage {
    let all = loadavg.split_whitespace().nth(3).and_then(|tasks| tasks.split_once('/'));
    let limit = |text: &str| text.trim().parse().unwrap_or(u64::MAX);
    ProcessUsage {
        running: all.and_then(|(_, all)| all.parse().ok()).unwrap_or(0),
        max: limit(pid_max).min(limit(threads_max)),
    }
}

/// When the machine was booted.
pub(super) fn booted_at() -> Option<Tick> {
    parse_boot_time(&fs::read_to_string("/proc/stat").ok()?)
}

/// The line `btime seconds` of /proc/stat.
fn parse_boot_time(stat: &str) -> Option<Tick> {
    let seconds = stat.lines().find_map(|line| line.strip_prefix("btime "))?;
    seconds.trim().parse().ok().map(Tick::from_secs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processes_are_counted_against_the_lower_limit() {
        let found = parse_processes("0.20 0.18 0.12 1/803 11206\n", "4194304\n", "192842\n");
        assert_eq!(found, ProcessUsage { running: 803, max: 192_842 });
        assert_eq!(parse_processes("", "100\n", ""), ProcessUsage { running: 0, max: 100 });
    }

    #[test]
    fn the_boot_time_is_a_line_among_others() {
        assert_eq!(
            parse_boot_time("cpu  1 2 3\nbtime 1760000000\nprocesses 5\n"),
            Some(Tick::from_secs(1_760_000_000))
        );
        assert_eq!(parse_boot_time("cpu 1\n"), None);
    }
}
