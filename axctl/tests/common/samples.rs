//! Jobs, nodes and cards as a daemon would show them.

use ax_core::advice::Advice;
use ax_core::api::{
    AttemptUsage, AttemptView, CardHistory, CardPoint, CardView, DecisionView, HeldView, JobView, JobsAnswer,
    NodeState, NodeView, UsageView,
};
use ax_core::gpu::thin::Figure;
use ax_core::gpu::{Health, Rung};
use ax_core::job::state::JobState;
use ax_core::time::WallTime;

use super::NOW;

/// So many seconds from now; negative: ago.
pub fn at(seconds: i64) -> WallTime {
    WallTime(NOW.0 + seconds * 1000)
}

fn advice() -> Advice {
    let text = "with --gpus 4 at once on gpu-01 cards 4,5,6,7".into();
    let node = Some("gpu-01".parse().unwrap());
    Advice { remedy: None, option: Some("--gpus 4".into()), node, cards: vec![4, 5, 6, 7], text, room: None }
}

/// A waiting job of alice's.
pub fn waiting() -> JobView {
    JobView {
        nodes_asked: None,
        id: "ax-2026-0002".parse().unwrap(),
        number: 2,
        array: None,
        name: "evaluate".into(),
        user: "alice".into(),
        uid: 1000,
        queue: "default".into(),
        state: JobState::Ready,
        reason: Some("needs 8 whole cards; gpu-01 has 4 free of 8, gpu-02 has 0 free of 4".into()),
        reasons: vec![
            "needs 8 whole cards; gpu-01 has 4 free of 8, gpu-02 has 0 free of 4".into(),
            "queue default runs 4 of at most 4 jobs".into(),
        ],
        conditions: vec![],
        priority: 50,
        submitted_at: at(-7500),
        eligible_at: Some(at(-7500)),
        started_at: None,
        ended_at: None,
        expected_start: Some(at(7500)),
        expected_basis: Some("ax-2026-0001 ends on gpu-01 then, by its time limit".into()),
        advice: Some(advice()),
        exit_code: None,
        signal: None,
        node: None,
        nodes: vec![],
        cpus: 16,
        ram_mb: Some(65_536),
        gpus: 8,
        gpu_type: None,
        gpu_uuids: vec![],
        gpu_share: None,
        gpu_mem_mb: None,
        time_limit_s: Some(28_800),
        window: None,
        deadline: None,
        learnt: None,
        attempt: 0,
        attempts: vec![],
        time_in_state: [("READY".to_owned(), 7500.0)].into(),
        decisions: vec![],
        stdout: None,
        stderr: None,
        comment: None,
        unused_options: vec![],
        options: vec![],
        warnings: vec![],
        folder: None,
        idempotent: true,
        requeue: true,
        retries: 0,
        kept_until: None,
        account: None,
        ticket: None,
    }
}

/// A running job on its second attempt.
pub fn running() -> JobView {
    JobView {
        id: "ax-2026-0001".parse().unwrap(),
        number: 1,
        name: "train-the-large-model-on-all-of-the-data-for-the-third-time!".into(),
        state: JobState::Running,
        reason: None,
        reasons: vec![],
        started_at: Some(at(-3661)),
        expected_start: None,
        expected_basis: None,
        advice: None,
        node: Some("gpu-01".into()),
        nodes: vec!["gpu-01".into()],
        gpus: 2,
        gpu_type: None,
        gpu_uuids: vec!["GPU-1b2c".into(), "GPU-3d4e".into()],
        gpu_share: Some(0.5),
        gpu_mem_mb: Some(38_146),
        attempt: 2,
        attempts: vec![lost_attempt(), living_attempt()],
        time_in_state: [("READY".to_owned(), 12.0), ("RUNNING".to_owned(), 7200.0)].into(),
        decisions: story(),
        stdout: Some("/home/alice/ax-1.r1.out".into()),
        comment: Some("third\x1b[31m try".into()),
        unused_options: vec!["--hint=nomultithread".into()],
        options: vec![
            "--gpus=2".into(),
            "--mem=40G".into(),
            "--signal=B:USR1@2m".into(),
            "--env=DATA=...".into(),
        ],
        warnings: vec!["job.sh:9:1: #AX after the first command is ignored".into()],
        folder: Some("/home/alice".into()),
        account: Some("lab".into()),
        ticket: Some("spool-01KB7XRA6V0000000000000000".into()),
        ..waiting()
    }
}

fn lost_attempt() -> AttemptView {
    AttemptView {
        others: Vec::new(),
        number: 1,
        epoch: 17,
        node: "gpu-02".into(),
        state: "LEASE_LOST".into(),
        started_at: Some(at(-7400)),
        ended_at: Some(at(-3700)),
        exit_code: None,
        signal: Some(9),
        cpu_time_s: Some(51_234.5),
        max_ram_mb: Some(12_345),
        max_gpu_mem_mb: Some(30_000),
        idle_s: None,
        stdout: Some("/home/alice/ax-1.out".into()),
        stderr: None,
        message: Some("node gpu-02 was silent for 61 s".into()),
        outcome: None,
    }
}

fn living_attempt() -> AttemptView {
    AttemptView {
        number: 2,
        epoch: 21,
        node: "gpu-01".into(),
        state: "RUNNING".into(),
        started_at: Some(at(-3661)),
        ended_at: None,
        signal: None,
        cpu_time_s: None,
        max_ram_mb: None,
        max_gpu_mem_mb: None,
        stdout: Some("/home/alice/ax-1.r1.out".into()),
        stderr: None,
        message: None,
        ..lost_attempt()
    }
}

/// What was decided about the running job.
pub fn story() -> Vec<DecisionView> {
    let line = |seconds, actor: &str, what: &str, why: &str| DecisionView {
        at: at(seconds),
        actor: actor.into(),
        what: what.into(),
        why: why.into(),
    };
    vec![
        line(-7412, "alice", "submitted", "axbatch train.sh"),
        line(-7400, "ax", "READY → STARTING", "cards 0 and 1 of gpu-02: the least fragmentation of 2 places"),
        line(
            -3700,
            "ax",
            "RUNNING → READY",
            "node gpu-02 was silent for 61 s, longer than its lease of 60 s",
        ),
        line(
            -3661,
            "ax",
            "READY → STARTING",
            "cards 4 and 5 of gpu-01: the only place with 38146 MB free on two cards",
        ),
    ]
}

/// The waiting rest of an array, with a range of 100 digits.
pub fn array() -> JobView {
    let range = (0..25).map(|n| (2000 + 3 * n).to_string()).collect::<Vec<_>>().join(",");
    JobView {
        id: "ax-2026-0003".parse().unwrap(),
        number: 3,
        array: Some(format!("[{range}]")),
        name: "スイープ".into(),
        user: "bob".into(),
        state: JobState::Pending,
        reason: Some("held by bob".into()),
        reasons: vec![],
        expected_start: None,
        expected_basis: None,
        advice: None,
        ..waiting()
    }
}

/// A finished job with a state's longest word.
pub fn failed() -> JobView {
    JobView {
        id: "ax-2025-0004".parse().unwrap(),
        number: 4,
        name: "broken".into(),
        state: JobState::FailedNeedsAttention,
        reason: Some("exit 3 on gpu-01 and on gpu-02: its input is suspect".into()),
        ended_at: Some(at(-60)),
        exit_code: Some(3),
        ..running()
    }
}

/// A finished job of a single attempt.
pub fn succeeded() -> JobView {
    JobView {
        id: "ax-2026-12345".parse().unwrap(),
        number: 12345,
        name: "ok".into(),
        state: JobState::Succeeded,
        reason: None,
        ended_at: Some(at(-600)),
        exit_code: Some(0),
        gpus: 0,
        attempts: vec![],
        ..running()
    }
}

pub fn list(jobs: Vec<JobView>) -> String {
    serde_json::to_string(&JobsAnswer { jobs, ..JobsAnswer::default() }).unwrap()
}

pub fn nodes() -> String {
    let up = NodeView {
        name: "gpu-01".into(),
        state: NodeState::Up,
        reason: None,
        cpus: 64,
        cpus_used: 16,
        ram_mb: 515_000,
        ram_used_mb: 65_536,
        gpus: 8,
        gpus_used: 2,
        epoch: 3,
        last_heartbeat_at: Some(at(-2)),
        jobs: vec!["ax-2026-0001".parse().unwrap()],
    };
    let absent = NodeView {
        name: "gpu-02".into(),
        state: NodeState::NeverRegistered,
        reason: Some("listed in the configuration, but no axd of that name has come".into()),
        last_heartbeat_at: None,
        jobs: vec![],
        ..up.clone()
    };
    serde_json::to_string(&[up, absent]).unwrap()
}

/// A card in slices, a whole one, one that is not well.
pub fn cards() -> String {
    let id = |text: &str| text.parse().unwrap();
    let held = |job, user: &str, mem_mb| HeldView { job, user: user.into(), mem_mb, used_mb: Some(15_000) };
    let shared = CardView {
        node: "gpu-01".into(),
        index: 0,
        uuid: "GPU-1b2c3d4e-0000-1111-2222-333344445555".into(),
        name: "NVIDIA A100-SXM4-80GB".into(),
        mem_mb: 81_051,
        free_mb: 4_759,
        reserved_mb: 76_292,
        used_mb: Some(30_000),
        p95_mb: Some(31_000),
        load: Some(87),
        jobs: vec![id("ax-2026-0001"), id("ax-2026-0007")],
        foreign: vec!["pid 4711 (carol)".into()],
        limit: Rung::Driver,
        health: Health::Healthy,
        why: None,
        barred: false,
        withheld: Some("2 GB held by pid 4711 (carol)".into()),
        held: vec![
            held(id("ax-2026-0001"), "alice", Some(38_146)),
            held(id("ax-2026-0007"), "bob", Some(38_146)),
        ],
        temperature: Some(61),
        power_mw: Some(243_500),
        unexplained_mb: Some(0),
        unused_mb: Some(46_292),
        fragmentation: Some(57),
        warning: Some("57% of it is bound and not used".into()),
        hardware: Default::default(),
    };
    let whole = CardView {
        index: 1,
        uuid: "GPU-whole".into(),
        free_mb: 0,
        reserved_mb: 81_051,
        jobs: vec![id("ax-2026-0009")],
        foreign: vec![],
        withheld: None,
        held: vec![held(id("ax-2026-0009"), "\u{1b}[2Jmallory", None)],
        unused_mb: None,
        fragmentation: None,
        warning: None,
        ..shared.clone()
    };
    let unwell = CardView {
        index: 2,
        uuid: "gpu-01:2".into(),
        free_mb: 81_051,
        reserved_mb: 0,
        used_mb: None,
        p95_mb: None,
        load: None,
        temperature: None,
        power_mw: None,
        jobs: vec![],
        held: vec![],
        limit: Rung::None,
        health: Health::Suspect,
        barred: true,
        why: Some("Xid 79: it has fallen off the bus; restart the machine".into()),
        ..whole.clone()
    };
    // Not a process that is known, and too much of it.
    let taken = CardView {
        index: 3,
        uuid: "GPU-taken".into(),
        free_mb: 0,
        reserved_mb: 0,
        used_mb: Some(20_000),
        jobs: vec![],
        held: vec![],
        barred: true,
        withheld: Some(
            "21 GB in use that no process accounts for (open by pid 4712 Xorg of user root)".into(),
        ),
        unexplained_mb: Some(20_000),
        ..whole.clone()
    };
    serde_json::to_string(&[shared, whole, unwell, taken]).unwrap()
}

/// Cards over time: one that works, and one that nobody measures.
pub fn history(points: u32) -> String {
    let figure = |value: f64, most: f64| Some(Figure { min: 0.0, mean: value, max: most, count: 60 });
    let point = |at: u32| match at % 20 {
        7 => CardPoint::default(),
        step => CardPoint {
            used_mb: figure(f64::from(step) * 3000.0, f64::from(step) * 4000.0),
            load: figure(f64::from(step) * 5.0, 100.0),
            ..CardPoint::default()
        },
    };
    let works = CardHistory {
        node: "gpu-01".into(),
        index: 0,
        uuid: "GPU-1b2c".into(),
        name: "NVIDIA A100-SXM4-80GB\u{1b}[31m".into(),
        mem_mb: 81_051,
        since: at(-3600),
        step_s: 60,
        points: (0..=points).map(point).collect(),
    };
    let points = vec![CardPoint::default(); points as usize];
    let unknown = CardHistory { index: 1, points, ..works.clone() };
    serde_json::to_string(&[works, unknown]).unwrap()
}

/// What an attempt was seen to use.
pub fn usage(job: &JobView, epoch: u64) -> String {
    let figure = |mean: f64, max: f64| Some(Figure { min: 0.0, mean, max, count: 3600 });
    let attempt = AttemptUsage {
        epoch,
        gpu_load: figure(41.4, 99.0),
        gpu_mem_mb: figure(9000.0, 12_000.0),
        cpus: figure(2.2, 9.0),
        ram_mb: figure(4000.0, 9000.0),
        cpu_time_s: Some(8000.0),
        max_ram_mb: Some(9100),
    };
    serde_json::to_string(&UsageView { id: job.id, attempts: vec![attempt] }).unwrap()
}
