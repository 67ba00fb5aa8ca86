# shellcheck shell=bash
# shellcheck disable=SC2013,SC2015,SC2016,SC2034,SC2154 # as in check.sh; after "||" only what tells a failure
# What the rows of check.sh are made of: bounded time, a clean end, what the machine lacks, a daemon, jobs. Read by check.sh.

passed=0 failed=0 unproved=0 running='' finished=''
row() { printf '%-14s %s\n' "$1" "$2"; }
ok() { passed=$((passed + 1)); row ok "$1"; }
bad() { failed=$((failed + 1)); row FAILED "$1"; [ -z "${2:-}" ] || printf '%s\n' "$2" | tail -30 | sed 's/^/                 /'; }
cannot() { unproved=$((unproved + 1)); row "not provable" "here: $1"; }

# --- time

# within SECONDS COMMAND…: what it prints is in $work/out. 124: it was not over, was killed and is not waited for, as
# what hangs in the driver can't be killed. Nothing gets beyond the deadline.
within() {
    local end=$((SECONDS + $1)) rc=0
    shift
    [ "$end" -le "$deadline" ] || end=$deadline
    : >"$work/out"
    [ "$SECONDS" -lt "$end" ] || return 124
    # In a process group of its own.
    set -m
    "$@" >"$work/out" 2>&1 </dev/null &
    running=$!
    set +m
    while kill -0 "$running" 2>/dev/null; do
        if [ "$SECONDS" -ge "$end" ]; then
            kill -9 -- "-$running" 2>/dev/null
            disown "$running" 2>/dev/null
            running=''
            return 124
        fi
        sleep 0.05
    done
    wait "$running" 2>/dev/null || rc=$?
    running=''
    return "$rc"
}
said() { tail -"${1:-1}" "$work/out" | tr -d '\r'; }

# wait_for SECONDS COMMAND: until it succeeds.
wait_for() {
    local end=$((SECONDS + $1))
    until eval "$2" >/dev/null 2>&1; do
        [ "$SECONDS" -lt "$end" ] || { echo "not within $1 s: $2"; return 1; }
        sleep 0.2
    done
}

# What the machine lacks, by name, and why that is so.
declare -A lacks
lack() { [ -n "${lacks[$1]:-}" ] || lacks[$1]=$2; }

# try NAME SECONDS NEEDS FUNCTION: a row. The function returns 0, or 77 if it can't be proved here: the last line says why.
try() {
    local name=$1 limit=$2 need began=$SECONDS rc=0 left=$((deadline - SECONDS))
    for need in $3; do
        [ -z "${lacks[$need]:-}" ] || { cannot "$name: ${lacks[$need]}"; return; }
    done
    [ "$left" -ge 10 ] || { cannot "$name: there is no time left"; return; }
    [ "$limit" -le "$left" ] || limit=$left
    within "$limit" "$4" || rc=$?
    case $rc in
    0) ok "$name ($((SECONDS - began)) s)"; return ;;
    77) cannot "$name: $(said)"; return ;;
    124) if [ "$limit" -lt "$2" ]; then cannot "$name: there was no time left"; else bad "$name: not over after $limit s" "$(said 30)"; fi ;;
    *) bad "$name" "$(said 30)" ;;
    esac
    after_trouble
}

# The next row finds the card as this one did, if there is one.
after_trouble() {
    end_outsiders
    [ -z "${lacks[daemon]:-}" ] || return
    within 20 start_axd
    within 10 ax cancel -u root
    within 20 wait_for 20 '! grep -q . <(axes ax queue --json | grep "\"id\"")'
}

# --- a clean end

# Processes that name our files, in their words or in their environment, as this one does not; what this itself is made of
# does, and has ended by then. Those words are in a process's memory, which one that hangs in the driver may keep to itself
# for ever: then each is asked alone. Whoever is in the daemon's groups need not be asked.
ours() {
    local pid found names=(grep -lsaF -- "$work/")
    found=$(
        group_folders | while read -r place; do find "$place" -name cgroup.procs -exec cat {} + 2>/dev/null; done
        if [ ! -e "$work/alone" ]; then
            timeout -s KILL 4 "${names[@]}" /proc/[0-9]*/cmdline /proc/[0-9]*/environ | cut -d/ -f3
            [ "${PIPESTATUS[0]}" -lt 124 ] || : >"$work/alone"
        fi
        [ ! -e "$work/alone" ] || for pid in /proc/[0-9]*; do
            timeout -s KILL 1 "${names[@]}" "$pid/cmdline" "$pid/environ"
        done | cut -d/ -f3
    )
    for pid in $(sort -u <<<"$found"); do [ ! -d "/proc/$pid" ] || echo "$pid"; done
}
end_outsiders() {
    local pid
    for pid in $(cat "$work"/outsider.* 2>/dev/null); do kill -9 "$pid" 2>/dev/null; done
    rm -f "$work"/outsider.*
}
# The name of the daemon's control groups: of its run folder's path (FNV-1a).
groups_name() {
    local path=$AX_ROOT/run/ax hash=$((0x811c9dc5)) i
    for ((i = 0; i < ${#path}; i++)); do
        hash=$(((hash ^ $(printf %d "'${path:i:1}")) * 0x01000193 & 0xffffffff))
    done
    printf 'ax-%08x' "$hash"
}
group_folders() { find -L /sys/fs/cgroup -maxdepth 4 -type d -name "$(groups_name)" 2>/dev/null; }
finish() {
    local rc=$? pid='' place
    [ -z "$finished" ] || return
    finished=yes
    trap '' INT TERM HUP
    # For the end there is time of its own.
    deadline=$((SECONDS + 60))
    [ -z "$running" ] || kill -9 -- "-$running" 2>/dev/null
    end_outsiders
    within 12 axctl stop --jobs
    for _ in 1 2 3 4 5; do
        within 25 ours || echo "it could not be seen which processes are left" >&2
        pid=$(cat "$work/out")
        [ -n "$pid" ] || break
        # shellcheck disable=SC2086 # one word a process
        kill -9 $pid 2>/dev/null
        sleep 0.2
    done
    [ -z "$pid" ] || echo "still there, and can't be killed: ${pid//$'\n'/ }" >&2
    awk -v at="$work/" 'index($2, at) == 1 { print $2 }' /proc/self/mounts | sort -r | while read -r place; do umount -l "$place"; done
    group_folders | while read -r place; do
        find "$place" -depth -type d -exec rmdir {} + 2>/dev/null
    done
    if [ "$failed" != 0 ] && [ -s "$AX_ROOT/var/log/ax-controller.log" ]; then
        echo "the last lines of the daemon's log:" >&2
        tail -40 "$AX_ROOT/var/log/ax-controller.log" >&2
    fi
    if [ -n "${KEEP:-}" ]; then echo "kept: $work" >&2; else cd / && rm -rf "$work"; fi
    echo
    echo "$passed proved, $failed failed, $unproved not provable here; $SECONDS s; ${card_words:-no card}"
    exit "$rc"
}
trap finish EXIT
trap 'echo "interrupted" >&2; exit 130' INT
trap 'echo "interrupted" >&2; exit 143' TERM HUP

# --- the driver's own tool

smi() { nvidia-smi -i 0 "--query-$1" --format=csv,noheader,nounits; }
# Memory in use, MiB.
used() { smi gpu=memory.used; }
holders() { smi compute-apps=pid | grep -c '[0-9]' || true; }
clean() { wait_for 20 '[ "$(holders)" = 0 ] && [ "$(used)" -le $((baseline + 64)) ]' || { nvidia-smi; return 1; }; }

# --- the daemon, and jobs

start_axd() {
    if axes ax queue >/dev/null 2>&1; then return; fi
    setsid axd --root "$AX_ROOT" >>"$work/axd.out" 2>&1 </dev/null &
    echo $! >"$work/axd.pid"
    disown
    wait_for 15 "axes ax queue" || { cat "$work/axd.out"; return 1; }
}
# A command that a daemon which does not answer can't hold up.
axes() { timeout -k 1 10 "$@"; }

# The first value of this name of a document of ax's, at the level of a card or a job.
value() { sed -n "s/^    \"$1\": \"\{0,1\}\([^\",]*\)\"\{0,1\},\{0,1\}\$/\1/p" | head -1; }
state() { axes ax status "$1" --json | value state; }
field() { axes ax status "$1" --json | value "$2"; }
is() { [ "$(state "$1")" = "$2" ]; }
# What was never submitted is over.
ended() { [ -n "$1" ] || return 0; case $(state "$1") in '' | PENDING | READY | STARTING | RUNNING | COMPLETING | SUSPENDED) return 1 ;; esac; }
output() { cat "$work/jobs/$1.out"; }
says() { output "$1" | grep -qF -- "$2" || { echo "'$2' is not in the output of $1:"; output "$1"; ax why "$1"; return 1; }; }
expect() { wait_for "${3:-60}" "ended $1" && is "$1" "$2" || { echo "$1 is $(state "$1"), not $2"; ax why "$1"; output "$1"; return 1; }; }
card() { axes ax resource --json | value "$1"; }

# script TEXT: its path.
script() {
    local file
    file=$(mktemp "$work/jobs/job.XXXXXX")
    printf '#!/bin/bash\n%s\n' "$1" >"$file"
    echo "$file"
}
submit() { axes axbatch --parsable -o "$work/jobs/%J.out" "$@"; }
# job OPTIONS -- WORDS: submits load.py with these words, prints the job's id.
job() {
    local options=()
    while [ "$1" != -- ]; do options+=("$1"); shift; done
    shift
    submit "${options[@]}" "$(script "export PYTHONPATH=$work/python:\${PYTHONPATH:-}; exec $(printf '%q ' "$python" "$work/load.py" "$@")")"
}
# outsider WORDS: the same outside of ax. Its pid.
outsider() {
    "$python" "$work/load.py" "$@" >"$work/outsider.out" 2>&1 &
    echo $! | tee "$work/outsider.$!"
}
