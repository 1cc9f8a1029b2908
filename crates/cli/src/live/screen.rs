//! Drawing the table: in place on a terminal, as appended lines elsewhere.

use std::io::IsTerminal;

use comfy_table::{ColumnConstraint, ContentArrangement, Table, presets};

use super::board::HEADINGS;
use crate::output;

/// Where the table is drawn.
pub struct Screen {
    target: Target,
    /// The rows as drawn last; the same again is not drawn.
    shown: Vec<[String; 7]>,
}

enum Target {
    /// Redrawn in place.
    Terminal(Drawn),
    /// Each changed row is appended.
    Stream(Appended),
}

/// What was appended so far: the headings once, in columns that never get narrower.
#[derive(Debug, Default)]
struct Appended {
    /// In characters; none before the first line.
    widths: Option<[usize; 7]>,
}

/// What stands on a terminal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Drawn {
    lines: usize,
    size: Size,
}

/// A terminal's, in characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Size {
    columns: u16,
    rows: u16,
}

/// Blanks around a cell.
const CELL_PADDING: u16 = 2;
/// Columns that the last column needs at least to be folded: less would be a word a line.
const FOLDED_MIN: u16 = 24;

impl Default for Size {
    /// What a terminal that does not say is taken for.
    fn default() -> Self {
        Self { columns: 80, rows: 24 }
    }
}

impl Size {
    fn of_stdout() -> Self {
        match rustix::termios::tcgetwinsize(std::io::stdout()) {
            Ok(size) if size.ws_col > 0 && size.ws_row > 0 => {
                Self { columns: size.ws_col, rows: size.ws_row }
            }
            Ok(_) | Err(_) => Self::default(),
        }
    }
}

/// The rows under their headings, as wide as they are.
pub fn render(rows: &[[String; 7]]) -> String {
    lines_of(&table(rows)).into_iter().map(|line| line + "\n").collect()
}

fn table(rows: &[[String; 7]]) -> Table {
    let mut table = Table::new();
    table.load_preset(presets::NOTHING).set_header(HEADINGS).add_rows(rows.iter().cloned());
    table
}

fn lines_of(table: &Table) -> Vec<String> {
    table.lines().map(|line| line.trim_end().to_owned()).collect()
}

/// The table in a terminal of this size: the last column takes several lines where it must, or is cut off where there is no
/// room for it, and nothing is longer or higher
/// than the terminal, so that it can be drawn over.
fn fitting(rows: &[[String; 7]], size: Size) -> Vec<String> {
    let mut table = table(rows);
    let other_columns: u16 = table.column_max_content_widths()[..HEADINGS.len() - 1]
        .iter()
        .map(|width| width + CELL_PADDING)
        .sum();
    if size.columns.saturating_sub(other_columns) >= FOLDED_MIN {
        table.set_content_arrangement(ContentArrangement::Dynamic).set_width(size.columns);
        for column in table.column_iter_mut().take(HEADINGS.len() - 1) {
            column.set_constraint(ColumnConstraint::ContentWidth);
        }
    }
    let mut lines = lines_of(&table);
    for line in &mut lines {
        if line.chars().count() > usize::from(size.columns) {
            *line = line.chars().take(usize::from(size.columns) - 1).chain(['…']).collect();
        }
    }
    // the cursor stands on the line below the table
    let lines_max = usize::from(size.rows).saturating_sub(1).max(1);
    if lines.len() > lines_max {
        let hidden = lines.len() - (lines_max - 1);
        lines.truncate(lines_max - 1);
        lines.push(format!(
            " … {hidden} more lines: make the window higher, or see `rekindle status`"
        ));
        if let Some(last) = lines.last_mut() {
            *last = last.chars().take(usize::from(size.columns)).collect();
        }
    }
    lines
}

impl Drawn {
    /// What to write so that the terminal, which is of this size now, shows these rows in place of what stands.
    fn over(&mut self, rows: &[[String; 7]], size: Size) -> String {
        let back = if self.lines == 0 {
            String::new()
        } else if self.size == size {
            // up to the table's first line, then clear to the end of the screen
            format!("\x1b[{}A\x1b[J", self.lines)
        } else {
            // terminals differ in how they fold what stands when they are resized: begin afresh
            "\x1b[H\x1b[2J".to_owned()
        };
        let lines = fitting(rows, size);
        *self = Self { lines: lines.len(), size };
        lines.into_iter().fold(back, |text, line| text + &line + "\n")
    }
}

impl Appended {
    /// The lines to append for these rows.
    fn more(&mut self, rows: &[[String; 7]]) -> String {
        let headings = self.widths.is_none().then(|| HEADINGS.map(str::to_owned));
        let widths = self.widths.get_or_insert([0; 7]);
        let lines = || headings.iter().chain(rows);
        for (column, cell) in lines().flat_map(|row| row.iter().enumerate()) {
            widths[column] = widths[column].max(cell.chars().count());
        }
        let line = |row: &[String; 7]| {
            let cells = row.iter().zip(*widths).map(|(cell, width)| format!(" {cell:width$} "));
            cells.collect::<String>().trim_end().to_owned() + "\n"
        };
        lines().map(line).collect()
    }
}

/// Whether two rows differ at most in what changes by itself as time passes: how long ago, and in how long.
fn says_the_same(one: &[String; 7], other: &[String; 7]) -> bool {
    fn steady([pod, ready, status, restarts, rung, _next, why]: &[String; 7]) -> [&str; 6] {
        let count = restarts.split(' ').next().unwrap_or_default();
        [pod, ready, status, count, rung, why]
    }
    steady(one) == steady(other)
}

impl Screen {
    /// Standard output, as what it is.
    pub fn of_stdout() -> Self {
        let target = if std::io::stdout().is_terminal() {
            Target::Terminal(Drawn::default())
        } else {
            Target::Stream(Appended::default())
        };
        Self { target, shown: Vec::new() }
    }

    /// Shows these rows.
    pub fn draw(&mut self, rows: &[[String; 7]]) {
        let text = match &mut self.target {
            Target::Terminal(drawn) => {
                let size = Size::of_stdout();
                if rows == self.shown && size == drawn.size {
                    return;
                }
                drawn.over(rows, size)
            }
            Target::Stream(appended) => {
                let is_shown =
                    |row: &[String; 7]| self.shown.iter().any(|old| says_the_same(old, row));
                let changed: Vec<_> = rows.iter().filter(|row| !is_shown(row)).cloned().collect();
                if changed.is_empty() { String::new() } else { appended.more(&changed) }
            }
        };
        output::show(&text);
        self.shown = rows.to_vec();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(count: usize) -> Vec<[String; 7]> {
        let row = |number| {
            let why =
                "container \"app\" exited with 1 three times in 11s: restarting the whole pod";
            [
                format!("web-{number}"),
                "0/1".into(),
                "Error".into(),
                "3".into(),
                "Pod".into(),
                "-".into(),
                why.into(),
            ]
        };
        (0..count).map(row).collect()
    }

    #[test]
    fn nothing_is_wider_or_higher_than_the_terminal() {
        for (columns, height) in [(200, 50), (80, 24), (60, 10), (40, 5), (10, 3), (1, 1)] {
            let lines = fitting(&rows(20), Size { columns, rows: height });
            assert!(lines.len() < usize::from(height).max(2), "{columns}x{height}: {lines:#?}");
            for line in &lines {
                assert!(line.chars().count() <= usize::from(columns), "{columns}: {line:?}");
            }
        }
    }

    #[test]
    fn a_long_reason_is_folded_and_not_lost() {
        let lines = fitting(&rows(1), Size { columns: 80, rows: 24 });
        assert!(lines.len() > 2, "{lines:#?}");
        let words: Vec<&str> = lines.iter().flat_map(|line| line.split_whitespace()).collect();
        assert!(words.ends_with(&["the", "whole", "pod"]), "{lines:#?}");
    }

    #[test]
    fn appended_lines_stand_under_headings_that_are_said_once() {
        let mut appended = Appended::default();
        let first = appended.more(&rows(1));
        assert!(first.starts_with(
            " POD    READY  STATUS  RESTARTS  RUNG  NEXT  WHY\n web-0  0/1    Error "
        ));
        let next = appended.more(&rows(1));
        assert_eq!(first.lines().skip(1).collect::<Vec<_>>(), next.lines().collect::<Vec<_>>());
        let mut long = rows(1);
        long[0][2] = "CrashLoopBackOff".to_owned();
        assert!(appended.more(&long).starts_with(" web-0  0/1    CrashLoopBackOff  3 "));
        assert!(appended.more(&rows(1)).starts_with(" web-0  0/1    Error             3 "));
    }

    #[test]
    fn what_stands_is_drawn_over_and_a_resized_terminal_is_cleared() {
        let mut drawn = Drawn::default();
        let wide = Size { columns: 200, rows: 24 };
        assert!(!drawn.over(&rows(2), wide).contains('\x1b'), "nothing stands");
        assert!(
            drawn.over(&rows(3), wide).starts_with("\x1b[3A\x1b[J"),
            "headings and two rows stood"
        );
        let narrow = Size { columns: 100, rows: 24 };
        assert!(drawn.over(&rows(3), narrow).starts_with("\x1b[H\x1b[2J"));
    }
}
