//! The `process_…` metrics that every Prometheus client library tells of its own process.

use super::{MetricKind, Text};

/// Bytes of a page, which is 4 KiB on every machine that this runs on in its usual configuration.
const PAGE_BYTES: f64 = 4096.0;
/// The kernel's ticks of CPU time in a second (USER_HZ).
const TICKS_PER_SECOND: f64 = 100.0;

/// What a driver has read about its process.
#[derive(Clone, Debug, Default)]
pub struct ProcessFiles {
    /// /proc/self/stat.
    pub stat: String,
    /// /proc/stat: the line `btime` says when the machine was booted.
    pub machine_stat: String,
    /// Names in /proc/self/fd.
    pub open_files: Option<u64>,
}

impl ProcessFiles {
    /// What can be read of it; the rest is left out.
    pub fn write(&self, text: &mut Text) {
        // the name in brackets may hold blanks: count from behind it, where field 3 of
        // proc_pid_stat(5) is the first
        let Some((_, rest)) = self.stat.rsplit_once(')') else { return };
        let fields: Vec<&str> = rest.split_whitespace().collect();
        let field = |number: usize| fields.get(number - 3).and_then(|field| field.parse().ok());
        if let (Some(user), Some(system)) = (field(14), field(15)) {
            let user: f64 = user;
            text.single(
                "process_cpu_seconds_total",
                MetricKind::Counter,
                "Total user and system CPU time spent in seconds.",
                (user + system) / TICKS_PER_SECOND,
            );
        }
        if let Some(virtual_bytes) = field(23) {
            text.single(
                "process_virtual_memory_bytes",
                MetricKind::Gauge,
                "Virtual memory size in bytes.",
                virtual_bytes,
            );
        }
        if let Some(pages) = field(24) {
            text.single(
                "process_resident_memory_bytes",
                MetricKind::Gauge,
                "Resident memory size in bytes.",
                pages * PAGE_BYTES,
            );
        }
        if let (Some(ticks), Some(booted)) = (field(22), self.booted_at()) {
            text.single(
                "process_start_time_seconds",
                MetricKind::Gauge,
                "Start time of the process since unix epoch in seconds.",
                booted + ticks / TICKS_PER_SECOND,
            );
        }
        if let Some(open) = self.open_files {
            let open = open as f64;
            text.single(
                "process_open_fds",
                MetricKind::Gauge,
                "Number of open file descriptors.",
                open,
            );
        }
    }

    fn booted_at(&self) -> Option<f64> {
        let line = self.machine_stat.lines().find_map(|line| line.strip_prefix("btime "))?;
        line.trim().parse().ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_with_a_strange_name_is_read() {
        let fields: Vec<String> = (3..30).map(|number| (number * 100).to_string()).collect();
        let files = ProcessFiles {
            stat: format!("42 (re) kin dle) {}", fields.join(" ")),
            machine_stat: "cpu 1\nbtime 1760000000\n".to_owned(),
            open_files: Some(7),
        };
        let mut text = Text::default();
        files.write(&mut text);
        let text = text.into_string();
        for line in [
            "process_cpu_seconds_total 29",
            "process_virtual_memory_bytes 2300",
            "process_resident_memory_bytes 9830400",
            "process_start_time_seconds 1760000022",
            "process_open_fds 7",
        ] {
            assert!(text.lines().any(|found| found == line), "{line}: {text}");
        }
    }
}
