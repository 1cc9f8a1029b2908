//! How the table is laid out: one line a row, whatever the width.

use std::io::IsTerminal;

use comfy_table::{Cell, Color, ColumnConstraint, ContentArrangement, Row, Table, Width, presets};

use super::pod_row::{
    HEADINGS, NEXT, POD, PodRow, READY, RESTARTS, RUNG, RowHealth, STATUS, WHY, restarts,
};

/// Blanks around a cell.
const CELL_PADDING: u16 = 2;
/// Columns that WHY has at least, while others can be left out for it.
const WHY_WIDTH_MIN: u16 = 30;
/// Columns of a pod's name that are kept at least.
const POD_WIDTH_MIN: u16 = 16;
/// Which columns a narrow terminal does without, first to last. WHY tells the rung as well.
const LEFT_OUT: [usize; 4] = [READY, RUNG, RESTARTS, NEXT];

/// A terminal's size, in characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScreenSize {
    pub columns: u16,
    pub rows: u16,
}

impl Default for ScreenSize {
    /// What a terminal that does not say is taken for.
    fn default() -> Self {
        Self { columns: 80, rows: 24 }
    }
}

impl ScreenSize {
    pub fn of_stdout() -> Self {
        match rustix::termios::tcgetwinsize(std::io::stdout()) {
            Ok(size) if size.ws_col > 0 && size.ws_row > 0 => {
                Self { columns: size.ws_col, rows: size.ws_row }
            }
            Ok(_) | Err(_) => Self::default(),
        }
    }
}

/// Whether cells are coloured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Palette {
    Plain,
    Coloured,
}

impl Palette {
    /// That of standard output: a terminal's that has colours, unless the user wants none
    /// (<https://no-color.org>).
    pub fn of_stdout() -> Self {
        let is_set = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
        let is_dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
        if std::io::stdout().is_terminal() && !is_set("NO_COLOR") && !is_dumb {
            Self::Coloured
        } else {
            Self::Plain
        }
    }

    fn cell(self, text: &str, health: RowHealth) -> Cell {
        // the dark ones are read on light grounds, too
        let colour = match health {
            RowHealth::Good => Color::DarkGreen,
            RowHealth::Changing => Color::DarkYellow,
            RowHealth::Failing => Color::DarkRed,
        };
        match self {
            Self::Plain => Cell::new(text),
            Self::Coloured => Cell::new(text).fg(colour),
        }
    }
}

/// The rows under their headings, as wide as they are.
pub fn unbounded(rows: &[PodRow]) -> Vec<String> {
    lines_of(&table(rows, Palette::Plain))
}

/// The rows under their headings, each in one line of a terminal. What has no room is left out or
/// cut with `…`.
pub fn within(columns: u16, rows: &[PodRow], palette: Palette) -> Vec<String> {
    // the table's own minimum: a character in each column
    let is_tiny = columns < POD_WIDTH_MIN + WHY_WIDTH_MIN;
    let palette = if is_tiny { Palette::Plain } else { palette };
    let mut rows = rows.to_vec();
    if room_for_why(columns, &natural_widths(&rows)) < WHY_WIDTH_MIN {
        for row in &mut rows {
            row.cells[RESTARTS] = restarts(&row.cells).to_owned();
        }
    }
    let mut widths = natural_widths(&rows);
    for column in LEFT_OUT {
        if room_for_why(columns, &widths) < WHY_WIDTH_MIN.min(widths[WHY]) {
            widths[column] = 0;
        }
    }
    // what is still missing is taken from the names
    let missing = WHY_WIDTH_MIN.min(widths[WHY]).saturating_sub(room_for_why(columns, &widths));
    widths[POD] = widths[POD].saturating_sub(missing).max(POD_WIDTH_MIN.min(widths[POD]));
    widths[WHY] = widths[WHY].min(room_for_why(columns, &widths)).max(CELL_PADDING + 1);
    for row in &mut rows {
        row.cells[POD] = cut_front(&row.cells[POD], widths[POD].saturating_sub(CELL_PADDING));
    }
    let mut table = table(&rows, palette);
    table.set_content_arrangement(ContentArrangement::Dynamic).set_width(u16::MAX);
    for (column, width) in table.column_iter_mut().zip(widths) {
        column.set_constraint(match width {
            0 => ColumnConstraint::Hidden,
            width => ColumnConstraint::Absolute(Width::Fixed(width)),
        });
    }
    let lines = lines_of(&table).into_iter();
    if is_tiny { lines.map(|line| cut(&line, columns)).collect() } else { lines.collect() }
}

/// With their padding.
fn natural_widths(rows: &[PodRow]) -> [u16; 7] {
    let widths = table(rows, Palette::Plain).column_max_content_widths();
    std::array::from_fn(|column| widths.get(column).copied().unwrap_or_default() + CELL_PADDING)
}

fn room_for_why(columns: u16, widths: &[u16; 7]) -> u16 {
    columns.saturating_sub(widths[..WHY].iter().sum())
}

fn table(rows: &[PodRow], palette: Palette) -> Table {
    let mut table = Table::new();
    table.load_preset(presets::NOTHING).set_truncation_indicator("…");
    match palette {
        Palette::Plain => table.force_no_tty(),
        Palette::Coloured => table.enforce_styling(),
    };
    table.set_header(one_line(HEADINGS.map(Cell::new)));
    for PodRow { cells, health, .. } in rows {
        let cell = |(column, text): (usize, &String)| match column {
            STATUS | RUNG => palette.cell(text, *health),
            _ => Cell::new(text),
        };
        let cells: Vec<Cell> = cells.iter().enumerate().map(cell).collect();
        table.add_row(one_line(cells));
    }
    table
}

fn one_line(cells: impl IntoIterator<Item = Cell>) -> Row {
    let mut row = Row::from(cells.into_iter().collect::<Vec<_>>());
    row.max_height(1);
    row
}

fn lines_of(table: &Table) -> Vec<String> {
    table.lines().map(|line| line.trim_end().to_owned()).collect()
}

/// At most so many characters.
pub fn cut(line: &str, columns: u16) -> String {
    let columns = usize::from(columns);
    if line.chars().count() <= columns {
        return line.to_owned();
    }
    line.chars().take(columns.saturating_sub(1)).chain(['…']).collect()
}

/// The same, cut at its front: names differ at their ends.
fn cut_front(name: &str, columns: u16) -> String {
    let surplus = name.chars().count().saturating_sub(usize::from(columns));
    match surplus {
        0 => name.to_owned(),
        surplus => std::iter::once('…').chain(name.chars().skip(surplus + 1)).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(name: &str, why: &str, health: RowHealth) -> PodRow {
        let cells = [name, "0/1", "CrashLoopBackOff", "2 (10s ago)", "Container", "in 10s", why];
        PodRow { cells: cells.map(str::to_owned), health, owner: None, next_in_secs: None }
    }

    const NAME: &str = "poisoned-5b66dd6dd8-9jshd";
    const REASON: &str = "exit 1 ×3 in 11s; whole pod next, after v7pgm";

    fn laid_out(columns: u16) -> String {
        within(columns, &[row(NAME, REASON, RowHealth::Failing)], Palette::Plain).join("\n")
    }

    /// Without what colours it.
    fn uncoloured(line: &str) -> String {
        let mut parts = line.split('\u{1b}');
        let first = parts.next().unwrap().to_owned();
        parts.fold(first, |text, part| text + part.split_once('m').map_or("", |(_, rest)| rest))
    }

    #[test]
    fn each_row_is_one_line_that_fits() {
        let long = row(NAME, &"exit 1 again after 11s; ".repeat(9), RowHealth::Failing);
        let wide = row(NAME, &"\u{9519}\u{8bef}".repeat(40), RowHealth::Failing);
        let rows = [row("web", "", RowHealth::Good), long, wide];
        for columns in [1, 10, 20, 40, 45, 46, 60, 80, 100, 120, 140, 200, 400] {
            for palette in [Palette::Plain, Palette::Coloured] {
                let lines = within(columns, &rows, palette);
                assert_eq!(lines.len(), 4, "{columns}: {lines:#?}");
                for line in lines {
                    let plain = uncoloured(&line);
                    assert!(plain.chars().count() <= usize::from(columns), "{columns}: {plain:?}");
                }
            }
        }
    }

    #[test]
    fn a_narrow_terminal_does_without_columns_before_the_reason_is_cut() {
        for (columns, shown) in [
            (
                140,
                " POD                        READY  STATUS            RESTARTS     RUNG       NEXT    WHY\n \
                  poisoned-5b66dd6dd8-9jshd  0/1    CrashLoopBackOff  2 (10s ago)  Container  in 10s  exit 1 ×3 in 11s; whole pod next, after v7pgm",
            ),
            (
                100,
                " POD                        STATUS            RESTARTS  NEXT    WHY\n \
                  poisoned-5b66dd6dd8-9jshd  CrashLoopBackOff  2         in 10s  exit 1 ×3 in 11s; whole pod next,…",
            ),
            (
                80,
                " POD                        STATUS            WHY\n \
                  poisoned-5b66dd6dd8-9jshd  CrashLoopBackOff  exit 1 ×3 in 11s; whole pod next…",
            ),
            (
                60,
                " POD             STATUS            WHY\n \
                  …6dd6dd8-9jshd  CrashLoopBackOff  exit 1 ×3 in 11s; whole…",
            ),
        ] {
            assert_eq!(laid_out(columns), shown, "{columns} columns");
        }
    }

    #[test]
    fn status_and_rung_are_coloured_by_the_state() {
        for (health, code) in
            [(RowHealth::Good, 2), (RowHealth::Changing, 3), (RowHealth::Failing, 1)]
        {
            let lines = within(140, &[row(NAME, REASON, health)], Palette::Coloured);
            let colour = format!("\u{1b}[38;5;{code}m CrashLoopBackOff");
            assert!(lines[1].contains(&colour), "{:?}", lines[1]);
            assert!(!lines[0].contains('\u{1b}'), "{:?}", lines[0]);
        }
        let plain = within(140, &[row(NAME, REASON, RowHealth::Failing)], Palette::Plain);
        assert!(!plain.concat().contains('\u{1b}'), "{plain:?}");
    }
}
