//! What nobody means who writes it: hosts that there are not, times that nobody will see, options without effect.

use ax_core::api::ApiError;
use ax_core::id::HostName;
use ax_core::job::request::Request;
use ax_core::job::spec::JobSpec;
use ax_core::text::{nearest, quoted};
use ax_core::time::{Span, WallTime};

use super::{Rules, refused};

/// Hosts that it names and nobody knows: it is refused if there are no others, and warned of if there are.
pub(super) fn hosts_are_known(
    request: &Request,
    rules: &Rules<'_>,
    warnings: &mut Vec<String>,
) -> Result<(), ApiError> {
    let here = rules.nodes.iter().map(|node| &node.inventory.name);
    let declared = rules.config.resources.gpu_nodes.iter().map(|node| &node.host);
    let known: Vec<&HostName> = here.chain(declared).collect();
    let unknown: Vec<&HostName> = request.only_nodes.iter().filter(|host| !known.contains(host)).collect();
    let Some(first) = unknown.first().filter(|_| !known.is_empty()) else { return Ok(()) };
    let hint = match nearest(first.as_str(), known.iter().map(|host| host.as_str())) {
        Some(near) => format!("; did you mean {}?", quoted(near)),
        None => String::new(),
    };
    let names: Vec<String> = unknown.iter().map(|host| quoted(host.as_str())).collect();
    let text = format!("--nodelist: there is no host {} here{hint}", names.join(", "));
    if unknown.len() == request.only_nodes.len() {
        return Err(refused(text));
    }
    warnings.push(text);
    Ok(())
}

/// A begin time that nobody will see is a mistake.
pub(crate) fn comes_some_day(begin: Option<WallTime>, now: WallTime) -> Result<(), ApiError> {
    const CENTURY: Span = Span::seconds(36_525 * 86_400);
    match begin.filter(|begin| *begin > now + CENTURY) {
        Some(begin) => Err(refused(format!("--begin: {begin} is more than a hundred years away"))),
        None => Ok(()),
    }
}

/// What was asked for and does nothing, so that nobody counts on it.
pub(super) fn without_effect(spec: &JobSpec, request: &Request) -> Vec<String> {
    let mut told = Vec::new();
    if let (Some(estimate), Some(limit)) = (request.estimate, request.time_limit)
        && estimate > limit
    {
        told.push(format!(
            "--estimate={estimate} is longer than the time limit of {limit}, which ends the job"
        ));
    }
    let mail = |(name, value): &&(String, String)| name == "mail-type" && !value.eq_ignore_ascii_case("none");
    if spec.unused.iter().any(|option| mail(&option)) {
        told.push("--mail-type is kept, and no mail is sent: ax sends none yet".to_owned());
    }
    told
}
