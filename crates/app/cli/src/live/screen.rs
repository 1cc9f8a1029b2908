//! Drawing the table: in place on a terminal, as appended lines elsewhere.

use std::collections::BTreeMap;
use std::io::IsTerminal;

use super::layout::{Palette, ScreenSize, cut, unbounded, within};
use super::pod_row::{HEADINGS, POD, PodRow, grouped};
use crate::output;

/// Where the table is drawn.
pub struct TableScreen {
    target: DrawTarget,
    /// The rows as drawn last; the same again is not drawn.
    shown: Vec<PodRow>,
}

enum DrawTarget {
    /// Redrawn in place.
    Terminal(TerminalDrawing),
    /// Each changed row is appended.
    Stream(AppendedTable),
}

/// What was appended so far: the headings once, in columns that never get narrower.
#[derive(Debug, Default)]
struct AppendedTable {
    /// In characters; none before the first line.
    widths: Option<[usize; 7]>,
}

/// What stands on a terminal.
#[derive(Clone, Copy, Debug)]
struct TerminalDrawing {
    lines: usize,
    size: ScreenSize,
    palette: Palette,
}

/// The table once: on a terminal pods that show the same in one row, elsewhere a row for each pod,
/// for those who look for one.
pub fn render(rows: Vec<PodRow>) -> String {
    let lines = if std::io::stdout().is_terminal() {
        within(ScreenSize::of_stdout().columns, &grouped(rows), Palette::of_stdout())
    } else {
        unbounded(&rows)
    };
    lines.into_iter().map(|line| line + "\n").collect()
}

/// The table in a terminal of this size: nothing is longer or higher than the terminal, so that it
/// can be drawn over.
fn fitting(rows: &[PodRow], size: ScreenSize, palette: Palette) -> Vec<String> {
    let mut lines = within(size.columns, rows, palette);
    // the cursor stands on the line below the table
    let lines_max = usize::from(size.rows).saturating_sub(1).max(1);
    if lines.len() > lines_max {
        let hidden = lines.len() - (lines_max - 1);
        lines.truncate(lines_max - 1);
        let more =
            format!(" … {hidden} more lines: make the window higher, or see `rekindle status`");
        lines.push(cut(&more, size.columns));
    }
    lines
}

impl TerminalDrawing {
    fn new(palette: Palette) -> Self {
        Self { lines: 0, size: ScreenSize::default(), palette }
    }

    /// What to write so that the terminal, which is of this size now, shows these rows in place of
    /// what stands.
    fn over(&mut self, rows: &[PodRow], size: ScreenSize) -> String {
        let back = if self.lines == 0 {
            String::new()
        } else if self.size == size {
            // up to the table's first line, then clear to the end of the screen
            format!("\x1b[{}A\x1b[J", self.lines)
        } else {
            // terminals differ in how they fold what stands when they are resized: begin afresh
            "\x1b[H\x1b[2J".to_owned()
        };
        let lines = fitting(rows, size, self.palette);
        (self.lines, self.size) = (lines.len(), size);
        lines.into_iter().fold(back, |text, line| text + &line + "\n")
    }
}

impl AppendedTable {
    /// The lines to append for these rows.
    fn more<'a>(&mut self, rows: impl Iterator<Item = &'a PodRow> + Clone) -> String {
        let headings = self.widths.is_none().then(|| HEADINGS.map(str::to_owned));
        let widths = self.widths.get_or_insert([0; 7]);
        let cells = rows.map(|row| &row.cells);
        let lines = || headings.iter().chain(cells.clone());
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

impl TableScreen {
    /// Standard output, as what it is.
    pub fn of_stdout() -> Self {
        let target = if std::io::stdout().is_terminal() {
            DrawTarget::Terminal(TerminalDrawing::new(Palette::of_stdout()))
        } else {
            DrawTarget::Stream(AppendedTable::default())
        };
        Self { target, shown: Vec::new() }
    }

    /// Whether times that count are drawn anew. Appended lines say nothing twice.
    pub fn counts(&self) -> bool {
        matches!(self.target, DrawTarget::Terminal(_))
    }

    /// Shows these rows.
    pub fn draw(&mut self, rows: Vec<PodRow>) {
        let text = match &mut self.target {
            DrawTarget::Terminal(drawn) => {
                let size = ScreenSize::of_stdout();
                if rows == self.shown && size == drawn.size {
                    return;
                }
                drawn.over(&grouped(rows.clone()), size)
            }
            DrawTarget::Stream(appended) => {
                let shown: BTreeMap<&str, &PodRow> =
                    self.shown.iter().map(|row| (row.cells[POD].as_str(), row)).collect();
                let is_shown = |row: &&PodRow| {
                    let old = shown.get(row.cells[POD].as_str());
                    old.is_some_and(|old| row.says_the_same(old))
                };
                let mut changed = rows.iter().filter(|row| !is_shown(row)).peekable();
                if changed.peek().is_none() { String::new() } else { appended.more(changed) }
            }
        };
        output::show(&text);
        self.shown = rows;
    }
}

#[cfg(test)]
mod tests {
    use super::super::pod_row::{RowHealth, STATUS};
    use super::*;

    fn rows(count: usize) -> Vec<PodRow> {
        let row = |number| {
            let why = "exit 1 ×3 in 11s; whole-pod restart 1 of 2";
            let name = format!("web-{number}");
            let cells = [name.as_str(), "0/1", "Error", "3", "Pod", "-", why].map(str::to_owned);
            PodRow { cells, health: RowHealth::Failing, owner: None, next_in_secs: None }
        };
        (0..count).map(row).collect()
    }

    #[test]
    fn nothing_is_wider_or_higher_than_the_terminal() {
        for (columns, height) in [(200, 50), (80, 24), (60, 10), (40, 5), (10, 3), (1, 1)] {
            let size = ScreenSize { columns, rows: height };
            let lines = fitting(&rows(20), size, Palette::Plain);
            assert!(lines.len() < usize::from(height).max(2), "{columns}x{height}: {lines:#?}");
            for line in &lines {
                assert!(line.chars().count() <= usize::from(columns), "{columns}: {line:?}");
            }
        }
    }

    #[test]
    fn appended_lines_stand_under_headings_that_are_said_once() {
        let mut appended = AppendedTable::default();
        let first = appended.more(rows(1).iter());
        assert!(first.starts_with(
            " POD    READY  STATUS  RESTARTS  RUNG  NEXT  WHY\n web-0  0/1    Error "
        ));
        let next = appended.more(rows(1).iter());
        assert_eq!(first.lines().skip(1).collect::<Vec<_>>(), next.lines().collect::<Vec<_>>());
        let mut long = rows(1);
        long[0].cells[STATUS] = "CrashLoopBackOff".to_owned();
        assert!(appended.more(long.iter()).starts_with(" web-0  0/1    CrashLoopBackOff  3 "));
        assert!(appended.more(rows(1).iter()).starts_with(" web-0  0/1    Error             3 "));
    }

    #[test]
    fn what_stands_is_drawn_over_and_a_resized_terminal_is_cleared() {
        let mut drawn = TerminalDrawing::new(Palette::Plain);
        let wide = ScreenSize { columns: 200, rows: 24 };
        assert!(!drawn.over(&rows(2), wide).contains('\x1b'), "nothing stands");
        assert!(
            drawn.over(&rows(3), wide).starts_with("\x1b[3A\x1b[J"),
            "headings and two rows stood"
        );
        let narrow = ScreenSize { columns: 100, rows: 24 };
        assert!(drawn.over(&rows(3), narrow).starts_with("\x1b[H\x1b[2J"));
    }
}
