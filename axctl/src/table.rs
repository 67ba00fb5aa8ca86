//! Tables fitted to a width: columns that may shrink do so, widest first, and what they hold
//! is cut with `…`; others never lose a character. Knows nothing of jobs; escapes what it shows.

use std::fmt::Write;

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use crate::shown::shown;
use crate::style::Paint;
use crate::world::Screen;

const GAP: usize = 2;

/// One column.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Column {
    /// Its head.
    pub(crate) title: &'static str,
    /// Whether it is set to the right, as numbers are.
    pub(crate) right: bool,
    /// Whether it may become narrower than what it holds.
    pub(crate) shrink: Shrink,
}

/// How a column gives way when the table is too wide.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shrink {
    /// Not at all.
    Never,
    /// Down to so many columns.
    Freely(usize),
    /// The same, but only when nothing else helps.
    Last(usize),
}

/// What stands in one place of the table.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Cell {
    text: String,
    paint: Paint,
    /// Its column does not shrink below this.
    least: usize,
}

impl Cell {
    /// A text of anyone's, escaped.
    pub(crate) fn new(text: impl AsRef<str>) -> Cell {
        Cell { text: shown(text.as_ref()), ..Cell::default() }
    }

    /// The same in colour.
    pub(crate) fn painted(text: impl AsRef<str>, paint: Paint) -> Cell {
        Cell { paint, ..Cell::new(text) }
    }

    /// A text, or `-`.
    pub(crate) fn maybe(text: Option<impl AsRef<str>>) -> Cell {
        text.map_or_else(|| Cell::new("-"), Cell::new)
    }

    /// Keeps its column at least so wide.
    pub(crate) fn at_least(self, least: usize) -> Cell {
        Cell { least, ..self }
    }

    fn width(&self) -> usize {
        self.text.width()
    }
}

struct Row {
    cells: Vec<Cell>,
    /// Stands below the row, over the whole width.
    note: Option<String>,
}

/// A table that grows row by row.
pub(crate) struct Table {
    columns: Vec<Column>,
    rows: Vec<Row>,
}

impl Table {
    /// A table without rows.
    pub(crate) fn new(columns: Vec<Column>) -> Table {
        Table { columns, rows: Vec::new() }
    }

    /// Adds a row: a cell for each column, and perhaps a remark below it.
    pub(crate) fn row(&mut self, cells: Vec<Cell>, note: Option<&str>) {
        self.rows.push(Row { cells, note: note.map(shown) });
    }

    /// The whole table as text; `width` is that of the screen or, to cut nothing, `usize::MAX`.
    pub(crate) fn text(&self, head: bool, width: usize, screen: &Screen) -> String {
        let widths = self.widths(head, width);
        let mut text = String::new();
        if head {
            let titles: Vec<Cell> =
                self.columns.iter().map(|c| Cell::painted(c.title, Paint::Bold)).collect();
            self.line(&mut text, &titles, &widths, screen);
        }
        for row in &self.rows {
            self.line(&mut text, &row.cells, &widths, screen);
            for line in row.note.iter().flat_map(|note| wrap(note, width.saturating_sub(4))) {
                // Writing to a String can't fail.
                let _ = writeln!(text, "    {}", Paint::Dim.over(&line, screen));
            }
        }
        text
    }

    fn widths(&self, head: bool, width: usize) -> Vec<usize> {
        let natural = |(index, column): (usize, &Column)| {
            let cells = self.rows.iter().filter_map(|row| row.cells.get(index)).map(Cell::width);
            let title = if head { column.title.width() } else { 0 };
            cells.max().unwrap_or(0).max(title)
        };
        let mut widths: Vec<usize> = self.columns.iter().enumerate().map(natural).collect();
        let gaps = GAP * self.columns.len().saturating_sub(1);
        for shrinks in [|s| matches!(s, Shrink::Freely(_)), |s| s != Shrink::Never] {
            let total = widths.iter().sum::<usize>() + gaps;
            self.shrink(&mut widths, total.saturating_sub(width), shrinks);
        }
        widths
    }

    /// Takes `over` columns away, each time from the widest that may give one.
    fn shrink(&self, widths: &mut [usize], over: usize, shrinks: fn(Shrink) -> bool) {
        let least: Vec<usize> = (0..widths.len()).map(|index| self.least(index)).collect();
        for _ in 0..over {
            let gives = |i: &usize| shrinks(self.columns[*i].shrink) && widths[*i] > least[*i];
            let Some(index) = (0..widths.len()).filter(gives).max_by_key(|i| widths[*i]) else { break };
            widths[index] -= 1;
        }
    }

    fn least(&self, index: usize) -> usize {
        let cells = self.rows.iter().filter_map(|row| row.cells.get(index)).map(|cell| cell.least);
        match self.columns[index].shrink {
            Shrink::Never => usize::MAX,
            Shrink::Freely(least) | Shrink::Last(least) => cells.max().unwrap_or(0).max(least),
        }
    }

    fn line(&self, text: &mut String, cells: &[Cell], widths: &[usize], screen: &Screen) {
        let mut line = String::new();
        for ((cell, width), column) in cells.iter().zip(widths).zip(&self.columns) {
            if !line.is_empty() {
                line.push_str("  ");
            }
            let fitted = cut(&cell.text, *width);
            let blank = " ".repeat(width.saturating_sub(fitted.width()));
            let painted = cell.paint.over(&fitted, screen);
            let (left, right) = if column.right { (&blank, &painted) } else { (&painted, &blank) };
            line.push_str(left);
            line.push_str(right);
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
}

/// The text in so many columns, its end replaced by `…` if it is longer. A closing bracket stays.
pub(crate) fn cut(text: &str, width: usize) -> String {
    if text.width() <= width {
        return text.to_owned();
    }
    let end = if text.ends_with(']') && width > 2 { "…]" } else { "…" };
    let room = width.saturating_sub(end.width());
    let mut used = 0;
    let fits = |c: &char| {
        used += c.width().unwrap_or(0);
        used <= room
    };
    let kept: String = text.chars().take_while(fits).collect();
    format!("{kept}{end}")
}

/// Breaks a text between its words into lines of so many columns; words longer than a line stay whole.
pub(crate) fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let Some(line) = lines.last_mut() else { break };
        if line.is_empty() {
            line.push_str(word);
        } else if line.width().saturating_add(1 + word.width()) <= width {
            line.push(' ');
            line.push_str(word);
        } else {
            lines.push(word.to_owned());
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    const SCREEN: Screen = Screen { terminal: false, colour: false, width: 80 };

    fn table() -> Table {
        let column = |title, right, shrink| Column { title, right, shrink };
        let mut table = Table::new(vec![
            column("ID", false, Shrink::Never),
            column("NAME", false, Shrink::Freely(4)),
            column("N", true, Shrink::Never),
        ]);
        table.row(vec![Cell::new("ax-2026-0001"), Cell::new("a long name"), Cell::new("7")], None);
        table.row(vec![Cell::new("ax-2026-0002"), Cell::new("日本語"), Cell::new("12")], None);
        table
    }

    #[test]
    fn wide_enough_cuts_nothing() {
        let text = "ID            NAME          N\n\
                    ax-2026-0001  a long name   7\n\
                    ax-2026-0002  日本語       12\n";
        assert_eq!(table().text(true, 80, &SCREEN), text);
    }

    #[test]
    fn only_what_may_shrink_does() {
        let text = "ax-2026-0001  a l…   7\nax-2026-0002  日…   12\n";
        assert_eq!(table().text(false, 22, &SCREEN), text);
        assert_eq!(table().text(false, 5, &SCREEN), text);
    }

    #[test]
    fn a_range_keeps_its_bracket() {
        assert_eq!(cut("ax-2026-0001_[1,3,5,7,9]", 19), "ax-2026-0001_[1,3…]");
        assert_eq!(cut("abc", 3), "abc");
        assert_eq!(cut("abcd", 1), "…");
    }

    #[test]
    fn what_others_wrote_is_escaped() {
        assert_eq!(Cell::new("a\x1b[2J\nb").text, "a\\x1b[2J\\nb");
    }

    #[test]
    fn notes_are_wrapped_below() {
        let mut table = Table::new(vec![Column { title: "ID", right: false, shrink: Shrink::Never }]);
        table.row(vec![Cell::new("ax-1")], Some("needs 8 whole cards"));
        assert_eq!(table.text(false, 16, &SCREEN), "ax-1\n    needs 8\n    whole cards\n");
    }
}
