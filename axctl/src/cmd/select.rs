//! Which jobs a command is about: the filters that lists and `ax cancel` share, and the words of states. Does not ask
//! the daemon.

use ax_core::api::{JobsAnswer, JobsQuery};
use ax_core::id::JobId;
use ax_core::job::state::{JobState, STATES};
use ax_core::text::{nearest, quoted};
use ax_sys::{credentials, users};

use crate::failure::Failure;
use crate::session::Session;

/// The filters of `ax queue` and `ax acct`.
#[derive(clap::Args, Debug, Clone, Default)]
pub(crate) struct Filters {
    /// Only jobs of these users
    #[arg(short, long, value_name = "USER", value_delimiter = ',')]
    pub(crate) user: Vec<String>,
    /// Only jobs in these queues
    #[arg(short, long, value_name = "QUEUE", value_delimiter = ',')]
    pub(crate) queue: Vec<String>,
    /// Only jobs in these states, in ax's words or Slurm's
    #[arg(short = 't', long, value_name = "STATE", value_delimiter = ',')]
    pub(crate) state: Vec<String>,
    /// Only jobs of these names
    #[arg(short, long, value_name = "NAME")]
    pub(crate) name: Vec<String>,
}

/// Jobs that `ax queue` and `ax acct` list, where not all are meant: by their names, or those of whoever asks.
#[derive(clap::Args, Debug, Clone, Default)]
pub(crate) struct Chosen {
    /// Only these jobs: ax-2026-0001, or 1
    #[arg(value_name = "JOB")]
    jobs: Vec<String>,
    /// The same as naming them
    #[arg(short = 'j', long = "jobs", value_name = "JOB", value_delimiter = ',')]
    listed: Vec<String>,
    /// Only your own jobs
    #[arg(long, conflicts_with = "user")]
    me: bool,
    #[command(flatten)]
    pub(crate) filters: Filters,
}

impl Chosen {
    /// Whether jobs are named.
    pub(crate) fn is_by_name(&self) -> bool {
        !self.jobs.is_empty() || !self.listed.is_empty()
    }

    /// As a question to the daemon.
    ///
    /// # Errors
    /// Usage, when a state's word is unknown or a name is none of a job; when one's own name can't be found.
    pub(crate) fn query(&self) -> Result<JobsQuery, Failure> {
        let mut query = self.filters.query()?;
        query.number =
            self.jobs.iter().chain(&self.listed).map(|name| number(name)).collect::<Result<_, _>>()?;
        if self.me {
            let (uid, _) = credentials::own();
            let own = users::by_uid(uid)
                .ok()
                .flatten()
                .ok_or_else(|| Failure::usage(format!("--me: user {uid} has no name here")))?;
            query.user = vec![own.name];
        }
        Ok(query)
    }

    /// Says of which of the jobs nothing is listed, so that nobody takes that for an answer.
    pub(crate) fn warn(&self, answer: &JobsAnswer, session: &mut Session<'_, '_>) {
        self.filters.warn(answer, session);
        if answer.left_out > 0 {
            return;
        }
        for name in self.jobs.iter().chain(&self.listed) {
            let wanted = number(name).ok();
            if !answer.jobs.iter().any(|job| Some(job.number) == wanted) {
                session
                    .remark(&format!("warning: {} is not among them; see 'ax status {name}'", quoted(name)));
            }
        }
    }
}

/// The names in a list of them; a name may itself have commas.
fn names(text: &str) -> Vec<String> {
    let mut all: Vec<String> = text.split(',').map(str::to_owned).collect();
    if all.len() > 1 {
        all.push(text.to_owned());
    }
    all
}

fn number(name: &str) -> Result<u32, Failure> {
    let by_id = name.parse::<JobId>().map(|id| id.number.0).ok();
    by_id.or_else(|| name.parse().ok()).ok_or_else(|| {
        Failure::usage(format!("{} is no job: ids look like ax-2026-0001, or 1", quoted(name)))
    })
}

impl Filters {
    /// The filters as a question to the daemon.
    ///
    /// # Errors
    /// Usage, when a state's word is unknown.
    pub(crate) fn query(&self) -> Result<JobsQuery, Failure> {
        Ok(JobsQuery {
            user: self.user.clone(),
            queue: self.queue.clone(),
            name: self.name.iter().flat_map(|text| names(text)).collect(),
            state: states(&self.state)?,
            ..JobsQuery::default()
        })
    }
}

impl Filters {
    /// Says what in a filter can fit nothing, so that an empty list is not taken for good news.
    pub(crate) fn warn(&self, answer: &JobsAnswer, session: &mut Session<'_, '_>) {
        for user in self.user.iter().filter(|user| !answer.jobs.iter().any(|job| job.user == **user)) {
            // Where the name service can't answer there is nothing to say.
            if let Ok(None) = users::by_name(user) {
                session.remark(&format!("warning: there is no user {} on this machine", quoted(user)));
            }
        }
        for warning in &answer.warnings {
            session.remark(&format!("warning: {warning}"));
        }
    }
}

/// The states of these words: ax's (`RUNNING`) or Slurm's (`PD`, which is more than one state).
pub(crate) fn states(words: &[String]) -> Result<Vec<JobState>, Failure> {
    let mut found = Vec::new();
    for word in words {
        let named = STATES.iter().filter(|row| row.word.eq_ignore_ascii_case(word));
        let mut states: Vec<JobState> = named.map(|row| row.state).collect();
        if states.is_empty() {
            let short = STATES.iter().filter(|row| row.slurm.eq_ignore_ascii_case(word));
            states = short.map(|row| row.state).collect();
        }
        if states.is_empty() {
            return Err(unknown_state(word));
        }
        found.extend(states);
    }
    found.dedup();
    Ok(found)
}

fn unknown_state(word: &str) -> Failure {
    let hint = match nearest(word, STATES.iter().map(|row| row.word)) {
        Some(near) => format!("did you mean '{near}'?"),
        None => format!("there are {}", STATES.map(|row| row.word).join(" ")),
    };
    Failure::usage(format!("'{word}' is not a job state; {hint}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_a_comma_can_be_chosen() {
        assert_eq!(names("a"), ["a"]);
        assert_eq!(names("a,b"), ["a", "b", "a,b"]);
    }

    #[test]
    fn states_have_words_of_two_systems() {
        let read = |words: &[&str]| states(&words.iter().map(|w| (*w).to_owned()).collect::<Vec<_>>());
        assert_eq!(
            read(&["running", "PD"]).unwrap(),
            [JobState::Running, JobState::Pending, JobState::Ready]
        );
        let error = read(&["RUNING"]).unwrap_err();
        assert_eq!(error.to_string(), "'RUNING' is not a job state; did you mean 'RUNNING'?");
    }
}
