//! How an attempt's end counts: from the facts noted on the way to an outcome and words. Pure. The order of the rules
//! is the policy: first who ended it, then whether it ever ran, then memory, then its exit.

use ax_core::job::state::Outcome;
use ax_core::size::Megabytes;
use ax_core::time::Span;

/// How the script's own process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ScriptExit {
    /// It returned this code.
    Code(u8),
    /// It died by this signal.
    Signal(u8),
}

/// Why an attempt was ended from outside.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Cause {
    /// Its time was over.
    Limit(Option<Span>),
    /// Somebody asked for it.
    Asked {
        /// What it counts as.
        outcome: Outcome,
        /// Who and why.
        message: String,
    },
    /// It may not go on.
    LeaseLost,
}

/// Why the script was not executed, in words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum LaunchError {
    /// The job can't be started as it is: a file that can't be opened, or a kill while its user could have sent it.
    Job(String),
    /// This machine could not: no group or process to be had, or a kill before that. The job may be started again.
    Node(String),
}

/// What is known of an attempt.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Facts {
    /// The script was executed.
    pub(crate) launched: bool,
    /// Why it was not.
    pub(crate) launch_error: Option<LaunchError>,
    /// It was not, as the driver would not limit its cards.
    pub(crate) limit_refused: bool,
    /// What ended it from outside, before it ended by itself.
    pub(crate) cause: Option<Cause>,
    /// A process of it was killed for memory.
    pub(crate) out_of_memory: bool,
    /// How much memory it was given.
    pub(crate) ram: Option<Megabytes>,
    /// How the script ended.
    pub(crate) exit: Option<ScriptExit>,
}

impl Facts {
    /// Notes why the attempt is ended from outside; the first reason stays.
    pub(crate) fn note_cause(&mut self, cause: Cause) {
        self.cause.get_or_insert(cause);
    }

    /// Outcome and words for the record.
    pub(crate) fn verdict(&self) -> (Outcome, Option<String>) {
        match &self.cause {
            Some(Cause::Limit(limit)) => {
                let when = if self.launched { "" } else { ", still opening its files" };
                (Outcome::Timeout, Some(format!("{}{when}", over_limit(*limit))))
            }
            Some(Cause::Asked { outcome, message }) => (*outcome, Some(message.clone())),
            Some(Cause::LeaseLost) => (Outcome::LeaseLost, Some("the lease was lost".to_owned())),
            // Limits so small that not even the start fits in: it would end like this every time.
            None if !self.launched && self.out_of_memory => self.own_end(),
            None if !self.launched => {
                (Outcome::LaunchFailed, self.launch_error.as_ref().map(LaunchError::text))
            }
            None => self.own_end(),
        }
    }

    /// Whether nothing of the job ran, and through no fault or wish of anybody's: then it may be started again.
    pub(crate) fn never_started(&self) -> bool {
        let by_itself = self.cause.is_none() && !self.out_of_memory;
        !self.launched && by_itself && matches!(self.launch_error, Some(LaunchError::Node(_)))
    }

    /// It ended by itself. A script that copes with the loss of a child that was killed for memory has succeeded.
    fn own_end(&self) -> (Outcome, Option<String>) {
        match self.exit {
            Some(ScriptExit::Code(0)) => {
                (Outcome::Succeeded, self.out_of_memory.then(|| lost_some(self.ram)))
            }
            _ if self.out_of_memory => (Outcome::OutOfMemory, Some(over_memory(self.ram))),
            _ => (Outcome::Failed, None),
        }
    }
}

impl LaunchError {
    fn text(&self) -> String {
        let (LaunchError::Job(text) | LaunchError::Node(text)) = self;
        text.clone()
    }
}

/// Of a script that says that all is well, all the same.
fn lost_some(limit: Option<Megabytes>) -> String {
    format!("the script succeeded, but a process of the job was {}", over_memory(limit))
}

fn over_memory(limit: Option<Megabytes>) -> String {
    match limit {
        Some(limit) => format!("killed for host memory: it used more than its {limit}; see --ram"),
        None => "killed for host memory".to_owned(),
    }
}

fn over_limit(limit: Option<Span>) -> String {
    match limit {
        Some(limit) => format!("over its time limit of {limit}"),
        None => "over its time limit".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ran(exit: ScriptExit) -> Facts {
        Facts { launched: true, exit: Some(exit), ..Facts::default() }
    }

    fn outcome(facts: &Facts) -> Outcome {
        facts.verdict().0
    }

    #[test]
    fn its_own_end_is_its_exit() {
        assert_eq!(outcome(&ran(ScriptExit::Code(0))), Outcome::Succeeded);
        assert_eq!(outcome(&ran(ScriptExit::Code(3))), Outcome::Failed);
        assert_eq!(outcome(&ran(ScriptExit::Signal(9))), Outcome::Failed);
        assert_eq!(ran(ScriptExit::Code(3)).verdict().1, None);
    }

    #[test]
    fn memory_counts_only_if_the_script_failed() {
        for (exit, expected) in [
            (ScriptExit::Code(0), Outcome::Succeeded),
            (ScriptExit::Code(137), Outcome::OutOfMemory),
            (ScriptExit::Signal(9), Outcome::OutOfMemory),
        ] {
            let facts = Facts { out_of_memory: true, ..ran(exit) };
            assert_eq!(outcome(&facts), expected, "{exit:?}");
            assert!(
                facts.verdict().1.is_some_and(|text| text.contains("killed for host memory")),
                "{exit:?}"
            );
        }
    }

    #[test]
    fn what_ended_it_from_outside_comes_first_and_stays() {
        let mut facts = Facts { out_of_memory: true, ..ran(ScriptExit::Code(0)) };
        facts.note_cause(Cause::Limit(Some(Span::seconds(90))));
        facts.note_cause(Cause::Asked { outcome: Outcome::Cancelled, message: "li".to_owned() });
        assert_eq!(facts.verdict(), (Outcome::Timeout, Some("over its time limit of 00:01:30".to_owned())));
        let cancelled = Facts {
            cause: Some(Cause::Asked { outcome: Outcome::Cancelled, message: "by li".to_owned() }),
            ..Facts::default()
        };
        assert_eq!(cancelled.verdict(), (Outcome::Cancelled, Some("by li".to_owned())));
    }

    #[test]
    fn a_script_that_never_ran_is_a_failed_launch_with_words() {
        for (error, again) in
            [(LaunchError::Job("open …".to_owned()), false), (LaunchError::Node("open …".to_owned()), true)]
        {
            let facts = Facts { launch_error: Some(error), ..Facts::default() };
            assert_eq!(facts.verdict(), (Outcome::LaunchFailed, Some("open …".to_owned())));
            assert_eq!(facts.never_started(), again);
        }
    }

    #[test]
    fn a_start_that_was_ended_on_purpose_or_for_memory_is_not_made_again() {
        let killed = Facts { launch_error: Some(LaunchError::Node("killed".to_owned())), ..Facts::default() };
        let mut cancelled = killed.clone();
        cancelled.note_cause(Cause::Asked { outcome: Outcome::Cancelled, message: "by li".to_owned() });
        assert_eq!((outcome(&cancelled), cancelled.never_started()), (Outcome::Cancelled, false));
        let too_small = Facts { out_of_memory: true, exit: Some(ScriptExit::Signal(9)), ..killed };
        assert_eq!((outcome(&too_small), too_small.never_started()), (Outcome::OutOfMemory, false));
    }
}
