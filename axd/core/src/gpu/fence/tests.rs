//! Which files which job may open, decided by the rules as the kernel would.

use super::*;
use crate::gpu::Mig;
use crate::node::CardShare;
use crate::size::Megabytes;

const DEVICES: &str = "Character devices:\n  1 mem\n195 nvidia\n195 nvidia-modeset\n195 nvidiactl\n226 drm\n\
    234 nvidia-nvswitch\n235 nvidia-caps\n236 nvidia-caps-imex-channels\n511 nvidia-uvm\n\nBlock devices:\n\
    259 blkext\n400 nvidia-imaginary\n";
const MIG_MINORS: &str = "config 1\nmonitor 2\ngpu0/gi1/access 12\ngpu0/gi1/ci0/access 13\ngpu0/gi1/ci1/access 14\n\
    gpu0/gi2/access 21\ngpu0/gi2/ci0/access 22\ngpu3/gi1/access 417\ngpu3/gi1/ci0/access 418\n";
const UVM: u32 = 511;
const NVSWITCH: u32 = 234;
const NVIDIA_CAPS: u32 = 235;

fn devices() -> Devices {
    let mut devices = Devices::read(DEVICES, MIG_MINORS);
    for (pci, numbers) in [
        ("0000:3b:00.0", "226:0\n"),
        ("0000:3b:00.0", "226:128\n"),
        ("0000:af:00.0", "226:1\n"),
        ("0000:af:00.0", "226:129\n"),
        ("nonsense", "226:7\n"),
    ] {
        devices.add_drm(pci, numbers);
    }
    devices
}

fn card(index: u32, minor: Option<u32>, pci: &str) -> Card {
    let mut card = Card::new(index, format!("GPU-{index}"), None, Megabytes(80_000));
    card.hardware.minor = minor;
    card.hardware.pci = Some(pci.to_owned());
    card
}

fn part(index: u32, of: u32, instance: (u32, u32)) -> Card {
    let mut card = Card::new(index, format!("MIG-{index}"), None, Megabytes(10_000));
    let (gpu_instance, compute_instance) = instance;
    card.hardware.mig = Some(Mig { parent: format!("GPU-{of}"), gpu_instance, compute_instance });
    card
}

/// Numbers as NVML gives them: card 0 is not /dev/nvidia0.
fn node() -> Vec<Card> {
    vec![card(0, Some(3), "00000000:3B:00.0"), card(1, Some(0), "00000000:AF:00.0")]
}

/// What a job holds that was given these.
fn held(cards: &[&Card]) -> Allocation {
    let share = |card: &&Card| CardShare {
        index: card.index,
        uuid: card.uuid.clone(),
        slice: None,
        of: None,
        mps: None,
    };
    let cards = cards.iter().map(share).collect();
    Allocation { node: "gpu-01".parse().unwrap(), cpus: Vec::new(), ram: Megabytes(1), cards }
}

/// What the kernel decides.
fn opens(rules: &[DeviceRule], major: u32, minor: u32) -> bool {
    let first = rules.iter().find(|rule| rule.major == major && rule.minor.is_none_or(|own| own == minor));
    first.is_none_or(|rule| rule.allow)
}

/// The same of version 1, where each rule is a denial.
fn opens_v1(rules: &[DeviceRule], major: u32, minor: u32) -> bool {
    assert!(rules.iter().all(|rule| !rule.allow));
    !rules.iter().any(|rule| rule.major == major && rule.minor.is_none_or(|own| own == minor))
}

/// Holds for both ways of writing the rules.
fn check(rules: &[DeviceRule], devices: &Devices, expected: &[(u32, u32, bool)]) {
    let single = one_by_one(rules, devices);
    for (major, minor, allowed) in expected {
        assert_eq!(opens(rules, *major, *minor), *allowed, "{major}:{minor} by {rules:?}");
        assert_eq!(opens_v1(&single, *major, *minor), *allowed, "{major}:{minor} in version 1");
    }
}

#[test]
fn a_job_opens_its_cards_by_the_minors_of_the_driver_and_no_others() {
    let (cards, devices) = (node(), devices());
    let rules = rules(&cards, &held(&[&cards[0]]), &devices).unwrap();
    check(
        &rules,
        &devices,
        &[
            (195, 3, true),
            (195, 0, false),
            (195, 1, false),
            (195, 253, false),
            (195, 254, true),
            (195, 255, true),
            (UVM, 0, true),
            (UVM, 1, true),
            (NVSWITCH, 0, true),
            (1, 3, true),
            (400, 0, true),
            (226, 0, true),
            (226, 128, true),
            (226, 1, false),
            (226, 129, false),
            (226, 5, true),
            (NVIDIA_CAPS, 1, true),
            (NVIDIA_CAPS, 12, false),
            (NVIDIA_CAPS, 418, false),
        ],
    );
}

#[test]
fn a_job_without_cards_opens_nothing_of_nvidia_s() {
    let devices = devices();
    let rules = rules(&node(), &held(&[]), &devices).unwrap();
    check(
        &rules,
        &devices,
        &[
            (195, 0, false),
            (195, 3, false),
            (195, 77, false),
            (195, 254, false),
            (195, 255, false),
            (UVM, 0, false),
            (NVSWITCH, 0, false),
            (NVIDIA_CAPS, 1, false),
            (NVIDIA_CAPS, 12, false),
            (236, 0, false),
            (226, 0, false),
            (226, 129, false),
            (226, 5, true),
            (1, 3, true),
            (400, 0, true),
        ],
    );
    // Before the driver is loaded its other majors are unknown, and cards have theirs all the same.
    let before = Devices::read("Character devices:\n  1 mem\n", "");
    check(&super::rules(&[], &held(&[]), &before).unwrap(), &before, &[(195, 0, false), (UVM, 0, true)]);
}

#[test]
fn a_part_of_a_card_is_opened_by_its_own_two_files() {
    let mut cards = node();
    cards.extend([part(2, 0, (1, 0)), part(3, 1, (1, 0)), part(4, 1, (2, 0)), part(5, 1, (1, 1))]);
    let devices = devices();
    // Part 2 is of card 0, whose file is /dev/nvidia3; part 3 of card 1, whose file is /dev/nvidia0.
    let first = rules(&cards, &held(&[&cards[2]]), &devices).unwrap();
    check(
        &first,
        &devices,
        &[
            (195, 3, true),
            (195, 0, false),
            (NVIDIA_CAPS, 417, true),
            (NVIDIA_CAPS, 418, true),
            (NVIDIA_CAPS, 12, false),
            (NVIDIA_CAPS, 2, true),
            (226, 0, true),
            (226, 1, false),
        ],
    );
    let second = rules(&cards, &held(&[&cards[3]]), &devices).unwrap();
    check(
        &second,
        &devices,
        &[
            (195, 0, true),
            (195, 3, false),
            (NVIDIA_CAPS, 12, true),
            (NVIDIA_CAPS, 13, true),
            (NVIDIA_CAPS, 14, false),
            (NVIDIA_CAPS, 21, false),
            (NVIDIA_CAPS, 22, false),
        ],
    );
    let two = rules(&cards, &held(&[&cards[3], &cards[4]]), &devices).unwrap();
    check(
        &two,
        &devices,
        &[
            (NVIDIA_CAPS, 13, true),
            (NVIDIA_CAPS, 22, true),
            (NVIDIA_CAPS, 14, false),
            (NVIDIA_CAPS, 417, false),
        ],
    );
    assert_eq!(
        two.iter().filter(|rule| rule.major == 195 && rule.minor == Some(0)).count(),
        1,
        "their card once"
    );
}

#[test]
fn what_nobody_knows_is_not_guessed() {
    let cards = vec![
        card(0, None, "0000:3b:00.0"),
        card(1, Some(1), "0000:af:00.0"),
        part(2, 1, (7, 0)),
        part(3, 0, (1, 0)),
    ];
    let devices = devices();
    assert_eq!(
        rules(&cards, &held(&[&cards[0]]), &devices),
        Err(Unknown::File(0)),
        "its number is not its file's"
    );
    assert_eq!(rules(&cards, &held(&[&cards[2]]), &devices), Err(Unknown::Caps(2)));
    assert_eq!(rules(&cards, &held(&[&cards[3]]), &devices), Err(Unknown::File(3)));
    let gone = Card { uuid: "GPU-gone".into(), ..card(1, Some(1), "0000:af:00.0") };
    assert_eq!(
        rules(&cards, &held(&[&gone]), &devices),
        Err(Unknown::File(1)),
        "another card may have its number now"
    );
    let no_caps = Devices::read("Character devices:\n195 nvidia\n", MIG_MINORS);
    let cards = [card(0, Some(0), "0000:3b:00.0"), part(1, 0, (1, 0))];
    assert_eq!(rules(&cards, &held(&[&cards[1]]), &no_caps), Err(Unknown::Caps(1)));
    let mut homeless = card(1, Some(1), "0000:af:00.0");
    homeless.hardware.pci = None;
    let open = rules(&[homeless.clone()], &held(&[&homeless]), &devices).unwrap();
    check(&open, &devices, &[(226, 0, false), (226, 1, false), (195, 1, true)]);
}

#[test]
fn where_a_job_s_own_files_are_not_known_those_of_others_are_denied_all_the_same() {
    let cards = vec![
        card(0, None, "0000:3b:00.0"),
        card(1, Some(1), "0000:af:00.0"),
        card(2, None, "0000:d8:00.0"),
        part(3, 1, (7, 0)),
    ];
    let devices = devices();
    let unknown = others(&cards, &held(&[&cards[0]]), &devices);
    let shared = [(195, 255, true), (UVM, 0, true), (NVIDIA_CAPS, 12, true), (226, 5, true)];
    check(&unknown, &devices, &shared);
    let displays = [(226, 0, true), (226, 128, true), (226, 1, false), (226, 129, false)];
    check(&unknown, &devices, &[(195, 0, true), (195, 1, false), (195, 2, true)]);
    check(&unknown, &devices, &displays);
    let both = others(&cards, &held(&[&cards[0], &cards[1]]), &devices);
    assert_eq!(both, [], "nothing is known of the third");
    let of_part = others(&cards, &held(&[&cards[3]]), &devices);
    check(&of_part, &devices, &[(195, 1, true), (226, 1, true), (NVIDIA_CAPS, 12, true)]);
}

#[test]
fn texts_of_the_kernel_are_read_as_they_are_and_nonsense_is_nothing() {
    let read = Devices::read(DEVICES, MIG_MINORS);
    assert_eq!(read.caps_major(), Some(NVIDIA_CAPS));
    assert_eq!(read.cap("gpu0/gi1/ci1/access"), Some(14));
    assert!(!read.majors.iter().any(|(_, major)| *major == 400), "block devices are no cards");
    assert_eq!(Devices::read("x\n195\nnvidia 195\n-1 nvidia\n", "gpu0\n\nx y z\n"), Devices::default());
    assert_eq!(Address::parse("00000000:3B:00.0"), Address::parse("0000:3b:00.0\n"));
    assert_ne!(Address::parse("0001:3b:00.0"), Address::parse("0000:3b:00.0"));
}

#[test]
fn version_1_is_told_every_other_minor() {
    let (cards, devices) = (node(), devices());
    let all = rules(&cards, &held(&[&cards[0], &cards[1]]), &devices).unwrap();
    let single = one_by_one(&all, &devices);
    assert_eq!(single.iter().filter(|rule| rule.major == CARDS).count(), 252);
    let none = rules(&cards, &held(&[]), &devices).unwrap();
    assert_eq!(one_by_one(&none, &devices), none, "where nothing is carved out, it is as it was");
}
