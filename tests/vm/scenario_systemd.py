"""The real programs under the shipped units, systemd as process 1: where jobs and supervisors live, and what restarts,
kills, stops and power losses do to them, which is nothing that anybody would notice."""
from jobs import (answers, cgroups, install, left, output, start, status, submit, supervisor, until, wait_for,
                  waits_for_line)

MACHINES = ["systemd", "systemd-v1", "systemd-hybrid"]
ESSENTIAL = ["systemd"]
OPTIONS = {"cpus": 2}
LENGTH = 5

JOBS = "/ax.slice/ax-jobs.service/ax-"
# The job that lives through most of this: it counts, and ends when told to.
LONG = "echo begun\nwhile [ ! -e go ]; do sleep 0.2; done\necho whole\nexit 7"


def unit_path(m, pid):
    """The group by which systemd knows a process."""
    groups = cgroups(m, pid)
    return groups["name=systemd"] if m.cgroup == "v1" else groups[""]


def main_pid(m, unit):
    return m.run(f"systemctl show -p MainPID --value {unit}").out.strip()


def holder(m):
    """Who holds the place of the watchdog."""
    return m.run("cut -d: -f1 /run/ax/watchdog.lock").out.strip()


def script_of(m, job):
    """Script and supervisor of the long job: as long as they are the same, nothing has happened to it."""
    boss = supervisor(m, job)
    return boss, m.run(f"pgrep -P {boss}").out.strip()


def test_units_start_and_say_that_they_are_ready(m):
    install(m, "policy:\n  kill_wait: 5s\n")
    m.run("systemctl enable ax-jobs ax-guard axd", timeout=120)
    start(m)
    for unit in ("axd", "ax-guard", "ax-jobs"):
        assert m.run(f"systemctl show -p ActiveState,NRestarts --value {unit}").out.split() == ["0", "active"] or \
            m.run(f"systemctl is-active {unit}").out.strip() == "active"
    assert "not limited" not in m.run("cat /var/log/ax-controller.log").out
    assert "started" in m.run("journalctl -u axd --no-pager -o cat").out


def test_the_job_is_in_the_delegated_tree_with_its_limits(m):
    m.long = submit(m, "alice", LONG, "--ram=50")
    waits_for_line(m, m.long, "begun")
    _, script = script_of(m, m.long)
    assert unit_path(m, script).startswith(JOBS), cgroups(m, script)
    groups = cgroups(m, script)
    if m.cgroup == "v2":
        own = "/sys/fs/cgroup" + groups[""]
        assert f"/{m.long}." in own and m.run(f"cat {own}/memory.max").out.strip() == str(50 << 20)
    else:
        own = "/sys/fs/cgroup/memory" + groups["memory"]
        assert own.startswith(f"/sys/fs/cgroup/memory{JOBS}") and f"/{m.long}." in own, own
        assert m.run(f"cat {own}/memory.limit_in_bytes").out.strip() == str(50 << 20)


def test_its_supervisor_leaves_the_daemon_s_unit(m):
    boss, _ = script_of(m, m.long)
    until(m, f"grep -q ax-jobs.service/ax-.*/supervisors /proc/{boss}/cgroup", 20)
    assert unit_path(m, boss).startswith(JOBS) and unit_path(m, boss).endswith("/supervisors"), cgroups(m, boss)
    assert m.run(f"cat /proc/{boss}/oom_score_adj").out.strip() == "-900"


def test_there_is_one_watchdog_and_it_is_the_unit_s(m):
    m.run("sleep 6")
    assert m.run("pgrep -f '[a]xrun --watchdog'").out.split() == [main_pid(m, "ax-guard")] == [holder(m)]


def test_nothing_done_to_the_daemon_reaches_the_job(m):
    before = script_of(m, m.long)
    for what in ("systemctl restart axd", "systemctl daemon-reload", "systemctl daemon-reexec", "systemctl reload axd",
                 "systemctl kill -s KILL axd", "systemctl restart ax-guard", "systemctl kill -s KILL ax-guard",
                 "systemctl stop axd && sleep 1 && systemctl start axd"):
        old = main_pid(m, "axd")
        m.run(what, timeout=120)
        if "kill -s KILL axd" in what:
            until(m, f"p=$(systemctl show -p MainPID --value axd); [ $p != 0 ] && [ $p != {old} ]")
        answers(m)
        assert script_of(m, m.long) == before, what
        assert status(m, m.long)["state"] == "RUNNING", what
    until(m, "systemctl is-active ax-guard && [ $(cut -d: -f1 /run/ax/watchdog.lock) = "
             "$(systemctl show -p MainPID --value ax-guard) ]")
    assert m.run("journalctl -u axd --no-pager -o cat | grep -c 'Failed with' || true").out.strip() in ("0", "1")


def test_what_ends_while_the_daemon_is_stopped_is_accounted(m):
    # Systemd does not bring back what somebody stopped, in whatever way.
    m.run("axctl stop && sleep 3", timeout=120)
    assert m.run("systemctl is-active axd", check=False).out.strip() == "inactive"
    assert len(script_of(m, m.long)) == 2
    m.run("touch /home/alice/go")
    until(m, "! pgrep -f '[a]xrun --supervise'")
    m.run("systemctl start axd", timeout=120)
    done = wait_for(m, m.long)
    assert (done["state"], done["exit_code"], done["attempt"]) == ("FAILED", 7, 1), done
    assert done["attempts"][0]["cpu_time_s"] > 0 and done["attempts"][0]["max_ram_mb"] > 0, done
    assert output(m, done) == "begun\nwhole\n"


def test_a_job_is_watched_whoever_keeps_the_watchdog(m):
    m.run("systemctl stop ax-guard", timeout=120)
    until(m, "p=$(cut -d: -f1 /run/ax/watchdog.lock) && grep -q watchdog /proc/$p/cmdline", 60)
    ours = holder(m)
    # The unit comes back and waits behind the daemon's own, ...
    m.run("systemctl start ax-guard && sleep 1 && systemctl is-active ax-guard", timeout=60)
    assert holder(m) == ours != main_pid(m, "ax-guard")
    # ... then takes its place at once and keeps it.
    m.run(f"systemctl stop axd && kill -9 {ours}", timeout=120)
    until(m, "[ $(cut -d: -f1 /run/ax/watchdog.lock) = $(systemctl show -p MainPID --value ax-guard) ]", 10)
    m.run("systemctl start axd && sleep 7", timeout=120)
    assert m.run("pgrep -f '[a]xrun --watchdog'").out.split() == [main_pid(m, "ax-guard")]
    job = submit(m, "bob", "[ $AX_ATTEMPT = 2 ] || { setsid sleep 7001 & sleep 7002; }")
    until(m, "pgrep -fx 'sleep 7002'")
    m.run(f"systemctl stop axd && kill -9 {supervisor(m, job)}", timeout=120)
    until(m, "! pgrep -f 'sleep 700[12]'", 20)
    m.run("systemctl start axd", timeout=120)
    assert wait_for(m, job)["attempt"] == 2


def test_stopping_the_place_of_jobs_has_them_ended_by_their_supervisors(m):
    job = submit(m, "bob", "[ $AX_ATTEMPT = 2 ] || { echo begun; sleep 7003; }")
    waits_for_line(m, job, "begun")
    until(m, f"grep -q ax-jobs.service/ax-.*/supervisors /proc/{supervisor(m, job)}/cgroup", 20)
    m.run("systemctl stop ax-jobs", timeout=120)
    assert left(m, "bob") == "" and m.run("systemctl is-active axd", check=False).out.strip() == "inactive"
    m.run("systemctl start axd", timeout=120)
    done = wait_for(m, job)
    if m.cgroup != "v1":
        assert done["attempts"][0]["state"] == "NODE_FAIL" and done["attempt"] == 2, done


def test_a_power_loss_loses_nothing(m):
    again = submit(m, "alice", "[ $AX_ATTEMPT = 2 ] || { echo begun; sleep 7004; }", "--ram=20")
    once = submit(m, "alice", "echo begun; sleep 7005", "--no-requeue --ram=20")
    held = submit(m, "bob", "echo after", "--hold")
    # Both processors are taken: this one waits.
    after = submit(m, "bob", "echo after", "--ram=20")
    for job in (again, once):
        waits_for_line(m, job, "begun")
    assert status(m, after)["state"] == "READY"
    m.kill()
    m.start()
    answers(m)
    done = wait_for(m, again)
    assert (done["state"], done["attempt"], done["attempts"][0]["state"]) == ("SUCCEEDED", 2, "NODE_FAIL"), done
    assert wait_for(m, once)["state"] == "NODE_FAIL"
    assert wait_for(m, after)["state"] == "SUCCEEDED"
    assert status(m, held)["state"] == "PENDING"
    assert m.run("cat /proc/1/comm").out.strip() == "systemd"
