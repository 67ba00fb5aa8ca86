//! What people type wrong, and the whole line that answers it: read here, and by the real programs in
//! `tests/end_to_end/bad_words.rs`.

/// Scripts with options that are wrong, and files that are no scripts.
pub(crate) const DIRECTIVES: &[(&str, &str)] = &[
    ("#AX --gpu=2", "job.sh:1:5: unknown option '--gpu'; did you mean '--gpus'?"),
    ("#AX --gpus 2 --quue=high", "job.sh:1:14: unknown option '--quue'; did you mean '--queue'?"),
    ("#AX gpus=2", "job.sh:1:5: 'gpus=2' is not an option; did you mean '--gpus=2'?"),
    ("#AX -gpus=2", "job.sh:1:5: unknown option '-g'; did you mean '--gpus'?"),
    (
        "#AX –gpus=2",
        "job.sh:1:5: '–gpus=2' is not an option; its hyphens are other characters; type them again",
    ),
    ("#AX --gpus", "job.sh:1:5: '--gpus' needs a value; write '--gpus=[TYPE:]N'"),
    (
        "#AX --gpus=2 \\\\ ",
        "job.sh:1:14: '\\' is not an option; put a value with blanks in quotes, and a comment behind '#'",
    ),
    (
        "#AX --gpus=2 \\",
        "job.sh:1:14: a backslash at the end of an #AX line; a line cannot be continued; write a second #AX line",
    ),
    ("#AX --job-name=\"a", "job.sh:1:16: the quote \" is not closed on its line"),
    ("#AX --job-name='a", "job.sh:1:16: the quote ' is not closed on its line"),
    ("#AX --hold=yes", "job.sh:1:5: '--hold' takes no value"),
    (
        "#AX --mem=500 MB",
        "job.sh:1:15: 'MB' is not an option; put a value with blanks in quotes, and a comment behind '#'",
    ),
    ("#AX -Z", "job.sh:1:5: unknown option '-Z'"),
    ("#AX -cx", "job.sh:1:7: -c: 'x' is not a number from 1 to 1000000"),
    ("#AX --ntasks-per", "job.sh:1:5: '--ntasks-per' needs a value; write '--ntasks-per-node=N'"),
    (
        "#AX --n",
        "job.sh:1:5: '--n' could be '--ntasks' or '--ntasks-per-node' or '--nodes' or '--nodelist' or '--no-requeue'; write the whole name",
    ),
    ("#AX --wait", "job.sh:1:5: '--wait' belongs on the command line"),
    ("#AX --wrap=ls", "job.sh:1:5: '--wrap' belongs on the command line"),
    ("#AX --hint=nomultithread", "job.sh:1:5: '--hint' is an option of Slurm that ax does not have"),
    (
        "#AX --gres=gpu:1",
        "job.sh:1:5: '--gres' is an option of Slurm that ax does not have; write '--gpus=N'",
    ),
    (
        "#AX --mem-per-cpu=2G",
        "job.sh:1:5: '--mem-per-cpu' is an option of Slurm that ax does not have; write '--ram-per-cpu'",
    ),
    (
        "#AX --nice",
        "job.sh:1:5: '--nice' is an option of Slurm that ax does not have; write '--priority=0..100'",
    ),
    (
        "#AX --array=0-3",
        "job.sh:1:5: '--array' is not supported yet; submit a job for each value in a loop, with --env=NAME=VALUE",
    ),
    (
        "#AX --mem=40",
        "job.sh:1:5: '--mem' is memory of a GPU, and no GPU is asked for; write '--ram' for host memory, or add '--gpus=N'",
    ),
    (
        "#AX --ram=4G --ram-per-cpu=1G --gpus=1",
        "job.sh:1:28: --ram-per-cpu: stands beside '--ram', which also says how much memory; give one of them",
    ),
    (
        "#AX --gpus=2 --gpus-per-node=4",
        "job.sh:1:5: '--gpus' and '--gpus-per-node' ask for different cards on one node; give one of them",
    ),
    (
        "#AX -n 9 --ntasks-per-node=4",
        "job.sh:1:10: 9 tasks do not divide by 4 on a node; give a multiple, or the number of nodes",
    ),
    (
        "#AX --nodes=2 --gpus=7",
        "job.sh:1:15: 7 GPUs do not divide among 2 nodes; say how many each node gives: '--gpus-per-node=N'",
    ),
    (
        "#AX --nodes=2 -n 5",
        "job.sh:1:15: 5 tasks do not divide among 2 nodes; say how many each node runs: '--ntasks-per-node=N'",
    ),
    ("#AX --nodelist=a --exclude=A", "job.sh:1:18: '--exclude' excludes a, which '--nodelist' names"),
    ("#AX --nodes=4-2", "job.sh:1:13: --nodes: '4-2' goes down; write 2-4"),
    ("#AX --=x", "job.sh:1:5: unknown option '--'"),
    ("#AX --\x1b[31m=x", "job.sh:1:5: unknown option '--\\x1b[31m'"),
    (
        "#AX --job-name=a\0b",
        "job.sh:1:17: a NUL byte; this is not a shell script; perhaps UTF-16, or a program, which --wrap starts",
    ),
    ("", "job.sh: the script is empty"),
    ("#!/bin/sh\r#AX -n 2\rls\r", "job.sh: lines end in CR alone; save the script with Unix line ends"),
    ("#!/bin/sh\n#AX --env=A", "job.sh:2:11: --env: 'A' has no value; write '--env=NAME=VALUE'"),
    ("#SBATCH --gpu=2", "job.sh:1:9: unknown option '--gpu'; did you mean '--gpus'?"),
    (
        "#SBATCH stray",
        "job.sh:1:9: 'stray' is not an option; put a value with blanks in quotes, and a comment behind '#'",
    ),
    ("#SBATCH hetjob", "job.sh:1:9: 'hetjob': jobs of several parts are not supported"),
    ("#SBATCH : -n 2", "job.sh:1:9: ':' separates parts of a job; jobs of several parts are not supported"),
    (
        "#SBATCH --cpus=2",
        "job.sh:1:9: '--cpus' could be '--cpus-per-task' or '--cpus-per-gpu'; write the whole name",
    ),
    ("#SBATCH -J \"a", "job.sh:1:12: the quote \" is not closed on its line"),
    ("#SBATCH --share", "job.sh:1:9: unknown option '--share'"),
    (
        "#SBATCH --array=0-3",
        "job.sh:1:9: '--array' is not supported yet; submit a job for each value in a loop, with --env=NAME=VALUE",
    ),
    ("#SBATCH -n\n", "job.sh:1:9: '-n' needs a value; write '--ntasks=N'"),
    (
        "#SBATCH --mem=1 --mem-per-gpu=2",
        "job.sh:1:31: --mem-per-gpu: stands beside '--mem', which also says how much memory; give one of them",
    ),
    ("#SBATCH --gpus-per-task=1", "job.sh:1:9: '--gpus-per-task' needs a number of tasks; add '--ntasks=N'"),
    (
        "#SBATCH --gres=gpu:2 --gpus=3 -N1",
        "job.sh:1:22: '--gpus' and '--gres' ask for different cards on one node; give one of them",
    ),
    ("#SBATCH --uid=ada", "job.sh:1:9: '--uid' belongs on the command line"),
    (
        "#AX --dependenc=singleton",
        "job.sh:1:5: '--dependenc' is not supported yet; submit what follows at the end of the script, or after 'axbatch --wait'",
    ),
    ("#AX --JOB-NAME=x", "job.sh:1:5: unknown option '--JOB-NAME'; did you mean '--job-name'?"),
    ("#AX ---gpus=1", "job.sh:1:5: unknown option '---gpus'; did you mean '--gpus'?"),
    (
        "#AX --queue=a,b",
        "job.sh:1:13: --queue: 'a,b' is not a queue's name (1 to 64 letters, digits, '.', '_', '-')",
    ),
    (
        "#AX --xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
        "job.sh:1:5: unknown option '--xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx…'",
    ),
    ("#AX --version", "job.sh:1:5: '--version' belongs on the command line"),
    ("#AX --help", "job.sh:1:5: '--help' belongs on the command line"),
    ("#AX --cmd=x", "job.sh:1:5: '--cmd' belongs on the command line"),
    ("#AX --json", "job.sh:1:5: '--json' belongs on the command line"),
    ("#AX --parsable", "job.sh:1:5: '--parsable' belongs on the command line"),
    ("#AX -H=yes", "job.sh:1:5: '-H' takes no value"),
    (
        "#AX -- ls",
        "job.sh:1:8: 'ls' is not an option; put a value with blanks in quotes, and a comment behind '#'",
    ),
    (
        "#AX -",
        "job.sh:1:5: '-' is not an option; put a value with blanks in quotes, and a comment behind '#'",
    ),
    (
        "#AX ''",
        "job.sh:1:5: '' is not an option; put a value with blanks in quotes, and a comment behind '#'",
    ),
    ("#AX --no-requeue=1", "job.sh:1:5: '--no-requeue' takes no value"),
    (
        "#AX --qos=x",
        "job.sh:1:5: '--qos' is an option of Slurm that ax does not have; write '--queue' or '--priority'",
    ),
    (
        "#AX --export-file=x",
        "job.sh:1:5: '--export-file' is an option of Slurm that ax does not have; write '--export' or '--env'",
    ),
    ("#AX --time\t", "job.sh:1:5: '--time' needs a value; write '--time=LIMIT'"),
    ("#SBATCH --usage", "job.sh:1:9: '--usage' belongs on the command line"),
    ("#SBATCH packjob", "job.sh:1:9: 'packjob': jobs of several parts are not supported"),
    (
        "#SBATCHfoo",
        "job.sh:1:8: 'foo' is not an option; put a value with blanks in quotes, and a comment behind '#'",
    ),
    ("#SBATCH --version", "job.sh:1:9: '--version' belongs on the command line"),
    (
        "#SBATCH --get-user-env 5",
        "job.sh:1:24: '5' is not an option; put a value with blanks in quotes, and a comment behind '#'",
    ),
    (
        "\0\0",
        "job.sh:1:1: a NUL byte; this is not a shell script; perhaps UTF-16, or a program, which --wrap starts",
    ),
    (
        "#AX --preempt=suspend",
        "job.sh:1:15: --preempt: suspend is not supported yet; write requeue, cancel or never",
    ),
];

/// Scripts with values that are wrong.
pub(crate) const VALUES: &[(&str, &str)] = &[
    (
        "#AX --time=abc",
        "job.sh:1:12: --time: 'abc' is not a time limit: minutes, H:M:S, D-H:M:S, 8h or 'unlimited'",
    ),
    (
        "#AX --time=",
        "job.sh:1:12: --time: '' is not a time limit: minutes, H:M:S, D-H:M:S, 8h or 'unlimited'",
    ),
    (
        "#AX --time=0",
        "job.sh:1:12: --time: '0' is not a time limit: minutes, H:M:S, D-H:M:S, 8h or 'unlimited'",
    ),
    (
        "#AX --time=1:2:3:4",
        "job.sh:1:12: --time: '1:2:3:4' is not a time limit: minutes, H:M:S, D-H:M:S, 8h or 'unlimited'",
    ),
    (
        "#AX --time=-5",
        "job.sh:1:12: --time: '-5' is not a time limit: minutes, H:M:S, D-H:M:S, 8h or 'unlimited'",
    ),
    (
        "#AX --time=99999999999999999999",
        "job.sh:1:12: --time: '99999999999999999999' is not a time limit: minutes, H:M:S, D-H:M:S, 8h or 'unlimited'",
    ),
    ("#AX --estimate=0", "job.sh:1:16: --estimate: no time at all; leave it out, and ax learns it"),
    (
        "#AX --estimate=1h30",
        "job.sh:1:16: --estimate: '1h30' is not a length of time: seconds, 2s, 5m, 1h30m or H:M:S",
    ),
    (
        "#AX --begin=16",
        "job.sh:1:13: --begin: '16' is not a time: 16:00, now+2h, tomorrow, 'tomorrow 16:00' or 2030-12-24T18:00",
    ),
    (
        "#AX --begin=2030-02-30",
        "job.sh:1:13: --begin: '2030-02-30' is not a time: 16:00, now+2h, tomorrow, 'tomorrow 16:00' or 2030-12-24T18:00",
    ),
    ("#AX --window=22-8", "job.sh:1:14: --window: '22-8' is not daily hours such as 22:00-08:00"),
    ("#AX --array=3-1", "job.sh:1:13: --array: '3-1' goes down; write 1-3"),
    ("#AX --array=a-b", "job.sh:1:13: --array: 'a-b' is not an index, 0-15 or 0-15:2"),
    ("#AX --array=1-10:0", "job.sh:1:13: --array: '1-10:0' has a step of 0"),
    ("#AX --array=0-999999", "job.sh:1:13: --array: 1000000 elements are more than 100000"),
    ("#AX --array=0-3%x", "job.sh:1:13: --array: 'x' is not a number of elements at once"),
    (
        "#AX --dependency=afterOk:1",
        "job.sh:1:18: --dependency: 'afterOk' is not a kind of dependency; did you mean 'afterok'?",
    ),
    (
        "#AX --dependency=afterok",
        "job.sh:1:18: --dependency: '' is not a job, after 'afterok:'; write a number or an id such as ax-2026-0001",
    ),
    (
        "#AX --dependency=afterok:$id",
        "job.sh:1:18: --dependency: '$id' is not a job, after 'afterok:'; write a number or an id such as ax-2026-0001",
    ),
    (
        "#AX --dependency=afterok:1,after:2?after:3",
        "job.sh:1:18: --dependency: ',' (all) and '?' (any) in one dependency; use one of them",
    ),
    (
        "#AX --dependency=afterok:1+5",
        "job.sh:1:18: --dependency: the delay in 'afterok:1+5' is not minutes of 'after'",
    ),
    ("#AX --gpus=two", "job.sh:1:12: --gpus: 'two' is not a number of GPUs; write N or TYPE:N"),
    ("#AX --gpus=-1", "job.sh:1:12: --gpus: '-1' is not a number of GPUs; write N or TYPE:N"),
    ("#AX --gpus=a100", "job.sh:1:12: --gpus: 'a100' is not a number of GPUs; write N or TYPE:N"),
    ("#AX --gpus=2:a100", "job.sh:1:12: --gpus: '2:a100' is not a number of GPUs; write N or TYPE:N"),
    ("#AX --gpus=a100:2,v100:1", "job.sh:1:12: --gpus: 'a100:2,v100:1' names several types of GPU; name one"),
    (
        "#AX --gpus=1 --mem=0",
        "job.sh:1:20: --mem: '0' is not a size of GPU memory: 40 (GB), 40G, 1.5G or 512M",
    ),
    (
        "#AX --gpus=1 --mem=40Q",
        "job.sh:1:20: --mem: '40Q' is not a size of GPU memory: 40 (GB), 40G, 1.5G or 512M",
    ),
    ("#AX --ram=1e3", "job.sh:1:11: --ram: '1e3' is not a size of memory: 2048 (MB), 4G, 1.5G or 512M"),
    ("#AX --ram-per-gpu=0", "job.sh:1:19: --ram-per-gpu: no memory at all; write how much for each"),
    ("#AX --cpus-per-task=0", "job.sh:1:21: --cpus-per-task: '0' is not a number from 1 to 1000000"),
    ("#AX --ntasks=1.5", "job.sh:1:14: --ntasks: '1.5' is not a number from 1 to 1000000"),
    ("#AX --ntasks=99999999999", "job.sh:1:14: --ntasks: '99999999999' is not a number from 1 to 1000000"),
    ("#AX --nodes=2-1", "job.sh:1:13: --nodes: '2-1' goes down; write 1-2"),
    ("#AX --nodes=0", "job.sh:1:13: --nodes: '0' is not a number of nodes; write N or N-M"),
    ("#AX --nodes=gpu-[1", "job.sh:1:13: --nodes: brackets that do not match in 'gpu-[1'"),
    (
        "#AX --nodelist=gpu-[3-1]",
        "job.sh:1:16: --nodelist: '3-1' in brackets is not a number such as 07 or a range such as 01-04",
    ),
    ("#AX --nodelist=gpu-[1-99999]", "job.sh:1:16: --nodelist: more than 4096 names in a list of hosts"),
    ("#AX --nodelist=a,,b", "job.sh:1:16: --nodelist: an empty name in the list of hosts"),
    ("#AX --nodelist=-x", "job.sh:1:16: --nodelist: '-x' is not a host's name"),
    (
        "#AX --exclusive=user",
        "job.sh:1:17: --exclusive: 'user' is not a way to be exclusive; write '--exclusive' alone",
    ),
    ("#AX --priority=101", "job.sh:1:16: --priority: '101' is not a number from 0 to 100"),
    ("#AX --priority=high", "job.sh:1:16: --priority: 'high' is not a number from 0 to 100"),
    ("#AX --retry=-1", "job.sh:1:13: --retry: '-1' is not a number from 0 to 1000"),
    (
        "#AX --retry-delay=soon",
        "job.sh:1:19: --retry-delay: 'soon' is not a length of time: seconds, 2s, 5m, 1h30m or H:M:S",
    ),
    ("#AX --retry-on=0", "job.sh:1:16: --retry-on: '0' is not an exit code from 1 to 255"),
    ("#AX --retry-on=9-3", "job.sh:1:16: --retry-on: '9-3' goes down; write 3-9"),
    ("#AX --idempotent=maybe", "job.sh:1:18: --idempotent: 'maybe' is not yes or no"),
    ("#AX --idempotent=yess", "job.sh:1:18: --idempotent: 'yess' is not yes or no; did you mean 'yes'?"),
    ("#AX --lease-timeout=500ms", "job.sh:1:21: --lease-timeout: '500ms' is shorter than a second"),
    ("#AX --signal=USR3", "job.sh:1:14: --signal: 'USR3' is not a signal; did you mean 'USR1'?"),
    (
        "#AX --signal=R:USR1",
        "job.sh:1:14: --signal: 'R:USR1' has something other than 'B:' before the signal; write [B:]SIGNAL[@SECONDS]",
    ),
    (
        "#AX --signal=USR1@x",
        "job.sh:1:14: --signal: 'x' is not a length of time: seconds, 2s, 5m, 1h30m or H:M:S",
    ),
    ("#AX --signal=SIGTREM", "job.sh:1:14: --signal: 'SIGTREM' is not a signal; did you mean 'TERM'?"),
    (
        "#AX --preempt=susspend",
        "job.sh:1:15: --preempt: 'susspend' is not requeue, suspend, cancel or never; did you mean 'suspend'?",
    ),
    (
        "#AX --output=%z",
        "job.sh:1:14: --output: '%z' is not known in a pattern of file names; the known ones are %j %J %A %a %b %x %u %N %n %t %s %r %%",
    ),
    ("#AX --output=", "job.sh:1:14: --output: the value is empty"),
    (
        "#AX --open-mode=apend",
        "job.sh:1:17: --open-mode: 'apend' is not append or truncate; did you mean 'append'?",
    ),
    ("#AX --open-mode=bogus", "job.sh:1:17: --open-mode: 'bogus' is not append or truncate"),
    ("#AX --export=1A", "job.sh:1:14: --export: '1A' is not the name of a variable"),
    ("#AX --export=NONE,A", "job.sh:1:14: --export: 'NONE' stands with other names; write them without it"),
    ("#AX --env=A-B=1", "job.sh:1:11: --env: 'A-B' is not the name of a variable"),
    ("#AX --mail-type=ENDE", "job.sh:1:17: --mail-type: 'ENDE' is not a kind of mail; did you mean 'END'?"),
    (
        "#AX --slurm==x",
        "job.sh:1:13: --slurm: '' is not the long name of an option; write '--slurm=NAME=VALUE'",
    ),
    (
        "#AX --queue=-x",
        "job.sh:1:13: --queue: '-x' is not a queue's name (1 to 64 letters, digits, '.', '_', '-')",
    ),
    ("#AX --job-name=", "job.sh:1:16: --job-name: the value is empty"),
    (
        "#AX --queue=hi\x1b[31mgh",
        "job.sh:1:13: --queue: 'hi\\x1b[31mgh' is not a queue's name (1 to 64 letters, digits, '.', '_', '-')",
    ),
    (
        "#SBATCH --time=90m",
        "job.sh:1:16: --time: '90m' is not a time limit: minutes, M:S, H:M:S, D-H, D-H:M, D-H:M:S or UNLIMITED",
    ),
    ("#SBATCH --mem=1Gn", "job.sh:1:15: --mem: '1Gn' is not a size of memory: 2048 (MB), 4G, 1.5G or 512M"),
    ("#SBATCH --gres=gpu=1", "job.sh:1:16: --gres: 'gpu=1' is not a generic resource"),
    ("#SBATCH --gres=GPU:1", "job.sh:1:16: --gres: 'GPU' is not a generic resource; did you mean 'gpu'?"),
    ("#SBATCH --gres=gpu:2:a100", "job.sh:1:16: --gres: 'gpu:2:a100' is not gpu, gpu:N or gpu:TYPE:N"),
    (
        "#SBATCH --gres=gpu:1,gpu:a100:1",
        "job.sh:1:16: --gres: 'gpu:1,gpu:a100:1' asks for GPUs twice; write one gpu:N or gpu:TYPE:N",
    ),
    (
        "#SBATCH --hint=bogus",
        "job.sh:1:16: --hint: 'bogus' is not compute_bound, memory_bound, multithread or nomultithread",
    ),
    (
        "#SBATCH --exclusive=topo",
        "job.sh:1:21: --exclusive: 'topo' is not a way to be exclusive; write '--exclusive' alone",
    ),
    ("#SBATCH --nice=x", "job.sh:1:16: --nice: 'x' is not a number"),
    ("#SBATCH -N 1,2", "job.sh:1:12: -N: '1,2' is not a number of nodes; write N or N-M"),
    (
        "#AX --grace=x:y",
        "job.sh:1:13: --grace: 'x:y' is not a length of time: seconds, 2s, 5m, 1h30m or H:M:S",
    ),
    ("#AX --chdir=", "job.sh:1:13: --chdir: the value is empty"),
    ("#AX --comment", "job.sh:1:5: '--comment' needs a value; write '--comment=TEXT'"),
    (
        "#AX --input=%4",
        "job.sh:1:13: --input: '%4' is not known in a pattern of file names; the known ones are %j %J %A %a %b %x %u %N %n %t %s %r %%",
    ),
    (
        "#AX --error=%",
        "job.sh:1:13: --error: '%' is not known in a pattern of file names; the known ones are %j %J %A %a %b %x %u %N %n %t %s %r %%",
    ),
    ("#AX --account=", "job.sh:1:15: --account: the value is empty"),
    ("#AX --signal=B:@5", "job.sh:1:14: --signal: '' is not a signal"),
    ("#AX --array=1,,2", "job.sh:1:13: --array: '' is not an index, 0-15 or 0-15:2"),
    ("#SBATCH --gpus=1,2", "job.sh:1:16: --gpus: '1,2' names several types of GPU; name one"),
    (
        "#SBATCH --signal=X:USR1",
        "job.sh:1:18: --signal: 'X:USR1' has something other than 'B:' before the signal; write [B:]SIGNAL[@SECONDS]",
    ),
];

/// Command lines of `axbatch`; `~` stands between words.
pub(crate) const COMMAND_LINES: &[(&str, &str)] = &[
    ("--gpu~2~job.sh", "unknown option '--gpu'; did you mean '--gpus'?"),
    ("--time", "'--time' needs a value; write '--time=LIMIT'"),
    ("--time=abc~job.sh", "--time: 'abc' is not a time limit: minutes, H:M:S, D-H:M:S, 8h or 'unlimited'"),
    ("--cmd=ls", "'--cmd' is an option of 'ax submit'; write '--wrap=COMMAND'"),
    ("--wrap=ls~job.sh", "'--wrap' and 'job.sh' are two things to run"),
    ("--wrap= ", "'--wrap' is empty"),
    (
        "--mem=40~job.sh",
        "'--mem' is memory of a GPU, and no GPU is asked for; write '--ram' for host memory, or add '--gpus=N'",
    ),
    ("-n~0~job.sh", "-n: '0' is not a number from 1 to 1000000"),
    ("--licenses=x", "'--licenses' is an option of Slurm that ax does not have"),
];

/// Environment variables.
pub(crate) const VARIABLES: &[(&str, &str)] = &[
    ("AXBATCH_GPU=1", "AXBATCH_GPU: no option has this variable; did you mean 'AXBATCH_GPUS'?"),
    ("AXBATCH_HOLD=maybe", "AXBATCH_HOLD: 'maybe' is neither yes nor no"),
    ("AXBATCH_WRAP=x", "AXBATCH_WRAP: '--wrap' belongs on the command line"),
    ("AXBATCH_ZZZZZZ=x", "AXBATCH_ZZZZZZ: no option has this variable"),
];
