//! All pairs and triples of options: what each of them is, and that nothing else serves.

use clap::ArgAction;

use super::*;

/// Every option of the program, each with a value that it takes.
fn options() -> Vec<(String, Vec<String>)> {
    let value = |name: &str| match name {
        "nvml-limit" => "set",
        "mps" => "start",
        "from" | "to" => "2026-11-29T15:32:14Z",
        _ => "/some/where",
    };
    let words = |option: &clap::Arg| {
        let name = option.get_long()?;
        let value = matches!(option.get_action(), ArgAction::Set | ArgAction::Append).then(|| value(name));
        let words = [format!("--{name}")].into_iter().chain(value.map(str::to_owned));
        Some((name.to_owned(), words.collect()))
    };
    Arguments::command().get_arguments().filter_map(words).collect()
}

fn parsed(words: &[String]) -> Result<Mode, clap::Error> {
    let words = ["axd".to_owned()].into_iter().chain(words.iter().cloned());
    Mode::parse(words.map(OsString::from))
}

/// Which option named it; nothing for the daemon itself.
fn named(mode: &Mode) -> &'static str {
    match mode {
        Mode::LimitCards { .. } => "nvml-limit",
        Mode::Mps { .. } => "mps",
        Mode::Unmount { .. } => "unmount",
        Mode::AskDriver(_) => "nvml",
        Mode::AtPlace { deed, .. } => match deed {
            Deed::Serve { .. } => "",
            Deed::Check { .. } => "check",
            Deed::Backup { .. } => "db-backup",
            Deed::CheckDatabase { .. } => "db-check",
            Deed::Adopt { .. } => "db-adopt",
            Deed::Events(_) => "db-events",
        },
    }
}

/// What two options together are, if they are anything.
fn meant(one: &str, other: &str) -> Option<&'static str> {
    let serving = ["root", "config", "no-cards"];
    let beside: [(&'static str, &[&str]); 9] = [
        ("check", &["root", "config", "json"]),
        ("db-backup", &["root", "json"]),
        ("db-check", &["root", "json"]),
        ("db-adopt", &["root", "json"]),
        ("db-events", &["root", "json", "from", "to"]),
        ("nvml-limit", &["group"]),
        ("mps", &["order"]),
        ("unmount", &["busy"]),
        ("nvml", &["library"]),
    ];
    let together = |(name, beside): &(&str, &[&str])| {
        (*name == one && beside.contains(&other)) || (*name == other && beside.contains(&one))
    };
    match (one, other) {
        ("nvml", "group") | ("group", "nvml") => Some("nvml"),
        _ if serving.contains(&one) && serving.contains(&other) => Some(""),
        _ => beside.iter().find(|pair| together(pair)).map(|(name, _)| *name),
    }
}

#[test]
fn an_option_alone_is_what_it_says_or_wrong() {
    for (name, words) in options() {
        let alone = match name.as_str() {
            "root" | "config" | "no-cards" => Some(""),
            "check" | "db-backup" | "db-check" | "db-adopt" | "db-events" | "nvml" => Some(name.as_str()),
            _ => None,
        };
        let mode = parsed(&words);
        assert_eq!(mode.as_ref().ok().map(named), alone, "{words:?}: {mode:?}");
    }
    assert_eq!(parsed(&[]).as_ref().map(named).unwrap(), "");
}

/// Above all none of them is the daemon unless all its options are the daemon's.
#[test]
fn every_pair_of_options_is_what_it_says_or_wrong() {
    for (one, first) in options() {
        for (other, second) in options().into_iter().filter(|(other, _)| *other != one) {
            let words = [first.clone(), second].concat();
            let mode = parsed(&words);
            assert_eq!(mode.as_ref().ok().map(named), meant(&one, &other), "{words:?}: {mode:?}");
        }
    }
}

/// Two that were wrong together stay so, whatever comes third.
#[test]
fn what_is_wrong_stays_wrong() {
    let all = options();
    for (a, first) in &all {
        for (b, second) in &all {
            for (c, third) in all.iter().filter(|(c, _)| a < b && c != a && c != b) {
                let words = [first.as_slice(), second, third].concat();
                let Ok(mode) = parsed(&words) else { continue };
                let own: &[&str] = match named(&mode) {
                    "" => &["root", "config", "no-cards"],
                    "check" => &["check", "root", "config", "json"],
                    "db-events" => &["db-events", "root", "from", "to", "json"],
                    "nvml-limit" => &["nvml-limit", "group", "library", "card"],
                    "nvml" => &["nvml", "library", "group"],
                    "mps" => &[],
                    name => &[name, "root", "json"],
                };
                assert!([a, b, c].iter().all(|x| own.contains(&x.as_str())), "{words:?}: {mode:?}");
            }
        }
    }
}

#[test]
fn a_limit_is_for_one_group() {
    let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    let wrong = ["--nvml-limit set", "--nvml-limit set --group /a --group /b", "--nvml-limit sit --group /a"];
    for text in wrong {
        assert!(parsed(&words(text)).is_err(), "{text}");
    }
    let mode = parsed(&words("--nvml-limit clear --group /a --library /l --card x --card y=3")).unwrap();
    let Mode::LimitCards { group, library, cards, .. } = &mode else { panic!("{mode:?}") };
    assert_eq!((group.to_str(), library.as_ref().and_then(|l| l.to_str())), (Some("/a"), Some("/l")));
    assert_eq!(cards.len(), 2);
    let mode = parsed(&words("--nvml --group /a --group /b")).unwrap();
    assert!(matches!(&mode, Mode::AskDriver(options) if options.groups.len() == 2), "{mode:?}");
}

#[test]
fn what_is_wrong_is_said() {
    let said = |text: &str| {
        let words: Vec<String> = text.split_whitespace().map(str::to_owned).collect();
        parsed(&words).unwrap_err().to_string()
    };
    for (text, part) in [
        ("--db-check --config /x", "--config cannot be used with --db-check"),
        ("--check --db-check", "--db-check cannot be used with --check"),
        ("--json", "--json goes with --check, --db-backup, --db-check, --db-adopt, --db-events only"),
        ("--nvml-limit set --group /a --group /b", "--nvml-limit needs one --group DIR"),
        ("--mps start", "--mps needs --order JSON"),
    ] {
        assert!(said(text).contains(part), "{text}: {}", said(text));
    }
}
