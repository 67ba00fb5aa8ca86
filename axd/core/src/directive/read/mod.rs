//! What each option's value means: one small function for each option, named in the table. A function writes to the
//! draft or says what is wrong with the value.

pub(super) mod files;
pub(super) mod job;
pub(super) mod policy;
pub(super) mod resources;
pub(super) mod timing;

use super::diagnostic::Fault;
use super::interpret::{Draft, Given};
use crate::text::{nearest, quoted};

pub(super) type Done = Result<(), Fault>;

/// The largest number of CPUs, tasks, nodes or cards that is read as one.
const MAX_COUNT: u32 = 1_000_000;

/// An option of Slurm that ax has no use for.
pub(super) fn keep(draft: &mut Draft, given: &Given<'_>) -> Done {
    draft.keep(given.option.def.name, given.value(), given.option.def.adds_up);
    Ok(())
}

/// An option whose meaning is for the command that was given it.
pub(super) fn command(_: &mut Draft, _: &Given<'_>) -> Done {
    Ok(())
}

/// Any text, but not none.
fn text(given: &Given<'_>, limit: usize) -> Result<String, Fault> {
    let value = given.value();
    match value.len() {
        0 => Err(Fault::new("the value is empty")),
        length if length > limit => Err(Fault::new(format!("{length} bytes are more than {limit}"))),
        _ => Ok(value.to_owned()),
    }
}

/// Any text. In Slurm's dialect an empty one says nothing: templates leave such values.
fn text_or_none(given: &Given<'_>, limit: usize) -> Result<Option<String>, Fault> {
    if given.is_slurm() && given.value().is_empty() { Ok(None) } else { text(given, limit).map(Some) }
}

/// A number from `least` to `most`.
fn number(text: &str, least: u32, most: u32) -> Result<u32, Fault> {
    let plain = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    let value = plain.then(|| text.parse::<u32>().ok()).flatten();
    value
        .filter(|value| (least..=most).contains(value))
        .ok_or_else(|| Fault::new(format!("{} is not a number from {least} to {most}", quoted(text))))
}

/// One of some words, in any case.
fn choice<T: Copy>(given: &Given<'_>, words: &[(&str, T)]) -> Result<T, Fault> {
    let value = given.value();
    if let Some((_, meaning)) = words.iter().find(|(word, _)| word.eq_ignore_ascii_case(value)) {
        return Ok(*meaning);
    }
    let names: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
    let fault = Fault::new(format!("{} is not {}", quoted(value), either(&names)));
    Err(fault.did_you_mean(nearest(value, names)))
}

/// `a`, `a or b`, `a, b or c`.
fn either(names: &[&str]) -> String {
    match names {
        [] => String::new(),
        [one] => (*one).to_owned(),
        [some @ .., last] => format!("{} or {last}", some.join(", ")),
    }
}
