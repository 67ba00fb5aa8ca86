//! Whole scripts as people have them.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use ax_core::directive::{
    Conduct, Dialect, Program, ScriptDirectives, interpret, parse_args, parse_environment, parse_script,
};
use ax_core::job::spec::{JobSpec, NodeCount, OpenMode, RamRequest, TimeLimit};
use ax_core::size::Megabytes;
use ax_core::time::Span;

fn read(script: &str) -> (ScriptDirectives, JobSpec) {
    let parsed = parse_script("job.sh", script.as_bytes()).unwrap();
    let spec = interpret(&[parsed.source()]).unwrap().spec;
    (parsed, spec)
}

#[test]
fn a_training_script_of_ax() {
    let (parsed, spec) = read(
        "#!/bin/bash
# Trains the small model.
#AX --job-name=train --queue=high      # the paper's run
#AX --gpus=2 --mem=40 --ram=64G -c 8
#AX -t 1d12h --retry=3 --retry-delay=30 --idempotent=yes
#AX --output='logs/%x-%j.out' --signal=B:USR1@2m

set -e
python train.py --gpus=2
",
    );
    assert_eq!((parsed.dialect, parsed.interpreter.as_deref()), (Dialect::Ax, Some("/bin/bash")));
    assert!(parsed.warnings.is_empty() && !parsed.crlf && !parsed.bom);
    assert_eq!((spec.name.as_deref(), spec.queue.as_deref()), (Some("train"), Some("high")));
    assert_eq!(spec.resources.gpus.unwrap().count, 2);
    assert_eq!(spec.resources.gpu_mem, Some(Megabytes(38_146)));
    assert_eq!(spec.resources.ram, Some(RamRequest::PerNode(Megabytes(65_536))));
    assert_eq!(spec.timing.limit, Some(TimeLimit::After(Span::seconds(129_600))));
    assert_eq!(spec.policy.retry_delay, Some(Span::seconds(30)));
    assert_eq!(spec.policy.signal.unwrap().before, Span::seconds(120));
    assert_eq!(spec.io.output.as_deref(), Some("logs/%x-%j.out"));
}

#[test]
fn a_script_of_a_university_centre() {
    let (parsed, spec) = read(
        "#!/bin/bash -l
#SBATCH -J \"blast run\"             # job name
#SBATCH -p shared,long            # partitions
#SBATCH -n 1                      # Number of cores
#SBATCH -N 1                      # Ensure that all cores are on one machine
#SBATCH -t 0-08:00                # Runtime in D-HH:MM
#SBATCH --mem=4000                # Memory pool for all cores (see also --mem-per-cpu)
#SBATCH -o hostname_%j.out        # File to which STDOUT will be written
#SBATCH -e hostname_%j.err        # File to which STDERR will be written
#SBATCH --mail-type=END           # Type of email notification
#SBATCH --mail-type=FAIL
#SBATCH --mail-user=ada@example.org
#SBATCH --hint=nomultithread
#SBATCH --account=lab --qos=normal --open-mode=append
##SBATCH --exclusive

module load blast
blastn -query $1
",
    );
    assert_eq!((parsed.dialect, parsed.interpreter.as_deref()), (Dialect::Slurm, Some("/bin/bash -l")));
    assert!(parsed.warnings.is_empty());
    assert_eq!((spec.name.as_deref(), spec.queue.as_deref()), (Some("blast run"), Some("shared,long")));
    assert_eq!(spec.resources.nodes, Some(NodeCount { min: 1, max: 1 }));
    assert_eq!(spec.resources.ram, Some(RamRequest::PerNode(Megabytes(4000))));
    assert_eq!(spec.timing.limit, Some(TimeLimit::After(Span::seconds(8 * 3600))));
    assert_eq!(spec.io.open_mode, Some(OpenMode::Append));
    let unused: Vec<String> = spec.unused.iter().map(|(name, value)| format!("{name}={value}")).collect();
    assert_eq!(
        unused.join(" "),
        "mail-type=END,FAIL mail-user=ada@example.org hint=nomultithread qos=normal"
    );
}

#[test]
fn a_gpu_script_that_a_tool_wrote() {
    let (_, spec) = read(
        "#!/bin/bash\n\n# Parameters\n#SBATCH --cpus-per-task=10\n#SBATCH --error=/tmp/%j_0_log.err\n\
         #SBATCH --gpus-per-node=1\n#SBATCH --job-name=submitit\n#SBATCH --mem=32GB\n#SBATCH --nodes=1\n\
         #SBATCH --ntasks-per-node=1\n#SBATCH --open-mode=append\n#SBATCH --output=/tmp/%j_0_log.out\n\
         #SBATCH --partition=dev\n#SBATCH --signal=USR2@90\n#SBATCH --time=60\n#SBATCH --wckey=submitit\n\n\
         # command\nexport SUBMITIT_EXECUTOR=slurm\nsrun --unbuffered python -u -m submitit.core._submit /tmp\n",
    );
    assert_eq!(spec.resources.gpus_per_node.unwrap().count, 1);
    assert_eq!(spec.policy.signal.unwrap().signal, 12);
    assert_eq!(spec.unused, [("wckey".to_owned(), "submitit".to_owned())]);
}

#[test]
fn two_prefixes_are_read_by_ax() {
    let (parsed, spec) = read("#!/bin/sh\n#SBATCH --mem=4G\n#AX --ram=2G\n#SBATCH -n 2\n");
    let warnings: Vec<String> = parsed.warnings.iter().map(ToString::to_string).collect();
    let text = "#SBATCH is ignored in a script with #AX lines";
    assert_eq!(warnings, [format!("job.sh:2:1: {text}"), format!("job.sh:4:1: {text}")]);
    assert_eq!((parsed.dialect, spec.resources.ntasks), (Dialect::Ax, None));
    assert_eq!(spec.resources.ram, Some(RamRequest::PerNode(Megabytes(2048))));
}

#[test]
fn odd_files_work() {
    for (script, tasks) in [
        ("#AX -n 2", Some(2)),
        ("#AX-n 2\n", Some(2)),
        ("#AX\t-n\t2\r\nls\r\n", Some(2)),
        ("\u{feff}#!/bin/sh\r\n#AX -n 2\r\n", Some(2)),
        ("\n\n  # x\n#AX -n 2\n", Some(2)),
        ("#AXIS of the plot\nls\n", None),
        ("##AX -n 2\nls\n", None),
        ("#AX\n#AX # nothing\nls\n", None),
        ("ls", None),
        ("# only a comment", None),
    ] {
        let (parsed, spec) = read(script);
        assert_eq!(spec.resources.ntasks, tasks, "{script}");
        assert!(parsed.warnings.is_empty(), "{script}");
        assert_eq!((parsed.crlf, parsed.bom), (script.contains('\r'), script.contains('\u{feff}')));
    }
}

#[test]
fn other_encodings_stay_out_of_the_way() {
    let parsed = parse_script("job.sh", b"#AX -n 2 # f\xfcr\necho \xff\n").unwrap();
    assert_eq!(interpret(&[parsed.source()]).unwrap().spec.resources.ntasks, Some(2));
    let error = parse_script("job.sh", b"#AX -J f\xfcr\n").unwrap_err();
    assert_eq!(error.to_string(), "job.sh:1:8: 'f\u{fffd}r' is not UTF-8; save the script as UTF-8");
    let slurm = parse_script("job.sh", b"#SBATCH -J f\xfcr\n").unwrap();
    assert_eq!(slurm.warnings.len(), 1);
}

#[test]
fn lines_that_do_not_count_are_told() {
    for (script, warning) in [
        ("ls\n#AX -n 2\n", "job.sh:2:1: #AX after the first command is ignored"),
        ("# AX -n 2\n", "job.sh:1:1: '# AX' is a comment; write '#AX' at the start"),
        ("  #AX -n 2\n", "job.sh:1:3: '  #AX' is a comment; write '#AX' at the start"),
        ("#ax -n 2\n", "job.sh:1:1: '#ax' is a comment; write '#AX' at the start"),
        (
            "#AX -o $HOME/x\n",
            "job.sh:1:8: '$HOME/x' is taken as it stands; variables are not expanded in a directive",
        ),
        ("#AX --env=A=$JOB_ID\n", ""),
        ("# AX is what runs this\n", ""),
        ("ls\n# AX -n 2\n", ""),
    ] {
        let (parsed, spec) = read(script);
        let lines: Vec<String> = parsed.warnings.iter().map(ToString::to_string).collect();
        assert_eq!(lines.join("\n"), warning, "{script}");
        assert_eq!(spec.resources.ntasks, None);
    }
}

#[test]
fn sources_have_their_order() {
    let script =
        parse_script("job.sh", b"#AX -n 1 -c 1 --queue=a --env=A=1 --env=B=1 --no-requeue\n").unwrap();
    let variables =
        [("AXBATCH_NTASKS", "2"), ("AXBATCH_QUEUE", "b"), ("AXBATCH_HOLD", "0"), ("PATH", "/bin")];
    let environment = parse_environment(variables).unwrap();
    let line =
        parse_args(&["-n3", "--env=B=2", "--requeue", "-W", "job.sh", "-n", "9"], Program::Axbatch).unwrap();
    assert_eq!((line.script.as_deref(), line.script_args.join(" ")), (Some("job.sh"), "-n 9".to_owned()));
    let environment = ax_core::directive::Source { dialect: Dialect::Ax, file: None, options: &environment };
    let all = interpret(&[line.source(), environment, script.source()]).unwrap();
    let resources = &all.spec.resources;
    assert_eq!((resources.ntasks, resources.cpus_per_task), (Some(3), Some(1)));
    assert_eq!((all.spec.queue.as_deref(), all.spec.policy.requeue), (Some("b"), Some(true)));
    let env: Vec<String> = all.spec.io.env.iter().map(|(name, value)| format!("{name}={value}")).collect();
    assert_eq!(env, ["A=1", "B=2"]);
    assert!(!all.spec.timing.hold);
    assert_eq!(all.conduct, Conduct { wait: true, ..Conduct::default() });
}

#[test]
fn the_dialect_is_that_of_the_source() {
    let script = parse_script("job.sh", b"#AX --gpus=1 --mem=40\n").unwrap();
    let line = parse_args(&["--mem=4G", "job.sh"], Program::Sbatch).unwrap();
    let spec = interpret(&[line.source(), script.source()]).unwrap().spec;
    assert_eq!(spec.resources.gpu_mem, Some(Megabytes(38_146)));
    assert_eq!(spec.resources.ram, Some(RamRequest::PerNode(Megabytes(4096))));
    // What a higher source overrides is not an error.
    let script = parse_script("job.sh", b"#SBATCH --nodes=4 --array=0-3 -t abc\n").unwrap();
    let line = parse_args(&["--nodes=1", "--array=", "-t5", "--mem=4G", "job.sh"], Program::Sbatch).unwrap();
    assert!(interpret(&[script.source()]).is_err());
    assert!(interpret(&[line.source(), script.source()]).is_ok());
    // One kind of host memory takes the place of another from a lower source.
    let script = parse_script("job.sh", b"#SBATCH --mem-per-cpu=1G\n").unwrap();
    let spec = interpret(&[line.source(), script.source()]).unwrap().spec;
    assert_eq!(spec.resources.ram, Some(RamRequest::PerNode(Megabytes(4096))));
}

#[test]
fn options_end_where_they_should() {
    for (args, script, rest) in [
        (vec!["-H", "-"], Some("-"), ""),
        (vec!["--", "-x", "y"], Some("-x"), "y"),
        (vec!["--ntasks", "4", "a", "--", "b"], Some("a"), "-- b"),
        (vec!["-HQn4", "a"], Some("a"), ""),
        (vec!["-H"], None, ""),
    ] {
        let line = parse_args(&args, Program::AxSubmit).unwrap();
        assert_eq!((line.script.as_deref(), line.script_args.join(" ").as_str()), (script, rest), "{args:?}");
    }
}

#[test]
fn slurms_templates_may_leave_values_empty() {
    let (_, spec) =
        read("#SBATCH --account= --partition= --constraint= --dependency= --mail-user= --comment=\n");
    assert_eq!(spec, JobSpec::default());
}

#[test]
fn large_texts_are_refused_in_time() {
    let long = format!("#AX {}\n", "-H ".repeat(30_000));
    let error = parse_script("job.sh", long.as_bytes()).unwrap_err();
    assert_eq!(error.to_string(), "job.sh: directives of 90001 bytes are more than 65536");
    let error = parse_script("job.sh", &vec![b'x'; (4 << 20) + 1]).unwrap_err();
    assert_eq!(error.to_string(), "job.sh: 4194305 bytes are more than 4194304");
    let late = format!("ls\n{}", "#SBATCH\n".repeat(100_000));
    assert_eq!(parse_script("job.sh", late.as_bytes()).unwrap().warnings.len(), 100);
    let hosts = format!("#AX {}\n", "-w n[1-4096] ".repeat(4000));
    let parsed = parse_script("job.sh", hosts.as_bytes()).unwrap();
    assert_eq!(interpret(&[parsed.source()]).unwrap().spec.resources.nodelist.len(), 4096);
}
