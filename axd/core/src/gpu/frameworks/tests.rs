//! What frameworks are told, and what is left to the user.

use super::*;

fn slice(mb: u64, of: u64, limit: Rung) -> HeldCard {
    HeldCard {
        index: 0,
        uuid: "GPU-a".into(),
        slice: Some(Megabytes(mb)),
        mem: Megabytes(of),
        limit,
        is_part: false,
    }
}

const CONTEXT: Megabytes = Megabytes(512);

/// The variables of a job with a quarter of a card, that had these before.
fn told(before: &[(&str, &str)], hints: MemHints, limit: Rung) -> Variables {
    let mut all = before.iter().map(|(n, v)| ((*n).to_owned(), (*v).to_owned())).collect();
    apply(&mut all, &[slice(20_000, 80_000, limit)], hints, CONTEXT);
    all
}

fn get<'a>(all: &'a Variables, name: &str) -> Option<&'a str> {
    all.get(name).map(String::as_str)
}

#[test]
fn each_framework_is_told_what_is_left_of_the_slice() {
    for limit in [Rung::Mps, Rung::Env, Rung::Watch, Rung::None] {
        let all = told(&[], MemHints::Usual, limit);
        for (name, value) in [
            ("AX_GPU_POOL_MB", "19488"),
            ("XLA_CLIENT_MEM_FRACTION", "0.2436"),
            ("XLA_PYTHON_CLIENT_MEM_FRACTION", "0.2436"),
            ("CUPY_GPU_MEMORY_LIMIT", "20434649088"),
            ("TF_FORCE_GPU_ALLOW_GROWTH", "true"),
            ("PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:True"),
        ] {
            assert_eq!(get(&all, name), Some(value), "{name}: {limit}");
        }
        assert_eq!(get(&all, "PYTORCH_ALLOC_CONF"), None, "beside the other nobody reads it");
    }
}

#[test]
fn under_the_driver_s_limit_the_slice_is_the_card_and_no_part_of_it_is_taken() {
    let all = told(&[], MemHints::Torch, Rung::Driver);
    assert_eq!(
        all.into_iter().collect::<Vec<_>>(),
        [(TORCH.to_owned(), "expandable_segments:True".to_owned())]
    );
}

#[test]
fn whole_cards_and_those_who_want_none_are_told_nothing() {
    let mut all = Variables::new();
    let whole = HeldCard { slice: None, ..slice(1, 80_000, Rung::None) };
    for (held, hints) in [
        (vec![], MemHints::Torch),
        (vec![whole], MemHints::Torch),
        (vec![slice(9, 10, Rung::Env)], MemHints::None),
    ] {
        assert!(apply(&mut all, &held, hints, CONTEXT).is_empty());
        assert!(all.is_empty());
    }
}

#[test]
fn what_the_user_has_set_stays() {
    let before = [
        ("XLA_PYTHON_CLIENT_MEM_FRACTION", ".9"),
        ("CUPY_GPU_MEMORY_LIMIT", "50%"),
        ("TF_FORCE_GPU_ALLOW_GROWTH", "false"),
        ("PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:False"),
    ];
    let all = told(&before, MemHints::Usual, Rung::Env);
    for (name, value) in before {
        assert_eq!(get(&all, name), Some(value), "{name}");
    }
    assert_eq!(get(&all, "XLA_CLIENT_MEM_FRACTION"), None, "the new name would win over the user's");
    let all = told(&[("XLA_CLIENT_MEM_FRACTION", ".9")], MemHints::Usual, Rung::Env);
    assert_eq!(get(&all, "XLA_PYTHON_CLIENT_MEM_FRACTION"), None);
}

#[test]
fn pytorch_s_settings_are_added_to_the_variable_that_it_reads() {
    let torch = |before: &[(&str, &str)]| {
        let all = told(before, MemHints::Usual, Rung::Env);
        (get(&all, TORCH).map(str::to_owned), get(&all, TORCH_GENERIC).map(str::to_owned))
    };
    let some = |text: &str| Some(text.to_owned());
    let both = "max_split_size_mb:64,expandable_segments:True";
    assert_eq!(torch(&[(TORCH, "max_split_size_mb:64")]), (some(both), None));
    assert_eq!(torch(&[(TORCH_GENERIC, "max_split_size_mb:64")]), (None, some(both)));
    let two = [(TORCH, "max_split_size_mb:64"), (TORCH_GENERIC, "backend:native")];
    assert_eq!(torch(&two), (some(both), some("backend:native")), "the other one is not read");
    assert_eq!(torch(&[(TORCH, "")]), (some("expandable_segments:True"), None));
    for (given, expected) in [
        ("a:1,", "a:1,expandable_segments:True"),
        (
            "roundup_power2_divisions:[256:1,512:2,>:4]",
            "roundup_power2_divisions:[256:1,512:2,>:4],expandable_segments:True",
        ),
        (" expandable_segments : False", " expandable_segments : False"),
        ("x:[expandable_segments:1,b:2]", "x:[expandable_segments:1,b:2],expandable_segments:True"),
        ("]]a:[", "]]a:[,expandable_segments:True"),
    ] {
        assert_eq!(torch(&[(TORCH, given)]).0, some(expected), "{given:?}");
    }
}

#[test]
fn pytorch_s_share_is_set_only_where_it_was_asked_for_and_the_smaller_one_counts() {
    let key = "per_process_memory_fraction";
    for before in ["", "max_split_size_mb:64"] {
        let all = told(&[(TORCH, before)], MemHints::Usual, Rung::Env);
        assert!(!get(&all, TORCH).unwrap().contains(key), "older versions refuse it");
    }
    let asked = |before: &str| {
        let all = told(&[(TORCH, before)], MemHints::Torch, Rung::Env);
        get(&all, TORCH).unwrap().to_owned()
    };
    assert_eq!(asked(""), format!("expandable_segments:True,{key}:0.2436"));
    assert_eq!(asked(&format!("{key}:0.9")), format!("{key}:0.2436,expandable_segments:True"));
    assert_eq!(asked(&format!("{key}:0.1")), format!("{key}:0.1,expandable_segments:True"));
    assert_eq!(asked(&format!("{key}:much")), format!("{key}:much,expandable_segments:True"));
    let mut all = Variables::new();
    apply(&mut all, &[slice(20_000, 0, Rung::Env)], MemHints::Torch, CONTEXT);
    assert_eq!(get(&all, TORCH), Some("expandable_segments:True"), "a share of nobody knows what");
    assert_eq!(get(&all, CUPY), Some("20434649088"));
}

#[test]
fn of_a_small_slice_most_is_left() {
    let mut all = Variables::new();
    apply(
        &mut all,
        &[slice(1000, 80_000, Rung::Env), slice(800, 40_000, Rung::Env)],
        MemHints::Usual,
        CONTEXT,
    );
    assert_eq!(
        (get(&all, "AX_GPU_POOL_MB"), get(&all, "XLA_CLIENT_MEM_FRACTION")),
        (Some("600"), Some("0.0093"))
    );
}

#[test]
fn what_is_told_names_nothing_of_the_user_s() {
    let mut all: Variables = [(TORCH.to_owned(), "secret:1".to_owned())].into();
    let words = apply(&mut all, &[slice(20_000, 80_000, Rung::Env)], MemHints::Torch, CONTEXT).join("; ");
    assert!(!words.contains("secret"), "{words}");
    assert!(words.contains(
        "PYTORCH_CUDA_ALLOC_CONF with expandable_segments:True,per_process_memory_fraction:0.2436"
    ));
    assert!(words.contains("XLA_CLIENT_MEM_FRACTION=0.2436"), "{words}");
}

#[test]
fn the_weakest_rung_counts_and_settings_are_one() {
    let rung = |limits: &[Rung], hints| {
        let held: Vec<HeldCard> = limits.iter().map(|limit| slice(1, 2, *limit)).collect();
        enforced(&held, hints)
    };
    use MemHints::{None as No, Usual};
    assert_eq!(rung(&[Rung::Driver, Rung::Driver], Usual), Some(Rung::Driver));
    assert_eq!(rung(&[Rung::Driver, Rung::Mps], Usual), Some(Rung::Mps));
    assert_eq!(rung(&[Rung::Driver, Rung::Watch], Usual), Some(Rung::Env));
    assert_eq!((rung(&[Rung::Watch], No), rung(&[Rung::None], No)), (Some(Rung::Watch), Some(Rung::None)));
    assert_eq!(rung(&[], Usual), None);
}
