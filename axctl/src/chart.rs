//! Small charts of one line: a row of blocks, or of signs where the terminal has none. Knows nothing of cards.

use crate::world::Variables;

/// What charts are drawn with, from almost nothing to all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Strokes {
    /// Eighths of a block.
    Blocks,
    /// Plain ASCII.
    Plain,
}

impl Strokes {
    /// Blocks where the locale says that the terminal reads UTF-8.
    pub(crate) fn of(vars: &Variables) -> Strokes {
        let locale = ["LC_ALL", "LC_CTYPE", "LANG"].into_iter().find_map(|name| vars.get(name));
        let locale = locale.map(|value| value.to_string_lossy().to_lowercase()).unwrap_or_default();
        if locale.contains("utf-8") || locale.contains("utf8") { Strokes::Blocks } else { Strokes::Plain }
    }

    fn signs(self) -> [char; 8] {
        match self {
            Strokes::Blocks => ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'],
            Strokes::Plain => ['_', '.', ':', '-', '=', '+', '*', '#'],
        }
    }

    /// The values as parts of `full`, one sign each; a blank where there is none.
    pub(crate) fn row(self, values: &[Option<f64>], full: f64) -> String {
        values.iter().map(|value| value.map_or(' ', |value| self.sign(value, full))).collect()
    }

    /// A bar of so many columns, filled as far as the value goes.
    pub(crate) fn bar(self, value: f64, full: f64, width: usize) -> String {
        let part = if full > 0.0 { (value / full).clamp(0.0, 1.0) } else { 0.0 };
        let filled = (part * width as f64).round() as usize;
        let (full, rest) = match self {
            Strokes::Blocks => ('█', '░'),
            Strokes::Plain => ('#', '.'),
        };
        (0..width).map(|at| if at < filled { full } else { rest }).collect()
    }

    fn sign(self, value: f64, full: f64) -> char {
        let signs = self.signs();
        let part = if full > 0.0 { (value / full).clamp(0.0, 1.0) } else { 0.0 };
        let step = (part * signs.len() as f64).ceil() as usize;
        signs[step.clamp(1, signs.len()) - 1]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::OsString;

    #[test]
    fn a_row_has_a_sign_for_each_value() {
        let values =
            [Some(0.0), Some(1.0), Some(12.5), Some(50.0), None, Some(99.0), Some(100.0), Some(900.0)];
        assert_eq!(Strokes::Blocks.row(&values, 100.0), "▁▁▁▄ ███");
        assert_eq!(Strokes::Plain.row(&values, 100.0), "___- ###");
        assert_eq!(Strokes::Plain.row(&[Some(5.0)], 0.0), "_");
    }

    #[test]
    fn a_bar_is_filled_as_far_as_it_goes() {
        assert_eq!(Strokes::Blocks.bar(50.0, 100.0, 4), "██░░");
        assert_eq!(Strokes::Plain.bar(500.0, 100.0, 4), "####");
    }

    #[test]
    fn blocks_need_a_locale_that_has_them() {
        let vars = |pairs: &[(&str, &str)]| {
            Variables(pairs.iter().map(|(k, v)| (OsString::from(k), OsString::from(v))).collect())
        };
        assert_eq!(Strokes::of(&vars(&[("LANG", "de_DE.UTF-8")])), Strokes::Blocks);
        assert_eq!(Strokes::of(&vars(&[("LANG", "de_DE.UTF-8"), ("LC_ALL", "C")])), Strokes::Plain);
        assert_eq!(Strokes::of(&vars(&[])), Strokes::Plain);
    }
}
