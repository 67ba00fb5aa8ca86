//! Sends a submission under its key, once more if the connection breaks, and puts it into the spool if no daemon
//! answers; then prints the result and returns the exit status.

use ax_core::api::{ErrorClass, INTERRUPTED, SubmitAnswer, SubmitRequest};
use ax_core::directive::print;
use ax_core::id::SubmissionKey;
use serde_json::json;

use super::forecast;
use super::request::{self, speaker};
use super::spool::{self, Spooled};
use super::understand::Understood;
use super::wait;
use crate::client::Client;
use crate::failure::Failure;
use crate::shown::shown;
use crate::world::World;
use ax_core::text::json_escaped;

/// What became of a submission.
enum Fate {
    /// The daemon's answer.
    Answered(Box<SubmitAnswer>),
    /// It lies in the spool.
    Spooled(Spooled),
}

/// Submits and reports.
pub(crate) fn submit(understood: &Understood, client: &Client, world: &mut World<'_>) -> Result<u8, Failure> {
    let key = new_key(world)?;
    let (request, warnings) = request::build(understood, key, world)?;
    let mut report = Report { understood, world, warnings };
    let fate = match ask(client, &request) {
        Ok(answer) => Fate::Answered(Box::new(answer)),
        Err(failure) if report.may_be_spooled(&failure) => to_spool(&request, key, client, failure)?,
        Err(failure) => return Err(failure),
    };
    // Before the job is named: whoever reads that may send the signal already.
    let signals = understood.conduct.wait.then(wait::interrupts);
    let job = match &fate {
        Fate::Answered(answer) => report.answered(answer)?,
        Fate::Spooled(spooled) => Some(report.spooled(spooled)?),
    };
    let spooled = match &fate {
        Fate::Spooled(spooled) => Some(spooled),
        Fate::Answered(_) => None,
    };
    let (Some(job), Some(signals)) = (job, signals) else { return Ok(0) };
    match wait::or_interrupted(client, &job, spooled, &signals?)? {
        Some(job) => report.ended(&job),
        None => Ok(report.left(&job)),
    }
}

/// A key of a submission's own.
pub(crate) fn new_key(world: &World<'_>) -> Result<SubmissionKey, Failure> {
    let chance = ax_sys::random::bytes::<10>()
        .map_err(|error| Failure::said(ErrorClass::Unavailable, error.to_string()))?;
    Ok(SubmissionKey::new(world.now.0.unsigned_abs(), chance))
}

/// Asks, and once more with the same key when the conversation broke: the daemon may have taken it.
pub(crate) fn ask(client: &Client, request: &SubmitRequest) -> Result<SubmitAnswer, Failure> {
    match client.post("/api/v1/jobs", request) {
        Err(Failure::Wire(_)) => client.post("/api/v1/jobs", request),
        other => other,
    }
}

fn to_spool(
    request: &SubmitRequest,
    key: SubmissionKey,
    client: &Client,
    failure: Failure,
) -> Result<Fate, Failure> {
    match &client.place().paths {
        Some(paths) => Ok(Fate::Spooled(spool::put(request, key, paths)?)),
        None => Err(failure),
    }
}

/// What the person is told.
struct Report<'r, 'w> {
    understood: &'r Understood,
    world: &'r mut World<'w>,
    warnings: Vec<String>,
}

impl Report<'_, '_> {
    /// Only what no daemon has answered: a refusal stays one, and a question is no submission.
    fn may_be_spooled(&self, failure: &Failure) -> bool {
        // An answer that can't be read may be a yes: the key makes sure that both make one job.
        let unanswered = failure.is_passing() || matches!(failure, Failure::Wire(_));
        unanswered && !self.understood.conduct.test_only
    }

    /// Prints the answer; the job to wait for, if there is one.
    fn answered(&mut self, answer: &SubmitAnswer) -> Result<Option<String>, Failure> {
        let new = |line: &&String| !self.understood.tells(line);
        self.warnings.extend(answer.warnings.iter().filter(new).cloned());
        if self.understood.conduct.verbose > 0 {
            self.explain(&answer.understood);
        }
        self.warn();
        let id = answer.id.map(|id| id.to_string());
        let text = match (forecast::sentence(answer, self.world.now), &id) {
            (Some(sentence), _) => shown(&sentence),
            (None, None) => "the job would be accepted".to_owned(),
            (None, Some(id)) if self.understood.conduct.parsable => id.clone(),
            (None, Some(id)) => format!("Submitted batch job {id}"),
        };
        let document = json!({
            "id": id, "number": answer.number, "ticket": null,
            "understood": answer.understood, "warnings": self.warnings, "forecast": answer.forecast,
            "foretold": answer.foretold,
        });
        self.print(&text, &document)?;
        Ok(id)
    }

    fn spooled(&mut self, spooled: &Spooled) -> Result<String, Failure> {
        if self.understood.conduct.verbose > 0 {
            // What the queue and the cluster add to it is known only once axd takes it.
            self.explain(&print(&self.understood.spec));
        }
        self.warn();
        let ticket = spooled.key.ticket();
        let text = match self.understood.conduct.parsable {
            true => ticket.clone(),
            false => format!("Spooled batch job as {ticket}; it is submitted when axd starts"),
        };
        let document = json!({
            "id": null, "number": null, "ticket": ticket,
            "understood": [], "warnings": self.warnings, "forecast": null,
        });
        self.print(&text, &document)?;
        Ok(ticket)
    }

    /// What was understood, for `--verbose`.
    fn explain(&mut self, lines: &[String]) {
        for line in lines {
            // If nobody reads it, the submission goes on.
            let _ = writeln!(self.world.err, "{}", shown(line));
        }
    }

    fn warn(&mut self) {
        if self.understood.conduct.quiet {
            return;
        }
        let name = speaker(self.understood.program);
        for line in &self.warnings {
            self.world.remark(name, &format!("warning: {line}"));
        }
    }

    fn print(&mut self, text: &str, document: &serde_json::Value) -> Result<(), Failure> {
        if self.understood.line.has("json") {
            writeln!(self.world.out, "{}", json_escaped(&format!("{document:#}")))?;
        } else if !self.understood.conduct.quiet {
            writeln!(self.world.out, "{text}")?;
        }
        Ok(self.world.out.flush()?)
    }

    /// The waiting was interrupted: what becomes of the job, and the status of a command that Ctrl-C ends.
    fn left(&mut self, job: &str) -> u8 {
        if !self.understood.conduct.quiet {
            let name = speaker(self.understood.program);
            self.world
                .remark(name, &format!("{job} goes on without being waited for; 'ax cancel {job}' ends it"));
        }
        INTERRUPTED
    }

    /// The status of the job that was waited for; the reason where its code does not say it.
    fn ended(&mut self, job: &ax_core::api::JobView) -> Result<u8, Failure> {
        let status = wait::status(job);
        if status != 0 && !self.understood.conduct.quiet {
            let reason = job.reason.as_ref().map(|reason| format!(": {reason}")).unwrap_or_default();
            let name = speaker(self.understood.program);
            self.world.remark(name, &format!("{} is {}{reason}", job.id, job.state));
        }
        Ok(status)
    }
}
