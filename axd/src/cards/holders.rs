//! Which processes have memory on a card, from `/proc`. Users wrote what is there: a name is made fit to be shown,
//! and an attempt is believed only if the kernel lists the process in that attempt's group. Only files are read that
//! the kernel answers by itself: others, such as `cmdline`, can wait for a process's memory for ever.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use ax_core::gpu::HolderSeen;
use ax_core::id::{AttemptName, Uid};
use ax_core::size::Megabytes;
use ax_core::text::escaped;
use ax_sys::nvml::Holder;
use ax_sys::pidfd::ProcessIdentity;

use crate::mps;

/// So many processes of a card are told one by one, those with the most memory; the rest together, as number 0.
const MOST: usize = 256;

/// The length of an id of a container as people know it.
const SHORT_ID: usize = 12;

/// Describes the holders of a card. `groups` are the folders below which attempts have their groups.
pub(super) fn describe(holders: &[Holder], groups: &[PathBuf]) -> Vec<HolderSeen> {
    let mut holders = holders.to_vec();
    holders.sort_by_key(|holder| (std::cmp::Reverse(holder.memory_bytes), holder.pid));
    let rest = holders.split_off(MOST.min(holders.len()));
    let mut all: Vec<HolderSeen> = holders.iter().map(|holder| describe_one(holder, groups)).collect();
    if !rest.is_empty() {
        let sum = rest.iter().filter_map(|holder| holder.memory_bytes).sum();
        all.push(describe_one(&Holder { pid: 0, memory_bytes: Some(sum) }, groups));
    }
    all
}

/// Describes processes that have a card open.
pub(super) fn openers(pids: &[i32], groups: &[PathBuf]) -> Vec<HolderSeen> {
    let known = pids.iter().filter_map(|pid| u32::try_from(*pid).ok());
    let all = known.map(|pid| describe_one(&Holder { pid, memory_bytes: None }, groups));
    all.filter(|opener| opener.start_ticks.is_some()).collect()
}

/// The attempt whose processes keep the memory of a process that has ended: the only attempt among those with the
/// card open.
pub(super) fn keeper(openers: &[HolderSeen]) -> Option<AttemptName> {
    let mut attempts = openers.iter().filter_map(|opener| opener.attempt);
    let first = attempts.next()?;
    attempts.all(|other| other == first).then_some(first)
}

/// Users choose the names of containers, of any length.
const LONGEST_NAME: usize = 64;

fn describe_one(holder: &Holder, groups: &[PathBuf]) -> HolderSeen {
    let pid = i32::try_from(holder.pid).unwrap_or(0);
    let mut seen =
        HolderSeen { pid, used: holder.memory_bytes.map(Megabytes::from_bytes), ..HolderSeen::default() };
    let start = || ProcessIdentity::read(pid).ok().flatten().map(|identity| identity.start_ticks);
    let Some(before) = Some(pid).filter(|pid| *pid > 0).and_then(|_| start()) else { return seen };
    let folder = PathBuf::from(format!("/proc/{pid}"));
    let uid = user(&folder);
    let command = std::fs::read(folder.join("comm")).ok();
    let command = command.map(|name| escaped(String::from_utf8_lossy(&name).trim_end_matches('\n')));
    let lines = std::fs::read_to_string(folder.join("cgroup")).unwrap_or_default();
    let place = place(&lines, groups, pid);
    // The number may have been given to another process meanwhile: then none of this is the holder's.
    if start() == Some(before) {
        seen.start_ticks = Some(before);
        seen.uid = uid;
        seen.command = command;
        seen.container = container(&lines).map(|name| name.chars().take(LONGEST_NAME).collect());
        seen.mps = place.as_deref().is_some_and(|name| name.starts_with(mps::GROUP));
        seen.attempt = place.and_then(|name| name.parse().ok());
    }
    seen
}

/// Its real user: the folder may belong to root, for processes that hide.
pub(super) fn user(folder: &Path) -> Option<Uid> {
    let status = std::fs::read_to_string(folder.join("status")).ok();
    let line = status.as_deref().and_then(|text| text.lines().find_map(|line| line.strip_prefix("Uid:")));
    let real = line.and_then(|numbers| numbers.split_ascii_whitespace().next()?.parse().ok());
    real.or_else(|| Some(std::fs::metadata(folder).ok()?.uid())).map(Uid)
}

/// The paths in the lines of `/proc/PID/cgroup`.
fn paths(lines: &str) -> impl Iterator<Item = &str> {
    lines.lines().filter_map(|line| line.splitn(3, ':').nth(2))
}

/// The name of the group of ours that it is in: an attempt's or an MPS daemon's. A user may give a group elsewhere
/// any name, so our own group must list the process.
fn place(lines: &str, groups: &[PathBuf], pid: i32) -> Option<String> {
    for folder in groups {
        let Some(name) = folder.file_name().and_then(|name| name.to_str()) else { continue };
        for path in paths(lines) {
            let mut parts = path.split('/').skip_while(|part| *part != name).skip(1);
            let known = |name: &&str| name.starts_with(mps::GROUP) || name.parse::<AttemptName>().is_ok();
            let Some(own) = parts.next().filter(known) else { continue };
            let mut group = folder.join(own);
            group.extend(parts.filter(|part| *part != ".."));
            let list = std::fs::read_to_string(group.join("cgroup.procs")).unwrap_or_default();
            if list.lines().any(|line| line.parse() == Ok(pid)) {
                return Some(own.to_owned());
            }
        }
    }
    None
}

/// The container that it is in, as `docker:0123456789ab`, by the usual names of groups.
fn container(lines: &str) -> Option<String> {
    let id = |text: &str| {
        let plain = text.len() >= SHORT_ID && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        plain.then(|| text[..SHORT_ID].to_owned())
    };
    for path in paths(lines) {
        let parts: Vec<&str> = path.split('/').collect();
        for (at, part) in parts.iter().enumerate() {
            let unit = part.strip_suffix(".scope").unwrap_or(part);
            let known = [
                ("docker-", "docker"),
                ("libpod-", "podman"),
                ("cri-containerd-", "containerd"),
                ("crio-", "cri-o"),
            ];
            for (start, kind) in known {
                if let Some(id) = unit.strip_prefix(start).and_then(id) {
                    return Some(format!("{kind}:{id}"));
                }
            }
            if let (true, Some(id)) = (*part == "docker", parts.get(at + 1).and_then(|next| id(next))) {
                return Some(format!("docker:{id}"));
            }
            let below = || parts.get(at + 1).copied().filter(|_| *part == "lxc");
            let lxc = part.strip_prefix("lxc.payload.").or_else(below);
            if let Some(name) = lxc.filter(|name| !name.is_empty()) {
                return Some(format!("lxc:{}", escaped(name)));
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn containers_are_known_by_their_groups() {
        let id = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
        for (path, name) in [
            (format!("/system.slice/docker-{id}.scope"), "docker:0123456789ab"),
            (format!("/docker/{id}"), "docker:0123456789ab"),
            (format!("/machine.slice/libpod-{id}.scope/container"), "podman:0123456789ab"),
            (
                format!("/kubepods.slice/kubepods-pod1.slice/cri-containerd-{id}.scope"),
                "containerd:0123456789ab",
            ),
            ("/lxc.payload.web/init.scope".to_owned(), "lxc:web"),
            ("/lxc/web".to_owned(), "lxc:web"),
        ] {
            assert_eq!(container(&format!("0::{path}\n")).as_deref(), Some(name), "{path}");
        }
        for path in ["/user.slice/user-1000.slice/session-3.scope", "/docker", "/docker-short.scope", "/"] {
            assert_eq!(container(&format!("1:name=systemd:{path}\n")), None, "{path}");
        }
    }

    #[test]
    fn an_attempt_is_believed_only_where_its_own_group_has_the_process() {
        let top = test_kit::TempDir::new();
        let groups = [top.join("memory/ax-0123abcd")];
        let own = groups[0].join("ax-2026-0001.7");
        std::fs::create_dir_all(own.join("inner")).unwrap();
        std::fs::write(own.join("cgroup.procs"), "12\n41\n").unwrap();
        std::fs::write(own.join("inner/cgroup.procs"), "43\n").unwrap();
        let seen = |lines: &str, pid| place(lines, &groups, pid);
        let mine = "4:memory:/ax-0123abcd/ax-2026-0001.7\n0::/\n";
        assert_eq!(seen(mine, 41).as_deref(), Some("ax-2026-0001.7"));
        assert_eq!(
            seen("4:memory:/x/ax-0123abcd/ax-2026-0001.7/inner\n", 43).as_deref(),
            Some("ax-2026-0001.7")
        );
        assert_eq!(
            seen("0::/user.slice/user-7.slice/ax-0123abcd/ax-2026-0001.7\n", 66),
            None,
            "a false group"
        );
        assert_eq!(seen("0::/ax-ffffffff/ax-2026-0001.7\n", 41), None, "another daemon's");
        assert_eq!(seen("0::/ax-0123abcd/supervisors\n", 41), None);
        assert_eq!(seen("", 41), None);
    }

    #[test]
    fn a_holder_is_described_as_far_as_it_is_there() {
        let own = i32::try_from(std::process::id()).unwrap();
        let all = [
            Holder { pid: own.unsigned_abs(), memory_bytes: Some(3 << 20) },
            Holder { pid: 0, memory_bytes: Some(1 << 20) },
            Holder { pid: u32::MAX, memory_bytes: None },
        ];
        let seen = describe(&all, &[]);
        assert_eq!(
            (seen[0].pid, seen[0].used, seen[0].start_ticks.is_some()),
            (own, Some(Megabytes(3)), true)
        );
        assert_eq!(seen[0].uid, Some(Uid(ax_sys::credentials::own().0)));
        assert!(seen[0].command.is_some() && seen[0].attempt.is_none());
        assert_eq!((seen[1].pid, seen[1].uid), (0, None));
        assert_eq!((seen[2].pid, seen[2].used), (0, None), "no process has such a number");
        let many: Vec<Holder> =
            (0..300).map(|n| Holder { pid: 4_000_000 + n, memory_bytes: Some(1 << 20) }).collect();
        let seen = describe(&many, &[]);
        assert_eq!((seen.len(), seen[256].pid, seen[256].used), (257, 0, Some(Megabytes(44))));
    }
}
