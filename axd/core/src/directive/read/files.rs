//! Files, folder, environment and mail.

use super::{Done, choice, text, text_or_none};
use crate::directive::Dialect;
use crate::directive::diagnostic::Fault;
use crate::directive::interpret::{Draft, Given};
use crate::directive::syntax;
use crate::environment::is_set_by_ax;
use crate::gpu::visible;
use crate::job::spec::{Export, OpenMode};
use crate::pattern::{Pattern, SPECIFIERS};
use crate::text::{nearest, quoted};

/// The longest path of Linux, in bytes.
const MAX_PATH: usize = 4095;

/// The most that one variable or list may have, in bytes.
const MAX_ENVIRONMENT: usize = 131_072;

/// Most variables of a job's own: more make a list, which belongs into a file.
const MAX_VARIABLES: usize = 1000;

/// Events of Slurm's `--mail-type`.
const MAIL_TYPES: [&str; 13] = [
    "NONE",
    "BEGIN",
    "END",
    "FAIL",
    "REQUEUE",
    "ALL",
    "INVALID_DEPEND",
    "STAGE_OUT",
    "TIME_LIMIT",
    "TIME_LIMIT_90",
    "TIME_LIMIT_80",
    "TIME_LIMIT_50",
    "ARRAY_TASKS",
];

pub(in crate::directive) fn output(draft: &mut Draft, given: &Given<'_>) -> Done {
    draft.out.spec.io.output = Some(pattern(draft, given)?);
    Ok(())
}

pub(in crate::directive) fn error(draft: &mut Draft, given: &Given<'_>) -> Done {
    draft.out.spec.io.error = Some(pattern(draft, given)?);
    Ok(())
}

pub(in crate::directive) fn input(draft: &mut Draft, given: &Given<'_>) -> Done {
    draft.out.spec.io.input = Some(pattern(draft, given)?);
    Ok(())
}

/// In Slurm's dialect `none` is no file, `%J` the plain number, and a letter
/// that it does not know stands for itself.
fn pattern(draft: &mut Draft, given: &Given<'_>) -> Result<String, Fault> {
    let value = text(given, MAX_PATH)?;
    if given.dialect == Dialect::Ax {
        Pattern::new(&value).map_err(|bad| {
            let letters: Vec<String> = SPECIFIERS.iter().map(|(letter, _)| format!("%{letter}")).collect();
            Fault::new(bad.to_string()).hint(format!("the known ones are {}", letters.join(" ")))
        })?;
        return Ok(value);
    }
    if value.eq_ignore_ascii_case("none") {
        return Ok("/dev/null".to_owned());
    }
    let (pattern, unknown) = Pattern::tolerant(&value);
    if let Some(specifier) = unknown {
        draft.remark(Fault::new(format!("'{specifier}' means nothing, and is taken as it stands")));
    }
    Ok(pattern.with_letter('J', 'j').to_string())
}

/// Slurm looks at the first letter only.
pub(in crate::directive) fn open_mode(draft: &mut Draft, given: &Given<'_>) -> Done {
    let mode = match given.value().as_bytes().first().map(u8::to_ascii_lowercase) {
        Some(b'a') if given.is_slurm() => OpenMode::Append,
        Some(b't') if given.is_slurm() => OpenMode::Truncate,
        _ => choice(given, &[("append", OpenMode::Append), ("truncate", OpenMode::Truncate)])?,
    };
    draft.out.spec.io.open_mode = Some(mode);
    Ok(())
}

pub(in crate::directive) fn chdir(draft: &mut Draft, given: &Given<'_>) -> Done {
    draft.out.spec.io.chdir = Some(text(given, MAX_PATH)?);
    Ok(())
}

pub(in crate::directive) fn export(draft: &mut Draft, given: &Given<'_>) -> Done {
    let export = syntax::export(&text(given, MAX_ENVIRONMENT)?)?;
    if let Export::Only(items) | Export::AllAnd(items) = &export {
        let given = items.iter().filter(|item| item.value.is_some());
        given.for_each(|item| remark_ours(draft, &item.name));
    }
    draft.out.spec.io.export = export;
    Ok(())
}

/// Which job it is and which cards it may use is not the submitter's to say; a script may still choose among them.
fn remark_ours(draft: &mut Draft, name: &str) {
    if visible::is_mask(name) {
        let fault = Fault::new(format!("{name} is set by ax, for the job's cards"));
        draft.remark(fault.hint("a script can set it to fewer of them, see ax-gpu(7)"));
    } else if is_set_by_ax(name) {
        draft.remark(Fault::new(format!(
            "{name} is set by ax alone, if at all: what is given for it has no effect"
        )));
    }
}

/// Each name once: the last value stands, in the place of the first.
/// `--env CHECKPOINT_DIR=/ckpt/$JOB_ID` without quotes: the submitter's shell, which knows no such variable, leaves
/// `/ckpt/`, and all jobs write into one folder. In scripts nothing is expanded before the job has its variables.
fn remark_lost_id(draft: &mut Draft, given: &Given<'_>, name: &str, value: &str) {
    let typed = given.file.is_none() && name == "CHECKPOINT_DIR";
    if typed
        && value.starts_with('/')
        && !value.contains('$')
        && (value.ends_with('/') || value.contains("//"))
    {
        let fault = Fault::new(format!(
            "{} holds no part for the job; if $JOB_ID stood there, the shell took it",
            quoted(value)
        ));
        draft.remark(fault.hint("write it in single quotes"));
    }
}

pub(in crate::directive) fn env(draft: &mut Draft, given: &Given<'_>) -> Done {
    let pair = text(given, MAX_ENVIRONMENT)?;
    let Some((name, value)) = pair.split_once('=') else {
        return Err(Fault::new(format!("{} has no value", quoted(&pair))).hint("write '--env=NAME=VALUE'"));
    };
    let name = syntax::variable(name)?;
    remark_ours(draft, &name);
    remark_lost_id(draft, given, &name, value);
    let env = &mut draft.out.spec.io.env;
    let full = env.len() >= MAX_VARIABLES;
    match env.iter_mut().find(|(known, _)| *known == name) {
        Some((_, old)) => *old = value.to_owned(),
        None if full => {
            return Err(Fault::new(format!("a job takes at most {MAX_VARIABLES} variables of its own")));
        }
        None => env.push((name, value.to_owned())),
    }
    Ok(())
}

pub(in crate::directive) fn mail_type(draft: &mut Draft, given: &Given<'_>) -> Done {
    for word in given.value().split(',') {
        let Some(known) = MAIL_TYPES.into_iter().find(|known| known.eq_ignore_ascii_case(word)) else {
            let fault = Fault::new(format!("{} is not a kind of mail", quoted(word)));
            return Err(fault.did_you_mean(nearest(word, MAIL_TYPES)));
        };
        let kinds = &mut draft.out.spec.mail_type;
        if known != "NONE" && !kinds.iter().any(|kind| kind == known) {
            kinds.push(known.to_owned());
        }
    }
    Ok(())
}

pub(in crate::directive) fn mail_user(draft: &mut Draft, given: &Given<'_>) -> Done {
    draft.out.spec.mail_user = text_or_none(given, MAX_PATH)?;
    Ok(())
}
