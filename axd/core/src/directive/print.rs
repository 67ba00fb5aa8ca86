//! A job's options in canonical form: long names of ax's dialect, one word
//! each, which `parse_args` and `interpret` read back to the same job.

use super::{signals, syntax, when};
use crate::hostlist;
use crate::job::spec::{
    GpuCount, IoSpec, JobSpec, MemHints, OpenMode, PolicySpec, PreemptMode, RamRequest, ResourceSpec,
    TimingSpec,
};
use crate::units::{format_duration, format_gpu_size, format_size, format_time_limit};

/// The options of a job, in the order of the table, as words of a command
/// line: not quoted. Read back they make the same job, as far as ax supports its options.
pub fn print(spec: &JobSpec) -> Vec<String> {
    let mut words = Words(Vec::new());
    words.text("job-name", &spec.name);
    words.text("queue", &spec.queue);
    words.text("account", &spec.account);
    words.text("comment", &spec.comment);
    resources(&mut words, &spec.resources);
    timing(&mut words, &spec.timing);
    policy(&mut words, &spec.policy);
    files(&mut words, &spec.io);
    if !spec.mail_type.is_empty() {
        words.value("mail-type", &spec.mail_type.join(","));
    }
    words.text("mail-user", &spec.mail_user);
    for (name, value) in &spec.unused {
        words.value("slurm", &format!("{name}={value}"));
    }
    words.0
}

struct Words(Vec<String>);

impl Words {
    fn flag(&mut self, name: &str, given: bool) {
        if given {
            self.0.push(format!("--{name}"));
        }
    }

    fn value(&mut self, name: &str, value: &str) {
        self.0.push(format!("--{name}={value}"));
    }

    fn text(&mut self, name: &str, value: &Option<String>) {
        self.option(name, value.as_ref(), String::clone);
    }

    fn option<T>(&mut self, name: &str, value: Option<T>, write: impl FnOnce(T) -> String) {
        if let Some(value) = value {
            self.value(name, &write(value));
        }
    }
}

fn resources(words: &mut Words, resources: &ResourceSpec) {
    let gpus = |gpus: &GpuCount| match &gpus.kind {
        Some(kind) => format!("{kind}:{}", gpus.count),
        None => gpus.count.to_string(),
    };
    words.option("gpus", resources.gpus.as_ref(), gpus);
    words.option("mem", resources.gpu_mem, format_gpu_size);
    words.option("gpu-mem-hints", resources.gpu_mem_hints, |hints| {
        let name = match hints {
            MemHints::Usual => "usual",
            MemHints::Torch => "torch",
            MemHints::None => "none",
        };
        name.to_owned()
    });
    words.flag("mem-fit", resources.fit_memory);
    match resources.ram {
        None => {}
        Some(RamRequest::WholeNode) => words.value("ram", "all"),
        Some(RamRequest::PerNode(size)) => words.value("ram", &format_size(size)),
        Some(RamRequest::PerCpu(size)) => words.value("ram-per-cpu", &format_size(size)),
        Some(RamRequest::PerGpu(size)) => words.value("ram-per-gpu", &format_size(size)),
    }
    words.option("cpus-per-task", resources.cpus_per_task, |n| n.to_string());
    words.option("ntasks", resources.ntasks, |n| n.to_string());
    words.option("ntasks-per-node", resources.ntasks_per_node, |n| n.to_string());
    words.option("gpus-per-node", resources.gpus_per_node.as_ref(), gpus);
    words.option("gpus-per-task", resources.gpus_per_task.as_ref(), gpus);
    words.option("nodes", resources.nodes, |nodes| format!("{}-{}", nodes.min, nodes.max));
    for (name, hosts) in [("nodelist", &resources.nodelist), ("exclude", &resources.exclude)] {
        words.option(name, Some(hosts).filter(|hosts| !hosts.is_empty()), |hosts| hostlist::compress(hosts));
    }
    words.text("constraint", &resources.constraint);
    words.flag("exclusive", resources.exclusive);
}

fn timing(words: &mut Words, timing: &TimingSpec) {
    words.option("priority", timing.priority, |priority| priority.to_string());
    words.option("time", timing.limit, format_time_limit);
    words.option("estimate", timing.estimate, format_duration);
    words.option("begin", timing.begin.as_ref(), when::format);
    words.option("deadline", timing.deadline.as_ref(), when::format);
    words.option("window", timing.window, |window| window.to_string());
    words.text("dependency", &timing.dependency);
    words.text("array", &timing.array);
    words.flag("hold", timing.hold);
}

fn policy(words: &mut Words, policy: &PolicySpec) {
    words.flag("requeue", policy.requeue == Some(true));
    words.flag("no-requeue", policy.requeue == Some(false));
    words.option("retry", policy.retry, |retry| retry.to_string());
    words.option("retry-delay", policy.retry_delay, format_duration);
    if !policy.retry_on.is_empty() {
        let codes: Vec<String> = policy.retry_on.iter().map(u8::to_string).collect();
        words.value("retry-on", &codes.join(","));
    }
    words.option("idempotent", policy.idempotent, |yes| if yes { "yes" } else { "no" }.to_owned());
    words.option("lease-timeout", policy.lease_timeout, format_duration);
    words.option("signal", policy.signal, |warn| {
        let batch = if warn.batch_only { "B:" } else { "" };
        format!("{batch}{}@{}", signals::name(warn.signal), format_duration(warn.before))
    });
    words.option("preempt", policy.preempt, |mode| {
        let name = match mode {
            PreemptMode::Requeue => "requeue",
            PreemptMode::Suspend => "suspend",
            PreemptMode::Cancel => "cancel",
            PreemptMode::Never => "never",
        };
        name.to_owned()
    });
    words.option("grace", policy.grace, format_duration);
}

fn files(words: &mut Words, io: &IoSpec) {
    words.text("output", &io.output);
    words.text("error", &io.error);
    words.text("input", &io.input);
    words.option("open-mode", io.open_mode, |mode| {
        let name = match mode {
            OpenMode::Truncate => "truncate",
            OpenMode::Append => "append",
        };
        name.to_owned()
    });
    words.text("chdir", &io.chdir);
    words.option("export", syntax::format_export(&io.export), |export| export);
    for (name, value) in &io.env {
        words.value("env", &format!("{name}={value}"));
    }
}
