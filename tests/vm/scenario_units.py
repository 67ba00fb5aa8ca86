"""The systemd units by themselves: stand-ins take the place of axd and the watchdog, so that what is tested
is what systemd does with jobs' control groups when units stop, restart, are killed or reloaded."""
import os

from vmkit import HERE

MACHINES = ["systemd", "systemd-v1"]

# Says it is ready, then starts one "job" in a group below ax-jobs.service, if there is none yet.
AXD = r"""#!/usr/bin/python3
import os, signal, socket, subprocess, time
def notify(word):
    s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    s.sendto(word, os.environ["NOTIFY_SOCKET"].replace("@", "\0"))
root = "/sys/fs/cgroup" + ("" if os.path.exists("/sys/fs/cgroup/cgroup.procs") else "/systemd")
group = root + "/ax.slice/ax-jobs.service/ax-0/job.1"
os.makedirs(group, exist_ok=True)
if not open(group + "/cgroup.procs").read():
    def enter(): open(group + "/cgroup.procs", "w").write(str(os.getpid()))
    subprocess.Popen(["sleep", "1000"], preexec_fn=enter, start_new_session=True)
open("/run/ax/beat", "a").write("x")
signal.signal(signal.SIGHUP, lambda *_: None)
notify(b"READY=1")
while True: time.sleep(1000)
"""
WATCHDOG = r"""#!/bin/sh
[ "$1" = --watchdog ] || exit 0
exec sleep 100000
"""


def job(m):
    """The processes of the stand-in job."""
    return m.run("cat /sys/fs/cgroup/ax.slice/ax-jobs.service/ax-0/job.1/cgroup.procs 2>/dev/null || "
                 "cat /sys/fs/cgroup/systemd/ax.slice/ax-jobs.service/ax-0/job.1/cgroup.procs 2>/dev/null || true").out.split()


def beats(m):
    return len(m.run("cat /run/ax/beat").out)


def until(m, condition, seconds=40):
    m.run(f"for i in $(seq {seconds * 5}); do ({condition}) >/dev/null 2>&1 && exit 0; sleep 0.2; done; "
          "systemctl --no-pager status axd ax-guard ax-jobs; journalctl -n 40 --no-pager; exit 1", timeout=seconds * 3)


def main_pid(m, unit):
    return m.run(f"systemctl show -p MainPID --value {unit}").out.strip()


def test_units_are_accepted_and_start(m):
    etc = os.path.dirname(os.path.dirname(HERE)) + "/etc"
    for name in ("axd.service", "ax-guard.service", "ax-jobs.service", "ax.slice"):
        m.put(f"{etc}/{name}", f"/etc/systemd/system/{name}", 0o644)
    for folder in ("sysusers.d", "tmpfiles.d", "logrotate.d"):
        m.run(f"mkdir -p /etc/{folder}")
        m.put(f"{etc}/{folder}/" + ("ax" if folder == "logrotate.d" else "ax.conf"),
              f"/etc/{folder}/" + ("ax" if folder == "logrotate.d" else "ax.conf"), 0o644)
    m.put(AXD.encode(), "/usr/local/bin/axd")
    m.put(WATCHDOG.encode(), "/usr/local/bin/axrun")
    m.run("systemd-sysusers && systemd-tmpfiles --create /etc/tmpfiles.d/ax.conf")
    m.run("systemctl daemon-reload && systemd-analyze verify --man=no axd.service ax-guard.service ax-jobs.service")
    m.run("systemctl enable --now axd.service ax-guard.service ax-jobs.service", timeout=120)
    until(m, "systemctl is-active axd ax-guard ax-jobs")
    assert len(job(m)) == 1


def test_the_group_of_jobs_is_delegated_and_may_have_sub_groups_with_controllers(m):
    assert m.run("systemctl show -p ControlGroup --value ax-jobs").out.strip() == "/ax.slice/ax-jobs.service"
    if m.cgroup == "v2":
        m.run("cd /sys/fs/cgroup/ax.slice/ax-jobs.service; for c in memory pids cpu cpuset io; do "
              "echo +$c >cgroup.subtree_control || exit 1; done; test -e ax-0/memory.max")
    else:
        for controller in ("memory", "pids", "cpu"):
            group = f"/sys/fs/cgroup/{controller}/ax.slice/ax-jobs.service"
            m.run(f"mkdir {group}/t && rmdir {group}/t")


def test_folders_have_the_modes_of_the_contract(m):
    modes = m.run("stat -c '%a %n' /run/ax /var/spool/ax/incoming /var/spool/ax/taken /var/lib/ax").out
    assert modes.split() == ["755", "/run/ax", "1733", "/var/spool/ax/incoming", "700", "/var/spool/ax/taken",
                             "700", "/var/lib/ax"], modes
    assert m.run("id -u ax").rc == 0


def test_a_restart_of_axd_leaves_the_job_alone(m):
    before, n = job(m), beats(m)
    m.run("systemctl restart axd.service", timeout=120)
    assert job(m) == before and beats(m) == n + 1


def test_a_killed_axd_comes_back_and_the_job_runs_on(m):
    before, n = job(m), beats(m)
    m.run(f"kill -9 {main_pid(m, 'axd')}")
    until(m, f"[ $(wc -c </run/ax/beat) -gt {n} ] && systemctl is-active axd")
    assert job(m) == before


def test_a_killed_watchdog_is_back_within_a_second_or_two(m):
    old = main_pid(m, "ax-guard")
    m.run(f"kill -9 {old}; for i in $(seq 25); do p=$(systemctl show -p MainPID --value ax-guard); "
          f"[ $p != 0 ] && [ $p != {old} ] && exit 0; sleep 0.2; done; exit 1")


def test_stopping_daemon_and_watchdog_keeps_groups_and_runtime_folder(m):
    before = job(m)
    m.run("systemctl stop axd ax-guard", timeout=120)
    assert job(m) == before and beats(m) > 0
    m.run("systemctl daemon-reload && systemctl daemon-reexec", timeout=120)
    assert job(m) == before
    if m.cgroup == "v2":
        m.run("test -e /sys/fs/cgroup/ax.slice/ax-jobs.service/ax-0/job.1/cgroup.procs "
              "-a -e /sys/fs/cgroup/ax.slice/ax-jobs.service/ax-0/memory.max")
    m.run("systemctl start axd ax-guard", timeout=120)
    assert job(m) == before


def test_the_place_of_jobs_outlives_its_last_job(m):
    m.run(f"systemctl stop axd; kill -9 {job(m)[0]}; sleep 1", timeout=120)
    assert job(m) == [] and m.run("systemctl is-active ax-jobs").out.strip() == "active"
    m.run("ls -d /sys/fs/cgroup/ax.slice/ax-jobs.service/ax-0 || ls -d /sys/fs/cgroup/systemd/ax.slice/ax-jobs.service/ax-0")
    m.run("systemctl start axd", timeout=120)
    assert len(job(m)) == 1


def test_jobs_outlive_the_process_that_holds_their_place(m):
    m.run("kill -9 $(pgrep -f '^sleep infinity$'); sleep 1")
    assert len(job(m)) == 1 and m.run("systemctl is-active ax-jobs").out.strip() == "active"
    assert m.run("systemctl show -p ControlGroup --value ax-jobs").out.strip() == "/ax.slice/ax-jobs.service"


def test_priorities_are_as_promised(m):
    axd, guard = main_pid(m, "axd"), main_pid(m, "ax-guard")
    scores = m.run(f"cat /proc/{axd}/oom_score_adj /proc/{guard}/oom_score_adj").out.split()
    assert scores == ["-900", "-1000"], scores
    # Not the daemon's sandbox: jobs inherit from it.
    status = m.run(f"grep -E '^(NoNewPrivs|Seccomp):' /proc/{axd}/status").out.split()
    assert status == ["NoNewPrivs:", "0", "Seccomp:", "0"], status


def test_the_log_can_be_rotated(m):
    m.run("echo line >/var/log/ax-controller.log; cp /usr/local/bin/axd /tmp/axd; "
          "logrotate --force --state /tmp/s /etc/logrotate.d/ax; test -e /var/log/ax-controller.log.1")
    assert m.run("systemctl is-active axd", check=False).out.strip() == "active"


def test_stopping_the_place_of_jobs_ends_them_and_axd(m):
    m.run("systemctl stop ax-jobs.service", timeout=120)
    assert job(m) == []
    state = set(m.run("systemctl show -p ActiveState,SubState,Result axd").out.split())
    assert state == {"ActiveState=inactive", "SubState=dead", "Result=success"}, state
