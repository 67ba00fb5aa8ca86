//! The small capabilities: clocks, names, signals, identities, messages, the poll loop, cards.

#![allow(clippy::unwrap_used, reason = "a test that can not go on should stop")]

mod common;

use ax_sys::pidfd::{PidFd, ProcessIdentity};
use ax_sys::signals::Signal;
use ax_sys::socket::{self, Interest, Poller, Waker};
use ax_sys::{clock, nvml, random, sched, users};
use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

const LONG: Duration = Duration::from_secs(30);

#[test]
fn clocks_go_on() {
    let (boot, wall) = (clock::boot_ms(), clock::wall_ms());
    std::thread::sleep(Duration::from_millis(5));
    assert!(clock::boot_ms() >= boot + 5);
    assert!(wall > 1_700_000_000_000);
    let id = clock::boot_id().unwrap();
    assert_eq!((id.len(), id.clone()), (36, clock::boot_id().unwrap()));
}

#[test]
fn random_names_differ() {
    let names: std::collections::HashSet<String> = (0..1000).map(|_| random::name().unwrap()).collect();
    assert_eq!(names.len(), 1000);
    assert!(names.iter().all(|name| name.len() == 16));
    assert_ne!(random::bytes::<32>().unwrap(), [0; 32]);
}

#[test]
fn signals_have_names() {
    for (text, number) in [
        ("USR1", 10),
        ("SIGUSR1", 10),
        ("sigusr1", 10),
        ("10", 10),
        (" TERM ", 15),
        ("9", 9),
        ("RTMIN", 34),
        ("SIGRTMIN+3", 37),
        ("RTMAX-1", 63),
        ("RTMAX", 64),
        ("64", 64),
        ("IOT", 6),
    ] {
        assert_eq!(text.parse::<Signal>().unwrap().number(), number, "{text}");
    }
    for bad in ["", "0", "32", "33", "65", "-9", "+9", "SIG", "NOPE", "RTMIN+31", "RTMAX-99", "9 9"] {
        assert!(bad.parse::<Signal>().is_err(), "{bad:?} was taken");
    }
    for signal in (1..=64).filter_map(Signal::from_number) {
        assert_eq!(signal.to_string().parse::<Signal>().unwrap(), signal);
    }
    assert_eq!(Signal::TERM.to_string(), "TERM");
}

#[test]
fn a_number_alone_is_not_trusted() {
    let mut child = Command::new("sleep").arg("1000").spawn().unwrap();
    let pid = child.id().cast_signed();
    let identity = ProcessIdentity::read(pid).unwrap().unwrap();
    assert_eq!(identity.to_string().parse::<ProcessIdentity>().unwrap(), identity);
    let process = PidFd::open_checked(identity).unwrap().unwrap();
    let other = ProcessIdentity { start_ticks: identity.start_ticks + 1, ..identity };
    assert!(PidFd::open_checked(other).unwrap().is_none());
    assert!(!process.wait_ended(Duration::ZERO).unwrap());
    assert!(process.send_signal(Signal::KILL).unwrap());
    assert!(process.wait_ended(LONG).unwrap());
    child.wait().unwrap();
    assert!(!process.send_signal(Signal::KILL).unwrap(), "gone");
    assert!(PidFd::open_checked(identity).unwrap().is_none());
    assert_eq!(ProcessIdentity::read(pid).unwrap().filter(|found| *found == identity), None);
    assert!("12".parse::<ProcessIdentity>().is_err());
}

#[test]
fn odd_process_names_do_not_confuse() {
    let scratch = common::Scratch::new();
    let odd = scratch.path().join(") Z 1 (x\n");
    std::fs::copy("/bin/sleep", &odd).unwrap();
    let mut child = Command::new(&odd).arg("1000").spawn().unwrap();
    let identity = ProcessIdentity::read(child.id().cast_signed()).unwrap().unwrap();
    assert!(identity.start_ticks > 0);
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn the_machine_is_described() {
    let online = std::fs::read_to_string("/sys/devices/system/cpu/online").unwrap();
    let online = sched::parse_cpu_list(&online).unwrap();
    assert!(!online.is_empty());
    assert!(sched::allowed_cpus().unwrap().iter().all(|cpu| online.contains(cpu)));
    assert!(sched::memory_bytes().unwrap() > 64 << 20);
    let name = sched::host_name().unwrap();
    assert!(!name.contains('.') && name == name.to_lowercase());
}

#[test]
fn cpu_lists_are_read_and_written() {
    for (text, cpus, canonical) in [
        ("0-3,7\n", vec![0, 1, 2, 3, 7], "0-3,7"),
        ("", vec![], ""),
        ("5,1,1-2", vec![1, 2, 5], "1-2,5"),
        ("9", vec![9], "9"),
    ] {
        let found = sched::parse_cpu_list(text).unwrap();
        assert_eq!(found, cpus);
        assert_eq!(sched::format_cpu_list(&found), canonical);
    }
    for bad in ["3-1", "a", "1-", "-1", "0-99999999", "1--2"] {
        assert_eq!(sched::parse_cpu_list(bad), None, "{bad}");
    }
}

#[test]
fn users_are_looked_up() {
    let root = users::by_uid(0).unwrap().unwrap();
    assert_eq!((root.name.as_str(), root.gid), ("root", 0));
    assert_eq!(users::by_name("root").unwrap(), Some(root.clone()));
    assert!(users::groups_of(&root).unwrap().contains(&0));
    assert_eq!(users::by_name("no-such-user-here").unwrap(), None);
    assert_eq!(users::by_uid(3_999_999_999).unwrap(), None);
    assert_eq!(users::group_by_name("root").unwrap().unwrap().gid, 0);
    assert_eq!(users::group_by_gid(0).unwrap().unwrap().name, "root");
    assert_eq!(users::group_by_name("no-such-group-here").unwrap(), None);
}

#[test]
fn descriptors_travel_with_messages() {
    let (one, two) = socket::message_pair().unwrap();
    let scratch = common::Scratch::new();
    let mut file = scratch.dir().create_file("f", 0o600).unwrap();
    assert_eq!(socket::send(&one, b"hello", &[file.as_fd(), one.as_fd()]).unwrap(), 5);
    assert_eq!(socket::send(&one, b"more", &[]).unwrap(), 4);
    let mut buffer = [0; 100];
    let got = socket::receive(&two, &mut buffer).unwrap();
    assert_eq!((&buffer[..got.length], got.fds.len()), (&b"hello"[..], 2));
    assert!(got.fds.iter().all(common::is_close_on_exec));
    let mut copy = std::fs::File::from(got.fds.into_iter().next().unwrap());
    copy.write_all(b"through").unwrap();
    let mut text = String::new();
    std::io::Seek::rewind(&mut file).unwrap();
    file.read_to_string(&mut text).unwrap();
    assert_eq!(text, "through");
    let got = socket::receive(&two, &mut buffer[..2]);
    assert!(got.unwrap_err().to_string().contains("too long"));
    drop(one);
    assert_eq!(socket::receive(&two, &mut buffer).unwrap().length, 0);
    assert!(socket::send(&two, b"x", &[]).unwrap_err().is(libc::EPIPE));
}

#[test]
fn the_poll_loop_waits_and_wakes() {
    let mut poller = Poller::new().unwrap();
    let waker = std::sync::Arc::new(Waker::new().unwrap());
    poller.add(&*waker, 1, Interest::READ).unwrap();
    let (one, two) = std::os::unix::net::UnixStream::pair().unwrap();
    poller.add(&two, 2, Interest::READ).unwrap();
    let mut events = Vec::new();
    poller.wait(&mut events, Some(Duration::ZERO)).unwrap();
    assert!(events.is_empty());
    let other = waker.clone();
    std::thread::spawn(move || other.wake().unwrap());
    poller.wait(&mut events, Some(LONG)).unwrap();
    assert_eq!((events.len(), events[0].token, events[0].readable), (1, 1, true));
    waker.wake().unwrap();
    waker.drain().unwrap();
    waker.drain().unwrap();
    poller.modify(&two, 3, Interest::READ_WRITE).unwrap();
    poller.wait(&mut events, Some(LONG)).unwrap();
    assert!(events.len() == 1 && events[0].token == 3 && events[0].writable && !events[0].readable);
    drop(one);
    poller.wait(&mut events, Some(LONG)).unwrap();
    assert!(events[0].readable && events[0].failed);
    poller.remove(&two).unwrap();
    assert!(poller.remove(&two).unwrap_err().is(libc::ENOENT));
    assert!(poller.add(&*waker, 9, Interest::READ).unwrap_err().is(libc::EEXIST));
}

#[test]
fn a_missing_library_is_no_accident() {
    let missing = Path::new("/nowhere/libnvidia-ml.so.1");
    let error = nvml::Session::open(Some(missing)).unwrap_err();
    assert!(matches!(&error, nvml::NvmlError::Absent { library, .. } if library == missing), "{error}");
    // A library without any of the functions.
    assert!(matches!(nvml::Session::open(Some(Path::new("libc.so.6"))), Err(nvml::NvmlError::NoDriver(_))));
}
