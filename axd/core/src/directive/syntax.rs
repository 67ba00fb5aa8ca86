//! The small languages inside values that are kept as typed: arrays,
//! dependencies, and the list of variables to export. Only their form is
//! checked; what they name is for others.

use super::diagnostic::Fault;
use crate::id::{JobId, JobNumber, SubmissionKey};
use crate::job::spec::{Export, ExportItem, Window};
use crate::text::quoted;

/// Elements that one array may have.
pub const MAX_ELEMENTS: u64 = 100_000;

/// Checks an array: `0-15:2%4`, `1,3,7-9`, perhaps in brackets, as Slurm has it.
pub(super) fn check_array(text: &str) -> Result<(), Fault> {
    let inner = text.strip_prefix('[').and_then(|t| t.strip_suffix(']')).unwrap_or(text);
    let (list, limit) = inner.split_once('%').unwrap_or((inner, ""));
    if !limit.is_empty() && number(limit).is_none() {
        return Err(Fault::new(format!("{} is not a number of elements at once", quoted(limit))));
    }
    let mut elements = 0u64;
    for item in list.split(',') {
        elements = elements.saturating_add(count(item)?);
    }
    if elements > MAX_ELEMENTS {
        return Err(Fault::new(format!("{elements} elements are more than {MAX_ELEMENTS}")));
    }
    Ok(())
}

/// How many elements `3`, `0-7` or `0-7:2` has.
fn count(item: &str) -> Result<u64, Fault> {
    let bad = || Fault::new(format!("{} is not an index, 0-15 or 0-15:2", quoted(item)));
    let (range, step) = item.split_once(':').map_or((item, None), |(range, step)| (range, Some(step)));
    let step = step.map_or(Ok(1), |step| number(step).ok_or_else(bad))?;
    let (first, last) = match range.split_once('-') {
        Some((first, last)) => (number(first).ok_or_else(bad)?, number(last).ok_or_else(bad)?),
        None if item == range => (number(range).ok_or_else(bad)?, number(range).ok_or_else(bad)?),
        None => return Err(bad()),
    };
    if step == 0 {
        return Err(Fault::new(format!("{} has a step of 0", quoted(item))));
    }
    if first > last {
        return Err(Fault::new(format!("{} goes down", quoted(item))).hint(format!("write {last}-{first}")));
    }
    Ok((last - first) / step + 1)
}

/// A number of at most 9 digits.
fn number(text: &str) -> Option<u64> {
    let plain = (1..=9).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_digit());
    plain.then(|| text.parse().ok()).flatten()
}

/// Kinds of dependency that take jobs.
const KINDS: [&str; 7] =
    ["after", "afterok", "afternotok", "afterany", "aftercorr", "afterburstbuffer", "expand"];

/// Checks a dependency: `afterok:1:2,afterany:3`, `afterok:1?afterok:2`,
/// `after:1+5`, `singleton`, or nothing.
pub(super) fn check_dependency(text: &str) -> Result<(), Fault> {
    if text.is_empty() {
        return Ok(());
    }
    if text.contains(',') && text.contains('?') {
        return Err(Fault::new("',' (all) and '?' (any) in one dependency").hint("use one of them"));
    }
    text.split([',', '?']).try_for_each(check_condition)
}

fn check_condition(condition: &str) -> Result<(), Fault> {
    if condition == "singleton" || is_job(condition) {
        return Ok(());
    }
    let (kind, jobs) = condition.split_once(':').unwrap_or((condition, ""));
    if !KINDS.contains(&kind) {
        let known = KINDS.into_iter().chain(["singleton"]);
        let near = crate::text::nearest(kind, known);
        return Err(Fault::new(format!("{} is not a kind of dependency", quoted(kind))).did_you_mean(near));
    }
    for job in jobs.split(':') {
        let (job, minutes) = job.split_once('+').map_or((job, None), |(job, m)| (job, Some(m)));
        if !is_job(job) {
            let fault = Fault::new(format!("{} is not a job, after '{kind}:'", quoted(job)));
            return Err(fault.hint("write a number or an id such as ax-2026-0001"));
        }
        if minutes.is_some_and(|minutes| kind != "after" || number(minutes).is_none()) {
            return Err(Fault::new(format!("the delay in {} is not minutes of 'after'", quoted(condition))));
        }
    }
    Ok(())
}

/// `17`, `17_3`, `17_*`, `ax-2026-0017`, `ax-2026-0017_3`, a ticket.
fn is_job(text: &str) -> bool {
    if SubmissionKey::of_ticket(text).is_some() {
        return true;
    }
    let (job, element) = text.split_once('_').map_or((text, None), |(job, e)| (job, Some(e)));
    let element_fits = element.is_none_or(|e| e == "*" || number(e).is_some());
    let digits = job.bytes().all(|b| b.is_ascii_digit());
    let is_number = digits && job.parse().is_ok_and(|number: u32| number <= JobNumber::MAX.0);
    element_fits && (is_number || job.parse::<JobId>().is_ok())
}

/// Reads daily hours, `22:00-08:00`.
pub(crate) fn window(text: &str) -> Option<Window> {
    let minutes = |text: &str| -> Option<u16> {
        let (hour, minute) = text.split_once(':')?;
        let field = |t: &str| number(t).filter(|_| t.len() <= 2);
        let (hour, minute) = (field(hour)?, field(minute)?);
        (hour < 24 && minute < 60).then_some((hour * 60 + minute) as u16)
    };
    let (from, to) = text.split_once('-')?;
    let window = Window { from: minutes(from)?, to: minutes(to)? };
    (window.from != window.to).then_some(window)
}

/// Reads `--export`: `ALL`, `NONE`, or names with or without values, which
/// may stand in quotes when they hold commas: `ALL,A=1,B='x,y'`.
pub(super) fn export(text: &str) -> Result<Export, Fault> {
    let (mut all, mut items) = (false, Vec::new());
    if text.eq_ignore_ascii_case("NONE") || text.eq_ignore_ascii_case("NIL") {
        return Ok(Export::None);
    }
    let mut rest = Some(text);
    while let Some(list) = rest {
        let (item, after) = export_item(list)?;
        rest = after;
        match item {
            ExportItem { name, value: None } if name.eq_ignore_ascii_case("ALL") => all = true,
            ExportItem { name, value: None } if name.eq_ignore_ascii_case("NONE") => {
                return Err(Fault::new("'NONE' stands with other names").hint("write them without it"));
            }
            item => items.push(item),
        }
    }
    Ok(match (all, items.is_empty()) {
        (true, true) => Export::All,
        (true, false) => Export::AllAnd(items),
        (false, _) => Export::Only(items),
    })
}

/// The first item of a list, and the rest behind its comma.
fn export_item(list: &str) -> Result<(ExportItem, Option<&str>), Fault> {
    let end = list.find([',', '=']).unwrap_or(list.len());
    let name = variable(&list[..end])?;
    let Some(value) = list[end..].strip_prefix('=') else {
        return Ok((ExportItem { name, value: None }, list[end..].strip_prefix(',')));
    };
    let quote = value.chars().next().filter(|c| matches!(c, '\'' | '"'));
    let closed = quote.and_then(|quote| value[1..].split_once(quote));
    let (value, rest) = match closed {
        Some((inner, rest)) if rest.is_empty() || rest.starts_with(',') => (inner, rest),
        _ => value.split_at(value.find(',').unwrap_or(value.len())),
    };
    Ok((ExportItem { name, value: Some(value.to_owned()) }, rest.strip_prefix(',')))
}

/// Checks the name of an environment variable.
pub(super) fn variable(name: &str) -> Result<String, Fault> {
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '_';
    if name.is_empty() || !name.chars().all(plain) || name.starts_with(|c: char| c.is_ascii_digit()) {
        return Err(Fault::new(format!("{} is not the name of a variable", quoted(name))));
    }
    Ok(name.to_owned())
}

/// Writes `--export` so that it is read the same again, or nothing for the default.
pub(super) fn format_export(export: &Export) -> Option<String> {
    let list = |items: &[ExportItem]| items.iter().map(format_item).collect::<Vec<_>>().join(",");
    match export {
        Export::All => None,
        Export::None => Some("NONE".to_owned()),
        Export::AllAnd(items) => Some(format!("ALL,{}", list(items))),
        Export::Only(items) => Some(list(items)),
    }
}

fn format_item(item: &ExportItem) -> String {
    let Some(value) = &item.value else { return item.name.clone() };
    let quote = if !value.contains(',') && !value.starts_with(['\'', '"']) {
        ""
    } else if value.contains('\'') {
        "\""
    } else {
        "'"
    };
    format!("{}={quote}{value}{quote}", item.name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exports_are_read_and_written() {
        let item = |name: &str, value: Option<&str>| ExportItem {
            name: name.to_owned(),
            value: value.map(str::to_owned),
        };
        for (text, meaning) in [
            ("ALL", Export::All),
            ("none", Export::None),
            ("A,B=1", Export::Only(vec![item("A", None), item("B", Some("1"))])),
            ("A='x,y',B", Export::Only(vec![item("A", Some("x,y")), item("B", None)])),
            ("A=,ALL", Export::AllAnd(vec![item("A", Some(""))])),
            ("ALL,A=b=c", Export::AllAnd(vec![item("A", Some("b=c"))])),
            ("A='it", Export::Only(vec![item("A", Some("'it"))])),
        ] {
            assert_eq!(export(text), Ok(meaning.clone()), "{text}");
            if let Some(written) = format_export(&meaning) {
                assert_eq!(export(&written), Ok(meaning), "{text}");
            }
        }
        for text in ["", "A,,B", "1A", "A-B=1", "NONE,A", "A='x,y'z,B", ",", "é"] {
            assert!(export(text).is_err(), "{text}");
        }
    }

    #[test]
    fn windows_may_pass_midnight() {
        assert_eq!(window("22:00-08:30"), Some(Window { from: 1320, to: 510 }));
        for text in ["", "22:00", "24:00-1:00", "1:60-2:00", "8-9", "8:00-8:00", "08:00:00-09:00"] {
            assert_eq!(window(text), None, "{text}");
        }
    }
}
