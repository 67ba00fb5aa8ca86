//! Name, queue, account, and how the command behaves.

use super::{Done, choice, command, number, text, text_or_none};
use crate::directive::diagnostic::Fault;
use crate::directive::interpret::{Draft, Given};
use crate::id::QueueName;
use crate::text::quoted;

/// The longest texts that a job may bring for these, in bytes.
const MAX_NAME: usize = 255;
const MAX_COMMENT: usize = 4096;

pub(in crate::directive) fn name(draft: &mut Draft, given: &Given<'_>) -> Done {
    draft.out.spec.name = text_or_none(given, MAX_NAME)?;
    Ok(())
}

/// Slurm's partitions are kept as typed: perhaps a list, most often of another cluster.
pub(in crate::directive) fn queue(draft: &mut Draft, given: &Given<'_>) -> Done {
    let value = text_or_none(given, MAX_NAME)?;
    if !given.is_slurm() {
        given.value().parse::<QueueName>()?;
    }
    draft.out.spec.queue = value;
    draft.out.queue_dialect = draft.out.spec.queue.as_ref().map(|_| given.dialect);
    Ok(())
}

pub(in crate::directive) fn account(draft: &mut Draft, given: &Given<'_>) -> Done {
    draft.out.spec.account = text_or_none(given, MAX_NAME)?;
    Ok(())
}

/// An empty comment takes back one of a source of lower precedence.
pub(in crate::directive) fn comment(draft: &mut Draft, given: &Given<'_>) -> Done {
    draft.out.spec.comment = if given.value().is_empty() { None } else { Some(text(given, MAX_COMMENT)?) };
    Ok(())
}

/// `--slurm=NAME=VALUE`: what `keep` kept, written in ax's dialect.
pub(in crate::directive) fn slurm(draft: &mut Draft, given: &Given<'_>) -> Done {
    let (name, value) = given.value().split_once('=').unwrap_or((given.value(), ""));
    if name.is_empty() || !name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-') {
        let fault = Fault::new(format!("{} is not the long name of an option", quoted(name)));
        return Err(fault.hint("write '--slurm=NAME=VALUE'"));
    }
    draft.keep(name, value, false);
    Ok(())
}

pub(in crate::directive) fn wait(draft: &mut Draft, _: &Given<'_>) -> Done {
    draft.out.conduct.wait = true;
    Ok(())
}

pub(in crate::directive) fn test_only(draft: &mut Draft, _: &Given<'_>) -> Done {
    draft.out.conduct.test_only = true;
    Ok(())
}

pub(in crate::directive) fn parsable(draft: &mut Draft, _: &Given<'_>) -> Done {
    draft.out.conduct.parsable = true;
    Ok(())
}

pub(in crate::directive) fn quiet(draft: &mut Draft, _: &Given<'_>) -> Done {
    draft.out.conduct.quiet = true;
    Ok(())
}

pub(in crate::directive) fn verbose(draft: &mut Draft, _: &Given<'_>) -> Done {
    draft.out.conduct.verbose = draft.out.conduct.verbose.saturating_add(1);
    Ok(())
}

/// `--hint`: checked as Slurm checks it, without effect.
pub(in crate::directive) fn hint(draft: &mut Draft, given: &Given<'_>) -> Done {
    let words = ["compute_bound", "memory_bound", "multithread", "nomultithread"];
    choice(given, &words.map(|word| (word, ())))?;
    super::keep(draft, given)
}

/// `--nice`: Slurm's value where none is given is 100.
pub(in crate::directive) fn nice(draft: &mut Draft, given: &Given<'_>) -> Done {
    let value = if given.value().is_empty() { "100" } else { given.value() };
    if value.parse::<i32>().is_err() {
        return Err(Fault::new(format!("{} is not a number", quoted(value))));
    }
    draft.keep(given.option.def.name, value, false);
    Ok(())
}

/// `--uid`: whose job it is; root's own commands resolve it.
pub(in crate::directive) fn uid(draft: &mut Draft, given: &Given<'_>) -> Done {
    text(given, MAX_NAME)?;
    command(draft, given)
}

/// `--priority`: ax's scale; Slurm's has no bounds and is kept only.
pub(in crate::directive) fn priority(draft: &mut Draft, given: &Given<'_>) -> Done {
    if given.is_slurm() {
        return super::keep(draft, given);
    }
    draft.out.spec.timing.priority = Some(number(given.value(), 0, 100)? as u8);
    Ok(())
}
