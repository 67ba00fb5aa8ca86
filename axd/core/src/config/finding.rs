//! Findings about a configuration, errors and warnings, each with its place. All are collected before anything is
//! answered; nothing is printed here.

use super::tree::Place;
use crate::text::escaped;

/// More findings than this are counted only: a file of nonsense gets a short answer.
const MOST: usize = 50;

/// One line of an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// Whether it stops the configuration.
    pub severity: Severity,
    /// Where; absent when it is about the file as a whole.
    pub place: Option<Place>,
    /// What is wrong.
    pub message: String,
    /// What would be right.
    pub hint: Option<String>,
}

/// How much a finding matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Severity {
    /// The configuration is refused.
    Error,
    /// It holds, but not as its writer may think.
    Warning,
}

impl Finding {
    /// An error.
    pub fn error(place: Option<Place>, message: impl Into<String>) -> Finding {
        Finding { severity: Severity::Error, place, message: message.into(), hint: None }
    }

    /// A warning.
    pub fn warning(place: Option<Place>, message: impl Into<String>) -> Finding {
        Finding { severity: Severity::Warning, place, message: message.into(), hint: None }
    }

    /// The same with a hint.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Finding {
        self.hint = Some(hint.into());
        self
    }

    /// `file:line:column: message; hint`, safe to print.
    pub fn line(&self, file: &str) -> String {
        let place = self.place.map_or(String::new(), |place| format!(":{place}"));
        let warning = if self.severity == Severity::Warning { "warning: " } else { "" };
        let hint = self.hint.as_ref().map_or(String::new(), |hint| format!("; {hint}"));
        escaped(&format!("{file}{place}: {warning}{}{hint}", self.message))
    }
}

/// Findings as they are made.
#[derive(Debug, Default)]
pub(super) struct Findings {
    kept: Vec<Finding>,
    more: usize,
    refused: bool,
}

impl Findings {
    /// Notes one.
    pub(super) fn add(&mut self, finding: Finding) {
        self.refused |= finding.severity == Severity::Error;
        if self.kept.len() < MOST {
            self.kept.push(finding);
        } else {
            self.more += 1;
        }
    }

    /// Whether one of them is an error: what depends on the values may be a consequence.
    pub(super) fn refuse(&self) -> bool {
        self.refused
    }

    /// Whether a further one would only be counted: its text may be left out.
    pub(super) fn are_enough(&self) -> bool {
        self.kept.len() >= MOST
    }

    /// Warnings only, or everything when there is an error; in the order of the file.
    pub(super) fn settle(mut self) -> Result<Vec<Finding>, Vec<Finding>> {
        self.kept.sort_by_key(|finding| finding.place);
        if self.more > 0 {
            let message = format!("and {} more findings that are not shown", self.more);
            self.kept.push(Finding::warning(None, message));
        }
        if self.refused { Err(self.kept) } else { Ok(self.kept) }
    }
}
