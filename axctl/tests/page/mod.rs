//! What a manual page says, for the tests that hold it against a program.

use std::collections::BTreeSet;

/// The options that a page names: what follows `Fl`, up to another macro.
pub(crate) fn named(text: &str) -> BTreeSet<String> {
    const OTHERS: [&str; 11] = ["Ar", "Ns", "Op", "Oo", "Oc", "Li", "Cm", "Pq", "Ta", "|", "="];
    let mut names = BTreeSet::new();
    for line in text.lines().filter(|line| line.starts_with('.') && !line.starts_with(".\\\"")) {
        let mut in_flags = false;
        for word in line.split_whitespace() {
            match word.trim_start_matches('.') {
                "Fl" => in_flags = true,
                "" | "," | "|" => {}
                other if OTHERS.contains(&other) => in_flags = false,
                name if in_flags => {
                    names.insert(name.replace("\\-", "-").trim_start_matches('-').to_owned());
                }
                _ => {}
            }
        }
    }
    names
}
