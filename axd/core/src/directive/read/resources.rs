//! Cards, CPUs, memory, tasks and nodes.

use super::{Done, MAX_COUNT, choice, number, text_or_none};
use crate::directive::Dialect;
use crate::directive::diagnostic::Fault;
use crate::directive::interpret::{Draft, Given};
use crate::gpu::model::folded;
use crate::hostlist;
use crate::id::HostName;
use crate::job::features::Features;
use crate::job::spec::{GpuCount, MemHints, NodeCount, RamRequest};
use crate::size::Megabytes;
use crate::text::{nearest, quoted};
use crate::units::{gpu_size, host_size};

/// The options that say how much host memory; each takes the place of all others.
const RAM_OPTIONS: [&str; 3] = ["ram", "ram-per-cpu", "ram-per-gpu"];

/// The names that the table has for GPU memory, one a dialect.
pub(in crate::directive) const GPU_MEM_OPTIONS: [&str; 2] = ["mem", "gpu-mem"];

/// Hosts that one job may name. A script is short, and may name a list again and again.
const MAX_HOSTS: usize = 4096;

pub(in crate::directive) fn gpus(draft: &mut Draft, given: &Given<'_>) -> Done {
    draft.out.spec.resources.gpus = Some(gpu_count(given.value(), given.dialect)?);
    Ok(())
}

pub(in crate::directive) fn gpus_per_node(draft: &mut Draft, given: &Given<'_>) -> Done {
    draft.forget(&["gres"]);
    draft.out.spec.resources.gpus_per_node = Some(gpu_count(given.value(), given.dialect)?);
    Ok(())
}

pub(in crate::directive) fn gpus_per_task(draft: &mut Draft, given: &Given<'_>) -> Done {
    draft.out.spec.resources.gpus_per_task = Some(gpu_count(given.value(), given.dialect)?);
    Ok(())
}

pub(in crate::directive) fn gpu_mem_hints(draft: &mut Draft, given: &Given<'_>) -> Done {
    let words = [("usual", MemHints::Usual), ("torch", MemHints::Torch), ("none", MemHints::None)];
    draft.out.spec.resources.gpu_mem_hints = Some(choice(given, &words)?);
    Ok(())
}

/// `N`, `TYPE:N`, and `TYPE` alone for one in Slurm's dialect.
fn gpu_count(value: &str, dialect: Dialect) -> Result<GpuCount, Fault> {
    let expected =
        || Fault::new(format!("{} is not a number of GPUs", quoted(value))).hint("write N or TYPE:N");
    if value.contains(',') {
        return Err(Fault::new(format!("{} names several types of GPU", quoted(value))).hint("name one"));
    }
    let (kind, count) = match value.split_once(':') {
        Some((kind, count)) => (Some(kind), count),
        None if dialect == Dialect::Slurm && is_type(value) => (Some(value), "1"),
        None => (None, value),
    };
    // As a driver writes it, too: with blanks.
    let kind = kind.map(|kind| if is_type(kind) { kind.to_ascii_lowercase() } else { folded(kind) });
    if kind.as_deref().is_some_and(|kind| !is_type(kind)) {
        return Err(expected());
    }
    let count = number(count, 0, MAX_COUNT).map_err(|_| expected())?;
    Ok(GpuCount { kind, count })
}

/// A card's type begins with a letter.
fn is_type(text: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_-.".contains(c);
    text.len() <= 64 && text.starts_with(|c: char| c.is_ascii_alphabetic()) && text.chars().all(plain)
}

/// `--gres=gpu[:TYPE][:N]`, a number for each node. Other resources are kept.
pub(in crate::directive) fn gres(draft: &mut Draft, given: &Given<'_>) -> Done {
    let (mut cards, mut others) = (None, false);
    for item in given.value().split(',') {
        let item = item.strip_prefix("gres:").unwrap_or(item);
        match item.split_once(':').unwrap_or((item, "")) {
            ("gpu", rest) => {
                if cards.replace(gres_count(item, rest)?).is_some() {
                    let fault = Fault::new(format!("{} asks for GPUs twice", quoted(given.value())));
                    return Err(fault.hint("write one gpu:N or gpu:TYPE:N"));
                }
            }
            ("none", "") => {}
            (name, _) => {
                check_gres_name(name)?;
                others = true;
            }
        }
    }
    if others {
        super::keep(draft, given)?;
    }
    draft.out.spec.resources.gpus_per_node = cards;
    draft.forget(&["gpus-per-node"]);
    Ok(())
}

/// What follows `gpu:`.
fn gres_count(item: &str, rest: &str) -> Result<GpuCount, Fault> {
    let bad = |_| Fault::new(format!("{} is not gpu, gpu:N or gpu:TYPE:N", quoted(item)));
    match rest {
        "" if item == "gpu" => Ok(GpuCount { kind: None, count: 1 }),
        rest => gpu_count(rest, Dialect::Slurm).map_err(bad),
    }
}

fn check_gres_name(name: &str) -> Done {
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_' || c == '-';
    if !name.is_empty() && name.chars().all(plain) && name != "gpus" {
        return Ok(());
    }
    Err(Fault::new(format!("{} is not a generic resource", quoted(name)))
        .did_you_mean(nearest(name, ["gpu"])))
}

/// `--mem` in ax's dialect, `--gpu-mem` in both.
pub(in crate::directive) fn gpu_mem(draft: &mut Draft, given: &Given<'_>) -> Done {
    draft.out.spec.resources.gpu_mem = Some(gpu_size(given.value())?);
    draft.forget(&GPU_MEM_OPTIONS);
    Ok(())
}

/// `--mem-fit`.
pub(in crate::directive) fn mem_fit(draft: &mut Draft, _: &Given<'_>) -> Done {
    draft.out.spec.resources.fit_memory = true;
    Ok(())
}

/// `--ram`, and `--mem` in Slurm's dialect.
pub(in crate::directive) fn ram(draft: &mut Draft, given: &Given<'_>) -> Done {
    let value = given.value();
    let request = match value {
        _ if value.eq_ignore_ascii_case("all") && !given.is_slurm() => RamRequest::WholeNode,
        _ => match host_size(value)? {
            Megabytes(0) => RamRequest::WholeNode,
            size => RamRequest::PerNode(size),
        },
    };
    claim_ram(draft, given, request)
}

pub(in crate::directive) fn ram_per_cpu(draft: &mut Draft, given: &Given<'_>) -> Done {
    let request = share(given, RamRequest::PerCpu)?;
    claim_ram(draft, given, request)
}

pub(in crate::directive) fn ram_per_gpu(draft: &mut Draft, given: &Given<'_>) -> Done {
    let request = share(given, RamRequest::PerGpu)?;
    claim_ram(draft, given, request)
}

/// So much for each. In Slurm nothing for each is all of the node.
fn share(given: &Given<'_>, each: fn(Megabytes) -> RamRequest) -> Result<RamRequest, Fault> {
    match host_size(given.value())? {
        Megabytes(0) if given.is_slurm() => Ok(RamRequest::WholeNode),
        Megabytes(0) => Err(Fault::new("no memory at all").hint("write how much for each")),
        size => Ok(each(size)),
    }
}

/// Two kinds of host memory in one source contradict each other, as in Slurm;
/// one of a source of higher precedence takes the place of what was said below.
fn claim_ram(draft: &mut Draft, given: &Given<'_>, request: RamRequest) -> Done {
    let own = given.option.def.name;
    let others: Vec<&str> = RAM_OPTIONS.into_iter().filter(|name| *name != own).collect();
    let twice = others.iter().filter_map(|name| draft.seen(name)).find(|seen| seen.rank == given.rank);
    if let Some(other) = twice {
        let fault = Fault::new(format!("stands beside '{}', which also says how much memory", other.written));
        return Err(fault.hint("give one of them"));
    }
    draft.forget(&others);
    draft.out.spec.resources.ram = Some(request);
    Ok(())
}

pub(in crate::directive) fn cpus_per_task(draft: &mut Draft, given: &Given<'_>) -> Done {
    draft.out.spec.resources.cpus_per_task = Some(number(given.value(), 1, MAX_COUNT)?);
    Ok(())
}

pub(in crate::directive) fn ntasks(draft: &mut Draft, given: &Given<'_>) -> Done {
    draft.out.spec.resources.ntasks = Some(number(given.value(), 1, MAX_COUNT)?);
    Ok(())
}

pub(in crate::directive) fn ntasks_per_node(draft: &mut Draft, given: &Given<'_>) -> Done {
    draft.out.spec.resources.ntasks_per_node = Some(number(given.value(), 1, MAX_COUNT)?);
    Ok(())
}

/// `--nodes=N[-M]`, or in ax's dialect names.
pub(in crate::directive) fn nodes(draft: &mut Draft, given: &Given<'_>) -> Done {
    let value = given.value();
    if given.dialect == Dialect::Ax
        && value.chars().any(|c| c.is_ascii_alphabetic())
        && node_count(value).is_err()
    {
        draft.out.spec.resources.nodelist = hosts(value)?;
        draft.out.spec.resources.nodes = None;
        return Ok(());
    }
    let count = node_count(value)?;
    if count.min > 1 {
        return Err(Fault::new("more than one node is not supported yet"));
    }
    draft.out.spec.resources.nodes = Some(count);
    Ok(())
}

fn node_count(value: &str) -> Result<NodeCount, Fault> {
    let (min, max) = value.split_once('-').unwrap_or((value, value));
    let (min, max) = match (thousands(min), thousands(max)) {
        (Some(min), Some(max)) => (min, max),
        _ => {
            let fault = Fault::new(format!("{} is not a number of nodes", quoted(value)));
            return Err(fault.hint("write N or N-M"));
        }
    };
    if min > max {
        return Err(Fault::new(format!("{} goes down", quoted(value))).hint(format!("write {max}-{min}")));
    }
    Ok(NodeCount { min, max })
}

/// `3`, and as in Slurm `1k`, 1024.
fn thousands(text: &str) -> Option<u32> {
    let (digits, unit) = match text.strip_suffix(['k', 'K']) {
        Some(digits) => (digits, 1024),
        None => (text, 1),
    };
    let count = number(digits, 1, MAX_COUNT).ok()?.checked_mul(unit)?;
    (count <= MAX_COUNT).then_some(count)
}

pub(in crate::directive) fn nodelist(draft: &mut Draft, given: &Given<'_>) -> Done {
    draft.out.spec.resources.nodelist = hosts(given.value())?;
    Ok(())
}

pub(in crate::directive) fn exclude(draft: &mut Draft, given: &Given<'_>) -> Done {
    draft.out.spec.resources.exclude = hosts(given.value())?;
    Ok(())
}

/// Names as ax compares them, each once.
fn hosts(value: &str) -> Result<Vec<String>, Fault> {
    let mut names: Vec<String> = Vec::new();
    let mut seen = std::collections::HashSet::new();
    for name in hostlist::expand_at_most(value, MAX_HOSTS).map_err(|bad| Fault::new(bad.to_string()))? {
        let host = name.parse::<HostName>()?.to_string();
        if seen.insert(host.clone()) {
            names.push(host);
        }
    }
    Ok(names)
}

pub(in crate::directive) fn constraint(draft: &mut Draft, given: &Given<'_>) -> Done {
    let value = text_or_none(given, 1024)?;
    // Slurm has forms for several nodes; whether a name is known is not said here.
    if let Some(text) = value.as_deref().filter(|_| !given.is_slurm()) {
        text.parse::<Features>().map_err(|bad| Fault::new(bad.to_string()))?;
    }
    draft.out.constraint_dialect = value.as_ref().map(|_| given.dialect);
    draft.out.spec.resources.constraint = value;
    Ok(())
}

/// Bare for whole nodes. Slurm's `user` and `mcs` ask for less, and are kept.
pub(in crate::directive) fn exclusive(draft: &mut Draft, given: &Given<'_>) -> Done {
    match given.option.value.as_deref() {
        None => draft.out.spec.resources.exclusive = true,
        Some(value) if given.is_slurm() && ["user", "mcs"].iter().any(|w| w.eq_ignore_ascii_case(value)) => {
            super::keep(draft, given)?;
        }
        Some(value) => {
            let fault = Fault::new(format!("{} is not a way to be exclusive", quoted(value)));
            return Err(fault.hint("write '--exclusive' alone"));
        }
    }
    Ok(())
}
