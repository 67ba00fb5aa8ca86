//! Retries, loss, warning signals and preemption.

use super::{Done, choice, number};
use crate::directive::diagnostic::Fault;
use crate::directive::interpret::{Draft, Given};
use crate::directive::signals;
use crate::job::spec::{PreemptMode, WarnSignal};
use crate::text::{nearest, quoted};
use crate::time::Span;
use crate::units::duration;

/// More retries than this are no retries but a loop.
const MAX_RETRIES: u32 = 1000;

/// Slurm's warning before the limit, where none is given.
const DEFAULT_WARNING: Span = Span::seconds(60);

/// `--requeue` and `--no-requeue` take each other's place.
pub(in crate::directive) fn requeue(draft: &mut Draft, _: &Given<'_>) -> Done {
    draft.out.spec.policy.requeue = Some(true);
    Ok(())
}

pub(in crate::directive) fn no_requeue(draft: &mut Draft, _: &Given<'_>) -> Done {
    draft.out.spec.policy.requeue = Some(false);
    Ok(())
}

pub(in crate::directive) fn retry(draft: &mut Draft, given: &Given<'_>) -> Done {
    draft.out.spec.policy.retry = Some(number(given.value(), 0, MAX_RETRIES)?);
    Ok(())
}

pub(in crate::directive) fn retry_delay(draft: &mut Draft, given: &Given<'_>) -> Done {
    draft.out.spec.policy.retry_delay = Some(duration(given.value())?);
    Ok(())
}

/// `1,75,130-140`: exit codes from 1 to 255.
pub(in crate::directive) fn retry_on(draft: &mut Draft, given: &Given<'_>) -> Done {
    let mut codes = Vec::new();
    for item in given.value().split(',') {
        let (first, last) = item.split_once('-').unwrap_or((item, item));
        let (first, last) = (exit_code(first)?, exit_code(last)?);
        if first > last {
            return Err(
                Fault::new(format!("{} goes down", quoted(item))).hint(format!("write {last}-{first}"))
            );
        }
        codes.extend((first..=last).filter(|code| !codes.contains(code)).collect::<Vec<u8>>());
    }
    draft.out.spec.policy.retry_on = codes;
    Ok(())
}

fn exit_code(text: &str) -> Result<u8, Fault> {
    let bad = |_| Fault::new(format!("{} is not an exit code from 1 to 255", quoted(text)));
    number(text, 1, 255).map(|code| code as u8).map_err(bad)
}

pub(in crate::directive) fn idempotent(draft: &mut Draft, given: &Given<'_>) -> Done {
    draft.out.spec.policy.idempotent = Some(choice(given, &[("yes", true), ("no", false)])?);
    Ok(())
}

pub(in crate::directive) fn lease_timeout(draft: &mut Draft, given: &Given<'_>) -> Done {
    let timeout = duration(given.value())?;
    if timeout.0 < 1000 {
        return Err(Fault::new(format!("{} is shorter than a second", quoted(given.value()))));
    }
    draft.out.spec.policy.lease_timeout = Some(timeout);
    Ok(())
}

pub(in crate::directive) fn grace(draft: &mut Draft, given: &Given<'_>) -> Done {
    draft.out.spec.policy.grace = Some(duration(given.value())?);
    Ok(())
}

pub(in crate::directive) fn preempt(draft: &mut Draft, given: &Given<'_>) -> Done {
    let modes = [
        ("requeue", PreemptMode::Requeue),
        ("suspend", PreemptMode::Suspend),
        ("cancel", PreemptMode::Cancel),
        ("never", PreemptMode::Never),
    ];
    let mode = choice(given, &modes)?;
    if mode == PreemptMode::Suspend {
        return Err(Fault::new("suspend is not supported yet").hint("write requeue, cancel or never"));
    }
    draft.out.spec.policy.preempt = Some(mode);
    Ok(())
}

/// `[B:]SIG[@TIME]`. Slurm's `R:` is about its reservations, and has no effect.
pub(in crate::directive) fn signal(draft: &mut Draft, given: &Given<'_>) -> Done {
    let (text, before) = given.value().split_once('@').map_or((given.value(), None), |(s, t)| (s, Some(t)));
    let (flags, name) = text.split_once(':').map_or((None, text), |(flags, name)| (Some(flags), name));
    let batch_only = match flags.map(str::to_ascii_uppercase).as_deref() {
        None => false,
        Some("B") => true,
        Some("R") if given.is_slurm() => false,
        Some("RB" | "BR") if given.is_slurm() => true,
        Some(_) => {
            let fault =
                Fault::new(format!("{} has something other than 'B:' before the signal", quoted(text)));
            return Err(fault.hint("write [B:]SIGNAL[@SECONDS]"));
        }
    };
    let signal = signals::number(name).ok_or_else(|| unknown_signal(name))?;
    let before = before.map_or(Ok(DEFAULT_WARNING), duration)?;
    draft.out.spec.policy.signal = Some(WarnSignal { batch_only, signal, before });
    Ok(())
}

fn unknown_signal(name: &str) -> Fault {
    let bare = name.get(..3).filter(|p| p.eq_ignore_ascii_case("SIG")).map_or(name, |_| &name[3..]);
    Fault::new(format!("{} is not a signal", quoted(name))).did_you_mean(nearest(bare, signals::names()))
}
