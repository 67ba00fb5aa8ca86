"""The device fence on each kind of control groups, without systemd and with it, which writes device rules of its own: a
program of the kernel's in version 2, the devices controller in version 1. The library plays two cards; no driver is behind their files, so one that may be opened says ENXIO."""
from jobs import answers, install, output, start, submit, until, wait_for, waits_for_line

MACHINES = ["v2", "v1", "hybrid", "systemd", "systemd-v1", "systemd-hybrid"]
ESSENTIAL = ["v2", "v1"]
OPTIONS = {"cpus": 2}
LIBRARIES = ["libfake_nvml.so"]

LIBRARY = "/usr/local/bin/libfake_nvml.so"
# The number of a card is not that of its file.
CARDS = """card GPU-aaaa minor=1 pci=00000000:3B:00.0 memory=81920
card GPU-bbbb minor=0 pci=00000000:86:00.0 memory=81920
"""
FILES = {"nvidia0": 0, "nvidia1": 1, "nvidia2": 2, "nvidia253": 253, "nvidiactl": 255}
LOOK = """look() { for f in /cards/*; do
  case "$(cat $f 2>&1 </dev/null)" in *"not permitted"*) ;; *"No such device"*) printf '%s ' ${f##*/} ;; *) echo odd ;; esac
done; echo "cuda=$CUDA_VISIBLE_DEVICES"; }
"""


def test_the_daemon_starts(m):
    install(m, f"paths:\n  nvml: {LIBRARY}\n")
    m.put(CARDS.encode(), LIBRARY + ".txt", 0o644)
    m.run("mkdir /cards && cd /cards && " + " && ".join(f"mknod -m666 {name} c 195 {minor}" for name, minor in FILES.items()))
    if m.init == "systemd":
        m.run("systemctl enable ax-jobs ax-guard axd", timeout=120)
    start(m)


def seen(m, options=""):
    done = wait_for(m, submit(m, "alice", LOOK + "look", f"-c 1 --ram=20 {options}"))
    assert done["state"] == "SUCCEEDED", done
    return output(m, done).strip()


def test_a_job_opens_its_cards_and_no_others(m):
    none = seen(m)
    assert none == "cuda=", (none, m.run("ax node list --json; find /sys/fs/cgroup/devices -path '*/ax*'").out)
    assert seen(m, "-G 2") == "nvidia0 nvidia1 nvidiactl cuda=0,1"
    assert seen(m, "-G 1") == "nvidia1 nvidiactl cuda=0"
    reason = m.run("ax node list --json").out
    assert "can open cards" not in reason, reason


def test_the_second_card_is_found_as_the_first(m):
    hold = submit(m, "bob", "until [ -e go ]; do sleep 0.2; done", "-G 1 -c 1 --ram=20")
    wait_for(m, hold, ("RUNNING",))
    assert seen(m, "-G 1") == "nvidia0 nvidiactl cuda=0"
    m.run("touch /home/bob/go")
    assert wait_for(m, hold)["state"] == "SUCCEEDED"


def test_the_fence_outlives_the_daemon(m):
    script = LOOK + "look; until [ -e again ]; do sleep 0.2; done; look; echo done"
    job = submit(m, "bob", script, "-G 1 -c 1 --ram=20")
    waits_for_line(m, job, "cuda")
    if m.init == "systemd":
        # It looks after the rules of all its groups each time.
        for what in ("daemon-reload", "daemon-reexec", "restart ax-guard", "kill -s KILL axd", "daemon-reload"):
            m.run(f"systemctl {what}", timeout=120)
    else:
        m.run("kill -9 $(pgrep -x axd)")
    m.run("touch /home/bob/again")
    until(m, f"grep -q done /home/bob/ax-{int(job.split('-')[-1])}.out")
    if m.init != "systemd":
        m.run("setsid axd </dev/null >/run/axd.out 2>&1 &")
    answers(m)
    done = wait_for(m, job)
    lines = output(m, done).splitlines()
    assert lines == ["nvidia1 nvidiactl cuda=0"] * 2 + ["done"], lines


def test_no_group_is_left(m):
    until(m, "! pgrep -f '[a]xrun --supervise'")
    m.run("sleep 1")
    left = m.run("find /sys/fs/cgroup -type d -path '*/ax-[0-9a-f]*/*' ! -name supervisors").out
    assert "fence-trial" not in left and "/ax-20" not in left, left
