//! What to ask for next time: what the job used and some room, if it held much more than that or too little.

use ax_core::gpu::model::folded;
use ax_core::job::state::JobState;
use ax_core::size::Megabytes;
use ax_core::time::Span;
use ax_core::units::format_duration;

use super::facts::{Facts, Gpu};

/// What is proposed leaves so much room above what was used.
const ROOM: f64 = 1.25;
/// Less than this part of what is held, with the room, is worth a change.
const WORTH: f64 = 0.75;
/// Cards that are busier than this are not proposed to be shared, percent.
const BUSY: f64 = 60.0;
/// From this part of a slice on it is full.
const FULL: f64 = 0.95;
/// In so short a time nothing shows.
const TOO_SHORT: Span = Span::seconds(60);

/// Options for the next submission, and what no option says.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Proposal {
    /// As they follow `#AX`.
    pub(super) lines: Vec<String>,
    pub(super) remarks: Vec<String>,
}

pub(super) fn of(facts: &Facts) -> Proposal {
    let mut proposal = Proposal::default();
    let Some(ran) = facts.ran else { return proposal };
    if ran < TOO_SHORT && facts.job.state != JobState::OutOfMemory {
        proposal.remarks.push("it ran too shortly to propose anything for the next time".to_owned());
        return proposal;
    }
    if let Some(gpu) = &facts.gpu {
        cards(facts, gpu, &mut proposal);
    }
    proposal.lines.extend(cpus(facts));
    proposal.lines.extend(ram(facts));
    proposal.lines.extend(time(facts, ran));
    proposal
}

fn cards(facts: &Facts, gpu: &Gpu, out: &mut Proposal) {
    let (Some(peak), Some(held)) = (gpu.peak_mb, gpu.held_mb) else {
        if gpu.busy.is_none() {
            out.remarks.push("nobody measured what it did with its cards".to_owned());
        }
        return;
    };
    let idle = gpu.busy.is_some_and(|busy| busy.max == 0.0);
    if peak == 0 && idle {
        out.remarks.push("it never used its cards: without --gpus it would have started sooner".to_owned());
        return;
    }
    let count = facts.job.gpus;
    let wanted = gigabytes(peak as f64 * ROOM);
    let much = Megabytes(held).bytes() as f64 / 1e9;
    let full = !gpu.whole && peak as f64 >= held as f64 * FULL;
    let shareable = gpu.busy.is_none_or(|busy| busy.mean < BUSY);
    if full || ((wanted as f64) < much * WORTH && (shareable || !gpu.whole)) {
        let kind = facts.job.gpu_type.as_ref().map_or(String::new(), |kind| format!("{}:", folded(kind)));
        out.lines.push(format!("--gpus={kind}{count} --mem={wanted}G"));
    }
    if let Some(busy) = gpu.busy.filter(|busy| count > 1 && busy.mean < 100.0 / f64::from(count)) {
        let words = format!(
            "its {count} cards were busy {:.0}% of the time on average: fewer may do the same work",
            busy.mean
        );
        out.remarks.push(words);
    }
}

fn cpus(facts: &Facts) -> Option<String> {
    let used = facts.cpus_used?;
    // Averages hide what is needed at times: half as much again, and only if it still is much less.
    let wanted = ((used * 1.5).ceil() as u32).max(1);
    (f64::from(wanted) <= f64::from(facts.job.cpus) * 0.5).then(|| format!("--cpus-per-task={wanted}"))
}

fn ram(facts: &Facts) -> Option<String> {
    let (peak, held) = (facts.peak_ram_mb?, facts.job.ram_mb?);
    let out_of_it = facts.job.state == JobState::OutOfMemory && peak as f64 >= held as f64 * FULL;
    let wanted = if out_of_it { held as f64 * 1.5 } else { peak as f64 * ROOM };
    let whole = |mb: f64| (mb / 1024.0).ceil() as u64;
    let (wanted, text) = match wanted {
        mb if mb > 1024.0 => (whole(mb) * 1024, format!("--ram={}G", whole(mb))),
        mb => {
            let mb = ((mb / 128.0).ceil() as u64).max(1) * 128;
            (mb, format!("--ram={mb}M"))
        }
    };
    (out_of_it || (wanted as f64) < held as f64 * WORTH).then_some(text)
}

fn time(facts: &Facts, ran: Span) -> Option<String> {
    let limit = facts.job.time_limit_s.map(Span::seconds);
    let longer = |span: Span, times: f64| round_up((span.0 as f64 / 1000.0 * times) as u64);
    match (facts.job.state, limit) {
        (JobState::Timeout, Some(limit)) => Some(longer(limit, 1.5)),
        // Only of one that has done its work is it known how long that takes.
        (JobState::Succeeded, limit) => {
            let wanted = longer(ran, 1.5);
            let less = limit.is_none_or(|limit| (wanted.0 as f64) < limit.0 as f64 * WORTH);
            less.then_some(wanted)
        }
        _ => None,
    }
    .map(|wanted| format!("--time={}", format_duration(wanted)))
}

/// Up to a time that people would write.
fn round_up(seconds: u64) -> Span {
    let step = match seconds {
        0..3600 => 300,
        3600..14_400 => 900,
        _ => 3600,
    };
    Span::seconds(seconds.div_ceil(step).max(1) * step)
}

/// Of a card, decimal, as `--mem` reads it; at least one.
fn gigabytes(mb: f64) -> u64 {
    ((mb * f64::from(1 << 20) / 1e9).ceil() as u64).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use ax_core::api::{JobView, UsageView};
    use ax_core::gpu::thin::Figure;
    use ax_core::time::WallTime;
    use serde_json::json;

    fn figure(mean: f64, max: f64) -> Option<Figure> {
        Some(Figure { min: 0.0, mean, max, count: 100 })
    }

    /// An hour on a whole card of 80 GB, with 16 CPUs, 64 GB and eight hours.
    fn facts() -> Facts {
        let job: JobView = serde_json::from_value(json!({
            "id": "ax-2026-0001", "number": 1, "name": "a", "user": "li", "uid": 1, "queue": "default",
            "state": "SUCCEEDED", "reason": null, "reasons": [], "priority": 50,
            "submitted_at": WallTime(0), "eligible_at": null, "started_at": null, "ended_at": null,
            "expected_start": null, "exit_code": 0, "signal": null, "node": null, "nodes": [], "cpus": 16,
            "ram_mb": 65536, "gpus": 1, "gpu_uuids": [], "gpu_mem_mb": null, "time_limit_s": 28800, "attempt": 1,
            "attempts": [], "time_in_state": {}, "decisions": [], "stdout": null, "stderr": null,
            "comment": null, "idempotent": true, "account": null, "ticket": null
        }))
        .unwrap();
        let usage = UsageView { id: job.id, attempts: vec![] };
        let mut facts = Facts::new(job, &usage, &[], WallTime(0));
        facts.ran = Some(Span::seconds(3600));
        facts.cpus_used = Some(15.0);
        facts.peak_ram_mb = Some(60_000);
        facts.gpu = Some(Gpu {
            held_mb: Some(76_294),
            whole: true,
            peak_mb: Some(70_000),
            memory: figure(60_000.0, 70_000.0),
            busy: figure(90.0, 100.0),
        });
        facts.job.time_limit_s = Some(5400);
        facts
    }

    fn lines(change: impl FnOnce(&mut Facts)) -> Vec<String> {
        let mut facts = facts();
        change(&mut facts);
        of(&facts).lines
    }

    fn gpu(change: impl FnOnce(&mut Gpu)) -> Vec<String> {
        lines(|facts| change(facts.gpu.as_mut().unwrap()))
    }

    #[test]
    fn the_type_of_card_that_was_asked_for_is_proposed_again() {
        let proposed = lines(|facts| {
            facts.job.gpu_type = Some("big one".to_owned());
            facts.gpu.as_mut().unwrap().peak_mb = Some(9_000);
            facts.gpu.as_mut().unwrap().busy = figure(20.0, 50.0);
        });
        assert_eq!(proposed, ["--gpus=big-one:1 --mem=12G"]);
    }

    #[test]
    fn a_job_that_used_what_it_held_is_left_as_it_is() {
        assert_eq!(of(&facts()), Proposal::default());
    }

    #[test]
    fn a_card_that_is_neither_full_nor_busy_is_shared() {
        assert_eq!(
            gpu(|gpu| (gpu.peak_mb, gpu.busy) = (Some(20_000), figure(30.0, 100.0))),
            ["--gpus=1 --mem=27G"]
        );
        // Busy: whoever shared it would slow it down.
        assert!(gpu(|gpu| gpu.peak_mb = Some(20_000)).is_empty());
        // A slice is shared already.
        assert_eq!(gpu(|gpu| (gpu.whole, gpu.peak_mb) = (false, Some(20_000))), ["--gpus=1 --mem=27G"]);
    }

    #[test]
    fn a_slice_that_was_full_grows() {
        let grown = gpu(|gpu| (gpu.whole, gpu.held_mb, gpu.peak_mb) = (false, Some(10_000), Some(9900)));
        assert_eq!(grown, ["--gpus=1 --mem=13G"]);
    }

    #[test]
    fn cards_that_were_never_used_are_said() {
        let mut facts = facts();
        let gpu = facts.gpu.as_mut().unwrap();
        (gpu.peak_mb, gpu.busy) = (Some(0), figure(0.0, 0.0));
        let proposal = of(&facts);
        assert!(proposal.lines.is_empty() && proposal.remarks[0].contains("never used its cards"));
    }

    #[test]
    fn what_nobody_measured_is_not_guessed() {
        let mut facts = facts();
        let gpu = facts.gpu.as_mut().unwrap();
        (gpu.peak_mb, gpu.busy, gpu.memory) = (None, None, None);
        (facts.cpus_used, facts.peak_ram_mb) = (None, None);
        let proposal = of(&facts);
        assert_eq!((proposal.lines.len(), proposal.remarks.len()), (0, 1));
    }

    #[test]
    fn cpus_memory_and_time_follow_what_was_used() {
        assert_eq!(lines(|facts| facts.cpus_used = Some(2.1)), ["--cpus-per-task=4"]);
        assert_eq!(lines(|facts| facts.cpus_used = Some(0.01)), ["--cpus-per-task=1"]);
        assert_eq!(lines(|facts| facts.peak_ram_mb = Some(9000)), ["--ram=11G"]);
        assert_eq!(lines(|facts| facts.peak_ram_mb = Some(100)), ["--ram=128M"]);
        assert_eq!(lines(|facts| facts.job.time_limit_s = Some(28_800)), ["--time=1h30m"]);
        assert_eq!(lines(|facts| facts.job.time_limit_s = None), ["--time=1h30m"]);
    }

    #[test]
    fn what_was_too_little_becomes_more() {
        let timeout = lines(|facts| facts.job.state = JobState::Timeout);
        assert_eq!(timeout, ["--time=2h15m"]);
        let full =
            lines(|facts| (facts.job.state, facts.peak_ram_mb) = (JobState::OutOfMemory, Some(65_536)));
        assert_eq!(full, ["--ram=96G"]);
    }

    #[test]
    fn of_a_job_that_goes_on_nobody_knows_how_long_it_takes() {
        let running =
            lines(|facts| (facts.job.state, facts.job.time_limit_s) = (JobState::Running, Some(90_000)));
        assert!(running.is_empty(), "{running:?}");
        let short = lines(|facts| (facts.ran, facts.cpus_used) = (Some(Span::seconds(5)), Some(0.1)));
        assert!(short.is_empty());
    }

    #[test]
    fn every_proposal_is_an_option_that_is_read() {
        use ax_core::directive::{Program, interpret, parse_args};
        let mut all = gpu(|gpu| (gpu.peak_mb, gpu.busy) = (Some(20_000), None));
        all.extend(lines(|facts| {
            (facts.cpus_used, facts.peak_ram_mb, facts.job.time_limit_s) = (Some(1.0), Some(3000), None);
        }));
        let words: Vec<String> = all.iter().flat_map(|line| line.split(' ')).map(str::to_owned).collect();
        let line = parse_args(&words, Program::Axbatch).unwrap();
        interpret(&[line.source()]).unwrap();
    }
}
