//! Samples, the table they end up in, and the file that a later run is compared with.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use anyhow::Context;
use comfy_table::{CellAlignment, Table, presets};
use serde_json::{Value, json};

/// What peers' creations are compared with. Ours has more in it: a pod sandbox with its network,
/// two containers, the API.
pub const CREATE: &str = "create Pod → Running in the API";
/// What peers' restarts are compared with.
pub const KILL: &str = "container killed → new process runs";

/// The goal of a line that measures a peer.
const PEER: &str = "peer";

/// So many samples have a 99th percentile that says something.
const MANY: usize = 100;

/// One number that was measured once.
pub struct Amount {
    value: f64,
    better: &'static str,
}

impl Amount {
    /// Such as memory: the less the better.
    pub fn cost(value: f64) -> Self {
        Self { value, better: "less" }
    }

    /// Such as creations per second: the more the better.
    pub fn rate(value: f64) -> Self {
        Self { value, better: "more" }
    }
}

/// The lines of the table, in the order they were measured.
#[derive(Default)]
pub struct Report {
    lines: Vec<[String; 3]>,
    medians: BTreeMap<String, Duration>,
    /// As `xtask/src/bench.rs` reads them.
    figures: Vec<Value>,
}

/// The median and the extremes in milliseconds, and of many also what 99 % of them are within.
pub fn in_words(samples: &[Duration]) -> String {
    let mut samples = samples.to_vec();
    samples.sort_unstable();
    let Some(last) = samples.len().checked_sub(1) else { return "no sample".to_owned() };
    let ms = |index: usize| format!("{:.2}", samples[index].as_secs_f64() * 1e3);
    let mut words = format!("{} ms [{}–{}]", ms(samples.len() / 2), ms(0), ms(last));
    if samples.len() >= MANY {
        words += &format!(", p99 {}", ms(last * 99 / 100));
    }
    words + &format!(" n={}", samples.len())
}

impl Report {
    /// A row of durations.
    pub fn durations(&mut self, what: &str, goal: &str, mut samples: Vec<Duration>) {
        samples.sort_unstable();
        let Some(&median) = samples.get(samples.len() / 2) else {
            return self.text(what, goal, "no sample".to_owned());
        };
        self.medians.insert(what.to_owned(), median);
        let ms = |index: usize| samples[index].as_secs_f64() * 1e3;
        let last = samples.len() - 1;
        let measured = in_words(&samples);
        self.figures.push(json!({
            "what": what,
            "value": median.as_secs_f64() * 1e3,
            "quartiles": [ms(last / 4), ms(last - last / 4)],
            "better": "less",
            "peer": goal == PEER,
        }));
        self.text(what, goal, measured);
    }

    /// A row of a peer's durations, with their ratio to a row of ours.
    pub fn compared(&mut self, what: &str, ours: &str, samples: Vec<Duration>) {
        self.durations(what, PEER, samples);
        let ratio = self.medians.get(what).zip(self.medians.get(ours));
        if let (Some((peer, ours)), Some(line)) = (ratio, self.lines.last_mut()) {
            line[2] = format!("peer: {:.1} × ours", peer.as_secs_f64() / ours.as_secs_f64());
        }
    }

    /// A row of one number, as `measured` shows it.
    pub fn amount(&mut self, what: &str, goal: &str, amount: Amount, measured: String) {
        self.figures.push(json!({
            "what": what,
            "value": amount.value,
            "quartiles": [amount.value, amount.value],
            "better": amount.better,
            "peer": false,
        }));
        self.text(what, goal, measured);
    }

    /// A row about a peer that no later run is compared with: what was measured, or why nothing
    /// was.
    pub fn peer(&mut self, what: &str, measured: String) {
        self.text(what, PEER, measured);
    }

    fn text(&mut self, what: &str, goal: &str, measured: String) {
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

    /// Writes what was measured for `cargo xtask bench --compare`.
    pub fn save(&self, file: &Path, machine: &str) -> anyhow::Result<()> {
        let text = serde_json::to_string_pretty(&json!({
            "machine": machine,
            "figures": self.figures,
        }))?;
        std::fs::write(file, text).with_context(|| format!("write {}", file.display()))
    }
}
