//! Starts an attempt on this node: its folder, records and script, put into place at once by a rename, then its
//! supervisor. Runs on the launching thread, after the decision is durable. Does not wait for the supervisor.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::Write;
use std::os::fd::BorrowedFd;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, fchown, lchown};
use std::path::Path;

use ax_core::config::Config;
use ax_core::config::Naming;
use ax_core::directive::is_program;
use ax_core::environment::{Environment, Facts, TooLarge, environment};
use ax_core::gpu::fence::DeviceRule;
use ax_core::gpu::visible::{HeldCard, JobCards};
use ax_core::id::AttemptName;
use ax_core::job::Job;
use ax_core::job::spec::OpenMode;
use ax_core::node::{Allocation, Card};
use ax_core::paths::Paths;
use ax_core::pattern::{Pattern, Values};
use ax_core::record::{Assignment, CardLimits, Ending, FORMAT, Files, Limits, Spare};
use ax_core::time::Span;
use ax_sys::crash_point;
use ax_sys::pidfd::PidFd;
use thiserror::Error;

use crate::fence::{self, Fence, Ground};
use crate::mps;
use crate::people::Person;
use crate::starter::Starter;
use crate::store::Details;

/// Everything about an attempt that is to be started.
pub(crate) struct Plan<'a> {
    /// Where things lie.
    pub paths: &'a Paths,
    /// The configuration in force.
    pub config: &'a Config,
    /// The attempt.
    pub attempt: AttemptName,
    /// Its number, from 1.
    pub number: u32,
    /// The resources that it holds.
    pub allocation: &'a Allocation,
    /// The job.
    pub job: &'a Job,
    /// How long it may run.
    pub limit: Option<Span>,
    /// Its options and files.
    pub details: &'a Details,
    /// Its script.
    pub script: &'a [u8],
    /// Its submitter's environment.
    pub environment: &'a [(String, String)],
    /// Its submitter.
    pub person: &'a Person,
    /// The kernel's list of its CPUs, where they bind.
    pub cpu_list: Option<String>,
    /// All cards of this node.
    pub cards: &'a [Card],
    /// The means by which jobs can be fenced here.
    pub ground: &'a Ground,
    /// How its supervisor has its cards limited by the driver.
    pub card_limits: Option<CardLimits>,
    /// How its supervisor has its slice put under MPS, but for the devices.
    pub mps: Option<mps::Order>,
    /// Folders that its supervisor need not make.
    pub spare: Option<Spare>,
    /// The daemon's own program, for supervisors.
    pub axd: &'a Path,
    /// Parent of its control groups, as ax-sys records it.
    pub cgroup_parents: &'a [String],
    /// Where its supervisor goes, likewise.
    pub station: &'a [String],
    /// Lowest node epoch that may start.
    pub node_epoch: u64,
    /// True if files are given to the submitter; false if the daemon itself runs as that user.
    pub as_root: bool,
}

/// The standard files of an attempt, absolute.
pub(crate) fn files(job: &Job, details: &Details, number: u32, node: &str) -> Files {
    let io = &details.spec.io;
    let restarts = number.saturating_sub(1);
    let values = Values {
        id: job.id,
        array: None,
        name: &job.name,
        user: &job.owner.name,
        node,
        node_rank: 0,
        task: 0,
        step: "batch",
        restarts,
    };
    let cwd = Path::new(&details.cwd);
    let absolute = |text: &str| cwd.join(text).to_string_lossy().into_owned();
    // Slurm's own way of appending all attempts to one file is kept for its scripts.
    let one_file = details.slurm && io.open_mode == Some(OpenMode::Append);
    let expand = |text: &str| {
        let (pattern, _) = Pattern::tolerant(text);
        let plain = text.starts_with("/dev/") || one_file;
        let pattern = if plain { pattern } else { pattern.for_attempt(restarts) };
        absolute(&pattern.expand(&values))
    };
    let input = io.input.as_deref().map(|text| absolute(&Pattern::tolerant(text).0.expand(&values)));
    Files {
        input,
        output: expand(io.output.as_deref().unwrap_or("ax-%j.out")),
        error: io.error.as_deref().map(expand),
        open_mode: io.open_mode.unwrap_or(OpenMode::Truncate),
    }
}

/// Why an attempt could not be started.
#[derive(Debug, Error)]
pub(crate) enum LaunchError {
    /// The job can't be started as it is, here or anywhere.
    #[error("{0}")]
    Job(String),
    /// This node could not: a full disk, no process to be had.
    #[error("{0}")]
    Node(String),
}

/// An attempt that has a supervisor.
#[derive(Debug)]
pub(crate) struct Launched {
    /// Its supervisor.
    pub process: PidFd,
    /// What it was told of its cards, for its story; `None` if it has none.
    pub told: Option<String>,
    /// Why it is not fenced off from other cards, where it should be.
    pub unfenced: Option<String>,
}

impl Plan<'_> {
    /// Puts the attempt into place and starts its supervisor; `theirs` is its end of a socket.
    pub(crate) fn start(
        &self,
        starter: &mut Starter,
        theirs: BorrowedFd<'_>,
    ) -> Result<Launched, LaunchError> {
        let failed =
            |doing: &str, error: &dyn std::fmt::Display| format!("{doing} {}: {error}", self.attempt);
        let mode = self.config.resources.gpu_fence;
        let fence = fence::of_attempt(mode, self.ground, self.cards, self.allocation);
        let fence = fence.map_err(|e| LaunchError::Node(failed("preparing", &e)))?;
        let made = self.job_environment(&fence).map_err(|e| LaunchError::Job(failed("preparing", &e)))?;
        let told = told(&made, &fence).filter(|_| !self.allocation.cards.is_empty());
        let mps = self.mps.as_ref().map(|order| {
            let order = mps::Order { devices: fence.rules.clone(), ..order.clone() };
            mps::command_lines(self.axd, &order)
        });
        let card_limits = mps.transpose().map_err(|e| LaunchError::Node(failed("preparing", &e)))?;
        let card_limits = card_limits.or_else(|| self.card_limits.clone());
        let assignment = self.assignment(made.variables, fence.rules, card_limits);
        self.place(&assignment).map_err(|e| LaunchError::Node(failed("preparing", &e)))?;
        crash_point!("claimed");
        let started = starter.start(&self.paths.attempt_dir(self.attempt), theirs);
        let process = started.map_err(|e| LaunchError::Node(failed("starting the supervisor of", &e)))?;
        Ok(Launched { process, told, unfenced: fence.absent })
    }

    /// Folder, records and script, visible all at once.
    fn place(&self, assignment: &Assignment) -> std::io::Result<()> {
        let assignment = serde_json::to_vec(assignment).map_err(std::io::Error::other)?;
        self.place_script()?;
        let hidden = self.paths.half_made(self.attempt);
        make_folder(&hidden, 0o700)?;
        crash_point!("directory");
        write_new(&hidden.join("assignment"), &assignment, 0o600)?;
        crash_point!("assignment");
        std::fs::rename(&hidden, self.paths.attempt_dir(self.attempt))?;
        crash_point!("inbox");
        Ok(())
    }

    /// The script, as it runs, in a folder of the user's own.
    fn place_script(&self) -> std::io::Result<()> {
        let folder = self.paths.job_dir(self.attempt);
        // A new one: in one that was the user's already, names could be changed under our hands.
        DirBuilder::new().mode(0o700).create(&folder)?;
        let script = write_new(&self.paths.script(self.attempt), &runnable(self.script), 0o500)?;
        if self.as_root {
            let (uid, gid) = (Some(self.person.uid.0), Some(self.person.gid.0));
            fchown(&script, uid, gid)?;
            // Last: from here on the user may do with it as they like.
            lchown(&folder, uid, gid)?;
        }
        Ok(())
    }

    fn assignment(
        &self,
        environment: Vec<(String, String)>,
        devices: Vec<DeviceRule>,
        card_limits: Option<CardLimits>,
    ) -> Assignment {
        let (job, details, policy) = (self.job, self.details, &self.config.policy);
        Assignment {
            v: FORMAT,
            attempt: self.attempt,
            node_epoch: self.node_epoch,
            user: self.person.record(),
            args: details.args.clone(),
            cwd: details.cwd.clone(),
            environment,
            umask: details.umask,
            files: files(job, details, self.number, self.allocation.node.as_str()),
            limits: Limits {
                ram: Some(self.allocation.ram),
                cpuset: self.cpu_list.clone(),
                pids: Some(policy.max_processes),
            },
            devices,
            ending: Ending {
                limit: self.limit,
                warn: details.spec.policy.signal,
                // It was accepted under the rules of that time; those of now hold.
                kill_wait: details.spec.policy.grace.unwrap_or(policy.kill_wait).min(policy.longest_grace()),
                longest_warning: Some(policy.longest_grace()),
            },
            work_dir: self.paths.work_dir(self.attempt).to_string_lossy().into_owned(),
            spare: self.spare.clone(),
            cgroup_parents: self.cgroup_parents.to_vec(),
            station: self.station.to_vec(),
            marker: ("AX_JOB_MARK".to_owned(), format!("{}/{}", self.paths.cgroup_name(), self.attempt)),
            card_limits,
        }
    }

    /// Nobody knows how programs number what they find behind a fence with gaps. Where there is none they find one part of
    /// divided cards, before or in place of whole ones.
    fn numbers_mislead(&self, fence: &Fence) -> bool {
        let divided = self.cards.iter().any(|card| card.hardware.mig.is_some());
        fence.has_gaps() || (divided && !fence.is_whole())
    }

    fn job_environment(&self, fence: &Fence) -> Result<Environment, TooLarge> {
        let (job, details, spec) = (self.job, self.details, &self.details.spec);
        let resources = &self.config.resources;
        let held = HeldCard::all(self.allocation, self.cards);
        let work_dir = self.paths.work_dir(self.attempt);
        let mps = self.mps.as_ref().map(|order| order.folder.to_string_lossy());
        let facts = Facts {
            attempt: self.attempt,
            number: self.number,
            name: &job.name,
            queue: job.queue.as_str(),
            user: &self.person.name,
            home: &self.person.home,
            shell: &self.person.shell,
            node: self.allocation.node.as_str(),
            cpus: u32::try_from(self.allocation.cpus.len()).unwrap_or(u32::MAX),
            tasks: spec.resources.ntasks.or(spec.resources.ntasks_per_node).unwrap_or(1),
            // As it is now: the numbers may have been changed since it was submitted.
            cpus_per_task: spec.resources.cpus_per_task.map(|_| job.request.cpus / job.request.tasks()),
            ram: self.allocation.ram,
            cards: JobCards {
                held: &held,
                naming: if self.numbers_mislead(fence) { Naming::Uuid } else { resources.gpu_visible },
                fenced: fence.is_whole(),
                mps: mps.as_deref(),
            },
            cards_per_task: spec.resources.gpus_per_task.as_ref().map(|_| {
                let cards = job.request.cards.as_ref().map_or(0, |cards| cards.count);
                cards / job.request.tasks()
            }),
            hints: spec.resources.gpu_mem_hints.unwrap_or(resources.gpu_mem_hints),
            context: resources.gpu_context,
            time_limit: self.limit,
            submit_dir: &details.submit_dir,
            work_dir: &work_dir.to_string_lossy(),
            account: spec.account.as_deref(),
            cluster: &self.config.cluster.name,
        };
        environment(self.environment, &spec.io.export, &spec.io.env, &facts)
    }
}

/// What an attempt was told of its cards, in words: which it sees, what keeps it from others, and how it is held to
/// slices.
fn told(made: &Environment, fence: &Fence) -> Option<String> {
    let value = |name: &str| made.variables.iter().find(|(n, _)| n == name).map(|(_, value)| value.as_str());
    let mut words = format!("sees its cards as CUDA_VISIBLE_DEVICES={}", value("CUDA_VISIBLE_DEVICES")?);
    words.push_str(match (&fence.absent, fence.rules.is_empty()) {
        (Some(_), true) => "; can open others, too: ",
        (Some(_), false) => "; can open no others whose files are known: ",
        (None, true) => "; can open others, too: resources.gpu_fence is off",
        (None, false) => "; can open no others",
    });
    words.push_str(fence.absent.as_deref().unwrap_or_default());
    if let Some(rung) = value("AX_GPU_ENFORCE").filter(|rung| !rung.is_empty()) {
        words.push_str(&format!("; held to its slices by: {rung}"));
    }
    if !made.told.is_empty() {
        words.push_str(&format!("; set for frameworks: {}", made.told.join(", ")));
    }
    Some(words)
}

/// A script as it runs: without a byte-order mark, and with plain line ends
/// where its first line ends in CR LF, so that files from other systems work.
fn runnable(script: &[u8]) -> Vec<u8> {
    if is_program(script) {
        return script.to_vec();
    }
    let script = script.strip_prefix(b"\xef\xbb\xbf").unwrap_or(script);
    let first_line = script.split_inclusive(|b| *b == b'\n').next().unwrap_or_default();
    if !first_line.ends_with(b"\r\n") {
        return script.to_vec();
    }
    let lines = script.split_inclusive(|b| *b == b'\n');
    lines
        .flat_map(|line| match line.strip_suffix(b"\r\n") {
            Some(text) => [text, b"\n"].concat(),
            None => line.to_vec(),
        })
        .collect()
}

/// Makes a folder; one that an earlier, half-done start of the same attempt left is used again.
fn make_folder(path: &Path, mode: u32) -> std::io::Result<()> {
    match DirBuilder::new().mode(mode).create(path) {
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => Ok(()),
        other => other,
    }
}

fn write_new(path: &Path, content: &[u8], mode: u32) -> std::io::Result<File> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(mode).open(path)?;
    file.write_all(content)?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn foreign_line_ends_and_marks_do_not_reach_the_shell() {
        assert_eq!(
            runnable(b"\xef\xbb\xbf#!/bin/sh\r\necho a\r\nprintf 'x\ry'"),
            b"#!/bin/sh\necho a\nprintf 'x\ry'"
        );
        assert_eq!(runnable(b"#!/bin/sh\nprintf 'a\r\n'\n"), b"#!/bin/sh\nprintf 'a\r\n'\n");
        assert_eq!(runnable(b""), b"");
        let program = b"\x7fELF\x02\x00\r\n\x00\r\n";
        assert_eq!(runnable(program), program, "a program is not a text");
    }
}
