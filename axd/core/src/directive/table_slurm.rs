//! Options of Slurm's `sbatch` for which ax has no use: accepted in Slurm's dialect, kept and shown. `doc` is the
//! hint with which ax's own dialect answers such a name.

use super::interpret::Read;
use super::options::{Effect, Known, OptionDef, Section, sites};
use super::read::{command, job, keep, resources};

const fn slurm(def: OptionDef, help: &'static str) -> OptionDef {
    def.known(Known::Slurm).says(Section::Slurm, help).effect(Effect::Kept)
}

const fn flag(name: &'static str, help: &'static str) -> OptionDef {
    slurm(OptionDef::flag(name, keep), help)
}

const fn value(name: &'static str, help: &'static str) -> OptionDef {
    with(name, "VALUE", keep, help)
}

const fn with(name: &'static str, placeholder: &'static str, read: Read, help: &'static str) -> OptionDef {
    slurm(OptionDef::text(name, placeholder, read), help)
}

const fn optional(name: &'static str, read: Read, help: &'static str) -> OptionDef {
    slurm(OptionDef::optional(name, "VALUE", read), help)
}

pub(super) const SLURM: &[OptionDef] = &[
    with("gres", "LIST", resources::gres, "generic resources: gpu:N is cards on each node")
        .effect(Effect::Now)
        .doc("write '--gpus=N'"),
    with("ram-per-cpu", "SIZE", resources::ram_per_cpu, "host memory for each CPU")
        .aliases(&["mem-per-cpu"])
        .effect(Effect::Now)
        .doc("write '--ram-per-cpu'"),
    with("ram-per-gpu", "SIZE", resources::ram_per_gpu, "host memory for each card")
        .aliases(&["mem-per-gpu"])
        .effect(Effect::Now)
        .doc("write '--ram-per-gpu', or '--mem' for memory of the GPU"),
    with("hint", "TYPE", job::hint, "how tasks are bound to CPUs"),
    optional("nice", job::nice, "lower priority").doc("write '--priority=0..100'"),
    value("acctg-freq", "how often usage is sampled"),
    value("batch", "features of the first node"),
    value("bb", "burst buffer"),
    value("bbf", "burst buffer, from a file"),
    value("cluster-constraint", "features of a cluster"),
    value("clusters", "clusters to choose from").aliases(&["cluster"]).shorts(&[('M', Known::Slurm)]),
    value("container", "OCI bundle"),
    value("container-id", "name of the container"),
    flag("contiguous", "nodes side by side"),
    value("core-spec", "cores left to the system").shorts(&[('S', Known::Slurm)]),
    value("cores-per-socket", "nodes with so many cores to a socket"),
    value("cpu-freq", "frequency of the CPUs"),
    value("cpus-per-gpu", "CPUs for each card").doc("write '--cpus-per-task'"),
    value("delay-boot", "wait before nodes are booted"),
    value("distribution", "order of tasks on nodes").shorts(&[('m', Known::Slurm)]),
    value("export-file", "variables to pass on, from a file").doc("write '--export' or '--env'"),
    value("extra", "text for site plugins"),
    value("extra-node-info", "sockets, cores and threads").shorts(&[('B', Known::Slurm)]),
    optional("get-user-env", keep, "the user's login environment"),
    value("gid", "group to run as"),
    value("gpu-bind", "how tasks are bound to cards"),
    value("gpu-freq", "frequency of the cards"),
    value("gpus-per-socket", "cards for each socket"),
    value("gres-flags", "how generic resources are bound"),
    flag("ignore-pbs", "do not read #PBS lines"),
    value("kill-on-invalid-dep", "end a job whose dependency cannot be met"),
    value("licenses", "licences to hold").shorts(&[('L', Known::Slurm)]),
    value("mcs-label", "security label"),
    value("mem-bind", "how tasks are bound to memory"),
    value("mincpus", "nodes with so many CPUs"),
    value("network", "properties of the network"),
    optional("no-kill", keep, "go on when a node fails").shorts(&[('k', Known::Slurm)]),
    value("nodefile", "hosts, from a file").shorts(&[('F', Known::Slurm)]).doc("write '--nodelist=HOSTS'"),
    value("ntasks-per-core", "tasks on each core"),
    value("ntasks-per-gpu", "tasks for each card"),
    value("ntasks-per-socket", "tasks on each socket"),
    optional("oom-kill-step", keep, "end all of a step that lacks memory"),
    flag("overcommit", "several tasks on a CPU").shorts(&[('O', Known::Slurm)]),
    flag("oversubscribe", "share the node's resources").shorts(&[('s', Known::Slurm)]),
    value("power", "power management"),
    value("prefer", "features that are better"),
    value("profile", "what to profile"),
    optional("propagate", keep, "resource limits to pass on"),
    value("qos", "quality of service").shorts(&[('q', Known::Slurm)]).doc("write '--queue' or '--priority'"),
    flag("reboot", "boot the nodes before the start"),
    value("reservation", "reservation to run in"),
    value("segment", "size of a segment of nodes"),
    value("sockets-per-node", "nodes with so many sockets"),
    flag("spread-job", "use as many nodes as possible"),
    flag("stepmgr", "a step manager for the job"),
    value("switches", "most switches between the nodes"),
    value("thread-spec", "threads left to the system"),
    value("threads-per-core", "nodes with so many threads to a core"),
    value("time-min", "shortest limit that will do"),
    value("tmp", "temporary disk space"),
    value("tres-bind", "how tasks are bound to resources"),
    value("tres-per-task", "resources for each task"),
    flag("use-min-nodes", "prefer fewer nodes"),
    value("wait-all-nodes", "start only when all nodes are up"),
    value("wckey", "key of the workload"),
    slurm(OptionDef::flag("usage", command).shorts(&[('u', Known::Slurm)]), "print the options in short")
        .at(sites::COMMAND_LINE),
];
