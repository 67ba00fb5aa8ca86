"""What scenarios with the real programs share: starting the daemon, submitting, waiting."""
import json
import os
import re
import time

from vmkit import HERE

ETC = os.path.dirname(os.path.dirname(HERE)) + "/etc"
UNITS = ("axd.service", "ax-guard.service", "ax-jobs.service", "ax.slice")
FINAL = ("SUCCEEDED", "FAILED", "TIMEOUT", "OUT_OF_MEMORY", "CANCELLED", "NODE_FAIL", "FAILED_UNKNOWN_STATE")

# Emulated machines are slow, and slower where several share a core.
PATIENCE = 120


def install(m, config=""):
    """The programs, and what their configuration and units need."""
    # On the disk: a power loss may come soon.
    m.run("install -m755 /payload/* /usr/local/bin/ && mkdir -p /etc/ax && sync")
    m.put(config.encode(), "/etc/ax/config.yaml", 0o644)
    if m.init == "systemd":
        for name in UNITS:
            m.put(f"{ETC}/{name}", f"/etc/systemd/system/{name}", 0o644)
        m.run("systemctl daemon-reload", timeout=PATIENCE)


def start(m):
    """The daemon, as it is started on such a machine; it answers when this returns."""
    if m.init == "systemd":
        m.run("systemctl start ax-jobs ax-guard axd", timeout=PATIENCE)
    else:
        m.run("setsid axd </dev/null >/run/axd.out 2>&1 &")
    answers(m)


def answers(m):
    m.run("for i in $(seq 200); do ax queue >/dev/null 2>&1 && exit 0; sleep 0.3; done; "
          "cat /run/axd.out /var/log/ax-controller.log; exit 1", timeout=PATIENCE)


def submit(m, user, script, options=""):
    """Submits a script, `#!/bin/sh` and a time limit added; the job's id."""
    text = f"#!/bin/sh\n#AX --time=10\n{script}\n"
    command = f"cd /home/{user} && exec runuser -u {user} -- axbatch --parsable {options}"
    return m.run(command, stdin=text.encode()).out.strip()


def status(m, job):
    return json.loads(m.run(f"ax status --json {job}").out)[0]


def wait_for(m, job, states=FINAL, seconds=PATIENCE):
    """The job, once it is in one of these states."""
    end = time.monotonic() + seconds
    while True:
        seen = status(m, job)
        if seen["state"] in states:
            return seen
        if seen["state"] in FINAL or time.monotonic() > end:
            log = m.run("tail -20 /var/log/ax-controller.log").out
            last = seen["attempts"][-1:]
            raise AssertionError(f"{job} is {seen['state']} ({seen['reason']}) and not {states}; {last}\n{log}")
        time.sleep(0.3)


def output(m, job):
    return m.run(f"cat {job['stdout']}").out


def until(m, condition, seconds=PATIENCE):
    """Waits in the guest until a shell condition holds."""
    m.run(f"for i in $(seq {seconds * 5}); do ({condition}) >/dev/null 2>&1 && exit 0; sleep 0.2; done; "
          "echo; ps -eo pid,ppid,user,stat,args | tail -30; tail -20 /var/log/ax-controller.log; exit 1",
          timeout=seconds * 4)


def waits_for_line(m, job, word):
    """Waits until the job has written this word to its output."""
    until(m, f"grep -q {word} {status(m, job)['stdout']}")


def left(m, user):
    """What runs of a user."""
    return m.run(f"ps -o pid=,stat=,args= -u {user} || true").out


def supervisor(m, job):
    """The process that looks after a job."""
    return m.run(f"pgrep -f '^axrun --supervise .*/{job}\\.'").out.strip()


def cgroups(m, pid):
    """The groups of a process: {controllers: path}; '' is the unified tree's."""
    lines = m.run(f"cat /proc/{pid}/cgroup").out.splitlines()
    return {names: path for _, names, path in (line.split(":", 2) for line in lines)}


def job_groups(m):
    """Directories of groups of jobs that are still there."""
    found = m.run("find /sys/fs/cgroup -type d -path '*/ax-[0-9a-f]*/ax-*' 2>/dev/null || true").out.split()
    return [path for path in found if re.search(r"/ax-[0-9a-f]{8}/ax-\d+-\d+\.\d+$", path)]
