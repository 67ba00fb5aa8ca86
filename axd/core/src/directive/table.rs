//! The table of ax's options; those that only Slurm has are in `table_slurm`. What a value means is in `read`.

use super::options::{Effect, Known, OptionDef, Section, join, sites};
use super::read::{command, files, job, policy, resources, timing};
use super::table_slurm::SLURM;

const COUNT: usize = AX.len() + SLURM.len();
static ALL: [OptionDef; COUNT] = join::<COUNT>(&[AX, SLURM]);

/// Every option that ax knows, in the order of its help.
pub static OPTIONS: &[OptionDef] = &ALL;

const LATER: Effect = Effect::Later { matters: true };
const LATER_MINOR: Effect = Effect::Later { matters: false };

use Known::{Ax, Both, Extra, Slurm};
use Section::{Command, Files, Job, Policy, Resources, Timing};

const fn flag(name: &'static str, read: super::interpret::Read) -> OptionDef {
    OptionDef::flag(name, read)
}

const fn value(name: &'static str, placeholder: &'static str, read: super::interpret::Read) -> OptionDef {
    OptionDef::value(name, placeholder, read)
}

const fn text(name: &'static str, placeholder: &'static str, read: super::interpret::Read) -> OptionDef {
    OptionDef::text(name, placeholder, read)
}

const AX: &[OptionDef] = &[
    text("job-name", "NAME", job::name)
        .shorts(&[('J', Both)])
        .says(Job, "name of the job; default: the script's")
        .doc("At most 255 bytes. %x in the names of output files."),
    value("queue", "NAME", job::queue)
        .aliases(&["partition"])
        .shorts(&[('q', Ax), ('p', Both)])
        .says(Job, "queue to wait in; default: the configured one")
        .doc("In #SBATCH scripts a partition that ax has no queue for means the default queue."),
    value("priority", "0..100", job::priority)
        .says(Job, "priority within the queue; default 50")
        .doc("In Slurm's dialect, where it has no scale, it is kept and has no effect."),
    text("account", "NAME", job::account).shorts(&[('A', Both)]).says(Job, "account that the job is booked on"),
    text("comment", "TEXT", job::comment).says(Job, "text that is shown with the job").doc("At most 4 KiB."),
    value("gpus", "[TYPE:]N", resources::gpus)
        .shorts(&[('G', Both)])
        .says(Resources, "cards; with --mem slices of N cards"),
    value("mem", "SIZE", resources::gpu_mem)
        .aliases(&["gpu-mem"])
        .known(Ax)
        .says(Resources, "GPU memory of each card; a bare number is GB")
        .doc("K, M, G, T are powers of 1000, KiB to TiB of 1024. Less than a card has: the job gets a slice and \
              shares the card. For the memory of the machine see --ram."),
    flag("mem-fit", resources::mem_fit)
        .known(Extra)
        .says(Resources, "may get less, if its last runs used less")
        .doc("Where policy.learn_memory is fit, and three or more runs of the same thing are known. Without --mem it has \
              no effect."),
    value("gpu-mem", "SIZE", resources::gpu_mem)
        .known(Slurm)
        .says(Section::Slurm, "ax's --mem: GPU memory of each card"),
    value("gpu-mem-hints", "usual|torch|none", resources::gpu_mem_hints)
        .known(Extra)
        .says(Resources, "settings that keep frameworks to a slice")
        .doc("See ax-gpu(7). torch adds the share that PyTorch knows since 2.10; older ones refuse it."),
    value("ram", "SIZE", resources::ram)
        .known(Ax)
        .says(Resources, "host memory; a bare number is MB; or 'all'")
        .doc("K, M, G, T are powers of 1024. 0 is all of the node, as in Slurm."),
    value("ram-per-cpu", "SIZE", resources::ram_per_cpu).known(Ax).says(Resources, "host memory for each CPU"),
    value("ram-per-gpu", "SIZE", resources::ram_per_gpu).known(Ax).says(Resources, "host memory for each card"),
    value("ram", "SIZE", resources::ram)
        .aliases(&["mem"])
        .known(Slurm)
        .says(Section::Slurm, "host memory of each node; a bare number is MB"),
    value("cpus-per-task", "N", resources::cpus_per_task)
        .shorts(&[('c', Both)])
        .says(Resources, "CPUs for each task"),
    value("ntasks", "N", resources::ntasks)
        .aliases(&["tasks"])
        .shorts(&[('n', Both)])
        .says(Resources, "tasks on all nodes; default 1 on each"),
    value("ntasks-per-node", "N", resources::ntasks_per_node)
        .aliases(&["tasks-per-node"])
        .says(Resources, "tasks on each node")
        .doc("With --ntasks, which has to be a multiple, it says on how many nodes."),
    value("gpus-per-node", "[TYPE:]N", resources::gpus_per_node).says(Resources, "cards on each node"),
    value("gpus-per-task", "[TYPE:]N", resources::gpus_per_task).says(Resources, "cards for each task"),
    value("nodes", "N[-M]|HOSTS", resources::nodes)
        .shorts(&[('N', Both)])
        .says(Resources, "number of nodes, or which ones")
        .doc("Of several the job starts on all at one instant, with the same CPUs, memory and cards on each; of a range on as many as have room then. What is asked for in all, such as --gpus and --ntasks, has to divide evenly among them, and settles a range: the least number among which it divides. Fewer tasks than nodes are one task on as many nodes."),
    value("nodelist", "HOSTS", resources::nodelist)
        .shorts(&[('w', Both)])
        .says(Resources, "hosts to run on, such as gpu-[01-04]"),
    value("exclude", "HOSTS", resources::exclude).shorts(&[('x', Both)]).says(Resources, "hosts not to run on"),
    text("constraint", "FEATURES", resources::constraint)
        .shorts(&[('C', Both)])
        .says(Resources, "features of the node; &, | and parentheses")
        .doc("(a&b)|c; the names are those of resources.gpu_nodes[].features. In Slurm's dialect one with a name that no node has is left out, and that is said."),
    OptionDef::optional("exclusive", "user|mcs", resources::exclusive)
        .says(Resources, "whole nodes")
        .doc("Without a value. Slurm's values are accepted in its dialect, and have no effect."),
    value("time", "LIMIT", timing::limit)
        .shorts(&[('t', Both)])
        .says(Timing, "longest running time; a bare number is minutes")
        .doc("90, M:S, H:M:S, D-H, D-H:M, D-H:M:S, 8h, 1d12h or unlimited. In Slurm's dialect seconds round up to \
              minutes, 0 is no limit, and there are no units."),
    value("estimate", "DURATION", timing::estimate)
        .known(Extra)
        .says(Timing, "expected running time; learnt when absent")
        .doc("What is planned with; it ends nothing, --time does. After two successful runs of the same thing the mean \
              of the last two is planned with, where that is less. The same thing is what its owner submits under the \
              same name, but for numbers at its end, for the same cards and --mem."),
    value("begin", "WHEN", timing::begin)
        .says(Timing, "not before 16:00, now+2h, tomorrow, a date")
        .doc("Local times are the cluster's."),
    value("deadline", "WHEN", timing::deadline)
        .says(Timing, "be done by then, or do not start")
        .doc("Written as --begin is. The job starts as long as it could be over by then, as its --estimate says, else its \
              time limit; once it no longer could, it ends as DEADLINE. What still runs then is ended."),
    value("window", "HH:MM-HH:MM", timing::window)
        .known(Extra)
        .says(Timing, "run only within these daily hours")
        .doc("22:00-08:00 passes midnight. By the cluster's clock. The job starts only if its time limit, which it \
              needs, is over before the hours are."),
    value("dependency", "LIST", timing::dependency)
        .shorts(&[('d', Both)])
        .effect(LATER)
        .says(Timing, "start after other jobs: afterok:JOB, singleton, …"),
    value("array", "LIST[%N]", timing::array)
        .shorts(&[('a', Both)])
        .effect(LATER)
        .says(Timing, "one job for each index; at most N at once"),
    flag("hold", timing::hold).shorts(&[('H', Both)]).says(Timing, "wait until released"),
    flag("requeue", policy::requeue).says(Policy, "may be put back into the queue"),
    flag("no-requeue", policy::no_requeue).says(Policy, "is never put back into the queue"),
    value("retry", "N", policy::retry).known(Extra).says(Policy, "start again up to N times after a failure"),
    value("retry-delay", "DURATION", policy::retry_delay)
        .known(Extra)
        .says(Policy, "first pause before a retry; it doubles")
        .doc("A bare number is seconds; also 2s, 5m, 1h30m, H:M:S."),
    value("retry-on", "CODES", policy::retry_on)
        .known(Extra)
        .says(Policy, "exit codes to retry, such as 1,75,130-140"),
    value("idempotent", "yes|no", policy::idempotent)
        .known(Extra)
        .says(Policy, "whether a lost attempt may simply start again"),
    value("lease-timeout", "DURATION", policy::lease_timeout)
        .known(Extra)
        .effect(Effect::Kept)
        .says(Policy, "how long its node may be silent"),
    value("signal", "[B:]SIG[@TIME]", policy::signal)
        .says(Policy, "signal to send before the end; TIME in seconds")
        .doc("B: to the script's shell only. Without TIME 60 seconds before the limit."),
    value("preempt", "MODE", policy::preempt)
        .known(Extra)
        .says(Policy, "if urgent jobs come: requeue, cancel or never")
        .doc("Default: as its queue says. requeue ends it and starts it again later, cancel ends it for good, never lets \
              it run. suspend is not supported yet."),
    value("grace", "DURATION", policy::grace).known(Extra).says(Policy, "SIGTERM to SIGKILL, at most policy.max_grace"),
    text("output", "PATTERN", files::output)
        .shorts(&[('o', Both)])
        .says(Files, "file for output; default ax-%j.out")
        .doc("%j number, %J id, %A array, %a index, %b its last digit, %x name, %u user, %N node, %n its rank, %t task, %s step, %r \
              restarts, %% percent; %4j pads with zeros. Missing folders are made."),
    text("error", "PATTERN", files::error).shorts(&[('e', Both)]).says(Files, "file for errors; default: with output"),
    text("input", "PATTERN", files::input).shorts(&[('i', Both)]).says(Files, "file for input; default /dev/null"),
    value("open-mode", "append|truncate", files::open_mode).says(Files, "how the output files are opened"),
    text("chdir", "DIR", files::chdir)
        .aliases(&["workdir"])
        .shorts(&[('D', Both)])
        .says(Files, "folder to run in; default: the current one"),
    value("export", "LIST", files::export)
        .says(Files, "variables to pass: ALL, NONE, NAME, NAME=VALUE")
        .doc("Default ALL. A value with a comma stands in quotes."),
    value("env", "NAME=VALUE", files::env)
        .known(Extra)
        .adds_up()
        .says(Files, "a variable for the job; may be repeated")
        .doc("$JOB_ID and the job's other variables in VALUE are expanded at the start."),
    value("mail-type", "EVENTS", files::mail_type)
        .effect(LATER_MINOR)
        .adds_up()
        .says(Files, "events to write a mail at: BEGIN, END, FAIL, ALL, …"),
    text("mail-user", "ADDRESS", files::mail_user).effect(LATER_MINOR).says(Files, "whom to write to"),
    text("slurm", "NAME=VALUE", job::slurm)
        .known(Ax)
        .adds_up()
        .says(Job, "keep an option of Slurm, without effect")
        .doc("This is how an exported job carries what its #SBATCH script said and ax has no use for."),
    flag("wait", job::wait)
        .shorts(&[('W', Both)])
        .at(sites::NOT_AX_LINE)
        .says(Command, "wait for the job and exit with its status"),
    flag("test-only", job::test_only)
        .at(sites::NOT_AX_LINE)
        .says(Command, "check, say when it would start, submit nothing"),
    flag("parsable", job::parsable).at(sites::NOT_AX_LINE).says(Command, "print the id alone"),
    flag("quiet", job::quiet).shorts(&[('Q', Both)]).at(sites::NOT_AX_LINE).says(Command, "print nothing but errors"),
    flag("verbose", job::verbose)
        .shorts(&[('v', Both)])
        .adds_up()
        .at(sites::NOT_AX_LINE)
        .says(Command, "say what was understood"),
    text("wrap", "COMMAND", command).at(sites::COMMAND_LINE).says(Command, "make a script of a shell command"),
    text("cmd", "COMMAND", command)
        .known(Ax)
        .at(sites::COMMAND_LINE)
        .says(Command, "the command to run, for ax submit"),
    text("uid", "USER", job::uid).at(sites::COMMAND_LINE).says(Command, "submit as another user; root only"),
    flag("json", command).known(Extra).at(sites::COMMAND_LINE).says(Command, "print the answer as JSON"),
    text("root", "DIR", command)
        .known(Extra)
        .at(sites::COMMAND_LINE)
        .says(Command, "all of ax's paths lie under DIR; or AX_ROOT"),
    flag("help", command).shorts(&[('h', Both)]).at(sites::COMMAND_LINE).says(Command, "print this and exit"),
    flag("version", command).shorts(&[('V', Both)]).at(sites::COMMAND_LINE).says(Command, "print the version and exit"),
];
