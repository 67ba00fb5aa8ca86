//! Signals by name and number, as Linux has them on the machines that ax runs on.

/// Signals from 1 on.
const NAMES: [&str; 31] = [
    "HUP", "INT", "QUIT", "ILL", "TRAP", "ABRT", "BUS", "FPE", "KILL", "USR1", "SEGV", "USR2", "PIPE",
    "ALRM", "TERM", "STKFLT", "CHLD", "CONT", "STOP", "TSTP", "TTIN", "TTOU", "URG", "XCPU", "XFSZ",
    "VTALRM", "PROF", "WINCH", "IO", "PWR", "SYS",
];

/// The highest number, that of the last real-time signal.
const MAX: u8 = 64;

/// The number of a signal given as `USR1`, `SIGUSR1` or `10`, in any case.
pub fn number(text: &str) -> Option<u8> {
    if text.bytes().all(|b| b.is_ascii_digit()) {
        return text.parse().ok().filter(|number| (1..=MAX).contains(number));
    }
    let upper = text.to_ascii_uppercase();
    let name = upper.strip_prefix("SIG").unwrap_or(&upper);
    NAMES.iter().position(|known| *known == name).map(|at| at as u8 + 1)
}

/// The name of a signal without `SIG`; its number as text where it has none.
pub fn name(number: u8) -> String {
    let known = usize::from(number).checked_sub(1).and_then(|at| NAMES.get(at));
    known.map_or_else(|| number.to_string(), |name| (*name).to_owned())
}

/// `9 (KILL)`; a number alone where there is no name.
pub fn in_words(number: u8) -> String {
    let name = name(number);
    if name == number.to_string() { name } else { format!("{number} ({name})") }
}

/// All names without `SIG`, for help and for the nearest name.
pub fn names() -> impl Iterator<Item = &'static str> {
    NAMES.into_iter()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_numbers_agree() {
        for (text, expected) in [
            ("USR1", Some(10)),
            ("sigusr2", Some(12)),
            ("12", Some(12)),
            ("TERM", Some(15)),
            ("64", Some(64)),
            ("0", None),
            ("65", None),
            ("SIG", None),
            ("", None),
            ("USR3", None),
        ] {
            assert_eq!(number(text), expected, "{text}");
        }
        assert!((1..=MAX).all(|signal| number(&name(signal)) == Some(signal)));
    }
}
