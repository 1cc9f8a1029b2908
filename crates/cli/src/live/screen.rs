//! Drawing the table: in place on a terminal, as appended lines elsewhere.

use std::io::{IsTerminal, Write};

use comfy_table::{Table, presets};

use super::board::HEADINGS;

/// Where the table is drawn.
pub struct Screen {
    target: Target,
    /// The rows as drawn last; the same again is not drawn.
    shown: Vec<[String; 7]>,
}

enum Target {
    /// Redrawn in place; so many lines are on the screen.
    Terminal { lines: usize },
    /// Each changed row is appended.
    Stream,
}

/// The rows under their headings.
pub fn render(rows: &[[String; 7]]) -> String {
    let mut table = Table::new();
    table.load_preset(presets::NOTHING).set_header(HEADINGS).add_rows(rows.iter().cloned());
    table.lines().map(|line| line.trim_end().to_owned() + "\n").collect()
}

/// Whether two rows differ at most in what changes by itself as time passes: how long ago, and in how long.
fn says_the_same(one: &[String; 7], other: &[String; 7]) -> bool {
    let steady = |row: &[String; 7]| {
        let [pod, ready, status, restarts, rung, _next, why] = row.clone();
        let count = restarts.split(' ').next().unwrap_or_default().to_owned();
        [pod, ready, status, count, rung, why]
    };
    steady(one) == steady(other)
}

impl Screen {
    /// Standard output, as what it is.
    pub fn of_stdout() -> Self {
        let target = if std::io::stdout().is_terminal() {
            Target::Terminal { lines: 0 }
        } else {
            Target::Stream
        };
        Self { target, shown: Vec::new() }
    }

    /// Shows these rows.
    pub fn draw(&mut self, rows: &[[String; 7]]) {
        if rows == self.shown {
            return;
        }
        let text = match &mut self.target {
            Target::Terminal { lines } => {
                let text = render(rows);
                // Up to the table's first line, then clear to the end of the screen.
                let back = if *lines == 0 { String::new() } else { format!("\x1b[{lines}A\x1b[J") };
                *lines = text.lines().count();
                back + &text
            }
            Target::Stream => {
                let is_shown =
                    |row: &[String; 7]| self.shown.iter().any(|old| says_the_same(old, row));
                let changed: Vec<_> = rows.iter().filter(|row| !is_shown(row)).cloned().collect();
                if changed.is_empty() { String::new() } else { render(&changed) }
            }
        };
        let mut stdout = std::io::stdout().lock();
        // A closed pipe must not end the engine: the table is a courtesy.
        let _ = stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush());
        self.shown = rows.to_vec();
    }
}
