//! Tables fitted to a width. Columns that may shrink do so, widest first, and their cells are cut with `…`; before
//! that one column may be left out; others never lose a character. Knows nothing of jobs; escapes what it shows.

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
    /// Not at all, but the whole column goes before others are cramped.
    Goes,
}

/// So much of a column is enough to be told from others: fewer, where it holds more, is cramped.
const COMFORT: usize = 16;

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

    /// Has all columns stay, as somebody chose them.
    pub(crate) fn keep_all(&mut self) {
        for column in self.columns.iter_mut().filter(|column| column.shrink == Shrink::Goes) {
            column.shrink = Shrink::Freely(4);
        }
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

    /// The width of each column; `None` for one that goes.
    fn widths(&self, head: bool, width: usize) -> Vec<Option<usize>> {
        let natural = self.natural(head);
        let goes = |column: &Column| column.shrink == Shrink::Goes;
        let all = self.fitted(&natural, width, |_| true);
        if !self.columns.iter().any(goes) || !self.is_cramped(&natural, &all) {
            return all;
        }
        self.fitted(&natural, width, |column| !goes(column))
    }

    /// What each column would have on a screen without end.
    fn natural(&self, head: bool) -> Vec<usize> {
        let natural = |(index, column): (usize, &Column)| {
            let cells = self.rows.iter().filter_map(|row| row.cells.get(index)).map(Cell::width);
            let title = if head { column.title.width() } else { 0 };
            cells.max().unwrap_or(0).max(title)
        };
        self.columns.iter().enumerate().map(natural).collect()
    }

    /// These columns within a width, as far as they give way.
    fn fitted(&self, natural: &[usize], width: usize, stays: impl Fn(&Column) -> bool) -> Vec<Option<usize>> {
        let kept = natural.iter().zip(&self.columns).map(|(width, column)| stays(column).then_some(*width));
        let mut widths: Vec<Option<usize>> = kept.collect();
        let gaps = GAP * widths.iter().flatten().count().saturating_sub(1);
        let freely: fn(Shrink) -> bool = |shrink| matches!(shrink, Shrink::Freely(_));
        let at_all: fn(Shrink) -> bool = |shrink| matches!(shrink, Shrink::Freely(_) | Shrink::Last(_));
        for shrinks in [freely, at_all] {
            let total = widths.iter().flatten().sum::<usize>() + gaps;
            self.shrink(&mut widths, total.saturating_sub(width), shrinks);
        }
        widths
    }

    /// Takes `over` columns away, each time from the widest that may give one.
    fn shrink(&self, widths: &mut [Option<usize>], over: usize, shrinks: fn(Shrink) -> bool) {
        let least: Vec<usize> = (0..widths.len()).map(|index| self.least(index)).collect();
        for _ in 0..over {
            let gives = |i: &usize| shrinks(self.columns[*i].shrink) && widths[*i] > Some(least[*i]);
            let Some(index) = (0..widths.len()).filter(gives).max_by_key(|i| widths[*i]) else { break };
            widths[index] = widths[index].map(|width| width - 1);
        }
    }

    /// Whether a column shows less than it should.
    fn is_cramped(&self, natural: &[usize], widths: &[Option<usize>]) -> bool {
        let enough = |(column, natural): (&Column, &usize)| match column.shrink {
            Shrink::Freely(_) => (*natural).min(COMFORT),
            _ => *natural,
        };
        let enough = self.columns.iter().zip(natural).map(enough);
        enough.zip(widths).any(|(enough, width)| width.is_some_and(|width| width < enough))
    }

    fn least(&self, index: usize) -> usize {
        let cells = self.rows.iter().filter_map(|row| row.cells.get(index)).map(|cell| cell.least);
        match self.columns[index].shrink {
            Shrink::Never | Shrink::Goes => usize::MAX,
            Shrink::Freely(least) | Shrink::Last(least) => cells.max().unwrap_or(0).max(least),
        }
    }

    fn line(&self, text: &mut String, cells: &[Cell], widths: &[Option<usize>], screen: &Screen) {
        let mut line = String::new();
        for ((cell, width), column) in cells.iter().zip(widths).zip(&self.columns) {
            let Some(width) = width else { continue };
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
    fn a_column_goes_before_others_are_cramped() {
        let mut table = table();
        table.columns[2].shrink = Shrink::Goes;
        assert!(table.text(true, 28, &SCREEN).contains('N'));
        assert_eq!(table.text(false, 25, &SCREEN), "ax-2026-0001  a long name\nax-2026-0002  日本語\n");
        table.keep_all();
        assert!(table.text(false, 25, &SCREEN).ends_with("12\n"));
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
