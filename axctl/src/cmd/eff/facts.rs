//! What is known of a job's use: its record, the samples, and for a running job what its groups say now.

use ax_core::api::{AttemptUsage, AttemptView, CardView, JobView, UsageView};
use ax_core::gpu::thin::Figure;
use ax_core::time::{Span, WallTime};
use serde_json::{Value, json};

use super::propose;

/// One job's.
pub(super) struct Facts {
    pub(super) job: JobView,
    pub(super) attempts: usize,
    /// How long its last attempt has run, or ran.
    pub(super) ran: Option<Span>,
    /// Absent for jobs without cards.
    pub(super) gpu: Option<Gpu>,
    pub(super) cpu_time: Option<Span>,
    /// On average.
    pub(super) cpus_used: Option<f64>,
    pub(super) peak_ram_mb: Option<u64>,
    pub(super) ram: Option<Figure>,
    pub(super) idle: Option<Span>,
}

/// What it did with its cards.
pub(super) struct Gpu {
    /// Of each card, MB; absent if nobody knows how large its cards are.
    pub(super) held_mb: Option<u64>,
    /// It had the cards for itself.
    pub(super) whole: bool,
    /// On the fullest card.
    pub(super) peak_mb: Option<u64>,
    pub(super) memory: Option<Figure>,
    pub(super) busy: Option<Figure>,
}

impl Facts {
    pub(super) fn new(job: JobView, usage: &UsageView, cards: &[CardView], now: WallTime) -> Facts {
        let last = job.attempts.last().cloned();
        let sampled = last.as_ref().and_then(|last| usage.attempts.iter().find(|a| a.epoch == last.epoch));
        let sampled = sampled.copied().unwrap_or_default();
        let start = last.as_ref().and_then(|last| last.started_at).or(job.started_at);
        let end = last.as_ref().and_then(|last| last.ended_at).or(job.ended_at).unwrap_or(now);
        let ran = start.map(|start| end - start);
        let cpu_s = last.as_ref().and_then(|last| last.cpu_time_s).or(sampled.cpu_time_s);
        let ran_s = ran.map(|ran| ran.0 as f64 / 1000.0).filter(|ran| *ran > 0.0);
        let by_total = cpu_s.zip(ran_s).map(|(cpu, ran)| cpu / ran);
        let sampled_ram = sampled.ram_mb.map(|ram| ram.max.ceil() as u64);
        Facts {
            attempts: job.attempts.len(),
            ran,
            gpu: (job.gpus > 0).then(|| gpu(&job, last.as_ref(), &sampled, cards)),
            cpu_time: cpu_s.map(|seconds| Span((seconds * 1000.0) as u64)),
            cpus_used: by_total.or(sampled.cpus.map(|cpus| cpus.mean)),
            peak_ram_mb: last
                .as_ref()
                .and_then(|last| last.max_ram_mb)
                .or(sampled.max_ram_mb)
                .or(sampled_ram),
            ram: sampled.ram_mb,
            idle: last.and_then(|last| last.idle_s).filter(|idle| *idle > 0).map(Span::seconds),
            job,
        }
    }

    /// For programs.
    pub(super) fn document(&self) -> Value {
        let proposal = propose::of(self);
        let figure = |figure: Option<Figure>| figure.map(|f| json!({ "mean": f.mean, "max": f.max }));
        let gpu = self.gpu.as_ref();
        json!({
            "id": self.job.id,
            "number": self.job.number,
            "user": self.job.user,
            "state": self.job.state,
            "attempts": self.attempts,
            "elapsed_s": self.ran.map(Span::as_seconds),
            "time_limit_s": self.job.time_limit_s,
            "gpus": self.job.gpus,
            "gpu_busy_percent": figure(gpu.and_then(|gpu| gpu.busy)),
            "gpu_mem_held_mb": gpu.and_then(|gpu| gpu.held_mb),
            "gpu_mem_peak_mb": gpu.and_then(|gpu| gpu.peak_mb),
            "gpu_mem_mean_mb": gpu.and_then(|gpu| gpu.memory).map(|memory| memory.mean),
            "gpu_idle_s": self.idle.map(Span::as_seconds),
            "cpus": self.job.cpus,
            "cpus_used_mean": self.cpus_used,
            "cpu_time_s": self.cpu_time.map(|time| time.0 as f64 / 1000.0),
            "ram_held_mb": self.job.ram_mb,
            "ram_peak_mb": self.peak_ram_mb,
            "ram_mean_mb": self.ram.map(|ram| ram.mean),
            "proposal": proposal.lines,
            "remarks": proposal.remarks,
        })
    }
}

fn gpu(job: &JobView, last: Option<&AttemptView>, sampled: &AttemptUsage, cards: &[CardView]) -> Gpu {
    let own = cards.iter().filter(|card| job.gpu_uuids.contains(&card.uuid));
    let smallest = own.map(|card| card.mem_mb).min();
    let sampled_peak = sampled.gpu_mem_mb.map(|memory| memory.max.round() as u64);
    Gpu {
        held_mb: job.gpu_mem_mb.or(smallest),
        whole: job.gpu_mem_mb.is_none(),
        peak_mb: last.and_then(|last| last.max_gpu_mem_mb).max(sampled_peak),
        memory: sampled.gpu_mem_mb,
        busy: sampled.gpu_load,
    }
}
