//! Samples and the table they end up in.

use std::time::Duration;

use comfy_table::{CellAlignment, Table, presets};

/// The lines of the table, in the order they were measured.
#[derive(Default)]
pub struct Report {
    lines: Vec<[String; 3]>,
}

impl Report {
    /// A row of durations: the median and the extremes in milliseconds.
    pub fn durations(&mut self, what: &str, goal: &str, mut samples: Vec<Duration>) {
        samples.sort_unstable();
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
