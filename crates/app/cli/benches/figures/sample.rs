//! Samples and the table they end up in.

use std::collections::BTreeMap;
use std::time::Duration;

use comfy_table::{CellAlignment, Table, presets};

/// What peers' creations are compared with. Ours has more in it: a pod sandbox with its network,
/// two containers, the API.
pub const CREATE: &str = "create Pod → Running in the API";
/// What peers' restarts are compared with.
pub const KILL: &str = "container killed → new process runs";

/// The lines of the table, in the order they were measured.
#[derive(Default)]
pub struct Report {
    lines: Vec<[String; 3]>,
    medians: BTreeMap<String, Duration>,
}

impl Report {
    /// A row of durations: the median and the extremes in milliseconds.
    pub fn durations(&mut self, what: &str, goal: &str, mut samples: Vec<Duration>) {
        samples.sort_unstable();
        if let Some(median) = samples.get(samples.len() / 2) {
            self.medians.insert(what.to_owned(), *median);
        }
        let ms = |sample: Option<&Duration>| sample.map_or(f64::NAN, |s| s.as_secs_f64() * 1e3);
        let measured = format!(
            "{:.2} ms [{:.2}–{:.2}] n={}",
            ms(samples.get(samples.len() / 2)),
            ms(samples.first()),
            ms(samples.last()),
            samples.len()
        );
        self.value(what, goal, measured);
    }

    /// A row of a peer's durations, with their ratio to a row of ours.
    pub fn compared(&mut self, what: &str, ours: &str, samples: Vec<Duration>) {
        self.durations(what, "peer", samples);
        let ratio = self.medians.get(what).zip(self.medians.get(ours));
        if let (Some((peer, ours)), Some(line)) = (ratio, self.lines.last_mut()) {
            line[2] = format!("peer: {:.1} × ours", peer.as_secs_f64() / ours.as_secs_f64());
        }
    }

    /// A row of anything else.
    pub fn value(&mut self, what: &str, goal: &str, measured: String) {
        eprintln!("{what}: {measured}");
        self.lines.push([what.to_owned(), measured, goal.to_owned()]);
    }

    /// Prints the table.
    pub fn print(&self) {
        let mut table = Table::new();
        table
            .load_preset(presets::ASCII_MARKDOWN)
            .set_header(["what", "measured: median [min–max]", "goal"])
            .add_rows(self.lines.iter().cloned());
        if let Some(column) = table.column_mut(1) {
            column.set_cell_alignment(CellAlignment::Right);
        }
        println!("{table}");
    }
}
