#!/bin/bash
# What ax promises of cards, tried on a real one. Each row ends as `ok`, as `FAILED`, or as `not provable` on this machine,
# with the reason.
#
#   tests/gpu/check.sh [PROGRAMS]            PROGRAMS: the folder with axd, axrun, axctl, ax, axbatch (target/release)
#   tests/gpu/check.sh --pack FOLDER [PROGRAMS]
#                                            copies what the check needs into FOLDER (about 20 MB), to be carried to a
#                                            machine with a card; there: FOLDER/check.sh
#
# Needs root, and nothing but what a machine with a card has; a driver, a python3 or a PyTorch that is not there, and
# somebody who uses the card, cost the rows that need them. No network. Takes about five minutes and never eight, whatever
# hangs; uses up to a quarter of the card, changes no setting of it and resets nothing. The daemon is a private one
# under a temporary root, of which nothing is left. Exit 0: no row failed; 1: some did; 2: nothing was tried.
#
# Variables: PYTHON: a python3 with PyTorch. NVML: the driver's library, where the loader doesn't find it. SETTINGS: a
# file with more configuration. LIMIT: seconds for all rows (360). QUICK=1: jobs that need no time to find a card. KEEP=1:
# the daemon's files stay.
# shellcheck disable=SC2016,SC2034,SC2154 # what stands in single quotes is run by wait_for
set -uo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
programs=(axd axrun axctl ax axbatch)

give_up() { echo "tests/gpu/check.sh: $1" >&2; exit 2; }

if [ "${1:-}" = --pack ]; then
    set -e
    to=${2:?which folder}
    from=${3:-$here/../../target/release}
    mkdir -p "$to/python"
    for program in "${programs[@]}"; do cp "$from/$program" "$to/"; done
    cp "$here/check.sh" "$here/frame.sh" "$here/rows.sh" "$here/load.py" "$to/"
    cp -r "$here/../../axctl/python/." "$to/python/"
    du -sh "$to"
    exit 0
fi

if [ -n "${1:-}" ]; then bin=$(cd "$1" && pwd) || give_up "no folder $1"; elif [ -x "$here/axd" ]; then bin=$here; else bin=$here/../../target/release; fi
helpers=$here/python
[ -d "$helpers" ] || helpers=$(cd "$here/../../axctl/python" && pwd) || give_up "no python/ax beside this script"
[ "$(id -u)" = 0 ] || give_up "needs root"
for program in "${programs[@]}"; do [ -x "$bin/$program" ] || give_up "no $program in $bin"; done

version=$(timeout -k 1 20 "$bin/axd" --version 2>&1) || give_up "axd does not run on this machine: ${version:-it does not end}"

# Short, as MPS has sockets far below it, and their names may have 107 bytes.
work=$(mktemp -d "${TMPDIR:-/tmp}/axg.XXXXXX") || give_up "no place for the daemon's files"
chmod 755 "$work"
export PATH=$bin:$PATH:/usr/local/nvidia/bin:/usr/lib/wsl/lib AX_ROOT=$work/r LC_ALL=C
deadline=$((SECONDS + ${LIMIT:-360}))
for name in ${!CUDA_@} ${!AX_GPU_@} PYTORCH_CUDA_ALLOC_CONF PYTORCH_ALLOC_CONF; do unset "$name"; done
mkdir -p "$AX_ROOT/etc/ax" "$work/jobs"
cp "$here/load.py" "$work/load.py"
cp -r "$helpers" "$work/python"
cd "$work/jobs" || give_up "no $work/jobs"

# shellcheck source=/dev/null
. "$here/frame.sh"
# shellcheck source=/dev/null
. "$here/rows.sh"

[ "$failed" = 0 ]
