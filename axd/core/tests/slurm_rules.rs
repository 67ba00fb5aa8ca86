//! What Slurm's directives mean: a row for each thing that was measured with Slurm itself. Where ax is kinder than
//! Slurm the row says so.

use ax_core::directive::{Dialect, Interpretation, interpret, parse_script};
use ax_core::job::spec::{GpuCount, JobSpec, RamRequest, TimeLimit, When};
use ax_core::size::Megabytes;
use ax_core::time::Span;

/// Reads one `#SBATCH` line; what follows the prefix is given.
fn sbatch(rest: &str) -> Result<Interpretation, String> {
    let script = format!("#!/bin/bash\n#SBATCH{rest}\nhostname\n");
    let parsed = parse_script("job.sh", script.as_bytes()).map_err(|error| error.to_string())?;
    assert_eq!(parsed.dialect, Dialect::Slurm);
    interpret(&[parsed.source()]).map_err(|error| error.to_string())
}

fn spec(option: &str) -> Result<JobSpec, String> {
    sbatch(&format!(" {option}")).map(|all| all.spec)
}

/// Whether the value is right: the option may still be one that ax refuses as a whole.
fn value_is_right(option: &str) -> bool {
    spec(option).map_or_else(|error| error.contains("is not supported yet"), |_| true)
}

#[test]
fn time() {
    let minutes = |n: u64| Some(TimeLimit::After(Span::seconds(n * 60)));
    for (text, limit) in [
        ("30", minutes(30)),
        ("30:15", minutes(31)),
        ("1:75", minutes(3)),
        ("1:30:15", minutes(91)),
        ("90:00:00", minutes((3 * 24 + 18) * 60)),
        ("00:90:00", minutes(90)),
        ("1-2", minutes(26 * 60)),
        ("1-2:3", minutes(26 * 60 + 3)),
        ("1-2:3:4", minutes(26 * 60 + 4)),
        ("1-30:00:00", minutes(54 * 60)),
        ("0:0:5", minutes(1)),
        ("1-", minutes(24 * 60)),
        ("0", Some(TimeLimit::Unlimited)),
        ("-1", Some(TimeLimit::Unlimited)),
        ("INFINITE", Some(TimeLimit::Unlimited)),
        ("UNLIMITED", Some(TimeLimit::Unlimited)),
        ("1d", None),
        ("2h", None),
        ("90m", None),
        ("12.5", None),
        ("1:2:3:4", None),
    ] {
        for option in [format!("--time={text}"), format!("--time {text}"), format!("-t {text}")] {
            assert_eq!(spec(&option).ok().and_then(|spec| spec.timing.limit), limit, "{option}");
        }
    }
}

#[test]
fn memory() {
    let mb = |n| Some(RamRequest::PerNode(Megabytes(n)));
    for (text, ram) in [
        ("1", mb(1)),
        ("1K", mb(1)),
        ("1g", mb(1024)),
        ("1gb", mb(1024)),
        ("1GB", mb(1024)),
        ("1G", mb(1024)),
        ("4096mb", mb(4096)),
        ("0", Some(RamRequest::WholeNode)),
        // Slurm has no decimals and no GiB: ax is kinder.
        ("1.5G", mb(1536)),
        ("1GiB", mb(1024)),
        ("1MiB", mb(1)),
        ("1Gn", None),
        ("1P", None),
        ("1e3", None),
        ("500 MB", None),
    ] {
        let found = spec(&format!("--mem={text}")).ok();
        assert_eq!(found.as_ref().and_then(|spec| spec.resources.ram), ram, "{text}");
        assert!(found.is_none_or(|spec| spec.resources.gpu_mem.is_none()));
    }
    assert_eq!(spec("--mem-per-cpu=2G").unwrap().resources.ram, Some(RamRequest::PerCpu(Megabytes(2048))));
    assert_eq!(spec("--mem-per-gpu=2G").unwrap().resources.ram, Some(RamRequest::PerGpu(Megabytes(2048))));
    assert_eq!(
        spec("--mem=1 --mem-per-cpu=1").unwrap_err(),
        "job.sh:2:31: --mem-per-cpu: stands beside '--mem', which also says how much memory; give one of them"
    );
}

#[test]
fn cards() {
    let count = |kind: Option<&str>, count| Some(GpuCount { kind: kind.map(str::to_owned), count });
    for (text, cards) in [
        ("gpu", count(None, 1)),
        ("gpu:2", count(None, 2)),
        ("gpu:a100:2", count(Some("a100"), 2)),
        ("gpu:a100", count(Some("a100"), 1)),
        ("gres:gpu:1", count(None, 1)),
        ("gpu:0", count(None, 0)),
    ] {
        assert_eq!(spec(&format!("--gres={text}")).unwrap().resources.gpus_per_node, cards, "{text}");
    }
    assert_eq!(spec("--gres=none").unwrap(), JobSpec::default());
    for text in ["gpu=1", "gres/gpu:1", "gpu:2:a100", "GPU:1", "gpu:1,gpu:a100:1", "gpu:", ""] {
        assert!(spec(&format!("--gres={text}")).is_err(), "{text}");
    }
    for (text, cards) in [
        ("--gpus=2", count(None, 2)),
        ("--gpus=a100:2", count(Some("a100"), 2)),
        ("--gpus='NVIDIA H200 80GB:2'", count(Some("nvidia-h200-80gb"), 2)),
        ("-G2", count(None, 2)),
        ("--gpus=a100", count(Some("a100"), 1)),
    ] {
        assert_eq!(spec(text).unwrap().resources.gpus, cards, "{text}");
    }
    assert!(spec("--gpus-per-task=1").is_err());
    assert!(spec("--gpus-per-task=1 -n 2").is_ok());
    let other = spec("--gres=gpu:1,shard:2").unwrap();
    assert_eq!(other.unused, [("gres".to_owned(), "gpu:1,shard:2".to_owned())]);
}

#[test]
fn arrays_nodes_and_dependencies() {
    for text in ["0-3", "1,3,5", "0-10:2", "0-9%2", "[0-3]", "5-5", "0-3,7,9-11:2%3", "1-3%", "0-3%0"] {
        assert!(value_is_right(&format!("--array={text}")), "{text}");
    }
    for text in ["3-1", "a-b", "1-10:0"] {
        assert!(!value_is_right(&format!("--array={text}")), "{text}");
    }
    for text in ["afterok:1:2,afterany:3", "afterok:1?afterok:2", "after:1+5", "singleton", ""] {
        assert!(value_is_right(&format!("--dependency={text}")), "{text}");
    }
    assert!(!value_is_right("--dependency=afterok:1,afterok:2?afterok:3"));
    for (text, range) in
        [("--nodes=1k", (1024, 1024)), ("-N 1-2", (1, 2)), ("-N4", (4, 4)), ("-N 1-1", (1, 1))]
    {
        let nodes = spec(text).unwrap().resources.nodes.unwrap();
        assert_eq!((nodes.min, nodes.max), range, "{text}");
    }
    for text in ["-N 2-1", "-N 1,2", "--nodes = 2", "-N gpu-01", "-N 0"] {
        let error = spec(text).unwrap_err();
        assert!(!error.contains("supported"), "{error}");
    }
}

#[test]
fn other_values() {
    for (text, batch_only, signal, seconds) in [
        ("12@30", false, 12, 30),
        ("SIGUSR1@5", false, 10, 5),
        ("B:USR1@60", true, 10, 60),
        ("USR1", false, 10, 60),
        ("R:USR1@9", false, 10, 9),
    ] {
        let warn = spec(&format!("--signal={text}")).unwrap().policy.signal.unwrap();
        assert_eq!((warn.batch_only, warn.signal, warn.before), (batch_only, signal, Span::seconds(seconds)));
    }
    for (text, begin) in [
        ("now+1hour", When::In(Span::seconds(3600))),
        ("16:00", When::Clock(57_600)),
        ("tomorrow", When::Day { days: 1, clock: 0 }),
        ("2030-01-01", When::Date { year: 2030, month: 1, day: 1, clock: 0 }),
    ] {
        assert_eq!(spec(&format!("--begin={text}")).unwrap().timing.begin, Some(begin), "{text}");
    }
    let unused = |option: &str| spec(option).unwrap().unused;
    let pair = |name: &str, value: &str| vec![(name.to_owned(), value.to_owned())];
    assert_eq!(unused("--nice"), pair("nice", "100"));
    assert_eq!(unused("--mail-type=end,fail"), pair("mail-type", "end,fail"));
    assert_eq!(unused("--mail-type=END --mail-type=fail"), pair("mail-type", "END,fail"));
    assert_eq!(unused("--exclusive=user"), pair("exclusive", "user"));
    assert_eq!(unused("--exclusive=mcs"), pair("exclusive", "mcs"));
    assert_eq!(unused("--hint=nomultithread"), pair("hint", "nomultithread"));
    assert!(spec("--exclusive").unwrap().resources.exclusive);
    for text in ["--hint=bogus", "--open-mode=bogus", "--mail-type=bogus", "--cpu-bind=cores"] {
        assert!(spec(text).is_err(), "{text}");
    }
    assert!(spec("--container-image=x").is_err());
    // An old name of --chdir, gone from Slurm: ax is kinder.
    assert_eq!(spec("--workdir=/tmp").unwrap().io.chdir.as_deref(), Some("/tmp"));
}

#[test]
fn words_of_a_line() {
    let tasks = |rest: &str| sbatch(rest).unwrap().spec.resources.ntasks;
    let name = |rest: &str| sbatch(rest).unwrap().spec.name;
    for rest in [
        "-n 3",
        " -n 3",
        "\t-n\t3  ",
        "--ntasks=3",
        " --ntasks 3",
        " -n3",
        " --ntasks=3",
        " -n 3#two",
        " -n 3 # two",
        " -n '3'",
        " --ntasks=\"3\"",
        " -n 2 -n 3",
        " --tasks=3",
        // Slurm refuses this one.
        " -n=3",
    ] {
        assert_eq!(tasks(rest), Some(3), "{rest}");
    }
    assert_eq!(name(" --job-name=a#b").as_deref(), Some("a"));
    assert_eq!(name(" --job-name='a b'").as_deref(), Some("a b"));
    assert_eq!(name(r" --job-name=a\ b\#c").as_deref(), Some("a b#c"));
    assert_eq!(name(" -J=x").as_deref(), Some("=x"));
    assert_eq!(name(" --job-name=$HOME").as_deref(), Some("$HOME"));
    for rest in [" -J 'a", " stray", " --cpus=2", " --bogus", " :", " hetjob", "foo", " --parsable=1"] {
        assert!(sbatch(rest).is_err(), "{rest}");
    }
    let out = sbatch(" --out=x").unwrap().spec.io.output;
    assert_eq!(out.as_deref(), Some("x"));
}

#[test]
fn lines_of_a_script() {
    let read = |script: &str| {
        let parsed = parse_script("job.sh", script.as_bytes()).unwrap();
        let spec = interpret(&[parsed.source()]).unwrap().spec;
        let warnings: Vec<String> = parsed.warnings.iter().map(ToString::to_string).collect();
        (spec.resources.ntasks, warnings)
    };
    for (script, tasks, warning) in [
        // All lines are one command line.
        ("#SBATCH -n\n#SBATCH 3\n", Some(3), ""),
        ("#!/bin/bash -l  \n\n# x\n#SBATCH -n 3", Some(3), ""),
        ("#SBATCH -n 3\r\nhostname\r\n", Some(3), ""),
        ("\u{feff}#!/bin/sh\n#SBATCH -n 3\n", Some(3), ""),
        ("#SBATCH -n 3\n##SBATCH -n 4\n", Some(3), ""),
        ("#SBATCH -n 3\n  # x\n\t\n#SBATCH -n 4\n", Some(4), ""),
        (
            "#SBATCH -n 3\n# SBATCH -n 4\n",
            Some(3),
            "job.sh:2:1: '# SBATCH' is a comment; write '#SBATCH' at the start",
        ),
        (
            "#SBATCH -n 3\n #SBATCH -n 4\n",
            Some(3),
            "job.sh:2:2: ' #SBATCH' is a comment; write '#SBATCH' at the start",
        ),
        (
            "#SBATCH -n 3\n#sbatch -n 4\n",
            Some(3),
            "job.sh:2:1: '#sbatch' is a comment; write '#SBATCH' at the start",
        ),
        (
            "#SBATCH -n 3\nls\n#SBATCH -n 4\n",
            Some(3),
            "job.sh:3:1: #SBATCH after the first command is ignored",
        ),
        ("#SLURM -n 3\n", Some(3), "job.sh:1:1: #SLURM is read as #SBATCH; write '#SBATCH'"),
        ("#PBS -l nodes=1\n#SBATCH -n 3\n", Some(3), "job.sh:1:1: #PBS lines are not read; write '#AX'"),
        (
            "#SBATCH -n 3 -o $HOME/x\n",
            Some(3),
            "job.sh:1:17: '$HOME/x' is taken as it stands; variables are not expanded in a directive",
        ),
    ] {
        let (found, warnings) = read(script);
        assert_eq!(found, tasks, "{script}");
        assert_eq!(warnings.join("\n"), warning, "{script}");
    }
}

#[test]
fn what_changes_where_or_how_often_is_refused() {
    for (option, refused) in [
        ("--array=0-3", true),
        ("--dependency=afterok:1", true),
        ("--deadline=tomorrow", false),
        ("--nodes=2", false),
        ("--nodes=2 --gpus=3", true),
        ("--nodes=2 -n 3", true),
        ("--nodes=2 -n 4 --gpus=4 --gpus-per-node=2", false),
        ("-n 8 --ntasks-per-node=4", false),
        ("-n 9 --ntasks-per-node=4", true),
        ("--gres=gpu:2 --gpus=4", false),
        ("--gres=gpu:2 --gpus=4 -N 1", true),
        ("-N 1 -n 8 --ntasks-per-node=4", false),
        ("--constraint=haswell", false),
        ("--nodelist=gpu-01", false),
        ("--mail-type=ALL --mail-user=ada@example.org", false),
        ("--partition=gpu,long --account=a --qos=b --reservation=c --licenses=d", false),
        ("--priority=1000000 --nice=5 --get-user-env --wait-all-nodes=1 --ntasks-per-socket=2", false),
        ("--cpus-per-gpu=4 --overcommit -B 2:4 --profile=all --switches=1 --wckey=x --parsable", false),
    ] {
        assert_eq!(spec(option).is_err(), refused, "{option}");
    }
    let kept = spec("-C haswell --mail-user=ada").unwrap();
    // Whether there is such a feature the daemon knows.
    assert_eq!(kept.resources.constraint.as_deref(), Some("haswell"));
    assert_eq!(kept.unused.len(), 1);
}

#[test]
fn output_files() {
    for (text, pattern) in
        [("%x-%J.out", "%x-%j.out"), ("none", "/dev/null"), ("%4a_%%", "%4a_%%"), ("%z", "%%z")]
    {
        let all = sbatch(&format!(" -o {text}")).unwrap();
        assert_eq!(all.spec.io.output.as_deref(), Some(pattern), "{text}");
        assert_eq!(all.notes.len(), usize::from(text == "%z"));
    }
}

#[test]
fn options_of_ax_work_in_slurms_dialect_under_their_own_names() {
    let spec = spec("--gpus=1 --gpu-mem=40 --ram=2G --queue=high --retry=3 --env=A=1").unwrap();
    assert_eq!(spec.resources.gpu_mem, Some(Megabytes(38_146)));
    assert_eq!(spec.resources.ram, Some(RamRequest::PerNode(Megabytes(2048))));
    assert_eq!((spec.queue.as_deref(), spec.policy.retry), (Some("high"), Some(3)));
}
