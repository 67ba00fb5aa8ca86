//! Which of the submitter's variables travel with the job. Evaluates nothing.

use std::collections::{BTreeMap, BTreeSet};

use ax_core::api::ErrorClass;
use ax_core::job::spec::{Export, ExportItem};

use crate::failure::Failure;
use crate::world::Variables;

/// Largest environment of a submission.
const MAX_ENVIRONMENT: usize = 1 << 20;

/// The variables to send, and a warning if some can't be sent.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Captured {
    pub(super) variables: BTreeMap<String, String>,
    pub(super) warning: Option<String>,
}

/// Takes what `--export` makes needful: everything, nothing, or the named ones.
pub(super) fn capture(export: &Export, vars: &Variables) -> Result<Captured, Failure> {
    let named = match export {
        Export::None => return Ok(Captured::default()),
        Export::Only(items) => Some(names(items)),
        Export::All | Export::AllAnd(_) => None,
    };
    let mut captured = Captured::default();
    let mut skipped = Vec::new();
    for (name, value) in &vars.0 {
        match (name.to_str(), value.to_str()) {
            (Some(name), _) if named.as_ref().is_some_and(|named| !named.contains(name)) => {}
            (Some(name), Some(value)) => {
                captured.variables.insert(name.to_owned(), value.to_owned());
            }
            _ => skipped.push(name.to_string_lossy().into_owned()),
        }
    }
    if !skipped.is_empty() {
        let names = skipped.join(", ");
        captured.warning = Some(format!("not UTF-8, so the job does not get these variables: {names}"));
    }
    check_size(&captured.variables)?;
    Ok(captured)
}

/// The items without a value are the submitter's.
fn names(items: &[ExportItem]) -> BTreeSet<&str> {
    items.iter().filter(|item| item.value.is_none()).map(|item| item.name.as_str()).collect()
}

fn check_size(variables: &BTreeMap<String, String>) -> Result<(), Failure> {
    let size: usize = variables.iter().map(|(name, value)| name.len() + value.len() + 2).sum();
    if size <= MAX_ENVIRONMENT {
        return Ok(());
    }
    let largest = variables.iter().max_by_key(|(_, value)| value.len()).map_or("", |(name, _)| name);
    Err(Failure::said(
        ErrorClass::Data,
        format!(
            "the environment has {size} bytes, more than {MAX_ENVIRONMENT}; the largest variable is {largest}; \
             see --export"
        ),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::OsString;
    use std::os::unix::ffi::OsStringExt;

    fn vars() -> Variables {
        let text = |t: &str| OsString::from(t);
        Variables(vec![
            (text("A"), text("1")),
            (text("B"), text("two words\nand a line")),
            (text("C"), OsString::from_vec(vec![0xff])),
        ])
    }

    #[test]
    fn all_but_what_is_not_text() {
        let captured = capture(&Export::All, &vars()).unwrap();
        assert_eq!(captured.variables.keys().collect::<Vec<_>>(), ["A", "B"]);
        assert!(captured.warning.unwrap().ends_with("variables: C"));
    }

    #[test]
    fn only_what_is_named_travels() {
        assert_eq!(capture(&Export::None, &vars()).unwrap(), Captured::default());
        let item = |name: &str, value: Option<&str>| ExportItem {
            name: name.into(),
            value: value.map(str::to_owned),
        };
        let only = Export::Only(vec![item("B", None), item("A", Some("x"))]);
        let captured = capture(&only, &vars()).unwrap();
        assert_eq!(captured.variables.keys().collect::<Vec<_>>(), ["B"]);
        assert_eq!(captured.warning, None);
    }

    #[test]
    fn too_large_is_refused_by_name() {
        let big = Variables(vec![("BIG".into(), "x".repeat(MAX_ENVIRONMENT).into())]);
        let error = capture(&Export::All, &big).unwrap_err();
        assert_eq!(error.exit_code(), 65);
        assert!(error.to_string().contains("largest variable is BIG"), "{error}");
    }
}
