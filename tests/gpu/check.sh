#!/bin/bash
# What ax promises of cards, tried on a real one: a row for each, and a row for what this machine can't prove.
#
#   tests/gpu/check.sh [PROGRAMS]      PROGRAMS: the folder with axd, axrun, axctl, ax, axbatch (target/release)
#   tests/gpu/check.sh --pack FOLDER   copies what the check needs into FOLDER (about 20 MB), to be carried to a machine
#                                      with a card; there: FOLDER/check.sh
#
# Needs root, an NVIDIA card that nobody uses, its driver, and a python3 with PyTorch (or PYTHON=…). No network. Takes about
# five minutes, uses up to a quarter of the card, changes no setting of it and resets nothing. The daemon is a private one under a
# temporary root. Exit 0: no row failed.
# shellcheck disable=SC2015,SC2016,SC2034 # what stands in single quotes is run by wait_for; after "||" only what tells a failure
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
programs=(axd axrun axctl ax axbatch)

if [ "${1:-}" = --pack ]; then
    to=${2:?which folder}
    mkdir -p "$to/python"
    for program in "${programs[@]}"; do cp "$here/../../target/release/$program" "$to/"; done
    cp "$here/check.sh" "$here/rows.sh" "$here/load.py" "$to/"
    cp -r "$here/../../axctl/python/." "$to/python/"
    du -sh "$to"
    exit 0
fi

if [ -n "${1:-}" ]; then bin=$(cd "$1" && pwd); elif [ -x "$here/axd" ]; then bin=$here; else bin=$here/../../target/release; fi
[ -d "$here/python" ] && helpers=$here/python || helpers=$(cd "$here/../../axctl/python" && pwd)
python=${PYTHON:-$(command -v python3 || true)}

give_up() { echo "tests/gpu/check.sh: $1" >&2; exit 2; }
[ "$(id -u)" = 0 ] || give_up "needs root"
for program in "${programs[@]}"; do [ -x "$bin/$program" ] || give_up "no $program in $bin"; done
command -v nvidia-smi >/dev/null || give_up "no nvidia-smi: no card, or no driver"
"$python" -c 'import torch; torch.zeros(1).cuda()' 2>/dev/null || give_up "$python has no PyTorch that sees a card; say PYTHON=…"

work=$(mktemp -d /tmp/ax-gpu-check.XXXXXX)
chmod 755 "$work"
export PATH=$bin:$PATH AX_ROOT=$work/root
unset "${!CUDA_@}" PYTORCH_CUDA_ALLOC_CONF PYTORCH_ALLOC_CONF 2>/dev/null || true
mkdir "$AX_ROOT" "$work/jobs"
chmod 1777 "$work/jobs"
cp "$here/load.py" "$work/load.py"
cp -r "$helpers" "$work/python"
cd "$work/jobs"

passed=0 failed=0 unproved=0
row() { printf '%-14s %s\n' "$1" "$2"; }
ok() { passed=$((passed + 1)); row ok "$1"; }
bad() { failed=$((failed + 1)); row FAILED "$1"; [ -z "${2:-}" ] || printf '%s\n' "$2" | sed 's/^/                 /' | tail -30; }
cannot() { unproved=$((unproved + 1)); row "not provable" "here: $1"; }
# try NAME FUNCTION: the row passes if the function returns 0; what it printed is shown if not.
try() {
    local out began=$SECONDS
    if out=$("$2" 2>&1); then ok "$1 ($((SECONDS - began)) s)"; else bad "$1" "$out"; fi
}

start_axd() { setsid axd --root "$AX_ROOT" >>"$work/axd.out" 2>&1 & echo $! >"$work/axd.pid"; disown; wait_for 15 "ax queue"; }
stop_axd() { kill "$(cat "$work/axd.pid")" 2>/dev/null || true; }
finish() {
    axctl stop --jobs >/dev/null 2>&1 || true
    stop_axd
    [ -z "${outsider:-}" ] || kill "$outsider" 2>/dev/null || true
    if [ "$failed" = 0 ] && [ -z "${KEEP:-}" ]; then sleep 1; rm -rf "$work"; else echo "kept: $work" >&2; tail -25 "$AX_ROOT/var/log/ax-controller.log" >&2 || true; fi
}
trap finish EXIT

# wait_for SECONDS COMMAND: until it succeeds.
wait_for() {
    local end=$((SECONDS + $1))
    until eval "$2" >/dev/null 2>&1; do
        [ "$SECONDS" -lt "$end" ] || { echo "not within $1 s: $2"; return 1; }
        sleep 0.1
    done
}
# job OPTIONS -- PYTHON ARGUMENTS: submits load.py with these arguments, prints the job's id.
job() {
    local options=() script
    while [ "$1" != -- ]; do options+=("$1"); shift; done
    shift
    script=$(mktemp "$work/jobs/job.XXXXXX")
    printf '#!/bin/bash\nexport PYTHONPATH=%q\nexec %q %q %s\n' "$work/python" "$python" "$work/load.py" "$(printf '%q ' "$@")" >"$script"
    axbatch --parsable -o "$work/jobs/%J.out" "${options[@]}" "$script"
}
state() { ax status "$1" --json | "$python" -c 'import json,sys; print(json.load(sys.stdin)[0]["state"])'; }
field() { ax status "$1" --json | "$python" -c 'import json,sys; print(json.load(sys.stdin)[0][sys.argv[1]])' "$2"; }
is() { [ "$(state "$1")" = "$2" ]; }
ended() { case $(state "$1") in PENDING | READY | STARTING | RUNNING | COMPLETING | SUSPENDED) return 1 ;; esac; }
output() { cat "$work/jobs/$1.out"; }
says() { output "$1" | grep -qF -- "$2" || { echo "'$2' is not in the output of $1:"; output "$1"; ax why "$1"; return 1; }; }
expect() { wait_for "${3:-60}" "ended $1" && is "$1" "$2" || { echo "$1 is $(state "$1"), not $2"; ax why "$1"; output "$1"; return 1; }; }
card() { ax resource --json | "$python" -c 'import json,sys; print(json.load(sys.stdin)[0][sys.argv[1]])' "$1"; }
# Memory in use as the driver's own tool says it, MiB.
used() { nvidia-smi -i 0 --query-gpu=memory.used --format=csv,noheader,nounits; }
holders() { nvidia-smi -i 0 --query-compute-apps=pid --format=csv,noheader | grep -c . || true; }
clean() { wait_for 20 '[ "$(holders)" = 0 ] && [ "$(used)" -le $((baseline + 64)) ]' || { nvidia-smi; return 1; }; }

baseline=$(used)
[ "$(holders)" = 0 ] || give_up "somebody uses the card: $(nvidia-smi --query-compute-apps=pid,name --format=csv,noheader)"
total=$(nvidia-smi -i 0 --query-gpu=memory.total --format=csv,noheader,nounits)
# Sizes in GB that fit any card from 16 GB on: a slice, and what goes over it.
slice=$((total / 1024 / 8)) over=$((total / 1024 / 4))
start_axd

# shellcheck source=/dev/null
. "$here/rows.sh"

echo
echo "$passed proved, $failed failed, $unproved not provable here; $((SECONDS)) s; $(nvidia-smi -i 0 --query-gpu=name,driver_version --format=csv,noheader)"
[ "$failed" = 0 ]
