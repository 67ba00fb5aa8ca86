//! The rows of the table, in the order of documents. Add a key here and it is
//! read, checked, compared and documented; nothing else lists keys.

use super::kind::{Form, Kind};
use super::slot::{
    COSTS, FENCES, HINTS, LEARNING, LEASES, NAMINGS, ORDERS, PACKINGS, PREEMPTS, SCHEDULERS, STATES,
};
use super::{Effect, Fallback, Key};
use crate::config::MPS_CONTROL;
use crate::id::{HostName, QueueName};
use crate::size::Megabytes;
use crate::text::escaped;
use crate::time::Span;

use Kind::{Bool, Count, Duration, DurationOrNone, Enum, GpuSize, HostSize, Later, List, Percent, Word};

const fn key(path: &'static str, kind: Kind, default: &'static str, doc: &'static str) -> Key {
    Key { path, kind, default: Fallback::Value(default), effect: Effect::Now, doc }
}

impl Key {
    const fn absent(mut self) -> Key {
        if let Fallback::Value(word) = self.default {
            self.default = Fallback::Absent(word);
        }
        self
    }

    const fn required(mut self) -> Key {
        self.default = Fallback::Required;
        self
    }

    const fn later(mut self) -> Key {
        self.effect = Effect::Later;
        self
    }
}

const NONE: Span = Span::ZERO;
const SECOND: Span = Span::seconds(1);
const HOUR: Span = Span::seconds(3600);
const DAY: Span = Span::seconds(86_400);
const YEAR: Span = Span::seconds(366 * 86_400);
/// Four renewals of a node's lease, which have no setting.
const SHORTEST_LEASE: Span = Span::seconds(20);
const MOST: u64 = 1_000_000;
const SMALL: Megabytes = Megabytes(1);
const LARGE: Megabytes = Megabytes(1 << 30);
/// No card has more: 2 TB.
const LARGEST_CARD: Megabytes = Megabytes(2 << 20);

fn one_line(text: &str) -> bool {
    (1..=64).contains(&text.chars().count()) && escaped(text) == text
}

fn plain(text: &str, also: &str) -> bool {
    (1..=128).contains(&text.len()) && text.chars().all(|c| c.is_ascii_alphanumeric() || also.contains(c))
}

/// With a colon it is a host and a number; no UUID has one.
fn is_card(text: &str) -> bool {
    let place =
        |(host, index): (&str, &str)| host.parse::<HostName>().is_ok() && index.parse::<u32>().is_ok();
    plain(text, "._-:") && text.rsplit_once(':').is_none_or(place)
}

fn user(text: &str) -> bool {
    one_line(text) && !text.starts_with(['-', '@']) && !text.contains([' ', ':', ',', '/'])
}

fn is_path(text: &str) -> bool {
    let steps = || text.split('/').skip(1).filter(|step| !step.is_empty());
    let short = text.len() < 1024 && escaped(text) == text;
    short && text.starts_with('/') && steps().count() > 0 && !steps().any(|step| step == "..")
}

fn is_zone(text: &str) -> bool {
    plain(text, "/_+-") && text.split('/').all(|part| !part.is_empty())
}

const fn form(expected: &'static str, fits: fn(&str) -> bool) -> Form {
    Form { expected, fits, lower: false }
}

static LABEL: Form = form("a name of 1 to 64 printable characters", one_line);
static ZONE: Form = form("a time zone such as Europe/Berlin", is_zone);
static ADMIN: Form = form("a user or @group", |text| user(text.strip_prefix('@').unwrap_or(text)));
static USER: Form = form("a user's name", user);
static GROUP: Form = form("a group's name", user);
static HOST: Form = form("a host's name", |text| text.parse::<HostName>().is_ok());
static QUEUE: Form =
    form("a queue's name (1 to 64 letters, digits, '.', '_', '-')", |text| text.parse::<QueueName>().is_ok());
static TYPE: Form =
    Form { expected: "a type of card such as h200", fits: |text| plain(text, "._-"), lower: true };
static FEATURE: Form = form("a feature (letters, digits, '.', '_', '-', ':')", |text| plain(text, "._-:"));
static CARD: Form = form("a card, as host:index or by UUID", is_card);
static PATH: Form = form("a path from the root", is_path);

/// All keys. By hand a row is two lines, which reads as the table that it is.
#[rustfmt::skip]
pub static KEYS: &[Key] = &[
    // cluster
    key("cluster.name", Word(&LABEL, |d| &mut d.config.cluster.name), "ax",
        "Name of the cluster, for people."),
    key("cluster.timezone", Word(&ZONE, |d| &mut d.config.cluster.timezone), "system",
        "Zone of begin times, daily windows and the year in job ids, an IANA name; by default the \
         system's. Its rules are read anew each day and by a reload; another zone needs a restart.").absent(),
    key("cluster.admins", List(&ADMIN, |d| &mut d.config.cluster.admins), "[]",
        "Users, and groups as @name, who may act on all jobs and nodes; root always may."),
    key("cluster.private_jobs", Bool(|d| &mut d.config.cluster.private_jobs), "false",
        "Whether users see only their own jobs."),
    key("cluster.controllers", List(&HOST, |d| &mut d.config.cluster.controllers), "[]",
        "Hosts that may hold the controller's lease; an empty list means any.").later(),
    key("cluster.heartbeat_interval",
        Duration(SECOND, HOUR, |d| &mut d.config.cluster.heartbeat_interval), "15s",
        "How often a node reports its state."),
    key("cluster.heartbeat_timeout", Duration(SECOND, DAY, |d| &mut d.config.cluster.heartbeat_timeout), "1m",
        "A node that was silent for so long gets no new work; at least three times the interval."),
    // resources
    key("resources.cpus", Count(1, 65_536, |d| &mut d.config.resources.cpus), "found",
        "CPUs of a node instead of those found; more than it has gives a warning.").absent(),
    key("resources.ram", HostSize(Megabytes(64), LARGE, |d| &mut d.config.resources.ram), "found",
        "Memory of a node instead of that found; more than it has gives a warning.").absent(),
    key("resources.gpu_reserve", Percent(0, 90, |d| &mut d.config.resources.gpu_reserve), "0%",
        "Share of a card's memory that slices together may not take."),
    key("resources.gpu_foreign_bound",
        GpuSize(SMALL, LARGEST_CARD, |d| &mut d.config.resources.gpu_foreign_bound), "1G",
        "A card of which processes that are no jobs, and what nobody accounts for, hold so much is given to nobody."),
    key("resources.gpu_suspect_time", Duration(NONE, DAY, |d| &mut d.config.resources.gpu_suspect_time), "5m",
        "For so long nothing may happen on a suspect card before it is given out again."),
    key("resources.gpu_context_mb",
        HostSize(Megabytes::ZERO, Megabytes(65_536), |d| &mut d.config.resources.gpu_context), "512",
        "Of each slice, the memory that frameworks are told to leave to the driver and its libraries; at most a \
         quarter of it."),
    key("resources.gpu_visible", Enum(NAMINGS, |d| &mut d.config.resources.gpu_visible), "index",
        "How CUDA_VISIBLE_DEVICES and its like name a job's cards: by number, or by UUID, which some programs can't \
         read. Parts of cards (MIG) are always named by UUID; see ax-gpu(7)."),
    key("resources.gpu_fence", Enum(FENCES, |d| &mut d.config.resources.gpu_fence), "auto",
        "Whether a job is kept from opening the device files of other cards: where this machine can, or nothing \
         starts without it, or never."),
    key("resources.gpu_mem_hints", Enum(HINTS, |d| &mut d.config.resources.gpu_mem_hints), "usual",
        "Settings of frameworks that keep them to a slice, for jobs without --gpu-mem-hints: torch adds the one that \
         PyTorch before 2.10 refuses, none sets none."),
    key("resources.gpu_fragmentation_warning",
        Percent(1, 100, |d| &mut d.config.resources.gpu_fragmentation_warning), "30%",
        "Share of a card in slices that may be bound and not used before 'ax resource' warns."),
    key("resources.gpu_sample", Duration(Span(50), HOUR, |d| &mut d.config.resources.gpu_sample), "1s",
        "How often cards are looked at while jobs are on them; a tenth as often otherwise."),
    key("resources.gpu_timeout", Duration(Span(100), HOUR, |d| &mut d.config.resources.gpu_timeout), "5s",
        "How long a look at the cards may take, twice as long when they are looked for; the card at which the \
         driver hangs is suspect then, and tried again with growing pauses."),
    key("resources.gpu_tolerance_mb",
        HostSize(Megabytes::ZERO, Megabytes(65_536), |d| &mut d.config.resources.gpu_tolerance), "512",
        "Memory of a card beyond its slice that a job may be seen to use, where the driver does not limit it."),
    key("resources.gpu_over_samples", Count(0, 3600, |d| &mut d.config.resources.gpu_over_samples), "3",
        "A job that uses more than that in so many samples in a row, one a second, is ended as OUT_OF_MEMORY; 0: \
         it is only warned of."),
    key("resources.gpu_clean_wait", Duration(NONE, HOUR, |d| &mut d.config.resources.gpu_clean_wait), "30s",
        "So long the end of a job waits for its processes to be gone from its cards; then the cards are suspect."),
    key("resources.gpu_nodes[].host", Word(&HOST, |d| &mut d.node.host), "",
        "Name of the machine; case and domain do not matter.").required(),
    key("resources.gpu_nodes[].gpus", Count(0, 1024, |d| &mut d.node.gpus), "",
        "Number of its cards; the smaller of this and what is found is used.").required(),
    key("resources.gpu_nodes[].mem_per_gpu",
        GpuSize(SMALL, LARGEST_CARD, |d| &mut d.node.mem_per_gpu), "found",
        "Memory of each of its cards; the smaller of this and what is found is used.").absent(),
    key("resources.gpu_nodes[].type", Word(&TYPE, |d| &mut d.node.kind), "found",
        "Type of its cards, for --gpus=TYPE:N.").absent(),
    key("resources.gpu_nodes[].features", List(&FEATURE, |d| &mut d.node.features), "[]",
        "Names that jobs may ask for with --constraint."),
    // queues
    key("queues[].name", Word(&QUEUE, |d| &mut d.queue.name), "",
        "Name of the queue.").required(),
    key("queues[].priority", Count(1, MOST, |d| &mut d.queue.priority), "1",
        "Weight of the queue under fair_share, rank under fifo; more is earlier."),
    key("queues[].max_running", Count(1, MOST, |d| &mut d.queue.max_running), "none",
        "Most jobs of the queue that run at once; a job that has a place kept for it counts among them.").absent(),
    key("queues[].max_running_per_user", Count(1, MOST, |d| &mut d.queue.max_running_per_user), "none",
        "Most jobs of the queue that run at once for one user; a job that has a place kept for it counts among them.").absent(),
    key("queues[].state", Enum(STATES, |d| &mut d.queue.state), "open",
        "open accepts and starts jobs, stopped accepts but starts none, closed accepts none and runs out."),
    key("queues[].default_time", Duration(SECOND, YEAR, |d| &mut d.queue.default_time), "none",
        "Time limit of jobs that ask for none.").absent(),
    key("queues[].max_time", Duration(SECOND, YEAR, |d| &mut d.queue.max_time), "none",
        "Longest time limit that a job may ask for; that of jobs that ask for none, where default_time and policy.task_timeout say none, or a longer one.").absent(),
    key("queues[].max_priority", Count(0, 100, |d| &mut d.queue.max_priority), "100",
        "Highest --priority that a job of the queue may ask for; one that asks for none has 50, or this if it is less. With policy.preemption it says who can have others ended."),
    key("queues[].retry_count", Count(0, 1000, |d| &mut d.queue.retry_count), "policy.retry_count",
        "Retries of a failed job that does not say.").absent(),
    key("queues[].default_cpus_per_gpu", Count(1, 65_536, |d| &mut d.queue.default_cpus_per_gpu), "share",
        "CPUs for each card of a job that asks for none; for a slice as large a part of that as of the card, cut to whole ones, at least 1. By default an equal share of the node's.").absent(),
    key("queues[].default_ram", HostSize(SMALL, LARGE, |d| &mut d.queue.default_ram), "share",
        "Memory of a job that asks for none; by default the larger of its CPUs' and cards' share, of which a slice has as large a part as of the card.").absent(),
    key("queues[].idempotent", Bool(|d| &mut d.queue.idempotent), "true",
        "Whether a lost attempt of a job that does not say may be started again without asking."),
    key("queues[].users", List(&USER, |d| &mut d.queue.users), "[]",
        "Users who may use the queue; with no users and no groups, all may."),
    key("queues[].groups", List(&GROUP, |d| &mut d.queue.groups), "[]",
        "Groups whose members may use the queue."),
    key("queues[].preempt", Enum(PREEMPTS, |d| &mut d.queue.preempt), "requeue",
        "What may be done to its jobs when a more urgent one needs their place."),
    key("queues[].order", Enum(ORDERS, |d| &mut d.queue.order), "prio",
        "Which of its jobs is next: by priority and waiting time, first come, largest (laf) or smallest (saf) \
         cards times time, or the largest part of what all cards could do for such jobs (lpf); laf and lpf let urgent \
         jobs go first. But for fifo, who has waited for policy.starvation_bound goes before \
         whoever comes."),
    key("queues[].lease", Enum(LEASES, |d| &mut d.queue.lease), "fixed",
        "fixed is policy.lease_timeout, estimate is 1.5 times the job's estimate and 15 s.").later(),
    key("queues[].restart_slices_every",
        Duration(SECOND, YEAR, |d| &mut d.queue.restart_slices_every), "none",
        "A job on slices that has run for so long begins anew at the next checkpoint that it tells of with \
         'ax checkpointed', which gives fragmented memory back.").absent(),
    key("queues[].cards", List(&CARD, |d| &mut d.queue.cards), "[]",
        "The only cards that its jobs may use, as host:index or by UUID; an empty list means all."),
    key("queues[].max_cards", Count(1, MOST, |d| &mut d.queue.max_cards), "none",
        "Most cards that its jobs hold at once; a slice counts as a card.").absent(),
    key("queues[].max_cpus", Count(1, MOST, |d| &mut d.queue.max_cpus), "none",
        "Most CPUs that its jobs hold at once, as they ask for them.").absent(),
    key("queues[].max_ram", HostSize(SMALL, LARGE, |d| &mut d.queue.max_ram), "none",
        "Most memory of hosts that its jobs hold at once.").absent(),
    key("queues[].max_cards_per_user", Count(1, MOST, |d| &mut d.queue.per_user.cards), "none",
        "Most cards that the jobs of one user in the queue hold at once.").absent(),
    key("queues[].max_cpus_per_user", Count(1, MOST, |d| &mut d.queue.per_user.cpus), "none",
        "Most CPUs that the jobs of one user in the queue hold at once.").absent(),
    key("queues[].max_ram_per_user", HostSize(SMALL, LARGE, |d| &mut d.queue.per_user.ram), "none",
        "Most memory of hosts that the jobs of one user in the queue hold at once.").absent(),
    key("queues[].mps", Bool(|d| &mut d.queue.mps), "false",
        "Whether slices of a card of its jobs are held by an MPS server where the driver has no limit for them: one \
         user a card at a time; see ax-gpu(7)."),
    // limits
    key("limits[].user", Word(&USER, |d| &mut d.limit.user), "none",
        "The user whom it concerns; an entry names a user or a group.").absent(),
    key("limits[].group", Word(&GROUP, |d| &mut d.limit.group), "none",
        "The group whose members it concerns, all together; it holds for jobs that are submitted from then on.").absent(),
    key("limits[].cards", List(&CARD, |d| &mut d.limit.cards), "[]",
        "The only cards that their jobs may use, as host:index or by UUID; an empty list means all."),
    key("limits[].max_cards", Count(1, MOST, |d| &mut d.limit.max_cards), "none",
        "Most cards that their jobs hold at once; a slice counts as a card. Nobody under a limit passes whoever waits \
         for it.").absent(),
    key("limits[].max_cpus", Count(1, MOST, |d| &mut d.limit.max_cpus), "none",
        "Most CPUs that their jobs hold at once.").absent(),
    key("limits[].max_ram", HostSize(SMALL, LARGE, |d| &mut d.limit.max_ram), "none",
        "Most memory of hosts that their jobs hold at once.").absent(),
    key("limits[].max_running", Count(1, MOST, |d| &mut d.limit.max_running), "none",
        "Most of their jobs that run at once.").absent(),
    // policy
    key("policy.scheduler", Enum(SCHEDULERS, |d| &mut d.config.policy.scheduler), "fifo",
        "fifo goes by rank of the queue, then its order, and lets jobs pass that delay nobody who has a place kept; \
         fifo_strict lets none pass; fair_share merges the queues by what they have had for their weight."),
    key("policy.default_queue", Word(&QUEUE, |d| &mut d.config.default_queue), "default",
        "Queue of jobs that name none; by default the queue named default if there is one, else the first."),
    key("policy.preemption", Bool(|d| &mut d.config.policy.preemption), "false",
        "Whether a more urgent job may take the place of a running one."),
    key("policy.preempt_priority", Count(0, 100, |d| &mut d.config.policy.preempt_priority), "70",
        "Least priority of a job for which others are ended, and that goes first under the orders laf and lpf."),
    key("policy.preempt_gap", Count(1, 100, |d| &mut d.config.policy.preempt_gap), "30",
        "A job is ended only for one whose priority is higher by so much."),
    key("policy.max_preemptions", Count(0, 1000, |d| &mut d.config.policy.max_preemptions), "2",
        "How often one job is ended for others at most."),
    key("policy.preempt_budget", Percent(0, 100, |d| &mut d.config.policy.preempt_budget), "5%",
        "Nobody is ended for others while that has cost more than so much of what all cards can do in an hour, within \
         the last hour; 100% is no limit."),
    key("policy.reservations", Count(0, 1000, |d| &mut d.config.policy.reservations), "8",
        "So many blocked jobs have a place kept for them, which later jobs may not delay."),
    key("policy.packing", Enum(PACKINGS, |d| &mut d.config.policy.packing), "best",
        "Where a job goes: best leaves the least memory over on its cards, worst the most, first is the first node \
         and cards that do; fgd adds the least to the free memory that jobs like those submitted lately could not \
         use, which pays from some thirty nodes on."),
    key("policy.cost", Enum(COSTS, |d| &mut d.config.policy.cost), "area",
        "What a start costs a queue under fair_share: area is its part of the cluster times its time, count the \
         same for each."),
    key("policy.user_share", Count(0, 100, |d| &mut d.config.policy.user_share), "20",
        "Under fair_share: so many points of priority a user who had nothing lately is ahead of one who had all."),
    key("policy.usage_half_life", Duration(Span(60_000), YEAR, |d| &mut d.config.policy.usage_half_life), "1d",
        "Half of what a user has had is forgotten in this time."),
    key("policy.learn_length", Bool(|d| &mut d.config.policy.learn_length), "true",
        "Whether a job is planned with the mean of what its owner's last two runs of the same thing took, and never \
         longer than it says; its time limit is what ends it. Before the place kept for somebody who has waited for \
         policy.starvation_bound only what is declared counts."),
    key("policy.learnt_ends", Bool(|d| &mut d.config.policy.learnt_ends), "false",
        "Whether places are kept from when running jobs will have taken as long as the last runs of the same thing did, \
         rather than as long as they say. If they take longer, whoever has a place kept starts later than promised."),
    key("policy.learn_memory", Enum(LEARNING, |d| &mut d.config.policy.learn_memory), "raise",
        "raise charges a job more of a card than it asks for if its owner's last three or more runs of the same thing \
         used more, fit also less if they used less and the job says --mem-fit, off what it asks for."),
    key("policy.grow_memory", Bool(|d| &mut d.config.policy.grow_memory), "true",
        "Whether a job that used its slice of a card up and failed is retried with half as much again, or a tenth more than it used, at most the \
         whole of the next larger card."),
    key("policy.task_timeout", Duration(SECOND, YEAR, |d| &mut d.config.policy.task_timeout), "none",
        "Time limit of jobs for which neither they nor their queue say one. Who asks for another, or for --time=unlimited, gets it: queues[].max_time bounds that.").absent(),
    key("policy.retry_count", Count(0, 1000, |d| &mut d.config.policy.retry_count), "0",
        "Retries of a failed job for which neither it nor its queue says a number."),
    key("policy.retry_delay", Duration(NONE, DAY, |d| &mut d.config.policy.retry_delay), "2s",
        "Pause before the first retry; it doubles with each further one."),
    key("policy.lease_timeout", Duration(SHORTEST_LEASE, YEAR, |d| &mut d.config.policy.lease_timeout), "5m",
        "How long a node may be silent before its jobs are given up."),
    key("policy.kill_wait", Duration(NONE, HOUR, |d| &mut d.config.policy.kill_wait), "30s",
        "Grace from SIGTERM to SIGKILL."),
    key("policy.max_grace", Duration(NONE, DAY, |d| &mut d.config.policy.max_grace), "10m",
        "The longest grace that a job may ask for (--grace), and the longest that its warning (--signal) puts off an \
         end that did not wait for its time limit. kill_wait may always be asked for."),
    key("policy.min_uid", Count(0, 4_294_967_294, |d| &mut d.config.policy.min_uid), "0",
        "Users with smaller numbers may not submit; root is excepted while this is 0."),
    key("policy.max_queued_per_user",
        Count(1, 10_000_000, |d| &mut d.config.policy.max_queued_per_user), "100000",
        "Most waiting jobs of a user; an array counts as one, root is exempt."),
    key("policy.max_running_per_user", Count(1, MOST, |d| &mut d.config.policy.max_running_per_user), "none",
        "Most jobs of a user that run at once, of all queues; a job that has a place kept for it counts among them.").absent(),
    key("policy.max_cards_per_user", Count(1, MOST, |d| &mut d.config.policy.per_user.cards), "none",
        "Most cards that the jobs of a user hold at once, of all queues; a slice counts as a card. Nobody under a limit \
         passes whoever waits for it.").absent(),
    key("policy.max_cpus_per_user", Count(1, MOST, |d| &mut d.config.policy.per_user.cpus), "none",
        "Most CPUs that the jobs of a user hold at once, of all queues.").absent(),
    key("policy.max_ram_per_user", HostSize(SMALL, LARGE, |d| &mut d.config.policy.per_user.ram), "none",
        "Most memory of hosts that the jobs of a user hold at once, of all queues.").absent(),
    key("policy.max_stored_per_user",
        HostSize(SMALL, LARGE, |d| &mut d.config.policy.max_stored_per_user), "1GiB",
        "Most that is stored of scripts, environments and options of a user's waiting and running jobs; equal \
         scripts and environments count once, root is exempt. In a day at most four times as much is written \
         down for a user: jobs that come and go, and what is done to jobs."),
    key("policy.max_processes", Count(16, 4_194_304, |d| &mut d.config.policy.max_processes), "32768",
        "Most processes and threads of a job on a node."),
    key("policy.scheduling_interval",
        Duration(Span(50), HOUR, |d| &mut d.config.policy.scheduling_interval), "5s",
        "Jobs are chosen at every event; this bounds how long a missed event can matter."),
    key("policy.starvation_bound", DurationOrNone(SECOND, YEAR, |d| &mut d.config.policy.starvation_bound), "1h40m",
        "A waiting job goes before every new one of its queue within this time, whatever their priorities or sizes; none: \
         waiting earns nothing."),
    key("policy.idle", Duration(SECOND, YEAR, |d| &mut d.config.policy.idle), "none",
        "A job whose cards did nothing for so long, with no kernel and no change of memory, is warned.").absent(),
    key("policy.idle_end", Duration(SECOND, YEAR, |d| &mut d.config.policy.idle_end), "none",
        "A job that was warned by policy.idle and whose cards did nothing for so long is ended, unless 'ax keep' \
         answers for them.").absent(),
    // the rest
    key("accounting.keep", Duration(DAY, Span(100 * YEAR.0), |d| &mut d.config.accounting.keep), "forever",
        "How long finished jobs stay in the accounts; what is older is removed at the start and hourly, with \
         script and environment.").absent(),
    key("paths.spool", Word(&PATH, |d| &mut d.config.paths.spool), "standard",
        "The spool, /var/spool/ax; on several machines a directory that they share.").absent(),
    key("paths.run", Word(&PATH, |d| &mut d.config.paths.run), "standard",
        "Socket, leases and running attempts, /run/ax; clients then need AX_SOCKET.").absent(),
    key("paths.state", Word(&PATH, |d| &mut d.config.paths.state), "standard",
        "Database and what must outlive a reboot, /var/lib/ax; never on a network file system.").absent(),
    key("paths.log", Word(&PATH, |d| &mut d.config.paths.log), "standard",
        "The daemon's log, /var/log/ax-controller.log.").absent(),
    key("paths.nvml", Word(&PATH, |d| &mut d.config.paths.nvml), "standard",
        "The library libnvidia-ml.so.1 of the NVIDIA driver; by default the one that the loader finds.").absent(),
    key("paths.mps_control", Word(&PATH, |d| &mut d.config.paths.mps_control), MPS_CONTROL,
        "The program nvidia-cuda-mps-control of the NVIDIA driver, for queues with mps: true.").absent(),
    key("mail", Later, "", "Mail about jobs.").later(),
    key("hooks", Later, "", "Programs that run before and after jobs.").later(),
    key("http", Later, "", "The API on TCP.").later(),
];
