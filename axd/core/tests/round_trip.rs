//! Properties: what is printed is read back, of every field of a job, or refused where ax does not support its option yet,
//! and no text makes a parser panic. No field is left to its default by name, so that a new one has to be drawn here.

use ax_core::directive::{Program, interpret, parse_args, parse_environment, parse_script, print, quote};
use ax_core::job::features::Features;
use ax_core::job::spec::{
    Export, ExportItem, GpuCount, IoSpec, JobSpec, MemHints, NodeCount, OpenMode, PolicySpec, PreemptMode,
    RamRequest, ResourceSpec, TimeLimit, TimingSpec, WarnSignal, When, Window,
};
use ax_core::size::Megabytes;
use ax_core::time::{Span, WallTime};
use proptest::collection::{btree_map, btree_set, vec};
use proptest::option::of;
use proptest::prelude::*;

fn text() -> impl Strategy<Value = String> {
    "[^\0]{1,20}"
}

fn span() -> impl Strategy<Value = Span> {
    (1u64..(1 << 40)).prop_map(Span)
}

fn cards() -> impl Strategy<Value = GpuCount> {
    (of("[a-z][a-z0-9_-]{0,8}"), 0u32..100).prop_map(|(kind, count)| GpuCount { kind, count })
}

fn hosts() -> impl Strategy<Value = Vec<String>> {
    vec("[a-z]{1,3}-?[0-9]{0,3}[a-z]?", 0..6).prop_map(|names| {
        let mut seen = std::collections::HashSet::new();
        names.into_iter().filter(|name| seen.insert(name.clone())).collect()
    })
}

fn ram() -> impl Strategy<Value = RamRequest> {
    let size = || (1u64..(1 << 40)).prop_map(Megabytes);
    prop_oneof![
        size().prop_map(RamRequest::PerNode),
        size().prop_map(RamRequest::PerCpu),
        size().prop_map(RamRequest::PerGpu),
        Just(RamRequest::WholeNode),
    ]
}

/// Nodes and tasks that divide among them, and the number of nodes that cards in all have to divide among.
#[derive(Debug, Clone)]
struct Shape {
    nodes: Option<NodeCount>,
    ntasks: Option<u32>,
    ntasks_per_node: Option<u32>,
    divides: u32,
}

fn shape() -> impl Strategy<Value = Shape> {
    let range = of((1u32..1000, 0u32..1000));
    (range, any::<prop::sample::Index>(), of(1u32..500), of(0u32..500)).prop_map(
        |(range, at, each, spare)| {
            let nodes = range.map(|(min, more)| NodeCount { min, max: min + more });
            let many = match nodes {
                Some(NodeCount { min, max }) => min + at.index((max - min + 1) as usize) as u32,
                // The number follows from the tasks, if both are given.
                None if each.is_some() && spare.is_some() => 1 + at.index(1000) as u32,
                None => 1,
            };
            let ntasks = each.map(|each| many * each);
            let most = |spare| if nodes.is_none() && ntasks.is_some() { 0 } else { spare };
            let ntasks_per_node = spare.map(|spare| each.unwrap_or(1) + most(spare));
            Shape { nodes, ntasks, ntasks_per_node, divides: many }
        },
    )
}

fn features() -> impl Strategy<Value = Features> {
    let name = "[a-z][a-z0-9_.-]{0,6}".prop_map(|name| Features::One(name.into()));
    name.prop_recursive(3, 12, 3, |part| {
        let parts = || vec(part.clone(), 2..4);
        prop_oneof![parts().prop_map(Features::All), parts().prop_map(Features::Any)]
    })
}

/// One way to ask for cards, and GPU memory only with some.
fn resources() -> impl Strategy<Value = ResourceSpec> {
    let hints = of(prop::sample::select(vec![MemHints::Usual, MemHints::Torch, MemHints::None]));
    let names = (hosts(), hosts(), of(features()), any::<bool>(), any::<bool>());
    let memory = (of((1u64..(1 << 40)).prop_map(Megabytes)), of(ram()), hints);
    (of(cards()), 0..3, memory, of(1u32..1000), shape(), names).prop_map(
        |(cards, how, memory, cpus_per_task, shape, (nodelist, exclude, features, exclusive, fit_memory))| {
            let some = cards.as_ref().is_some_and(|cards| cards.count > 0);
            let one = |which| cards.clone().filter(|_| how == which);
            let in_all = |cards: GpuCount| GpuCount { count: cards.count * shape.divides, ..cards };
            ResourceSpec {
                gpus: one(0).map(in_all),
                gpus_per_node: one(1),
                gpus_per_task: one(2),
                gpu_mem: memory.0.filter(|_| some),
                gpu_mem_hints: memory.2,
                ram: memory.1,
                cpus_per_task,
                ntasks: shape.ntasks,
                ntasks_per_node: shape.ntasks_per_node,
                nodes: shape.nodes,
                exclude: exclude.into_iter().filter(|host| !nodelist.contains(host)).collect(),
                nodelist,
                constraint: features.map(|features| features.to_string()),
                exclusive,
                fit_memory,
            }
        },
    )
}

fn when() -> impl Strategy<Value = When> {
    let clock = || 0u32..86_400;
    prop_oneof![
        span().prop_map(When::In),
        clock().prop_map(When::Clock),
        (0u32..2, clock()).prop_map(|(days, clock)| When::Day { days, clock }),
        (1970u16..10_000, 1u8..13, 1u8..29, clock()).prop_map(|(year, month, day, clock)| When::Date {
            year,
            month,
            day,
            clock
        }),
        (0i64..250_000_000_000_000).prop_map(|ms| When::At(WallTime(ms))),
    ]
}

fn timing() -> impl Strategy<Value = TimingSpec> {
    let limit = prop_oneof![span().prop_map(TimeLimit::After), Just(TimeLimit::Unlimited)];
    let window = (0u16..1440, 1u16..1440).prop_map(|(from, long)| Window { from, to: (from + long) % 1440 });
    (of(limit), of(span()), (of(when()), of(when())), of(window), any::<bool>(), of(0u8..101)).prop_map(
        |(limit, estimate, (begin, deadline), window, hold, priority)| TimingSpec {
            limit,
            estimate,
            begin,
            deadline,
            window,
            dependency: None,
            array: None,
            hold,
            priority,
        },
    )
}

fn policy() -> impl Strategy<Value = PolicySpec> {
    let signal = (any::<bool>(), 1u8..65, span()).prop_map(|(batch_only, signal, before)| WarnSignal {
        batch_only,
        signal,
        before,
    });
    let retry = (of(0u32..1001), of(span()), btree_set(1u8..=255, 0..9));
    let lease = span().prop_map(|Span(ms)| Span(ms + 1000));
    let modes = [PreemptMode::Requeue, PreemptMode::Cancel, PreemptMode::Never];
    let preempt = of(proptest::sample::select(modes.to_vec()));
    (of(any::<bool>()), retry, of(any::<bool>()), of(lease), of(signal), (preempt, of(span()))).prop_map(
        |(requeue, retry, idempotent, lease_timeout, signal, (preempt, grace))| PolicySpec {
            requeue,
            retry: retry.0,
            retry_delay: retry.1,
            retry_on: retry.2.into_iter().collect(),
            idempotent,
            lease_timeout,
            signal,
            preempt,
            grace,
        },
    )
}

fn export() -> impl Strategy<Value = Export> {
    let value = prop_oneof!["[^\0,'\"]{0,9}", "[^\0']{0,9}", "[^\0\"]{0,9}"];
    let item = ("[A-Z_][A-Z0-9_]{1,6}_", of(value)).prop_map(|(name, value)| ExportItem { name, value });
    let items = vec(item, 1..4);
    prop_oneof![
        Just(Export::All),
        Just(Export::None),
        items.clone().prop_map(Export::Only),
        items.prop_map(Export::AllAnd)
    ]
}

fn files() -> impl Strategy<Value = IoSpec> {
    let pattern = || "[^\0%]{1,9}(%[0-9]?[jJAaxuNntsr]|%%)?[^\0%]{0,4}";
    let mode = prop_oneof![Just(OpenMode::Append), Just(OpenMode::Truncate)];
    let environment = btree_map("[A-Z_][A-Z0-9_]{0,6}", "[^\0]{0,9}", 0..4);
    (of(pattern()), of(pattern()), of(pattern()), of(mode), of(text()), export(), environment).prop_map(
        |(output, error, input, open_mode, chdir, export, env)| IoSpec {
            output,
            error,
            input,
            open_mode,
            chdir,
            export,
            env: env.into_iter().collect(),
        },
    )
}

/// Any job whose options ax supports.
fn spec() -> impl Strategy<Value = JobSpec> {
    let unused = btree_map("[a-z][a-z-]{0,9}", "[^\0]{0,9}", 0..4);
    let names = (of(text()), of("[a-z][a-z0-9._-]{0,9}"), of(text()), of(text()));
    (names, resources(), timing(), policy(), files(), unused).prop_map(
        |(names, resources, timing, policy, io, unused)| JobSpec {
            name: names.0,
            queue: names.1,
            comment: names.2,
            account: names.3,
            resources,
            timing,
            policy,
            io,
            mail_type: Vec::new(),
            mail_user: None,
            unused: unused.into_iter().collect(),
        },
    )
}

/// A job with an option that ax does not support yet.
fn unsupported() -> impl Strategy<Value = JobSpec> {
    let kinds = prop::sample::subsequence(vec!["BEGIN", "END", "FAIL", "TIME_LIMIT_80"], 1..4);
    (spec(), 0..5, kinds, text()).prop_map(|(mut spec, which, kinds, whom)| {
        match which {
            0 => spec.mail_type = kinds.into_iter().map(str::to_owned).collect(),
            1 => spec.mail_user = Some(whom),
            2 => spec.timing.dependency = Some("afterok:7?singleton".to_owned()),
            3 => spec.timing.array = Some("1-9:2%3".to_owned()),
            _ => spec.policy.preempt = Some(PreemptMode::Suspend),
        }
        spec
    })
}

proptest! {
    #[test]
    fn a_job_is_read_back_from_a_command_line(spec in spec()) {
        let line = parse_args(&print(&spec), Program::Axbatch).unwrap();
        prop_assert_eq!(interpret(&[line.source()]).unwrap().spec, spec);
    }

    #[test]
    fn what_is_not_supported_yet_is_printed_and_refused(spec in unsupported()) {
        let line = parse_args(&print(&spec), Program::Axbatch).unwrap();
        let refused = interpret(&[line.source()]).unwrap_err().to_string();
        prop_assert!(refused.contains("not supported yet"), "{refused}");
    }

    #[test]
    fn features_are_read_back(features in features()) {
        prop_assert_eq!(features.to_string().parse::<Features>().unwrap(), features);
    }

    #[test]
    fn a_script_means_what_a_command_line_means(spec in spec()) {
        // A directive is one line: words with line breaks have no place in it.
        let words: Vec<String> =
            print(&spec).into_iter().filter(|word| !word.contains(['\n', '\r'])).collect();
        let lines: Vec<String> = words.iter().map(|word| format!("#AX {}\n", quote(word))).collect();
        let script = format!("#!/bin/sh\n{}true\n", lines.concat());
        let parsed = parse_script("job.sh", script.as_bytes()).unwrap();
        let line = parse_args(&words, Program::Axbatch).unwrap();
        prop_assert_eq!(
            interpret(&[parsed.source()]).unwrap().spec,
            interpret(&[line.source()]).unwrap().spec
        );
    }

    #[test]
    fn a_job_survives_json(spec in spec()) {
        let text = serde_json::to_string(&spec).unwrap();
        prop_assert_eq!(serde_json::from_str::<JobSpec>(&text).unwrap(), spec);
    }

    #[test]
    fn any_bytes_get_an_answer(body in vec(any::<u8>(), 0..200)) {
        answer(&body);
    }

    #[test]
    fn any_directives_get_an_answer(
        lines in vec("(#AX|#SBATCH|# AX|##SBATCH|#!|)[ \t]?(--?[a-z=-]{0,12}|[ -~]{0,12}|\\PC{0,6}){0,3}\r?", 0..8)
    ) {
        answer(lines.join("\n").as_bytes());
    }

    #[test]
    fn any_values_get_an_answer(option in 0..ax_core::directive::OPTIONS.len(), value in "\\PC{0,12}|[0-9:.,%@/=+-]{0,12}|[0-9a-zA-Z:]{0,8}") {
        let name = ax_core::directive::OPTIONS[option].name;
        for program in [Program::Axbatch, Program::Sbatch] {
            for args in [vec![format!("--{name}={value}")], vec![format!("--{name}"), value.clone()]] {
                check_args(&args, program);
            }
        }
    }

    #[test]
    fn any_arguments_get_an_answer(args in vec("--?[a-zA-Z-]{0,8}=?.{0,6}|.{0,8}", 0..6)) {
        for program in [Program::Axbatch, Program::AxSubmit, Program::Axrun, Program::Sbatch] {
            check_args(&args, program);
        }
    }

    #[test]
    fn any_environment_gets_an_answer(name in "AXBATCH_[A-Z_]{0,8}|.{0,8}", value in ".{0,8}") {
        let _ = parse_environment([(name, value)]);
    }
}

/// Whatever is said about a script is one line without control characters.
fn answer(body: &[u8]) {
    let lines = match parse_script("job\x1b.sh", body) {
        Err(error) => vec![error.to_string()],
        Ok(parsed) => {
            let error = interpret(&[parsed.source()]).err();
            parsed.warnings.iter().chain(error.iter()).map(ToString::to_string).collect()
        }
    };
    for line in lines {
        assert!(line.starts_with("job\\x1b.sh:"), "{line}");
        assert!(!line.chars().any(char::is_control), "{line:?}");
    }
}

fn check_args(args: &[String], program: Program) {
    let read = parse_args(args, program).and_then(|line| interpret(&[line.source()]));
    if let Err(error) = read {
        assert_eq!((error.exit_code(), error.line), (2, None));
        assert!(!error.to_string().chars().any(char::is_control), "{error}");
    }
}
