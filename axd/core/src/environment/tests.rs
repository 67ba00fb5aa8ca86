//! Tests of what jobs find in their environment.

use super::*;
use crate::config::Naming;
use crate::gpu::Rung;
use crate::gpu::visible::HeldCard;

fn facts(held: &[HeldCard]) -> Facts<'_> {
    Facts {
        attempt: "ax-2026-0007.12".parse().unwrap(),
        number: 2,
        name: "train",
        queue: "default",
        user: "li",
        home: "/home/li",
        shell: "/bin/bash",
        node: "gpu-01",
        cpus: 4,
        tasks: 1,
        cpus_per_task: Some(4),
        ram: Megabytes(8000),
        cards: JobCards { held, naming: Naming::Index, fenced: false, mps: None },
        cards_per_task: None,
        hints: MemHints::Usual,
        context: Megabytes(512),
        time_limit: Some(Span::seconds(3600)),
        submit_dir: "/home/li/x",
        work_dir: "/var/spool/ax/jobs/007/ax-2026-0007/12/work",
        account: None,
        cluster: "lab",
    }
}

fn card(slice: Option<u64>) -> HeldCard {
    HeldCard {
        index: 3,
        uuid: "GPU-x".into(),
        slice: slice.map(Megabytes),
        mem: Megabytes(80_000),
        limit: Rung::None,
        is_part: false,
    }
}

/// The variables of a job that is submitted so.
fn made(
    given: &[(String, String)],
    export: &Export,
    extra: &[(String, String)],
    held: &[HeldCard],
) -> Vec<(String, String)> {
    environment(given, export, extra, &facts(held)).unwrap().variables
}

fn pairs(list: &[(&str, &str)]) -> Vec<(String, String)> {
    list.iter().map(|(n, v)| ((*n).to_owned(), (*v).to_owned())).collect()
}

fn get<'a>(all: &'a [(String, String)], name: &str) -> Option<&'a str> {
    all.iter().find(|(n, _)| n == name).map(|(_, v)| v.as_str())
}

#[test]
fn the_submitter_s_variables_come_through_as_export_says() {
    let given = pairs(&[("A", "1"), ("B", "2"), ("PATH", "/x"), ("SLURM_JOB_ID", "9"), ("AX_ROOT", "/r")]);
    let item =
        |name: &str, value: Option<&str>| ExportItem { name: name.into(), value: value.map(Into::into) };
    let all = made(&given, &Export::All, &[], &[]);
    assert_eq!(
        (get(&all, "A"), get(&all, "PATH"), get(&all, "AX_ROOT")),
        (Some("1"), Some("/x"), Some("/r"))
    );
    assert_eq!(get(&all, "SLURM_JOB_ID"), Some("7"), "of this job, not of the one that submitted it");
    let none = made(&given, &Export::None, &[], &[]);
    assert_eq!(
        (get(&none, "A"), get(&none, "PATH"), get(&none, "USER")),
        (None, Some(DEFAULT_PATH), Some("li"))
    );
    let only = made(&given, &Export::Only(vec![item("B", None), item("C", Some("3"))]), &[], &[]);
    assert_eq!((get(&only, "A"), get(&only, "B"), get(&only, "C")), (None, Some("2"), Some("3")));
    let and = made(&given, &Export::AllAnd(vec![item("A", Some("0"))]), &[], &[]);
    assert_eq!((get(&and, "A"), get(&and, "B")), (Some("0"), Some("2")));
}

#[test]
fn no_card_means_an_empty_mask_and_cannot_be_widened_by_the_submitter() {
    let given = pairs(&[
        ("CUDA_VISIBLE_DEVICES", "0,1"),
        ("ROCR_VISIBLE_DEVICES", "0,1"),
        ("NVIDIA_VISIBLE_DEVICES", "all"),
        ("CUDA_DEVICE_ORDER", "FASTEST_FIRST"),
    ]);
    let named =
        |name: &str, value: Option<&str>| ExportItem { name: name.into(), value: value.map(Into::into) };
    let exports = [
        Export::All,
        Export::None,
        Export::Only(vec![named("CUDA_VISIBLE_DEVICES", None), named("HIP_VISIBLE_DEVICES", Some("0"))]),
        Export::AllAnd(vec![named("CUDA_VISIBLE_DEVICES", Some("2"))]),
    ];
    let extra = pairs(&[
        ("CUDA_VISIBLE_DEVICES", "0,1"),
        ("GPU_DEVICE_ORDINAL", "0"),
        ("ZE_AFFINITY_MASK", "0"),
        ("AX_GPU_UUIDS", "GPU-of-another"),
        ("AX_GPUS", "8"),
        ("SEEN", "<$CUDA_VISIBLE_DEVICES>"),
    ]);
    for export in &exports {
        let all = made(&given, export, &extra, &[]);
        assert_eq!(get(&all, "ZE_AFFINITY_MASK"), Some("65535"), "empty is all to Intel's driver");
        for name in "CUDA_VISIBLE_DEVICES ROCR_VISIBLE_DEVICES HIP_VISIBLE_DEVICES GPU_DEVICE_ORDINAL \
                     AX_GPU_UUIDS AX_GPU_MEM_MB AX_GPU_MEM_FRACTION AX_GPU_ENFORCE"
            .split_whitespace()
        {
            assert_eq!(get(&all, name), Some(""), "{name} with {export:?}");
        }
        assert_eq!(
            (get(&all, "NVIDIA_VISIBLE_DEVICES"), get(&all, "AX_GPUS"), get(&all, "CUDA_DEVICE_ORDER")),
            (Some("void"), Some("0"), Some("PCI_BUS_ID")),
        );
        assert_eq!((get(&all, "SEEN"), get(&all, "NVIDIA_DRIVER_CAPABILITIES")), (Some("<>"), None));
        let all = made(&given, export, &extra, &[card(None)]);
        assert_eq!(
            (get(&all, "CUDA_VISIBLE_DEVICES"), get(&all, "AX_GPU_UUIDS"), get(&all, "SEEN")),
            (Some("3"), Some("GPU-x"), Some("<3>")),
        );
    }
}

/// A store that trusts the epoch refuses what an older attempt writes: it must not be the submitter's to choose.
#[test]
fn what_ax_says_of_a_job_is_not_the_submitter_s_to_say() {
    let all_facts = Facts { account: Some("lab"), cards_per_task: Some(1), ..facts(&[]) };
    let held = [card(Some(20_000))];
    let all_facts =
        Facts { cards: JobCards { held: &held, mps: Some("/mps"), ..all_facts.cards }, ..all_facts };
    let plain = environment(&[], &Export::None, &[], &all_facts).unwrap().variables;
    let of_people = ["HOME", "LOGNAME", "PATH", "SHELL", "USER", "NVIDIA_DRIVER_CAPABILITIES"];
    let ours = |(name, _): &&(String, String)| {
        // What frameworks are told is the user's to change.
        name.starts_with("AX_") || name.starts_with("SLURM") || name == "JOB_ID" || visible::is_mask(name)
    };
    let own: Vec<_> = plain.iter().filter(ours).collect();
    assert!(own.len() > 40, "{own:?}");
    for (name, value) in own {
        assert!(is_set_by_ax(name), "{name}");
        let item = ExportItem { name: name.clone(), value: Some("9".into()) };
        for export in [Export::All, Export::Only(vec![item.clone()]), Export::AllAnd(vec![item.clone()])] {
            let forged = vec![(name.clone(), "9".to_owned())];
            let made = environment(&forged, &export, &forged, &all_facts).unwrap().variables;
            assert_eq!(get(&made, name), Some(value.as_str()), "{name}");
        }
    }
    for name in of_people {
        assert!(!is_set_by_ax(name), "{name}");
    }
}

#[test]
fn a_job_is_told_its_part_of_a_card_and_who_holds_it_to_that() {
    let all = made(&[], &Export::All, &[], &[card(Some(20_000))]);
    for (name, value) in [
        ("AX_GPU_MEM_MB", "20000"),
        ("AX_GPU_MEM_FRACTION", "0.2500"),
        ("AX_GPU_ENFORCE", "env"),
        ("NVIDIA_DRIVER_CAPABILITIES", "compute,utility"),
        ("SLURM_JOB_GPUS", "3"),
        ("SLURM_GPUS_ON_NODE", "1"),
    ] {
        assert_eq!(get(&all, name), Some(value), "{name}");
    }
    let whole = made(&pairs(&[("NVIDIA_DRIVER_CAPABILITIES", "all")]), &Export::All, &[], &[card(None)]);
    assert_eq!(
        (get(&whole, "AX_GPU_MEM_MB"), get(&whole, "AX_GPU_MEM_FRACTION")),
        (Some("80000"), Some("1.0000"))
    );
    assert_eq!((get(&whole, "AX_GPU_ENFORCE"), get(&whole, "CUPY_GPU_MEMORY_LIMIT")), (Some(""), None));
    assert_eq!(get(&whole, "NVIDIA_DRIVER_CAPABILITIES"), Some("all"), "the user's own");
}

#[test]
fn settings_of_frameworks_heed_what_env_says_and_are_told() {
    let extra =
        pairs(&[("PYTORCH_CUDA_ALLOC_CONF", "max_split_size_mb:128"), ("CUPY_GPU_MEMORY_LIMIT", "10%")]);
    let made = environment(&[], &Export::All, &extra, &facts(&[card(Some(20_000))])).unwrap();
    let all = &made.variables;
    assert_eq!(get(all, "PYTORCH_CUDA_ALLOC_CONF"), Some("max_split_size_mb:128,expandable_segments:True"));
    assert_eq!(get(all, "CUPY_GPU_MEMORY_LIMIT"), Some("10%"));
    assert!(
        made.told.contains(&"PYTORCH_CUDA_ALLOC_CONF with expandable_segments:True".to_owned()),
        "{:?}",
        made.told
    );
}

#[test]
fn env_values_expand_the_job_s_variables_and_nothing_else() {
    let extra = pairs(&[("OUT", "/data/$JOB_ID/${AX_ATTEMPT}x"), ("X", "$$5 $ $NOPE. `id` $(id)")]);
    let all = made(&[], &Export::All, &extra, &[]);
    assert_eq!(get(&all, "OUT"), Some("/data/ax-2026-0007/2x"));
    assert_eq!(get(&all, "X"), Some("$5 $ . `id` $(id)"));
}

#[test]
fn values_that_feed_on_each_other_stay_within_bounds() {
    let thousand = |name: &str| name.repeat(1000);
    let extra = pairs(&[("A", &thousand("x")), ("B", &thousand("$A")), ("C", &thousand("$B"))]);
    let error = environment(&[], &Export::All, &extra, &facts(&[])).unwrap_err();
    assert_eq!(error, TooLarge { name: "C".into() });
    assert!(environment(&[], &Export::All, &extra[..2], &facts(&[])).is_ok());
    let many: Vec<_> = (0..10).map(|n| (format!("V{n}"), "x".repeat(MAX_ENVIRONMENT / 8))).collect();
    assert_eq!(environment(&[], &Export::All, &many, &facts(&[])).unwrap_err().name, "V7");
}
