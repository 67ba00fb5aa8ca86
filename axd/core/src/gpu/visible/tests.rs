//! Masks, in every combination of whole cards, slices, parts of cards, the fence, and tasks.

use super::*;
use crate::gpu::Mig;

fn held(index: u32, uuid: &str, slice: Option<u64>) -> HeldCard {
    HeldCard {
        index,
        uuid: uuid.to_owned(),
        slice: slice.map(Megabytes),
        mem: Megabytes(80_000),
        limit: Rung::None,
        is_part: uuid.starts_with("MIG-"),
    }
}

fn job(held: &[HeldCard], naming: Naming, fenced: bool) -> JobCards<'_> {
    JobCards { held, naming, fenced, mps: None }
}

fn value<'a>(all: &'a [(&'static str, String)], name: &str) -> &'a str {
    let found: Vec<&str> = all.iter().filter(|(n, _)| *n == name).map(|(_, v)| v.as_str()).collect();
    assert_eq!(found.len(), 1, "{name} once, in {all:?}");
    found[0]
}

#[test]
fn numbers_count_what_the_fence_shows_and_uuids_are_always_there() {
    use Naming::{Index, Uuid};
    let (a, b) = ("GPU-a", "GPU-b");
    for slice in [None, Some(20_000)] {
        let cards = [held(2, a, slice), held(5, b, slice)];
        for (naming, fenced, expected) in [
            (Index, false, "2,5"),
            (Index, true, "0,1"),
            (Uuid, false, "GPU-a,GPU-b"),
            (Uuid, true, "GPU-a,GPU-b"),
        ] {
            let all = of_job(job(&cards, naming, fenced));
            assert_eq!(
                value(&all, "CUDA_VISIBLE_DEVICES"),
                expected,
                "{naming:?}, fenced {fenced}, {slice:?}"
            );
            assert_eq!(value(&all, "AX_GPU_UUIDS"), "GPU-a,GPU-b");
            assert_eq!(
                value(&all, "NVIDIA_VISIBLE_DEVICES"),
                "GPU-a,GPU-b",
                "containers start outside of the fence"
            );
            assert_eq!(value(&all, "SLURM_JOB_GPUS"), "2,5", "Slurm's are those of the node");
            assert_eq!((value(&all, "AX_GPUS"), value(&all, "SLURM_GPUS_ON_NODE")), ("2", "2"));
            for other in ["ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL"] {
                assert_eq!(value(&all, other), "", "cards of other makers were not given: {other}");
            }
            assert_eq!(value(&all, "ZE_AFFINITY_MASK"), "65535", "empty is all to Intel's driver");
        }
    }
}

#[test]
fn parts_of_cards_are_named_by_uuid_and_so_is_what_stands_beside_them() {
    for (naming, fenced) in [(Naming::Index, true), (Naming::Index, false), (Naming::Uuid, true)] {
        let parts = [held(1, "MIG-a", None), held(2, "MIG-b", None)];
        assert_eq!(value(&of_job(job(&parts, naming, fenced)), "CUDA_VISIBLE_DEVICES"), "MIG-a,MIG-b");
        let mixed = [held(0, "GPU-a", None), held(2, "MIG-b", None)];
        assert_eq!(value(&of_job(job(&mixed, naming, fenced)), "CUDA_VISIBLE_DEVICES"), "GPU-a,MIG-b");
        let task = TaskPlace { rank: 0, tasks: 2, cards_per_task: None };
        let own = of_task(job(&mixed, naming, fenced), task);
        assert_eq!(value(&own, "CUDA_VISIBLE_DEVICES"), "GPU-a");
    }
}

#[test]
fn cards_that_are_only_declared_have_numbers_for_every_maker() {
    let cards = [held(1, "gpu-01-1", None), held(3, "gpu-01-3", None)];
    for naming in [Naming::Index, Naming::Uuid] {
        let all = of_job(job(&cards, naming, false));
        for (name, expected) in [
            ("CUDA_VISIBLE_DEVICES", "1,3"),
            ("NVIDIA_VISIBLE_DEVICES", "1,3"),
            ("ROCR_VISIBLE_DEVICES", "1,3"),
            ("HIP_VISIBLE_DEVICES", "0,1"),
            ("GPU_DEVICE_ORDINAL", "0,1"),
            ("ZE_AFFINITY_MASK", "1,3"),
            ("AX_GPU_UUIDS", "gpu-01-1,gpu-01-3"),
        ] {
            assert_eq!(value(&all, name), expected, "{name}: {naming:?}");
        }
    }
}

#[test]
fn no_card_is_empty_and_never_unset() {
    for (naming, fenced) in [(Naming::Index, true), (Naming::Index, false), (Naming::Uuid, true)] {
        let all = of_job(job(&[], naming, fenced));
        for name in MASKS {
            let expected = match name {
                "CUDA_DEVICE_ORDER" => "PCI_BUS_ID",
                "ZE_AFFINITY_MASK" => "65535",
                "NVIDIA_VISIBLE_DEVICES" => "void",
                _ => "",
            };
            assert_eq!(value(&all, name), expected, "{name}");
            assert!(is_mask(name));
        }
        assert!(!all.iter().any(|(name, _)| name.starts_with("SLURM_")), "as in Slurm");
        assert!(!all.iter().any(|(name, _)| name.starts_with("CUDA_MPS_")), "there is no MPS");
        assert!(OF_MPS.iter().all(|name| is_mask(name)), "the submitter's own are not for a job");
    }
}

#[test]
fn memory_is_the_least_that_holds_for_every_card() {
    let memory = |cards: &[HeldCard]| {
        let all = of_job(job(cards, Naming::Index, false));
        [value(&all, "AX_GPU_MEM_MB").to_owned(), value(&all, "AX_GPU_MEM_FRACTION").to_owned()]
    };
    let small = HeldCard { mem: Megabytes(40_000), ..held(1, "GPU-b", None) };
    assert_eq!(memory(&[held(0, "GPU-a", None), small.clone()]), ["40000", "1.0000"]);
    let slices = [held(0, "GPU-a", Some(20_000)), HeldCard { slice: Some(Megabytes(20_000)), ..small }];
    assert_eq!(memory(&slices), ["20000", "0.2500"], "of the larger one it is a smaller part");
    assert_eq!(memory(&[held(0, "GPU-a", Some(26_667))]), ["26667", "0.3333"], "never rounded up");
    let unknown = HeldCard { mem: Megabytes::ZERO, ..held(0, "gpu-01-0", None) };
    assert_eq!(memory(&[unknown.clone(), held(1, "GPU-a", None)]), ["", ""]);
    assert_eq!(memory(&[HeldCard { slice: Some(Megabytes(9)), ..unknown }]), ["9", ""]);
}

#[test]
fn tasks_share_the_cards_evenly_and_all_of_them() {
    for tasks in 1..=8_u32 {
        for cards in 0..=8_usize {
            let own = |rank| TaskPlace { rank, tasks, cards_per_task: None }.cards(cards);
            let ranges: Vec<Range<usize>> = (0..tasks).map(own).collect();
            let sizes: Vec<usize> = ranges.iter().map(ExactSizeIterator::len).collect();
            let (least, most) = (sizes.iter().min().unwrap(), sizes.iter().max().unwrap());
            assert!(most - least <= 1, "{tasks} tasks, {cards} cards: {sizes:?}");
            assert!(cards == 0 || *least >= 1, "nobody goes without: {sizes:?}");
            let mut covered: Vec<usize> = ranges.iter().cloned().flatten().collect();
            if cards >= tasks as usize {
                assert_eq!(covered, (0..cards).collect::<Vec<_>>(), "each card once, in order");
            }
            covered.dedup();
            assert_eq!(covered, (0..cards).collect::<Vec<_>>(), "no card is left over");
        }
    }
    let five = |rank| TaskPlace { rank, tasks: 3, cards_per_task: None }.cards(5);
    assert_eq!([five(0), five(1), five(2)], [0..2, 2..4, 4..5]);
    let three = |rank| TaskPlace { rank, tasks: 4, cards_per_task: None }.cards(3);
    assert_eq!([three(0), three(1), three(2), three(3)], [0..1, 0..1, 1..2, 2..3]);
}

#[test]
fn tasks_have_what_each_was_promised_and_no_more_than_there_is() {
    for tasks in 1..=8_u32 {
        for each in 1..=3_u32 {
            let own =
                |rank| TaskPlace { rank, tasks, cards_per_task: Some(each) }.cards((tasks * each) as usize);
            for rank in 0..tasks {
                let first = (rank * each) as usize;
                assert_eq!(own(rank), first..first + each as usize);
            }
        }
    }
    let place = |rank| TaskPlace { rank, tasks: 3, cards_per_task: Some(2) };
    assert_eq!([place(0).cards(3), place(1).cards(3), place(2).cards(3)], [0..2, 2..3, 3..3]);
    let none = TaskPlace { rank: 0, tasks: 2, cards_per_task: Some(0) };
    assert_eq!(none.cards(4), 0..0);
    let beyond = TaskPlace { rank: 9, tasks: 3, cards_per_task: None };
    assert!(beyond.cards(5).is_empty() && beyond.cards(2).end <= 2, "a rank that there is not");
}

#[test]
fn a_task_sees_its_cards_among_those_of_its_job() {
    let cards = [2, 3, 5].map(|n| held(n, &format!("GPU-{n}"), None));
    let seen = |rank, naming, fenced| {
        let all = of_task(job(&cards, naming, fenced), TaskPlace { rank, tasks: 2, cards_per_task: None });
        ["CUDA_VISIBLE_DEVICES", "AX_GPU_UUIDS", "SLURM_STEP_GPUS", "AX_GPUS"]
            .map(|name| value(&all, name).to_owned())
    };
    assert_eq!(seen(0, Naming::Index, true), ["0,1", "GPU-2,GPU-3", "2,3", "2"]);
    assert_eq!(
        seen(1, Naming::Index, true),
        ["2", "GPU-5", "5", "1"],
        "the fence is the job's, not the task's"
    );
    assert_eq!(seen(1, Naming::Index, false)[0], "5");
    assert_eq!(seen(1, Naming::Uuid, true)[0], "GPU-5");
    let all =
        of_task(job(&cards, Naming::Index, true), TaskPlace { rank: 3, tasks: 4, cards_per_task: Some(1) });
    assert_eq!((value(&all, "CUDA_VISIBLE_DEVICES"), value(&all, "NVIDIA_VISIBLE_DEVICES")), ("", "void"));
}

#[test]
fn what_is_held_is_named_as_it_is_now_whatever_number_it_had() {
    let mut part = Card::new(0, "MIG-a".into(), None, Megabytes(10_000));
    part.hardware.mig = Some(Mig { parent: "GPU-p".into(), gpu_instance: 1, compute_instance: 0 });
    part.hardware.limit = Rung::Driver;
    let cards = [part, Card::new(1, "GPU-b".into(), None, Megabytes(80_000))];
    let share =
        |index, uuid: &str| CardShare { index, uuid: uuid.to_owned(), slice: None, of: None, mps: None };
    let all = |shares: Vec<CardShare>| {
        let node = "gpu-01".parse().unwrap();
        HeldCard::all(&Allocation { node, cpus: Vec::new(), ram: Megabytes(1), cards: shares }, &cards)
    };
    let found = all(vec![share(0, "GPU-b"), share(1, "MIG-a"), share(7, "GPU-gone")]);
    assert_eq!(
        (found[0].index, found[0].mem, found[0].is_part, found[0].limit),
        (0, Megabytes(10_000), true, Rung::Driver)
    );
    assert_eq!((found[1].index, found[1].mem, found[1].is_part), (1, Megabytes(80_000), false));
    assert_eq!((found[2].index, found[2].mem), (7, Megabytes::ZERO));
    assert_eq!(all(vec![share(1, "gpu-01-1")])[0].uuid, "GPU-b", "the driver came after the decision");
}
