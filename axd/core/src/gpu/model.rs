//! Names of types of cards, given by drivers and administrators, and how people type them: `h200` for `NVIDIA H200
//! 80GB HBM3`. Pure.

use std::collections::BTreeSet;

use crate::text::listed;

/// A type's name as it can be typed: small letters, and `-` for everything but letters, digits, points and
/// underscores.
pub fn folded(name: &str) -> String {
    let plain = |c: char| if c.is_alphanumeric() || "._".contains(c) { c.to_ascii_lowercase() } else { '-' };
    let text: String = name.trim().chars().map(plain).collect();
    text.split('-').filter(|word| !word.is_empty()).collect::<Vec<_>>().join("-")
}

/// Returns the known type that is meant: the one of this name, or the only one whose name contains these words in a
/// row.
///
/// # Errors
/// If there is none, or several: names the candidates.
pub fn meant(typed: &str, known: &BTreeSet<&str>) -> Result<String, String> {
    let wanted = folded(typed);
    let of = |fits: &dyn Fn(&str) -> bool| -> Vec<String> {
        known.iter().filter(|name| fits(name)).map(|name| (*name).to_owned()).collect()
    };
    let same = of(&|name| name == typed);
    let same = if same.is_empty() { of(&|name| folded(name) == wanted) } else { same };
    let found = if same.is_empty() { of(&|name| has_words(&folded(name), &wanted)) } else { same };
    let typable = |names: &[String]| listed(&names.iter().map(|name| folded(name)).collect::<Vec<_>>());
    match found.as_slice() {
        [one] => Ok(one.clone()),
        [] if known.is_empty() => Err(format!("no card here has a type, and '{wanted}' was asked for")),
        [] => {
            let all: Vec<String> = known.iter().map(|name| (*name).to_owned()).collect();
            Err(format!("no card here is of type '{wanted}'; there are: {}", typable(&all)))
        }
        several => Err(format!("'{wanted}' could be {}: write which", typable(several))),
    }
}

fn has_words(name: &str, wanted: &str) -> bool {
    let (name, wanted): (Vec<&str>, Vec<&str>) = (name.split('-').collect(), wanted.split('-').collect());
    name.windows(wanted.len().max(1)).any(|words| words == wanted)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_drivers_can_be_typed() {
        assert_eq!(folded("NVIDIA H200 80GB HBM3"), "nvidia-h200-80gb-hbm3");
        assert_eq!(folded(" NVIDIA  RTX(TM) 6000 "), "nvidia-rtx-tm-6000");
        assert_eq!(folded("mig-1g.10gb"), "mig-1g.10gb");
    }

    #[test]
    fn a_short_form_is_taken_where_it_is_certain_and_otherwise_the_types_are_listed() {
        let known =
            ["nvidia-h200-80gb-hbm3", "nvidia-a100-sxm4-80gb", "nvidia-a100-pcie-40gb", "a40", "big one"];
        let meant = |typed: &str| meant(typed, &known.into_iter().collect());
        for typed in ["h200", "H200-80GB", "nvidia-h200", "nvidia-h200-80gb-hbm3"] {
            assert_eq!(meant(typed).as_deref(), Ok("nvidia-h200-80gb-hbm3"), "{typed}");
        }
        assert_eq!(meant("a40").as_deref(), Ok("a40"));
        assert_eq!(meant("Big-One").as_deref(), Ok("big one"), "an administrator's");
        let several = meant("a100").unwrap_err();
        assert!(
            several.contains("'a100' could be nvidia-a100-pcie-40gb and nvidia-a100-sxm4-80gb"),
            "{several}"
        );
        for typed in ["h20", "200", "h200-hbm3", "v100"] {
            let none = meant(typed).unwrap_err();
            assert!(none.contains("there are: a40, big-one, nvidia-a100-pcie-40gb"), "{typed}: {none}");
        }
    }
}
