//! When, how long, after what, and how often at once.

use super::{Done, text};
use crate::directive::diagnostic::Fault;
use crate::directive::interpret::{Draft, Given};
use crate::directive::{syntax, when};
use crate::text::quoted;
use crate::units;

/// Longest list of indexes or of dependencies, in bytes.
const MAX_LIST: usize = 65_536;

pub(in crate::directive) fn limit(draft: &mut Draft, given: &Given<'_>) -> Done {
    let read = if given.is_slurm() { units::slurm_time_limit } else { units::time_limit };
    draft.out.spec.timing.limit = Some(read(given.value())?);
    Ok(())
}

pub(in crate::directive) fn estimate(draft: &mut Draft, given: &Given<'_>) -> Done {
    let estimate = units::duration(given.value())?;
    if estimate.0 == 0 {
        return Err(Fault::new("no time at all").hint("leave it out, and ax learns it"));
    }
    draft.out.spec.timing.estimate = Some(estimate);
    Ok(())
}

pub(in crate::directive) fn begin(draft: &mut Draft, given: &Given<'_>) -> Done {
    draft.out.spec.timing.begin = Some(when::parse(given.value())?);
    Ok(())
}

pub(in crate::directive) fn deadline(draft: &mut Draft, given: &Given<'_>) -> Done {
    draft.out.spec.timing.deadline = Some(when::parse(given.value())?);
    Ok(())
}

pub(in crate::directive) fn window(draft: &mut Draft, given: &Given<'_>) -> Done {
    let window = syntax::window(given.value());
    let bad = || Fault::new(format!("{} is not daily hours such as 22:00-08:00", quoted(given.value())));
    draft.out.spec.timing.window = Some(window.ok_or_else(bad)?);
    Ok(())
}

/// An empty list is no dependency, as in Slurm.
pub(in crate::directive) fn dependency(draft: &mut Draft, given: &Given<'_>) -> Done {
    if given.value().is_empty() {
        draft.out.spec.timing.dependency = None;
        return Ok(());
    }
    let value = text(given, MAX_LIST)?;
    syntax::check_dependency(&value)?;
    draft.out.spec.timing.dependency = Some(value);
    Ok(())
}

/// An empty list is no array, and takes back one of a lower source.
pub(in crate::directive) fn array(draft: &mut Draft, given: &Given<'_>) -> Done {
    if given.value().is_empty() {
        draft.out.spec.timing.array = None;
        return Ok(());
    }
    let value = text(given, MAX_LIST)?;
    syntax::check_array(&value)?;
    draft.out.spec.timing.array = Some(value);
    Ok(())
}

pub(in crate::directive) fn hold(draft: &mut Draft, _: &Given<'_>) -> Done {
    draft.out.spec.timing.hold = true;
    Ok(())
}
