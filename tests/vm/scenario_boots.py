"""Each kind of machine boots as what it says it is, and our programs run there."""

MACHINES = ["v2", "v1", "hybrid", "systemd"]


def mounted(m):
    """The control group file systems of the guest: (type, where, controllers)."""
    lines = m.run("grep cgroup /proc/mounts || true").out.splitlines()
    return [(w[2], w[1], w[3]) for w in map(str.split, lines) if w[2].startswith("cgroup")]


def test_control_groups_are_mounted_as_asked(m):
    kinds = {kind for kind, _, _ in mounted(m)}
    assert kinds == {"v2": {"cgroup2"}, "v1": {"cgroup"}, "hybrid": {"cgroup", "cgroup2"}}[m.cgroup], mounted(m)


def test_the_controllers_that_ax_uses_are_there(m):
    if m.cgroup == "v2":
        have = set(m.run("cat /sys/fs/cgroup/cgroup.controllers").out.split())
        assert {"cpuset", "cpu", "memory", "pids"} <= have, have
    else:
        have = {c for _, _, options in mounted(m) for c in options.split(",")}
        assert {"cpuset", "cpu", "memory", "pids", "devices", "freezer"} <= have, have


def test_process_1_is_the_expected_one(m):
    word = m.run("cat /proc/1/comm").out.strip()
    assert word == ("systemd" if m.init == "systemd" else "agent"), word
    if m.init == "systemd":
        version = m.run("systemctl --version").out.split()[1]
        assert version == "252", version


def test_a_group_can_be_made_and_emptied(m):
    where = {"v2": "/sys/fs/cgroup/t", "v1": "/sys/fs/cgroup/memory/t", "hybrid": "/sys/fs/cgroup/memory/t"}[m.cgroup]
    m.run(f"mkdir {where}; sleep 100 >/dev/null 2>&1 & echo $! >/tmp/p; cat /tmp/p >{where}/cgroup.procs")
    m.run(f"grep -qx $(cat /tmp/p) {where}/cgroup.procs && kill $(cat /tmp/p); "
          f"for i in 1 2 3 4 5 6 7 8 9; do rmdir {where} && exit 0; sleep 0.2; done; exit 1")


def test_our_programs_run(m):
    for program in m.run("ls /payload 2>/dev/null || true").out.split():
        # Whatever it answers, the loader must find every library.
        r = m.run(f"/payload/{program} --version </dev/null 2>&1", check=False)
        assert r.rc not in (126, 127) and "GLIBC" not in r.out, (program, r)
